"""Resolvers import the facade and not each other; their place in the default order is in their own files."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import docstokg_assets.resolvers as package
from docstokg_assets.resolvers import load_resolvers
from docstokg_assets.resolvers.registry import default_order

DEFAULT_ORDER = (
    *("arxiv", "pmc", "openalex", "biorxiv", "zenodo", "figshare", "osf", "europe_pmc", "crossref", "unpaywall"),
    *("datacite", "doaj", "semantic_scholar", "doi", "landing", "hal", "core", "openaire", "base", "title_search"),
    *("openalex_content", "elsevier", "wiley", "springer_nature", "ia_scholar", "wayback"),
)
OUTSIDE = {"resources.clock"}  # which one resolver needs besides


@pytest.mark.requirement("RES-7")
def test_no_resolver_imports_another() -> None:
    registered = {cls.__module__ for cls in load_resolvers().values()}
    assert len(registered) >= 7
    for file in Path(package.__path__[0]).glob("*.py"):
        assert not registered & imported(file), file.name


@pytest.mark.requirement("RES-1")
def test_resolvers_import_only_the_facade_of_this_project() -> None:
    for cls in load_resolvers().values():
        modules = imported(Path(package.__path__[0]) / f"{cls.__module__.rpartition('.')[2]}.py")
        ours = {name for name in modules if name.partition(".")[0] in ("docstokg_assets", "resources")}
        assert ours - OUTSIDE == {"docstokg_assets.resolvers"}, cls.__module__


@pytest.mark.requirement("RES-1", "CFG-8")
def test_the_default_order_follows_from_the_resolvers_own_files() -> None:
    shipped = {name: cls for name, cls in load_resolvers().items() if cls.__module__.startswith(package.__name__)}
    assert default_order(shipped) == DEFAULT_ORDER


def imported(file: Path) -> set[str]:
    """Modules named in import statements; `from package import module` counts as package.module too."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module != "__future__":
            found.add(node.module)
            siblings = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= siblings & {cls.__module__ for cls in load_resolvers().values()}
    return found
