"""The request and the result of an ingest, as published in docs/ingest-request.schema.json and docs/ingest-result.schema.json.

Fields that the schema does not name are kept and come back with the result.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from docstokg_assets.domain import identifiers as ids
from resources.errors import ExplainedError
from resources.http.errors import HttpError
from resources.http.guard import guarded_url
from resources.http.settings import HttpSettings

MAX_URL_CHARACTERS = 1_500
_MAX_URL_BYTES = 2_000  # with the other parts of the key, less than PostgreSQL's limit for a row of an index
MAX_REQUEST_BYTES = 1_000_000
_USUAL_URL = re.compile(r"https?://([a-z0-9.-]+)(?:/[\x21-\x7e]*)?")
SEARCHED_TYPES = ("pdf", "xml", "html")  # others get the result `not-implemented`


class InvalidRequest(ExplainedError):
    """A request that cannot be stored. `problems` names each field and what is wrong with it."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def _without_nul(value: Any) -> Any:
    if isinstance(value, str) and "\x00" in value:
        raise ValueError("contains a NUL character; remove it")
    return value


Slug = Annotated[str, BeforeValidator(_without_nul), Field(min_length=1, max_length=64)]
Id = Annotated[str, BeforeValidator(_without_nul), Field(min_length=1, max_length=300)]


class Fatcat(BaseModel):
    model_config = ConfigDict(extra="allow")

    release_ident: str | None = Field(None, description="the release that the file is expected to be")
    work_ident: str | None = Field(None, description="its work")


class IngestRequest(BaseModel):
    """A wish to have the file behind a URL."""

    model_config = ConfigDict(extra="allow")

    ingest_type: Slug = Field(
        "pdf", description="what is wanted: pdf, xml or html; `file` means pdf; other types get `not-implemented`"
    )
    base_url: Annotated[str, BeforeValidator(_without_nul)] = Field(
        min_length=1, max_length=MAX_URL_CHARACTERS, description="where the search begins: an http or https URL"
    )
    link_source: Slug | None = Field(
        None, description="who says that the URL has the file: doi, pmc, arxiv, unpaywall, doaj …; derived when missing"
    )
    link_source_id: Id | None = Field(None, description="the identifier there; derived when missing")
    ingest_request_source: Slug | None = Field(None, description="the service or person that makes the request")
    release_stage: Slug | None = Field(None, description="the version that is expected: published, accepted …")
    rel: str | None = Field(None, description="the kind of link")
    oa_status: str | None = Field(None, description="as Unpaywall says: gold, green …")
    force_recrawl: bool = Field(False, description="fetch the URL again; captures in the archive are not used")
    max_age_days: float | None = Field(
        None, ge=0, description="a capture or an earlier result that is older than this is taken again"
    )
    edit_extra: dict[str, Any] | None = Field(None, description="kept and returned unchanged")
    fatcat: Fatcat | None = Field(None, description="identifiers of fatcat.wiki")
    ext_ids: dict[str, Any] | None = Field(None, description="doi, pmcid, pmid, arxiv …; kept and returned unchanged")

    @property
    def item_id(self) -> str:
        """The item of the queue that answers this request: one for each type and URL."""
        return item_id(self.ingest_type, self.base_url)

    @property
    def id(self) -> str:
        """The id of this request. Requests with the same type, URL, link source and link source id are one request."""
        return request_id(self.item_id, self.link_source or "", self.link_source_id or "")

    def to_json(self) -> dict[str, Any]:
        """The request as it is stored and returned: only the fields that were given or derived."""
        return self.model_dump(exclude_unset=True)


def item_id(ingest_type: str, base_url: str) -> str:
    return f"ingest-{hashlib.sha256(f'{ingest_type} {base_url}'.encode()).hexdigest()[:24]}"


def request_id(item: str, link_source: str, link_source_id: str) -> str:
    return f"{item}-{hashlib.sha256(f'{link_source} {link_source_id}'.encode()).hexdigest()[:8]}"


def parse_request(raw: Any, http: HttpSettings | None = None) -> IngestRequest:
    """The request that a JSON object describes, with `ingest_type`, `link_source` and `link_source_id` as they are stored.
    InvalidRequest names every problem."""
    if not isinstance(raw, Mapping):
        raise InvalidRequest(["a request is a JSON object with at least base_url"])
    given = {name: value for name, value in raw.items() if value is not None}
    try:
        request = IngestRequest.model_validate(given)
    except ValidationError as error:
        raise InvalidRequest([_problem(each) for each in error.errors()]) from None
    _check_url(request.base_url, http)
    if request.ingest_type == "file":
        request.ingest_type = "pdf"
    if request.link_source is None or request.link_source_id is None:
        request.link_source, request.link_source_id = _link_source(request)
    return request


def parse_json(text: str | bytes, http: HttpSettings | None = None) -> IngestRequest:
    """The request in one JSON text."""
    if len(text) > MAX_REQUEST_BYTES:
        raise InvalidRequest([f"a request of more than {MAX_REQUEST_BYTES:,} bytes; shorten edit_extra"])
    try:
        raw = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest([f"not JSON: {error}"]) from None
    return parse_request(raw, http)


def request_for(text: str, **fields: Any) -> dict[str, Any]:
    """The request that a person means by a URL, a DOI, an arXiv id or a PMCID. InvalidRequest when it is none of these."""
    given = text.strip()
    if given.lower().startswith(("http://", "https://")):
        return {"base_url": given, **fields}
    found = ids.parse_identifier(given)
    if found is None or found.kind == "openalex":
        raise InvalidRequest([f"{given[:80]!r} is neither a URL, a DOI, an arXiv id nor a PMCID"])
    source, value = _SOURCES[found.kind], found.value.lower() if found.kind == "doi" else found.value
    named = {"link_source": source, "link_source_id": value, "ext_ids": {found.kind: value}}
    return {"base_url": _BASE_URLS[found.kind].format(value), **named, **fields}


_SOURCES = {"doi": "doi", "arxiv": "arxiv", "pmcid": "pmc"}
_BASE_URLS = {
    "doi": "https://doi.org/{}",
    "arxiv": "https://arxiv.org/pdf/{}",
    "pmcid": "https://europepmc.org/articles/{}?pdf=render",
}


def _check_url(url: str, http: HttpSettings | None) -> None:
    if not url.isascii() and len(url.encode("utf-8", "replace")) > _MAX_URL_BYTES:
        raise InvalidRequest([f"base_url: longer than {_MAX_URL_BYTES:,} bytes"])
    settings = http or _default_http()
    usual = _USUAL_URL.fullmatch(url)  # the guard looks at such a URL's host only, and hosts come again and again
    try:
        if usual is None:
            guarded_url(url, settings)
        else:
            _check_host(usual[1], settings.allow_private_hosts)
    except HttpError as error:
        raise InvalidRequest([f"base_url: {error}"]) from None


@lru_cache(65_536)
def _check_host(host: str, allowed: tuple[str, ...]) -> None:
    guarded_url(f"https://{host}/", HttpSettings(allow_private_hosts=allowed))


@lru_cache(1)
def _default_http() -> HttpSettings:
    return HttpSettings()


def _link_source(request: IngestRequest) -> tuple[str, str]:
    """Where the link is from, as far as URL and identifiers tell; else the URL itself."""
    url, ext_ids = request.base_url, request.ext_ids or {}
    given = request.link_source
    release = request.fatcat.release_ident if request.fatcat is not None else None
    if given is None and release and (request.ingest_request_source or "").startswith("savepapernow"):
        return "spn", release
    lower = url[:40].lower()
    if "doi.org/" in lower and (doi := ids.normalize_doi(url)):
        return given or "doi", doi.lower()
    if "arxiv.org/" in lower and (arxiv := ids.normalize_arxiv(url)):
        return given or "arxiv", arxiv
    if ("pmc" in lower or "ncbi" in lower) and (pmcid := ids.normalize_pmcid(url)):
        return given or "pmc", pmcid
    if "hdl.handle.net/" in lower:
        return given or "hdl", url.partition("hdl.handle.net/")[2].lower()[:300] or "-"
    doi = ids.normalize_doi(ext_ids.get("doi"))
    if given is not None and doi:
        return given, doi.lower()
    return given or "url", request.link_source_id or hashlib.sha1(url.encode("utf-8", "replace")).hexdigest()


def _problem(error: Mapping[str, Any]) -> str:
    field = ".".join(str(part) for part in error["loc"])
    message = str(error["msg"]).removeprefix("Value error, ")
    return f"{field}: {message[:1].lower()}{message[1:]}"


class Terminal(BaseModel):
    terminal_url: str = Field(description="the last URL; with terminal_dt it makes the archive link")
    terminal_dt: str | None = Field(None, description="the time of the capture, 14 digits; null for a live download")
    terminal_status_code: int | None = Field(None, description="the HTTP status there")
    terminal_sha1hex: str | None = Field(None, description="the SHA-1 of the file, as in file_meta")


class FileMeta(BaseModel):
    size_bytes: int
    md5hex: str | None = None
    sha1hex: str | None = None
    sha256hex: str
    mimetype: str = Field(description="by the content; application/octet-stream when it is not known")


class CdxRow(BaseModel):
    """A row of the archive's index. Rows of fresh captures have no place in a WARC file."""

    surt: str | None = None
    datetime: str = Field(description="14 digits")
    url: str
    mimetype: str | None = None
    status_code: int | None = Field(None, description="null for a revisit")
    sha1b32: str | None = None
    sha1hex: str | None = None
    warc_csize: int | None = None
    warc_offset: int | None = None
    warc_path: str | None = None


class FileIngestResult(BaseModel):
    """What became of a request."""

    id: str = Field(description="the id of the request")
    request: dict[str, Any] = Field(description="the whole request, as it was given")
    status: str = Field(description="how it ended, one of a closed list (docs/ingest.md); `pending` while it is open")
    hit: bool = Field(description="whether a file of the wanted type was got")
    error_message: str | None = Field(None, description="why there is no file, in words")
    hops: list[str] = Field(default_factory=list, description="the URLs that were fetched, with the ends of redirects")
    terminal: Terminal | None = Field(None, description="the last resource")
    file_meta: FileMeta | None = None
    cdx: CdxRow | None = Field(None, description="the archive's index row of the last resource; may be a revisit")
    revisit_cdx: CdxRow | None = Field(None, description="for a revisit, the row of the capture that has the bytes")
    grobid: Literal[None] = Field(None, description="always null: text is not parsed here")
    flags: list[str] = Field(default_factory=list, description="what was noticed about the file, as abstract-only")
    route: str | None = Field(None, description="archive, live or save: how the last URL was fetched")
    archive_url: str | None = Field(None, description="the archive link, from terminal_dt and terminal_url")
    path: str | None = Field(None, description="the stored file, below the root of the artifacts")
    tries: int = Field(0, description="how often it was tried")
    next_try: float | None = Field(None, description="when it is tried again, in epoch seconds; null when it is not")
    updated: float | None = Field(None, description="when the result was recorded, in epoch seconds")

    @property
    def is_final(self) -> bool:
        """Whether there is an answer. It may still be tried again later (`next_try`)."""
        return self.status != PENDING


PENDING = "pending"
