"""Tables of references: CSV, TSV and Excel. Finds the columns that hold identifiers. No I/O: the caller hands in the content."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from docstokg_assets.sources import SourceError
from resources.folders import text_lines

# name of a column, in lower case and without other signs → the field that it holds
COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("doi", "dois", "di", "articledoi", "documentdoi", "doiurl", "doilink", "prismdoi"), "doi"),
    **dict.fromkeys(("pmid", "pmids", "pubmedid", "pubmed", "pubmedpmid", "pm"), "pmid"),
    **dict.fromkeys(("pmcid", "pmcids", "pmc", "pubmedcentralid"), "pmcid"),
    **dict.fromkeys(("arxiv", "arxivid", "eprint"), "arxiv"),
    **dict.fromkeys(("openalex", "openalexid", "workid"), "openalex"),
    **dict.fromkeys(("url", "urls", "link", "links", "fulltexturl", "landingpage", "address"), "url"),
    **dict.fromkeys(("id", "ids", "identifier", "identifiers", "extra", "reference", "paperid", "citation"), "note"),
    **dict.fromkeys(("title", "articletitle", "documenttitle", "ti"), "title"),
    **dict.fromkeys(("year", "publicationyear", "py", "date", "publicationdate"), "year"),
    **dict.fromkeys(("key", "citationkey", "citekey"), "key"),
}  # fmt: skip
_NAMING = ("doi", "pmid", "pmcid", "arxiv", "openalex", "url", "note")  # fields that may name a work
_DELIMITERS = "\t,;|"
_LONGEST_RECORD = 300  # lines; a record that is longer has a quotation mark that is not closed
_MAX_UNPACKED = 1 << 30
Row = tuple[int, Mapping[str, str] | str]  # line, and the fields, or the text where the columns are not known


@dataclass(frozen=True, slots=True)
class Table:
    format: str
    rows: Iterator[Row]
    known: tuple[str, ...]  # names of the columns that are read


def simple_name(column: str) -> str:
    return re.sub(r"[^a-z0-9]", "", column.lower())


def looks_like_table(lines: Sequence[str]) -> bool:
    """Whether the first line is a heading with a column for identifiers, and nothing else."""
    first = next((line for line in lines if line.strip()), "")
    cells = next(csv.reader([first], delimiter=_delimiter(first)), [])
    return any(COLUMNS.get(simple_name(cell)) in _NAMING for cell in cells) and not any("10." in cell for cell in cells)


def read_table(content: str, name: str, column: str | None) -> Table:
    lines = text_lines(content)
    start = next((number for number, line in enumerate(lines) if line.strip()), 0)
    delimiter = _delimiter(lines[start] if lines else "")
    format = "TSV" if delimiter == "\t" else "CSV"
    rows = _csv_rows(lines, start, delimiter)
    heading = next(rows, (1, []))[1]
    fields = _fields_of(heading if isinstance(heading, list) else [], name, column)
    return Table(format, _named(rows, fields), _known(heading, fields))


def read_excel(data: bytes, name: str, column: str | None) -> Table:
    """The first sheet with a column for identifiers, else all text of the first sheet. A formula counts with its last result,
    and without one with its own text, which may hold an address (`=HYPERLINK(…)`)."""
    import openpyxl

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            if sum(part.file_size for part in packed.infolist()) > _MAX_UNPACKED:
                raise SourceError(f"{name} is larger than 1 GB when unpacked.", "Save the sheet as CSV.")
        values = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        formulas = openpyxl.load_workbook(io.BytesIO(data), read_only=True)
    except SourceError:
        raise
    except Exception as error:  # a damaged file fails in many ways
        cause = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise SourceError(
            f"{name} is not a readable Excel file ({cause}).", "Save it again as .xlsx, or as CSV."
        ) from None
    sheets = [(values[title], formulas[title]) for title in values.sheetnames if hasattr(values[title], "iter_rows")]
    headings = [next(sheet.iter_rows(max_row=1, values_only=True), ()) for sheet, _ in sheets]
    found = [n for n, cells in enumerate(headings) if _suits([_cell(c) for c in cells], column)]
    if not sheets or (column is not None and not found):
        columns = ", ".join(_cell(c) for cells in headings for c in cells if c is not None)
        raise SourceError(f"{name} has no column {column!r}.", f"Its columns are: {columns or 'none'}.")
    place = found[0] if found else 0
    sheet, other = sheets[place]
    heading = [_cell(c) for c in headings[place]] if found else []
    fields = _fields_of(heading, name, column) if found else {}
    rows = _excel_rows(sheet, other, fields, skip=bool(found))
    return Table(f"Excel, sheet {sheet.title!r}", _named(rows, fields), _known(heading, fields))


def _excel_rows(sheet: Any, formulas: Any, fields: Mapping[int, str], *, skip: bool) -> Iterator[tuple[int, list[str]]]:
    pairs = zip(sheet.iter_rows(values_only=True), formulas.iter_rows(values_only=True), strict=False)
    for number, (cells, texts) in enumerate(pairs, 1):
        if number == 1 and skip:
            continue
        given = [v if v is not None else t for v, t in zip(cells, texts, strict=False)]
        row = [_cell(value, fields.get(place)) for place, value in enumerate(given)]
        if any(row):
            yield number, row


def _cell(value: Any, field: str | None = None) -> str:
    """A cell as text. A sheet turns numbers that are names into numbers: `2401.00010` loses its end."""
    if isinstance(value, float):
        if field == "arxiv" and value < 10_000:
            return f"{value:.5f}" if value >= 1501 else f"{value:.4f}"
        return str(int(value)) if value.is_integer() else str(value)
    return "" if value is None else str(value)


def _suits(cells: Sequence[str], column: str | None) -> bool:
    if column is not None:
        return column in cells or simple_name(column) in map(simple_name, cells)
    return any(COLUMNS.get(simple_name(cell)) in _NAMING for cell in cells)


def _delimiter(line: str) -> str:
    return max(_DELIMITERS, key=lambda sign: len(next(csv.reader([line], delimiter=sign), [])))


def _csv_rows(lines: list[str], start: int, delimiter: str) -> Iterator[tuple[int, list[str] | str]]:
    """The records with their first lines. Where a quotation mark is not closed, the lines that it swallowed come as text."""
    while start < len(lines):
        reader = csv.reader(lines[start:] if start else lines, delimiter=delimiter)
        before = 0
        while True:
            try:
                cells = next(reader, None)
            except csv.Error:
                cells = [""]
            if cells is None:
                return
            if reader.line_num - before > 1 and _swallows(lines, start + before, start + reader.line_num):
                yield start + before + 1, lines[start + before]
                start += before + 1
                break
            if any(cells):
                yield start + before + 1, cells
            before = reader.line_num


def _swallows(lines: list[str], first: int, end: int) -> bool:
    """Whether a record of several lines is a mistake: longer than any text, or up to the end with an odd number of quotes."""
    return end - first > _LONGEST_RECORD or (
        end == len(lines) and sum(line.count('"') for line in lines[first:end]) % 2 == 1
    )


def _fields_of(heading: Sequence[str], name: str, column: str | None) -> dict[int, str]:
    """Position → field. With `column`, that one and what describes the work. Raises SourceError where it is missing."""
    fields = {place: COLUMNS[simple] for place, cell in enumerate(heading) if (simple := simple_name(cell)) in COLUMNS}
    if column is None:
        return fields
    wanted = [n for n, cell in enumerate(heading) if cell.strip() == column] or [
        n for n, cell in enumerate(heading) if simple_name(cell) == simple_name(column)
    ]
    if not wanted:
        columns = ", ".join(cell.strip() for cell in heading if cell.strip())
        raise SourceError(f"{name} has no column {column!r}.", f"Its columns are: {columns or 'none'}.")
    return {place: field for place, field in fields.items() if field in ("title", "year", "key")} | {
        wanted[0]: "column"
    }


def _named(rows: Iterator[tuple[int, list[str] | str]], fields: Mapping[int, str]) -> Iterator[Row]:
    for line, cells in rows:
        if isinstance(cells, str):
            yield line, cells
        elif not fields:
            yield line, "\t".join(cells)
        else:
            named: dict[str, str] = {"row": ", ".join(cell.strip() for cell in cells if cell.strip())}
            for place, field in fields.items():
                if place < len(cells) and cells[place].strip():
                    value = cells[place].strip()
                    named[field] = (
                        f"{named[field]} {value}"
                        if field in ("note", "url") and field in named
                        else named.get(field, value)
                    )
            yield line, named


def _known(heading: Any, fields: Mapping[int, str]) -> tuple[str, ...]:
    naming = {place for place, field in fields.items() if field in (*_NAMING, "column")}
    return (
        tuple(cell.strip() for place, cell in enumerate(heading) if place in naming)
        if isinstance(heading, list)
        else ()
    )
