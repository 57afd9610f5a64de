"""No resolver imports another: what they share is in modules that register nothing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import docstokg_assets.resolvers as package
from docstokg_assets.resolvers.registry import load_resolvers


@pytest.mark.requirement("RES-7")
def test_no_resolver_imports_another() -> None:
    folder = Path(package.__path__[0])
    registered = {cls.__module__ for cls in load_resolvers().values()}
    assert len(registered) >= 7
    crossing = []
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module in registered:
                crossing.append((file.name, node.module))
    assert crossing == []
