"""Read what people have: BibTeX, RIS, PubMed, CSV, TSV, Excel, CSL-JSON and Zotero exports, or text with identifiers anywhere.

The format is recognised by the content, not by the file's name. An entry that cannot be used becomes an `Input` with the reason;
the rest of the file is read. No I/O: the caller hands in the bytes.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from docstokg_assets.domain import identifiers as ids
from docstokg_assets.domain.json_access import text
from docstokg_assets.domain.mentions import find_mentions
from docstokg_assets.sources import SourceError
from docstokg_assets.sources.files import work_from_url
from docstokg_assets.sources.inputs import Input, References
from docstokg_assets.sources.reference_fields import (
    Fields,
    bibtex_fields,
    json_fields,
    json_items,
    nbib_fields,
    ris_fields,
)
from docstokg_assets.sources.sheets import COLUMNS, looks_like_table, read_excel, read_table, simple_name
from resources.folders import decode_text, text_lines
from resources.http.redact import redact_url

_NO_IDENTIFIER = "no identifier found (DOI, OpenAlex id, arXiv id, PMID, PMCID or URL)"
_MAX_TEXT = 300
_ENTRY = re.compile(r"^[ \t]*@([A-Za-z]+)\s*[{(]", re.MULTILINE)
_RIS = re.compile(r"^TY  ?- ", re.MULTILINE)
_NBIB = re.compile(r"^PMID- ", re.MULTILINE)
_UNREADABLE = {
    b"%PDF-": "a PDF. Give the list of references itself, or the DOI",
    b"\xd0\xcf\x11\xe0": "an old Excel or Word file. Save it as .xlsx or CSV",
    b"\x1f\x8b": "compressed (gzip). Unpack it first",
    b"<?xml": "XML. Export it as BibTeX, RIS, CSV or CSL JSON instead",
    b"<rdf:RDF": "RDF. Export it as BibTeX, RIS, CSV or CSL JSON instead",
    b"{\\rtf": "an RTF document. Save it as plain text",
}


def read_references(data: bytes, name: str, column: str | None = None) -> References:
    """The entries of a list. `column` names the one column of a table to read. Raises SourceError for what is no list."""
    if data.startswith(b"PK\x03\x04"):
        sheet = read_excel(data, name, column)
        return _of_table(name, sheet.format, sheet.rows, sheet.known, column)
    start = data.lstrip(b"\xef\xbb\xbf \t\r\n")[:16]
    for mark, what in _UNREADABLE.items():
        if start.startswith(mark):
            raise SourceError(
                f"{name} is {what}.", "Known: BibTeX, RIS, nbib, CSV, TSV, .xlsx, CSL-JSON and plain text."
            )
    content = decode_text(data)
    return _read_text(content, name, column)


def read_arguments(arguments: Iterable[str]) -> References:
    """Identifiers and URLs from the command line; `line` is the position."""
    given = list(arguments)
    inputs = [one for number, each in enumerate(given, 1) for one in _of_line("arguments", number, each)]
    return References("arguments", len(given), tuple(inputs))


def _read_text(content: str, name: str, column: str | None) -> References:
    first = content.lstrip()[:1]
    if column is None and _NBIB.search(content):
        return _references(name, "PubMed (nbib)", _chunks(content, _NBIB), nbib_fields)
    if column is None and _RIS.search(content):
        return _references(name, "RIS", _chunks(content, _RIS), ris_fields)
    if column is None and first in ("[", "{") and (found := list(json_items(content))):
        return _of_json(name, found)
    if column is None and _ENTRY.search(content):
        return _of_bibtex(name, content)
    lines = text_lines(content)
    if column is not None or looks_like_table(lines):
        table = read_table(content, name, column)
        return _of_table(name, table.format, table.rows, table.known, column)
    return _of_text(name, lines)


# -- one entry ---------------------------------------------------------------------------------------------------------


def _input_of(name: str, line: int, given: str, fields: Fields) -> Input:
    """The input for an entry with named fields: its best identifier, else its URL."""
    year = re.search(r"[12][0-9]{3}", fields.get("year", ""))
    made = Input(
        name,
        line,
        _shown(given),
        key=fields.get("key") or None,
        title=text(fields.get("title"), 500),
        year=int(year[0]) if year else None,
    )
    best = _best(fields)
    if isinstance(best, ids.Identifier):
        return replace(made, identifier=best)
    if best is not None and (work := work_from_url(best)) is not None:
        return replace(made, work=replace(work, title=made.title, year=made.year))
    wrong = next((f"{kind} {fields[kind]!r} is not valid" for kind in ("doi", "pmid", "arxiv") if fields.get(kind)), "")
    return replace(made, reason=f"{_NO_IDENTIFIER}{f'; {wrong[:120]}' if wrong else ''}")


def _best(fields: Fields) -> ids.Identifier | str | None:
    """By the fields that are meant for identifiers; then any mention in addresses and notes; then an address itself."""
    if (doi := ids.parse_identifier(fields.get("doi", ""))) is not None:
        return doi
    mentions = [one for one in find_mentions(fields.get("doi", "")) if isinstance(one, ids.Identifier)]
    if mentions:
        return mentions[0]
    if (arxiv := ids.normalize_arxiv(fields.get("arxiv"))) is not None:
        return ids.Identifier("arxiv", arxiv)
    if (
        pmcid := ids.normalize_pmcid(fields.get("pmcid")) or ids.normalize_pmcid(f"PMC{fields.get('pmcid')}")
    ) is not None:
        return ids.Identifier("pmcid", pmcid)
    if (pmid := ids.normalize_pmid(fields.get("pmid"))) is not None:
        return ids.Identifier("pmid", pmid)
    if (openalex := ids.normalize_openalex_id(fields.get("openalex"))) is not None:
        return ids.Identifier("openalex", openalex)
    found = [one for name in ("url", "note") for one in find_mentions(fields.get(name, ""))]
    known = [one for one in found if isinstance(one, ids.Identifier)]
    addresses = [one for one in find_mentions(fields.get("url", "")) if isinstance(one, str)]
    return known[0] if known else next(iter(addresses), None)


def _of_line(name: str, number: int, line: str) -> Iterator[Input]:
    """The inputs of a line of text, or the one that is set aside."""
    given, found = _shown(line), find_mentions(line)
    for one in found:
        if isinstance(one, ids.Identifier):
            yield Input(name, number, one.value if one.value == given else given, identifier=one)
        elif (work := work_from_url(one)) is not None:
            yield Input(name, number, given, work=work)
        else:
            yield Input(name, number, given, reason="not an absolute http or https URL")
    if not found:
        yield Input(name, number, given, reason=_NO_IDENTIFIER)


def _shown(given: str) -> str:
    """The text as it is kept: one line, shortened, without credentials."""
    return text(redact_url(" ".join(given.split())[:_MAX_TEXT])) or ""


# -- text and tables ---------------------------------------------------------------------------------------------------


def _of_text(name: str, lines: list[str]) -> References:
    content = [
        (number, line) for number, line in enumerate(lines, 1) if line.strip() and not line.lstrip().startswith("#")
    ]
    numbers = len(content) > 1 and all(re.fullmatch(r"\s*[1-9][0-9]{4,8}\s*", line) for _, line in content)
    if numbers:  # PubMed writes its lists so
        inputs = [Input(name, n, t.strip(), identifier=ids.Identifier("pmid", t.strip())) for n, t in content]
        return References("list of PMIDs", len(content), tuple(inputs))
    return References(
        "text", len(content), tuple(one for number, line in content for one in _of_line(name, number, line))
    )


def _of_table(
    name: str, format: str, rows: Iterable[tuple[int, Fields | str]], known: tuple[str, ...], column: str | None
) -> References:
    """The inputs of a table: by its columns; a row whose columns are unknown as text."""
    inputs: list[Input] = []
    entries = 0
    for line, row in rows:
        entries += 1
        if isinstance(row, str):
            inputs += _of_line(name, line, row)
        elif column is not None:
            inputs += _of_column(name, line, row, column)
        else:
            made = _input_of(name, line, row.get("row", ""), row)
            if made.reason is not None:
                made = replace(made, reason=f"no identifier in {', '.join(known)}")
            inputs.append(made)
    return References(format, entries, tuple(inputs))


def _of_column(name: str, line: int, row: Fields, column: str) -> list[Input]:
    cell = row.get("column", "")
    if "pmid" in COLUMNS.get(simple_name(column), "") and (pmid := ids.normalize_pmid(cell)) is not None:
        cell = f"PMID:{pmid}"
    if not cell.strip():
        return [Input(name, line, _shown(row.get("row", "")), reason=f"column {column} is empty")]
    given = _shown(row.get("row", "")) or _shown(cell)
    return [replace(one, text=given, title=text(row.get("title"), 500)) for one in _of_line(name, line, cell)]


# -- formats with entries ------------------------------------------------------------------------------------------------


def _chunks(content: str, start: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """The entries of a file, each with its first line: from one `start` to the next."""
    begins = [match.start() for match in start.finditer(content)]
    line, position = 1, 0
    for begin, end in pairwise([*begins, len(content)]):
        line, position = line + content.count("\n", position, begin), begin
        yield line, content[begin:end]


def _references(name: str, format: str, chunks: Iterable[tuple[int, str]], read: Callable[[str], Fields]) -> References:
    inputs = []
    for line, chunk in chunks:
        try:
            fields = read(chunk)
            inputs.append(_input_of(name, line, _label(fields, chunk), fields))
        except Exception as error:  # whatever the parser makes of a broken entry: the others are read
            reason = (
                f"this {format} entry cannot be read: {str(error).splitlines()[0][:120] if str(error) else 'damaged'}"
            )
            inputs.append(Input(name, line, _shown(chunk), reason=reason))
    return References(format, len(inputs), tuple(inputs))


def _label(fields: Fields, chunk: str) -> str:
    """What a person recognises the entry by."""
    return " ".join(filter(None, (fields.get("key"), fields.get("title")))) or chunk


def _of_bibtex(name: str, content: str) -> References:
    from bibtexparser.bibdatabase import BibDatabase
    from bibtexparser.bparser import BibTexParser

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parser = BibTexParser(common_strings=True, ignore_nonstandard_types=False)
        parser.expect_multiple_parse = True
        chunks = list(_chunks(content, _ENTRY))
        strings = "\n".join(chunk for _, chunk in chunks if chunk.lstrip().lower().startswith("@string"))
        inputs: list[Input] = []
        for line, chunk in chunks:
            kind = _ENTRY.match(chunk)
            if kind is None or kind[1].lower() in ("string", "comment", "preamble"):
                continue
            parser.bib_database = BibDatabase()
            parser.bib_database.load_common_strings()
            try:
                found = parser.parse(f"{strings}\n{chunk}").entries
            except Exception:  # an undefined string, or markup that the parser does not know
                found = []
            if not found:
                reason = "this BibTeX entry cannot be read: a brace or a quotation mark is missing, or a string is not defined"
                inputs.append(Input(name, line, _shown(chunk), reason=reason))
            for entry in found:
                fields = bibtex_fields(entry)
                inputs.append(_input_of(name, line, _label(fields, chunk), fields))
    return References("BibTeX", len(inputs), tuple(inputs))


# -- JSON ----------------------------------------------------------------------------------------------------------------


def _of_json(name: str, found: list[tuple[int, Any]]) -> References:
    inputs: list[Input] = []
    for line, item in found:
        if isinstance(item, Exception):
            reason = f"the file is not valid JSON from here on ({item}); the entries before were read"
            inputs.append(Input(name, line, "", reason=reason))
        elif isinstance(item, Mapping):
            fields = json_fields(item)
            inputs.append(_input_of(name, line, _label(fields, json.dumps(item, ensure_ascii=False)), fields))
        else:
            inputs += _of_line(name, line, str(item))
    return References(
        "CSL-JSON" if any(isinstance(i, Mapping) for _, i in found) else "JSON list", len(found), tuple(inputs)
    )
