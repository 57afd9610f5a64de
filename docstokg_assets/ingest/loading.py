"""Read files of ingest requests: JSON lines of requests, snapshots of Unpaywall and DOAJ, TSV, lists of arXiv ids and PMCIDs.

Each line is recognised by itself. A line that makes no request is set aside with its number and never ends a load. Only one line
is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from docstokg_assets.domain import identifiers as ids
from docstokg_assets.ingest.records import (
    MAX_REQUEST_BYTES,
    IngestRequest,
    InvalidRequest,
    parse_request,
    request_for,
)
from resources.http.redact import redact_url
from resources.http.settings import HttpSettings

_STAGES = {"acceptedVersion": "accepted", "submittedVersion": "submitted", "publishedVersion": "published"}
_MOST_KEPT = 10_000  # problems that are remembered with their line; more are counted only


@dataclass(slots=True)
class Rejected:
    """The lines that made no request."""

    count: int = 0
    first: list[tuple[int, str, str]] = field(default_factory=list)  # (line, what is wrong, beginning of the line)

    def add(self, number: int, problem: str, line: bytes) -> None:
        self.count += 1
        if len(self.first) < _MOST_KEPT:
            text = line[:200].decode("utf-8", "replace").replace("\x00", "\\0").strip()
            self.first.append((number, problem, redact_url(text)))


def read_requests(
    lines: Iterable[bytes],
    rejected: Rejected,
    http: HttpSettings,
    source: str | None = None,
    ingest_type: str | None = None,
) -> Iterator[IngestRequest]:
    """The requests in a file. `source` and `ingest_type` are those of requests that name none."""
    defaults = {name: v for name, v in (("ingest_request_source", source), ("ingest_type", ingest_type)) if v}
    for number, line in enumerate(lines, start=1):
        text = line.strip().lstrip(b"\xef\xbb\xbf")
        if not text or text.startswith(b"#"):
            continue
        try:
            for raw in _requests_in(text):
                yield parse_request({**defaults, **raw}, http)
        except InvalidRequest as error:
            rejected.add(number, str(error), line)
        except RecursionError:
            rejected.add(number, "nested too deeply", line)


def _requests_in(text: bytes) -> list[Mapping[str, Any]]:
    if len(text) > MAX_REQUEST_BYTES:
        raise InvalidRequest([f"a line of more than {MAX_REQUEST_BYTES:,} bytes"])
    if not text.startswith((b"{", b"[", b'"')):
        return [_of_plain_line(text)]
    try:
        raw = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest([f"not JSON: {error}"]) from None
    if not isinstance(raw, dict):
        raise InvalidRequest(["a line is a JSON object"])
    for is_from, transform in _TRANSFORMS:
        if is_from(raw):
            return list(transform(raw))
    return [raw]


def _of_plain_line(text: bytes) -> Mapping[str, Any]:
    """`url<TAB>link_source<TAB>id`, or one URL, DOI, arXiv id or PMCID."""
    try:
        parts = [part.strip() for part in text.decode("utf-8").split("\t")]
    except UnicodeDecodeError:
        raise InvalidRequest(["not UTF-8"]) from None
    if len(parts) > 3:
        raise InvalidRequest([f"{len(parts)} columns; url, link_source and id are three"])
    request = request_for(parts[0])
    return {**request, **{name: v for name, v in zip(("link_source", "link_source_id"), parts[1:], strict=False) if v}}


def from_unpaywall(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """One request for each location with a PDF."""
    doi = ids.normalize_doi(record.get("doi"))
    if doi is None:
        raise InvalidRequest(["doi: not a DOI"])
    for place in _objects(record.get("oa_locations")):
        if not isinstance(place.get("url_for_pdf"), str):
            continue
        ext_ids = {"doi": doi.lower()} | ({"pmh_id": place["pmh_id"]} if place.get("pmh_id") else {})
        extra = {name: place[name] for name in ("evidence", "license") if place.get(name)}
        extra |= {"oa_status": record["oa_status"]} if record.get("oa_status") else {}
        yield {
            "ingest_type": "pdf",
            "base_url": place["url_for_pdf"],
            "link_source": "unpaywall",
            "link_source_id": doi.lower(),
            "ingest_request_source": "unpaywall",
            "release_stage": _STAGES.get(str(place.get("version"))),
            "rel": place.get("host_type"),
            "oa_status": record.get("oa_status"),
            "ext_ids": ext_ids,
            "edit_extra": extra or None,
        }


def from_doaj(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The links of an article; a link to a page makes an html and a pdf request."""
    article, bibjson = str(record.get("id", "")).lower(), record.get("bibjson") or {}
    dois = [i.get("id") for i in _objects(bibjson.get("identifier")) if str(i.get("type")).lower() == "doi"]
    ext_ids = {"doaj": article} | ({"doi": str(dois[0]).lower()} if dois else {})
    named = {"link_source": "doaj", "link_source_id": article, "ingest_request_source": "doaj", "ext_ids": ext_ids}
    for link in _objects(bibjson.get("link")):
        if isinstance(link.get("url"), str) and link.get("type") == "fulltext":
            kind = str(link.get("content_type", "html")).lower()
            for wanted in ("pdf",) if "pdf" in kind else ("xml",) if "xml" in kind else ("html", "pdf"):
                yield {"ingest_type": wanted, "base_url": link["url"], **named}


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


_TRANSFORMS: tuple[tuple[Callable[[Mapping[str, Any]], bool], Callable[..., Iterator[Mapping[str, Any]]]], ...] = (
    (lambda raw: "oa_locations" in raw and "base_url" not in raw, from_unpaywall),
    (lambda raw: "bibjson" in raw and "base_url" not in raw, from_doaj),
)
