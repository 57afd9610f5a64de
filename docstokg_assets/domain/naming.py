"""File names of works: `PDF/<year>__<title-slug>__<work_id>.pdf`. Pure; the store knows the root.

The name is ASCII, at most 120 bytes, valid on every common file system, and belongs to one work only, also where upper
and lower case are the same: the title is for people, the work id at its end makes the difference. A name is used once: a later
file of the work is `…__<work_id>~2.pdf`, then `~3`, and so on.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from slugify import slugify

from resources.records import Kind

MAX_NAME_BYTES = 120
_MAX_ID = 48
_MAX_TITLE = 500  # characters that are looked at; no name shows more
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
# Ids that stand for themselves: OpenAlex ids, and lower-case ones that look neither like those nor as if hashed.
_PLAIN_ID = re.compile(r"W[0-9]+|(?!w[0-9]+\Z)(?!.*-[0-9a-f]{16}\Z)[a-z0-9._-]+")
_NUMBER = re.compile(r"~([0-9]{1,9})\.[a-z0-9]+\Z")
_EXTENSION = re.compile(r"[a-z0-9]{1,8}")
_EXTENDED_NAME = re.compile(r"(?ai)filename\*\s*=\s*[\w-]{0,40}'[^']{0,40}'([^;\s]{1,500})")  # RFC 5987
_PLAIN_NAME = re.compile(r'(?i)filename\s*=\s*("[^"]{0,500}"|[^;\s"]{1,500})')
USUAL = {  # the first one by default
    Kind.PDF: (".pdf",),
    Kind.PDF_UNKNOWN: (".pdf",),
    Kind.HTML: (".html", ".htm", ".xhtml"),
    Kind.XML: (".xml", ".nxml", ".tei"),
}


def artifact_path(
    year: int | None, title: str | None, work_id: str, kind_dir: str, extension: str, number: int = 1
) -> str:
    """The path of a work's file relative to the root of the store; `nd` stands for no date."""
    start = f"{year:04d}" if year is not None and 0 < year <= 9999 else "nd"
    end = f"{_safe_id(work_id)}{f'~{number}' if number > 1 else ''}.{_safe_extension(extension)}"
    room = MAX_NAME_BYTES - len(start) - len(end) - len("____")
    slug = slugify((title or "")[:_MAX_TITLE], max_length=room, word_boundary=True) or "untitled"
    return f"{kind_dir}/{start}__{slug}__{end}"


def number_of(path: str) -> int:
    """Which of the names of a work a path is."""
    found = _NUMBER.search(path)
    return int(found[1]) if found is not None else 1


def extension_of(kind: Kind, content_type: str | None, disposition: str | None, url: str) -> str:
    """Content-Type first for PDF, then the name that the server gives (RFC 5987 before plain), then the URL; of either only
    the extension, and only one that files of this kind have. The usual one otherwise."""
    fitting = USUAL[kind]
    if content_type != "application/pdf":
        for name in (_server_name(disposition), urlsplit(url).path):
            if (extension := PurePosixPath(name).suffix.lower()) in fitting:
                return extension
    return fitting[0]


def _server_name(disposition: str | None) -> str:
    """Good for its extension only: a name may be anything, `../` included."""
    if extended := _EXTENDED_NAME.search(disposition or ""):
        return unquote(extended[1])
    plain = _PLAIN_NAME.search(disposition or "")
    return plain[1].strip('"') if plain is not None else ""


def _safe_id(work_id: str) -> str:
    if len(work_id) <= _MAX_ID and _PLAIN_ID.fullmatch(work_id):
        return work_id
    digest = hashlib.sha256(work_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{_UNSAFE.sub('-', work_id[:_MAX_ID])}-{digest}"


def _safe_extension(extension: str) -> str:
    lowered = extension.lstrip(".").lower()
    return lowered if _EXTENSION.fullmatch(lowered) else "bin"
