"""File names of works: `PDF/<year>__<title-slug>__<work_id>.pdf`. Pure; the store knows the root.

The name is ASCII, at most 120 bytes, valid on every common file system, and belongs to one work only, also where upper
and lower case are the same: the title is for people, the work id at its end makes the difference. A name is used once: a later
file of the work is `…__<work_id>~2.pdf`, then `~3`, and so on.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import PurePosixPath
from string import Formatter
from urllib.parse import unquote, urlsplit

from slugify import slugify

from docstokg_assets.domain.works import Work
from resources.records import Kind

MAX_NAME_BYTES = 120
FIELDS = ("author", "year", "title", "doi", "source", "id")  # of a template
DEFAULT_TEMPLATE = "{year}__{title}__{id}"
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


def check_template(template: str) -> str:
    """The template itself. Raises ValueError for one that could leave the folder, or that names unknown fields."""
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"{template!r} is not a template: {error}") from None
    fields = [field for _, field, *_ in parts if field is not None]
    if unknown := [field for field in fields if field not in FIELDS]:
        raise ValueError(f"there is no {{{unknown[0]}}}; there are {', '.join(f'{{{name}}}' for name in FIELDS)}")
    if any(spec or conversion for _, _, spec, conversion in parts):
        raise ValueError("fields take no format: write {year}, not {year:04}")
    literal = "".join(text for text, *_ in parts)
    if not fields or _UNSAFE.search(literal) or template.startswith("."):
        raise ValueError("must be a file name of fields, letters, digits and ._- only, such as {author}_{year}_{title}")
    return template


def file_path(work: Work, kind_dir: str, extension: str, number: int = 1, template: str = DEFAULT_TEMPLATE) -> str:
    """The path of a work's file under a template. The id is added where the template does not have it, so that a name belongs to
    one work; the title is shortened, and left out where there is no room for it."""
    title = work.title or (_title_of_url(work.urls[0]) if work.urls else None)
    if template == DEFAULT_TEMPLATE:
        return artifact_path(work.year, title, work.work_id, kind_dir, extension, number)
    template = template if "{id}" in template else f"{template}__{{id}}"
    end = f"{f'~{number}' if number > 1 else ''}.{_safe_extension(extension)}"
    family = work.authors[0].split()[-1] if work.authors and work.authors[0].split() else ""
    source = next((place.source for place in work.locations if place.source), None)
    values = {
        "author": slugify(family, max_length=30) or "anonymous",
        "year": f"{work.year:04d}" if work.year is not None and 0 < work.year <= 9999 else "nd",
        "doi": slugify((work.doi or "")[:200], max_length=40, regex_pattern=r"[^a-z0-9.]+") or "no-doi",
        "source": slugify((source or "")[:200], max_length=30, word_boundary=True) or "unknown",
        "id": _safe_id(work.work_id),
    }
    room = MAX_NAME_BYTES - len(template.format(title="", **values)) - len(end)
    slug = slugify((title or "")[:_MAX_TITLE], max_length=max(room, 1), word_boundary=True) or "untitled"
    if len(stem := template.format(title=slug[: max(room, 0)], **values)) + len(end) > MAX_NAME_BYTES:
        stem = f"{values['year']}__{values['id']}"
    return f"{kind_dir}/{stem}{end}"


def _title_of_url(url: str) -> str:
    """Words for a file of which only the URL is known: its host and the last parts of its path."""
    parts = urlsplit(url)
    path = [part for part in unquote(parts.path).split("/") if part][-2:]
    return " ".join([(parts.hostname or "").removeprefix("www."), *path]).removesuffix(".pdf")


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
