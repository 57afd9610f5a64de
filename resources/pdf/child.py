"""The child process that reads PDFs for `inspector`: one path per line in, one line of JSON out.

The parser runs here under limits of memory and processor time. A limit that was reached is an answer too; that of memory is an
exit code, because an answer would need memory. The process ends when its standard input does, and so with its parent.
"""

from __future__ import annotations

import json
import logging
import os
import re
import resource
import signal
import sys
from collections.abc import Mapping
from typing import Any, BinaryIO

from pypdf import PageObject, PdfReader
from pypdf.errors import LimitReachedError
from pypdf.generic import StreamObject

from resources.pdf.inspector import OUT_OF_MEMORY

PAGES_READ = 2  # the first may be a cover sheet
MAX_TEXT = 6_000  # characters of each page
MAX_VALUE = 1_000
MAX_XMP = 256 * 1024
MAX_CONTENTS = 1024 * 1024  # of a page; drawings beyond it are slow to walk through, and are no text
_XMP = re.compile(r"<((?:dc|prism|pdfx|pdf|crossmark|xmp):\w+)\b[^<>]{0,200}>(.{0,4000}?)</\1>", re.DOTALL)
_XMP_ATTRIBUTE = re.compile(r"\b((?:dc|prism|pdfx|pdf|crossmark):\w+)\s*=\s*[\"']([^\"'<>]{1,1000})[\"']")
_TAG = re.compile(r"<[^<>]{0,500}>")
# errors of the parser's limits in one file; it leaves out a form or font that reaches one, and says nothing
_reached: list[BaseException] = []


def facts_of(file: BinaryIO) -> dict[str, Any]:
    """What can be learnt. Without a password that opens it, an encrypted file tells only that it is encrypted."""
    reader = PdfReader(file)
    if reader.is_encrypted and not reader.decrypt(""):
        return {"encrypted": True}
    facts: dict[str, Any] = {"encrypted": reader.is_encrypted, "pages": len(reader.pages)}
    facts["metadata"] = {**_info(reader), **_xmp(reader)}
    facts["text"] = "\n".join(_text(reader.pages[n]) for n in range(min(PAGES_READ, len(reader.pages))))
    return facts


def _info(reader: PdfReader) -> dict[str, str]:
    found: Mapping[Any, Any] = reader.metadata or {}
    return {str(key).lstrip("/").lower(): str(value)[:MAX_VALUE] for key, value in list(found.items())[:50]}


def _xmp(reader: PdfReader) -> dict[str, str]:
    stream = reader.root_object.get("/Metadata")
    stream = stream.get_object() if stream is not None else None
    if not isinstance(stream, StreamObject):
        return {}
    xml = stream.get_data()[:MAX_XMP].decode("utf-8", "replace")
    pairs = [*_XMP.findall(xml), *_XMP_ATTRIBUTE.findall(xml)]
    return {name.lower(): " ".join(_TAG.sub(" ", value).split())[:MAX_VALUE] for name, value in pairs[:100]}


def _text(page: PageObject) -> str:
    contents = page.get_contents()
    if contents is None or len(contents.get_data()) > MAX_CONTENTS:
        return ""
    return page.extract_text()[:MAX_TEXT]


def answer(path: str) -> dict[str, Any]:
    _reached.clear()
    try:
        with open(path, "rb") as file:
            reply = facts_of(file)
    except MemoryError:
        raise
    except RecursionError as error:
        return {"limit": f"depth or size ({type(error).__name__})"}
    except Exception as error:  # a parser of hostile files raises anything
        reply = {"fault": f"{type(error).__name__}: {error}"[:200]}
    return {"limit": f"depth or size ({_reached[0]})"[:200]} if _reached else reply


def _note_limits() -> None:
    """Keep every error of a limit of the parser's, including those that it catches itself."""

    def note(error: BaseException, *said: object) -> None:
        BaseException.__init__(error, *said)
        _reached.append(error)

    LimitReachedError.__init__ = note  # type: ignore[method-assign,assignment]


def _peak() -> int:
    """The most memory that was ever in use, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(memory: int, cpu_s: int) -> None:
    logging.disable(logging.CRITICAL)
    _note_limits()
    for ending in (signal.SIGINT, signal.SIGTERM):  # a terminal or a service manager sends them to the whole group; the
        signal.signal(ending, signal.SIG_IGN)  # parent still wants its answer, and its end is ours
    for kind, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0)):
        resource.setrlimit(kind, (most, most))
    enough = max(_peak(), memory // 2)  # Linux hands down the peak of the parent
    print(enough, flush=True)
    for line in sys.stdin:
        used = resource.getrusage(resource.RUSAGE_SELF)
        soft = int(used.ru_utime + used.ru_stime) + 1 + cpu_s  # the limit is of the process; this is the file's share
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))
        reply = answer(json.loads(line))
        if _peak() > enough:
            raise MemoryError  # the parser may have swallowed the error, and gone on without what it lacked
        print(json.dumps(reply), flush=True)
        if "limit" in reply:
            return  # what is left of the memory may be too little for the next one


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), int(sys.argv[2]))
    except MemoryError:  # its traceback holds all that filled the memory, so nothing new is made here
        os._exit(OUT_OF_MEMORY)
