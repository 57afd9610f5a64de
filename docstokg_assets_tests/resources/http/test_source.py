"""That nothing goes round the polite client: read from the source, because one stray call is enough."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import docstokg_assets
import resources
from resources.http.settings import HttpSettings
from resources.http.wire import Wire

ROOTS = [Path(package.__path__[0]) for package in (docstokg_assets, resources)]
CLIENTS = ("requests", "urllib3", "http.client", "urllib.request", "httpx", "aiohttp", "ftplib", "pycurl", "hishel")
ALLOWED = {
    "resources/http/wire.py": {"requests"},
    "resources/http/connection.py": {"requests.adapters", "urllib3", "http.client"},
    "resources/http/wire_errors.py": {"requests", "urllib3", "http.client"},  # their errors alone
    "resources/http/cookies.py": {"requests.cookies"},  # the jar alone
    "resources/http/cache.py": {"hishel"},  # its decisions; it sends nothing
    "docstokg_assets/defs/failures.py": {"urllib.request"},  # the operator's own webhook; it asks nobody else
    "docstokg_assets/sandbox/handle.py": {"http.client"},  # the sandbox's own control calls, on loopback
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for root in ROOTS:
        for file in sorted(root.rglob("*.py")):
            yield str(file.relative_to(root.parent)), ast.parse(file.read_text(encoding="utf-8"))


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            yield from (str(argument.value) for argument in node.args if isinstance(argument, ast.Constant))


def below(name: str, packages: set[str] | tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def calls(tree: ast.Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


@pytest.mark.requirement("HTTP-1")
def test_no_other_module_imports_a_client() -> None:
    strays = [
        (path, name)
        for path, tree in modules()
        for name in imported(tree)
        if below(name, CLIENTS) and not below(name, ALLOWED.get(path, set()))
    ]
    assert strays == []
    assert {path for path, _ in modules()} >= set(ALLOWED)


@pytest.mark.requirement("HTTP-1")
def test_the_wire_sends_at_one_place_and_only_through_its_adapters() -> None:
    trees = dict(modules())
    verbs = {"get", "post", "put", "head", "request", "send", "urlopen", "Session", "session", "PoolManager"}
    libraries = ("requests", "urllib3", "adapter", "http", "HTTPAdapter")
    sending = [
        ast.unparse(call.func)
        for name in ("wire", "connection", "wire_errors")
        for call in calls(trees[f"resources/http/{name}.py"])
        if ast.unparse(call.func).startswith(libraries) and ast.unparse(call.func).rpartition(".")[2] in verbs
    ]
    assert sending == ["adapter.send"]


@pytest.mark.requirement("HTTP-1")
def test_only_drivers_that_ask_the_limiter_use_the_wire() -> None:
    trees = dict(modules())

    def users(*names: str) -> set[str]:
        return {
            path
            for path, tree in trees.items()
            for call in calls(tree)
            if ast.unparse(call.func).endswith(names) and not path.startswith("docstokg_assets/sandbox/")
        }

    assert users("wire.send", "Wire") == {"resources/http/client.py"}
    assert users("client.send") == {"docstokg_assets/engine/workers.py"}  # for tasks that the scheduler let enter
    for path in ("resources/http/client.py", "docstokg_assets/engine/scheduler.py"):
        assert "limiter.enter(" in ast.unparse(trees[path])


@pytest.mark.requirement("HTTP-1")
def test_adapters_retry_nothing() -> None:
    tree = dict(modules())["resources/http/connection.py"]
    given = [keyword.value for call in calls(tree) for keyword in call.keywords if keyword.arg == "max_retries"]
    assert [ast.unparse(value) for value in given] == ["0"]
    wire = Wire(HttpSettings())
    with wire._adapter("group", keep=True) as adapter:
        assert (adapter.max_retries.total, adapter.max_retries.redirect) == (0, None)
        assert (adapter.max_retries.connect, adapter.max_retries.read, adapter.max_retries.status) == (
            None,
            False,
            None,
        )
    wire.close()
