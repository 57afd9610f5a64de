"""Faults 25 to 27: text that is made to harm whoever reads it. Nothing is opened, nothing takes a second."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import pkgutil
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import docstokg_assets
import resources
from docstokg_assets.domain.sniffing import sniff
from docstokg_assets.landing.extract import extract

URL = "http://a.example/1.pdf"
LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
MEGABYTE = 1_000_000
ANYWHERE = ("search", "sub", "subn", "split", "findall", "finditer")


# -- entities ---------------------------------------------------------------------------------------------------------


def entity_pages(secret: Path, elsewhere: str) -> dict[str, bytes]:
    """The same tricks as an article in XML and as a web page."""
    tricks = {
        "bomb": f'<!ENTITY l0 "ha">{LAUGHS}',
        "file": f'<!ENTITY l9 SYSTEM "file://{secret}">',
        "network": f'<!ENTITY l9 SYSTEM "{elsewhere}/entity"><!ENTITY % p SYSTEM "{elsewhere}/parameter"> %p;',
        "dtd": "",
    }
    pages = {}
    for name, entities in tricks.items():
        outside = f' SYSTEM "{elsewhere}/x.dtd"' if name == "dtd" else ""
        for root in ("article", "html"):
            text = f'<?xml version="1.0"?><!DOCTYPE {root}{outside} [{entities}]><{root}><p>&l9;</p></{root}>'
            pages[f"{name}-{root}"] = text.encode() + b" " * 2000
    return pages


@pytest.fixture
def opened() -> Iterator[list[str]]:
    """The files that are opened and the addresses that are dialled, by any library that tells the interpreter."""
    seen: list[str] = []
    watching = True

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event in ("open", "socket.connect", "socket.getaddrinfo"):
            seen.append(f"{event} {arguments}")

    sys.addaudithook(audit)  # there is no way to take one out again, so it is only told to be quiet
    yield seen
    watching = False


@pytest.mark.requirement("RES-9")
def test_fault_25_no_entity_is_expanded_and_nothing_outside_is_read(
    serve: Callable[..., Any], answers: Any, tmp_path: Path, opened: list[str]
) -> None:
    secret, server = tmp_path / "secret", serve(answers.ok(b'<!ENTITY x "CANARY">'))
    secret.write_text("CANARY")
    for name, page in entity_pages(secret, server.url).items():
        before, began = len(opened), time.process_time()
        found = extract(page, "application/xhtml+xml", "https://a.example/1")
        assert not found.is_full_text
        sniff(page[:1024], "application/xml")
        assert "CANARY" not in repr(found), name
        assert opened[before:] == [], name
        assert time.process_time() - began < 1, name
    assert server.connections == 0


@pytest.mark.requirement("RES-9")
def test_fault_25_an_article_with_entities_is_kept_as_it_came(
    pull: Callable[..., Any], serve: Callable[..., Any], answers: Any, tmp_path: Path
) -> None:
    """The bytes are never parsed on the way to the disk, so there is nothing to expand."""
    secret, server = tmp_path / "secret", serve(answers.ok())
    secret.write_text("CANARY")
    page = entity_pages(secret, server.url)["bomb-article"]
    landing = b'<html><meta name="citation_xml_url" content="http://a.example/1.xml"></html>'
    plan = {"http://a.example/1.xml": answers.ok(page, Content_Type="application/xml")}
    got = pull(
        lambda request: plan.get(request.path, answers.ok(landing, Content_Type="text/html")),
        landing="http://a.example/1",
    )
    assert (got.reason, list(got.files.values())) == ("ok", [page])
    assert server.connections == 0


# -- nesting ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize(
    "piece",
    ["<div>", "<div><a href=1.pdf>", "<table><tr><td>", "<b><i>", "<svg>", "<!--", "<p title='", "&amp", "<![CDATA["],
)
def test_fault_26_deep_nesting_takes_less_than_a_second(pull: Callable[..., Any], answers: Any, piece: str) -> None:
    page = b"<html><body>" + (piece * (400_000 // len(piece))).encode()
    began = time.process_time()
    found = extract(page, "text/html", "https://a.example/1")
    assert time.process_time() - began < 1
    assert len(found.pdf) <= 10
    got = pull(answers.ok(page, Content_Type="text/html"), URL)
    assert got.files == {} and got.reason != "internal-error"


# -- regular expressions ----------------------------------------------------------------------------------------------


def modules() -> Iterator[ModuleType]:
    for package in (docstokg_assets, resources):
        yield package
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith(("__main__", ".migrations.env")):  # those run when they are imported
                yield importlib.import_module(found.name)


def patterns_in(value: Any, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    """The compiled patterns in a value, also inside the tables of rules."""
    if isinstance(value, re.Pattern):
        yield value
    elif depth < 4 and type(value) is dict:
        yield from (found for inner in value.values() for found in patterns_in(inner, depth + 1))
    elif depth < 4 and type(value) in (tuple, list, set, frozenset):
        yield from (found for inner in value for found in patterns_in(inner, depth + 1))
    elif depth < 4 and dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from patterns_in(getattr(value, field.name), depth + 1)


def written_in_place(module: ModuleType) -> Iterator[tuple[re.Pattern[Any], bool]]:
    """Patterns that are given to `re.sub` and its like as text, and whether they may begin anywhere."""
    if module.__file__ is None:
        return
    for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.func.attr in {*ANYWHERE, "match", "fullmatch"}
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            yield re.compile(node.args[0].value), node.func.attr in ANYWHERE


def searched_for(module: ModuleType, name: str, table: bool) -> bool:
    """Whether a pattern may begin anywhere in a text. Those of tables may."""
    source = Path(module.__file__).read_text() if module.__file__ else ""
    return table or bool(re.search(rf"\b{name}\.(?:{'|'.join(ANYWHERE)})\b", source))


def collect() -> dict[str, tuple[re.Pattern[Any], bool]]:
    found: dict[str, tuple[re.Pattern[Any], bool]] = {}
    for module in modules():
        for name, value in vars(module).items():
            for number, pattern in enumerate(patterns_in(value)):
                anywhere = searched_for(module, name, value is not pattern)
                found.setdefault(f"{module.__name__}.{name}.{number}", (pattern, anywhere))
        for number, used in enumerate(written_in_place(module)):
            found.setdefault(f"{module.__name__}.in-place.{number}", used)
    once = {(pattern.pattern, pattern.flags, anywhere): name for name, (pattern, anywhere) in found.items()}
    return {name: found[name] for name in once.values()}


def literals(pattern: str) -> list[str]:
    """Words that the pattern itself names: a text of them comes closest to matching again and again."""
    words = re.findall(r"[A-Za-z<>/:;=@?&-]{2,20}", re.sub(r"\\[wsdbWSDB]|\(\?[a-z:=!<]+", " ", pattern))
    return list(dict.fromkeys([min(words, key=len), max(words, key=len), words[0]])) if words else []


def hostile(pattern: re.Pattern[Any]) -> Iterator[Any]:
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    named = literals(text)
    texts = [piece * (MEGABYTE // len(piece)) for piece in ("a", " ", "1.", "/", "<", "&a=", *named[:2])]
    texts += [f"{start}{'a' * MEGABYTE}" for start in ("?", "//", *named[:1])]
    for whole in texts:
        yield f"{whole}\x00!" if isinstance(pattern.pattern, str) else f"{whole}\x00!".encode()


@pytest.mark.parametrize("part", range(4))
def test_fault_27_every_pattern_stands_a_megabyte_of_hostile_text(part: int) -> None:
    patterns = collect()
    assert len(patterns) > 80
    slow = []
    for name, (pattern, anywhere) in list(patterns.items())[part::4]:
        for text in hostile(pattern):
            began = time.process_time()
            pattern.search(text) if anywhere else pattern.fullmatch(text)
            if (took := time.process_time() - began) > 1:
                slow.append((name, pattern.pattern, text[:12], round(took, 1)))
                break
    assert slow == []
