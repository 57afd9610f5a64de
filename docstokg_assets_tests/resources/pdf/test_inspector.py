"""What a PDF says of itself, read by a child process under limits: facts, faults, limits, and that no child is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from docstokg_assets_tests.support.pdfs import BOMBS, form_of, form_of_words, page_tree_in_a_circle, paper
from resources.pdf import PdfInspector
from resources.pdf.inspector import MEMORY_BYTES

XMP = (
    "<prism:doi>10.5555/ice.1</prism:doi>"
    "<dc:title><rdf:Alt><rdf:li xml:lang='x-default'>On the growth of ice</rdf:li></rdf:Alt></dc:title>"
    '<rdf:Description pdfx:doi="10.5555/ice.1"/>'
)


@pytest.fixture
def inspector() -> Iterator[PdfInspector]:
    made = PdfInspector()
    yield made
    made.close()


def written(tmp_path: Path, body: bytes) -> Path:
    path = tmp_path / "paper.pdf"
    path.write_bytes(body)
    return path


def children_of(pid: int) -> set[int]:
    """Processes that have `pid` as their parent, by the kernel's own list."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return {int(child) for task in tasks for child in task.read_text().split()}


def test_pages_metadata_and_the_text_of_the_first_pages_are_read(tmp_path: Path, inspector: PdfInspector) -> None:
    body = paper("On the growth of ice\nby Nobody", "Second page", "Third page", title="Über Eis", xmp=XMP)
    facts = inspector.inspect(written(tmp_path, body))
    assert facts.pages == 3
    assert facts.metadata["title"] == "Über Eis"
    assert facts.metadata["dc:title"] == "On the growth of ice"
    assert facts.metadata["prism:doi"] == facts.metadata["pdfx:doi"] == "10.5555/ice.1"
    assert "On the growth of ice" in facts.text and "Second page" in facts.text
    assert "Third page" not in facts.text
    assert (facts.fault, facts.limit, facts.encrypted) == (None, None, False)


@pytest.mark.parametrize("body", [b"%PDF-1.7\n" + b"x" * 5000 + b"\n%%EOF\n", page_tree_in_a_circle()])
def test_what_cannot_be_read_says_why_and_the_same_child_goes_on(
    tmp_path: Path, inspector: PdfInspector, body: bytes
) -> None:
    inspector.inspect(written(tmp_path, paper("First")))
    before = children_of(os.getpid())
    facts = inspector.inspect(written(tmp_path, body))
    assert facts.fault is not None and facts.limit is None
    assert inspector.inspect(written(tmp_path, paper("Next"))).text.strip() == "Next"
    assert children_of(os.getpid()) == before


@pytest.mark.requirement("DL-6")
@pytest.mark.parametrize("name", BOMBS)
def test_a_pdf_made_to_exhaust_its_reader_ends_at_a_limit_and_the_next_one_is_read(tmp_path: Path, name: str) -> None:
    inspector = PdfInspector(cpu_s=1)
    try:
        assert inspector.inspect(written(tmp_path, BOMBS[name]())).limit is not None
        assert inspector.inspect(written(tmp_path, paper("Next"))).pages == 1
    finally:
        inspector.close()


@pytest.mark.requirement("DL-6")
def test_a_limit_that_the_parser_itself_passes_over_is_one(tmp_path: Path) -> None:
    """pypdf has limits too; a form that reaches one is left out, and the page looks like one without text."""
    inspector = PdfInspector(cpu_s=30, memory_bytes=4 * MEMORY_BYTES)
    try:
        facts = inspector.inspect(written(tmp_path, form_of(b" " * 80_000_000)))
        assert (facts.limit or "").startswith("depth or size")
        facts = inspector.inspect(written(tmp_path, form_of(b"BT /F1 9 Tf (Next) Tj ET")))
        assert (facts.text.strip(), facts.limit) == ("Next", None)
    finally:
        inspector.close()


@pytest.mark.parametrize(
    ("limits", "named"), [({"deadline_s": 0.2}, "time"), ({"memory_bytes": MEMORY_BYTES // 4, "cpu_s": 30}, "memory")]
)
def test_wall_clock_and_memory_are_limits_too(tmp_path: Path, limits: dict[str, float], named: str) -> None:
    inspector = PdfInspector(**limits)  # type: ignore[arg-type]
    try:
        facts = inspector.inspect(written(tmp_path, form_of_words()))
        assert (facts.limit or "").startswith(named), facts
    finally:
        inspector.close()


@pytest.mark.requirement("DL-6")
def test_a_reader_that_was_killed_costs_no_file(tmp_path: Path, inspector: PdfInspector) -> None:
    """A terminal's Ctrl-C goes to the readers too; they leave it to their parent. Any other end is none of the file's."""
    before = children_of(os.getpid())
    path = written(tmp_path, paper("On the growth of ice"))
    inspector.inspect(path)
    (child,) = children_of(os.getpid()) - before
    for ending in (signal.SIGINT, signal.SIGTERM):
        os.kill(child, ending)
    assert inspector.inspect(path).pages == 1
    assert child in children_of(os.getpid())
    os.kill(child, signal.SIGKILL)
    facts = inspector.inspect(path)
    assert (facts.pages, facts.limit, facts.fault) == (1, None, None)


@pytest.mark.requirement("DL-6")
@pytest.mark.parametrize(
    ("death", "limit"),
    [
        ("os.abort()", None),
        (f"(b'x' * {MEMORY_BYTES * 6 // 10}, os.abort())", "memory"),
        ("[bytes(2**20) for _ in iter(int, 1)]", "memory"),  # asked for, though never touched
    ],
    ids=["for nothing", "full of memory", "without any left"],
)
def test_a_reader_that_dies_without_a_word_is_a_limit_if_it_had_used_its_memory_and_a_fault_if_not(
    tmp_path: Path, death: str, limit: str | None
) -> None:
    """In a process of its own: Linux counts what the parent uses when a child is started as the child's."""
    (tmp_path / "sitecustomize.py").write_text(
        "import builtins, os\nreal = builtins.open\n"
        f"die = lambda: {death}\n"
        "builtins.open = lambda path, *a, **k: die() if str(path).endswith('deadly.pdf') else real(path, *a, **k)\n"
    )
    deadly = tmp_path / "deadly.pdf"
    deadly.write_bytes(paper("A"))
    program = (
        "import json, sys; from pathlib import Path; from resources.pdf import PdfInspector;"
        "facts, other = map(PdfInspector().inspect, map(Path, sys.argv[1:]));"
        "print(json.dumps([facts.limit, facts.fault, other.pages]))"
    )
    command = [sys.executable, "-c", program, str(deadly), str(written(tmp_path, paper("B")))]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    told, fault, pages = json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)
    assert (told, pages) == (limit, 1)
    assert fault is None if limit else "code -6" in fault


def test_many_threads_share_few_children_and_closing_ends_them(tmp_path: Path) -> None:
    before = children_of(os.getpid())
    inspector, path, seen = PdfInspector(), written(tmp_path, paper("A", "B")), []
    threads = [threading.Thread(target=lambda: seen.append(inspector.inspect(path).pages)) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [2] * 12
    started = children_of(os.getpid()) - before
    assert 1 <= len(started) <= (os.cpu_count() or 1)
    inspector.close()
    assert not children_of(os.getpid()) & started


def test_a_child_ends_with_its_parent_however_that_ends(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from resources.pdf import PdfInspector;"
        f"print(PdfInspector().inspect(Path({str(written(tmp_path, paper('A')))!r})).pages, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert parent.stdout is not None and parent.stdout.readline() == b"1\n"
    children = children_of(parent.pid)
    assert children
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    end = time.monotonic() + 30
    while any(Path(f"/proc/{child}/cmdline").exists() for child in children) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(Path(f"/proc/{child}/cmdline").exists() for child in children)


def test_a_module_of_the_working_folder_is_not_taken_for_the_readers_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pypdf.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(tmp_path)
    inspector = PdfInspector()
    try:
        assert inspector.inspect(written(tmp_path, paper("A"))).pages == 1
    finally:
        inspector.close()
