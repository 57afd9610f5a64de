"""One entry of a reference file as named fields (`doi`, `pmid`, `title` …): PubMed, RIS, BibTeX and JSON. No I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from docstokg_assets.domain.json_access import items, mapping
from docstokg_assets.sources.sheets import simple_name

_NBIB_FIELD = re.compile(r"^([A-Z]{2,4}) *- (.*)$")
_TEX_ESCAPE = re.compile(r"\\([_%&#$~])|\\text(underscore|less|greater|ampersand)(?:\{\}|\b)|\$([<>_])\$")
_TEX_NAMES = {"underscore": "_", "less": "<", "greater": ">", "ampersand": "&"}
Fields = Mapping[str, str]


def nbib_fields(chunk: str) -> Fields:
    tags: dict[str, list[str]] = {}
    tag = ""
    for line in chunk.splitlines():
        if (match := _NBIB_FIELD.match(line)) is not None:
            tag = match[1]
            tags.setdefault(tag, []).append(match[2])
        elif tag and line.startswith("      "):
            tags[tag][-1] += f" {line.strip()}"
    named = [
        value.removesuffix("[doi]").strip()
        for value in [*tags.get("LID", ()), *tags.get("AID", ())]
        if "[doi]" in value
    ]
    return {
        "key": tags["PMID"][0].strip(),
        "pmid": tags["PMID"][0].strip(),
        "doi": named[0] if named else "",
        "pmcid": tags.get("PMC", [""])[0].strip(),
        "title": tags.get("TI", [""])[0],
        "year": tags.get("DP", [""])[0],
    }


def ris_fields(chunk: str) -> Fields:
    import rispy

    if not re.search(r"^ER  ?-", chunk, re.MULTILINE):
        chunk = f"{chunk.rstrip()}\nER  - \n"
    (entry,) = rispy.loads(re.sub(r"^([A-Z][A-Z0-9])  ?- ?", r"\1  - ", chunk, flags=re.MULTILINE))
    pubmed = (
        "pubmed" in str(entry.get("name_of_database", "")).lower()
        or "medline" in str(entry.get("name_of_database", "")).lower()
    )
    notes = [entry.get(name) for name in ("notes", "note", "custom1", "custom2", "custom3", "custom7", "type_of_work")]
    urls = [entry.get(name) for name in ("urls", "url", "file_attachments1", "file_attachments2", "link")]
    return {
        "key": str(entry.get("id") or entry.get("label") or ""),
        "doi": str(entry.get("doi") or ""),
        "pmid": str(entry.get("accession_number") or "") if pubmed else "",
        "title": str(entry.get("title") or entry.get("primary_title") or ""),
        "year": str(entry.get("year") or entry.get("publication_year") or entry.get("date") or ""),
        "url": " ".join(_flat(urls)),
        "note": " ".join(_flat(notes)),
    }


def bibtex_fields(entry: Mapping[str, Any]) -> Fields:
    from bibtexparser.latexenc import latex_to_unicode

    plain = {str(name).lower(): _without_tex(str(value)) for name, value in entry.items()}
    is_arxiv = "arxiv" in (plain.get("archiveprefix") or plain.get("eprinttype") or "arxiv").lower()
    title = latex_to_unicode(str(entry.get("title", ""))).replace("{", "").replace("}", "")
    notes = ("note", "annote", "howpublished", "journal", "annotation", "extra")
    return {
        "key": str(entry.get("ID", "")),
        "doi": plain.get("doi", ""),
        "arxiv": plain.get("arxivid", plain.get("arxiv", plain.get("eprint", "") if is_arxiv else "")),
        "pmcid": plain.get("pmcid", plain.get("pmc", "")),
        "pmid": plain.get("pmid", plain.get("eprint", "") if plain.get("eprinttype", "").lower() == "pubmed" else ""),
        "title": title,
        "year": plain.get("year", plain.get("date", "")),
        "url": " ".join(filter(None, (plain.get("url"), plain.get("ee"), plain.get("bdsk-url-1")))),
        "note": " ".join(plain[name] for name in notes if name in plain),
    }


def _without_tex(value: str) -> str:
    r"""`10.1000/a\_b` and `{\_}` as they are meant; braces are markup."""
    plain = _TEX_ESCAPE.sub(lambda m: m[1] or m[3] or _TEX_NAMES[m[2]], value)
    return re.sub(r"\\url\b|\\href\b", "", plain).replace("{", "").replace("}", "").strip()


def json_items(content: str) -> Iterator[tuple[int, Any]]:
    """The items of a JSON list, of the list `items` of an object, or of JSON lines; each with its line. A broken rest is a
    JSONDecodeError in place of an item."""
    decoder = json.JSONDecoder()
    listed = re.match(r"\s*\{\s*(?:\"(?!items|references|results)[^\"]*\"\s*:\s*(?:\"[^\"]*\"|\{[^{}]*\}|[^\",{}\[\]]*)\s*,\s*)*"
                      r"\"(?:items|references|results)\"\s*:\s*\[", content)  # fmt: skip
    position = listed.end() if listed else len(content) - len(content.lstrip().removeprefix("["))
    line, counted = 1, 0
    while match := re.compile(r"[\s,]*").match(content, position):
        position = match.end()
        if position >= len(content) or content[position] == "]":
            return
        line, counted = line + content.count("\n", counted, position), position
        try:
            item, position = decoder.raw_decode(content, position)
        except (json.JSONDecodeError, RecursionError) as error:
            yield line, error
            return
        yield line, item


def json_fields(item: Mapping[str, Any]) -> Fields:
    """CSL-JSON, Zotero's and OpenAlex's own JSON have the same few names, in other cases."""
    flat = {simple_name(str(name)): value for name, value in {**item, **mapping(item.get("ids"))}.items()}
    issued = items(mapping(flat.get("issued")).get("date-parts"))
    year = (
        str(items(issued[0])[0])
        if issued and items(issued[0])
        else flat.get("year") or flat.get("publicationyear") or flat.get("date")
    )

    def first(*names: str) -> str:
        return next((" ".join(_flat([flat[name]])) for name in names if flat.get(name)), "")

    return {
        "key": first("citationkey", "id", "itemkey"),
        "doi": first("doi"),
        "pmid": first("pmid"),
        "pmcid": first("pmcid"),
        "arxiv": first("arxiv", "arxivid"),
        "openalex": first("openalex") or first("id"),
        "title": first("title", "displayname"),
        "year": str(year or ""),
        "url": first("url", "link"),
        "note": first("note", "extra", "archivelocation", "number"),
    }


def _flat(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _flat(value)
        elif isinstance(value, str | int) and value != "":
            yield str(value)
