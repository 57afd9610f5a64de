"""Repositories whose pages are empty without a browser: recognise the software of a page and ask its REST interface for the file.

`recover` returns a generator, as a resolver does: it yields Requests, receives Responses and returns a `Recovery`. Nothing is
fetched here. Platforms are recognised by what their pages contain, not by their hosts. The number of requests is bounded:
for DSpace three with the file for the page of an item, and six for a handle or when the interface is on another host.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from docstokg_assets.domain.json_access import JsonObject, dig, items, mapping, objects, text
from docstokg_assets.landing.extract import Found, Link
from docstokg_assets.landing.link_scoring import names_other_document
from docstokg_assets.landing.signposting import parse_linkset
from resources.http.messages import Request, Response, Role
from resources.records import Reason

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_DSPACE_ITEM = re.compile(rf"(?i)/(?:items|entities/[a-z-]{{1,40}})/({_UUID})(?=[/?#]|$)")
_DSPACE_HANDLE = re.compile(r"(?i)/handle/([0-9][\w.]{0,30}/[\w.-]{1,80})(?=[/?#]|$)")
_DSPACE_REST = re.compile(
    r"\"rest\"\s{0,5}:\s{0,5}\{[^{}]{0,400}?\"baseUrl\"\s{0,5}:\s{0,5}\"(https?://[^\"\s]{4,300})\""
)
_INVENIO_RECORD = re.compile(r"/records?/([0-9a-z][0-9a-z.-]{0,30})(?=[/?#]|$)", re.IGNORECASE)
_FIGSHARE_ARTICLE = re.compile(
    r"/articles/(?:[^/?#]{1,60}/){0,2}(?:[^/?#]{1,400}/)?([0-9]{4,12})(?:/[0-9]{1,3})?(?=[?#]|$)"
)
_EPRINT = re.compile(r"(?:/id/eprint)?/([0-9]{1,9})/?(?=[?#]|$)")
_UUID_AT_END = re.compile(rf"(?i)({_UUID})/?(?:[?#].*)?$")
_MOST = 6  # requests after the landing page, the file included
_LOOKED_AT = 400_000  # bytes of a page
_FORMATS = {"application/pdf", "adobe pdf"}


@dataclass(frozen=True, slots=True)
class RecoveredFile:
    """A file that the interface names. `checksum`: `md5:<hex>`."""

    link: Link
    checksum: str | None = None
    license: str | None = None


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a platform's interface said: files, or why there is none that we may have."""

    files: tuple[RecoveredFile, ...] = ()
    reason: Reason = Reason.NO_PDF_LINK
    note: str = ""


Recovering = Generator[Request, Response, Recovery]


@dataclass(frozen=True, slots=True)
class Platform:
    name: str
    recognise: Callable[
        [str, str, str], str | None
    ]  # URL, page in lower case, its generators -> the record's identifier
    ask: Callable[[str, str, str], Recovering]  # URL, page, identifier


def platform_of(url: str, page: bytes) -> tuple[Platform, str] | None:
    """The platform of a page, and the identifier of its record there."""
    lowered = page[:_LOOKED_AT].decode("utf-8", "replace").lower()
    made_by = " ".join(re.findall(r"<meta[^<>]{0,100}name=.generator[^<>]{0,200}", lowered)[:3])
    for platform in PLATFORMS:
        if (identifier := platform.recognise(url, lowered, made_by)) is not None:
            return platform, identifier
    return None


def recover(url: str, page: bytes, found: Found) -> Recovering | None:
    """Ask the platform of a page without links to files; None when nothing can be asked."""
    if found.linkset is not None:
        return _ask_linkset(found.linkset)
    if (known := platform_of(url, page)) is None:
        return None
    platform, identifier = known
    return platform.ask(url, page[:_LOOKED_AT].decode("utf-8", "replace"), identifier)


def _request(url: str) -> Request:
    return Request(url, Role.METADATA, headers={"Accept": "application/json, application/*;q=0.8"})


def _json(response: Response) -> Any:
    try:
        return response.json() if response.ok else None
    except (ValueError, RecursionError):
        return None


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _refused(response: Response, what: str) -> Recovery:
    """The result when an interface did not answer with its document."""
    if response.status in (401, 403):
        return Recovery(reason=Reason.NOT_ENTITLED, note=f"{what} is restricted (HTTP {response.status})")
    return Recovery(note=f"{what}: HTTP {response.status}")


def _embargoed(until: str | None) -> Recovery:
    note = f"embargoed until {until}" if until else "embargoed, without a date"
    return Recovery(reason=Reason.EMBARGOED, note=note)


_RESTRICTED = Recovery(reason=Reason.NOT_ENTITLED, note="the repository restricts access to the file")


def _ask_linkset(url: str) -> Recovering:
    response = yield Request(url, Role.METADATA, headers={"Accept": "application/linkset+json"})
    links = [one for one in parse_linkset(_json(response)) if "item" in one.rel.split()]
    files = [RecoveredFile(Link(one.href, "linkset")) for one in links if one.type.startswith("application/pdf")]
    return Recovery(tuple(files[:5])) if files else Recovery(note="its linkset names no PDF")


# -- DSpace 7 and later ------------------------------------------------------------------------------------------------


def _is_dspace(url: str, page: str, made_by: str) -> str | None:
    marked = "<ds-app" in page or "dspace" in made_by or "<title>dspace" in page or "dspace-angular" in page
    if not marked:
        return None
    if match := _DSPACE_ITEM.search(urlsplit(url).path):
        return match[1].lower()
    match = _DSPACE_HANDLE.search(urlsplit(url).path)
    # the pages of older versions have a generator as well, but neither the element nor this interface
    return match[1] if match and ("<ds-app" in page or re.search(r"dspace (?:[7-9]|1[0-9])", made_by)) else None


def _ask_dspace(url: str, page: str, identifier: str) -> Recovering:
    counter = _Counter()
    stated = _DSPACE_REST.search(page)
    rest = stated[1].rstrip("/") if stated else f"{_origin(url)}/server"
    response = yield from counter.ask(_dspace_entry(rest, identifier))
    if not isinstance(_json(response), dict) and response.status not in (401, 403) and not stated:
        # 404 may mean that there is no interface here, or no such item; the configuration tells
        configured = yield from counter.ask(f"{_origin(url)}/assets/config.json")
        other = _dspace_rest(_json(configured))
        if other is not None and other != rest:
            rest = other
            response = yield from counter.ask(_dspace_entry(rest, identifier))
    if not isinstance(_json(response), dict):
        return _refused(response, "the item in the repository's interface")
    if "/" in identifier:
        uuid = text(mapping(_json(response)).get("uuid")) or ""
        match = _UUID_AT_END.search(uuid) or _UUID_AT_END.search(response.url)
        if match is None:
            return Recovery(note="the repository's interface does not know the handle")
        response = yield from counter.ask(_bundles(rest, match[1].lower()))
        if not isinstance(_json(response), dict):
            return _refused(response, "the item in the repository's interface")
    original = next((one for one in _embedded(_json(response), "bundles") if one.get("name") == "ORIGINAL"), None)
    if original is None:
        return Recovery(note="the item has no file in its ORIGINAL bundle")
    bitstreams = list(_embedded(original, "bitstreams"))
    if not bitstreams and (listed := text(dig(original, "_links", "bitstreams", "href"), 2000)):
        bitstreams = list(_embedded(_json((yield from counter.ask(listed))), "bitstreams"))
    chosen = _chosen(bitstreams, _primary(original))
    if not chosen:
        return Recovery(note="the item has no PDF in its ORIGINAL bundle")
    address = f"{rest}/api/core/bitstreams/{text(chosen[0].get('uuid')) or text(chosen[0].get('id'))}"
    if counter.left > 1:
        access = mapping(_json((yield from counter.ask(f"{address}/accessStatus"))))
        if access.get("status") == "embargo":
            return _embargoed(text(access.get("embargoDate"), 20))
        if access.get("status") in ("restricted", "metadata.only"):
            return _RESTRICTED
    stated_hash = mapping(chosen[0].get("checkSum"))
    return Recovery((RecoveredFile(Link(f"{address}/content", "dspace-rest"), _checksum(stated_hash)),))


class _Counter:
    """Counts requests, redirects included."""

    def __init__(self) -> None:
        self.left = _MOST

    def ask(self, url: str) -> Generator[Request, Response, Response]:
        response = yield _request(url)
        self.left -= 1 + len(response.hops)
        return response


def _dspace_entry(rest: str, identifier: str) -> str:
    if "/" in identifier:
        return f"{rest}/api/pid/find?id={quote(identifier, safe='/')}"
    return _bundles(rest, identifier)


def _bundles(rest: str, uuid: str) -> str:
    return f"{rest}/api/core/items/{uuid}/bundles?embed=bitstreams&embed=primaryBitstream"


def _dspace_rest(config: Any) -> str | None:
    """The base URL of the interface in the configuration of the user interface."""
    rest = mapping(mapping(config).get("rest"))
    if base := text(rest.get("baseUrl"), 500):
        return base.rstrip("/")
    host, port, ssl = text(rest.get("host"), 200), rest.get("port"), rest.get("ssl") is not False
    if host is None:
        return None
    usual = port in (None, 80, 443, "80", "443")
    path = (text(rest.get("nameSpace"), 100) or "/server").rstrip("/")
    return f"{'https' if ssl else 'http'}://{host}{'' if usual else f':{port}'}{path}"


def _embedded(data: Any, name: str) -> Iterator[JsonObject]:
    """The embedded objects of a HAL document: a list, or a page that has the list inside."""
    inside = dig(data, "_embedded", name)
    return objects(inside if isinstance(inside, list) else dig(inside, "_embedded", name))


def _primary(bundle: JsonObject) -> str | None:
    embedded = mapping(bundle.get("_embedded")).items()
    named = (mapping(value).get("uuid") for key, value in embedded if key.lower() == "primarybitstream")
    if uuid := next((text(value) for value in named if value), None):
        return uuid
    links = mapping(bundle.get("_links")).items()
    hrefs = (text(mapping(value).get("href"), 2000) or "" for key, value in links if key.lower() == "primarybitstream")
    return next((match[1] for href in hrefs if (match := _UUID_AT_END.search(href))), None)


def _chosen(bitstreams: Iterable[JsonObject], primary: str | None) -> list[JsonObject]:
    """The PDFs among the bitstreams: the primary one, then those whose name is not that of another document."""
    pdfs = [one for one in bitstreams if _is_pdf(one)]
    first = [one for one in pdfs if primary and text(one.get("uuid")) == primary]
    return first + [one for one in pdfs if one not in first and not names_other_document(str(one.get("name")))]


def _is_pdf(bitstream: JsonObject) -> bool:
    stated = dig(bitstream, "_embedded", "format", "mimetype") or dig(bitstream, "format", "mimetype")
    return stated == "application/pdf" or str(bitstream.get("name")).lower().endswith(".pdf")


def _checksum(stated: JsonObject) -> str | None:
    value, algorithm = text(stated.get("value"), 130), str(stated.get("checkSumAlgorithm")).lower().replace("-", "")
    return f"{algorithm}:{value.lower()}" if value and algorithm in ("md5", "sha1", "sha256") else None


# -- InvenioRDM, Figshare portals, EPrints -----------------------------------------------------------------------------


def _is_invenio(url: str, page: str, made_by: str) -> str | None:
    marked = "invenio" in made_by or "invenio-" in page or "invenio_" in page or "inveniordm" in page
    match = _INVENIO_RECORD.search(urlsplit(url).path) if marked else None
    return match[1] if match else None


def _ask_invenio(url: str, page: str, identifier: str) -> Recovering:
    address = f"{_origin(url)}/api/records/{identifier}"
    response = yield _request(address)
    record = _json(response)
    if not isinstance(record, dict):
        return _refused(response, "the record in the repository's interface")
    access, metadata = mapping(record.get("access")), mapping(record.get("metadata"))
    if dig(access, "embargo", "active") is True or metadata.get("access_right") == "embargoed":
        return _embargoed(text(dig(access, "embargo", "until"), 20) or text(metadata.get("embargo_date"), 20))
    if access.get("files") == "restricted" or metadata.get("access_right") in ("restricted", "closed"):
        return _RESTRICTED
    entries = _invenio_entries(record)
    if not entries and dig(record, "files", "enabled") is not False:
        entries = _invenio_entries({"files": _json((yield _request(f"{address}/files")))})
    licenses = [*objects(metadata.get("rights")), mapping(metadata.get("license"))]
    license_ = next((name for one in licenses if (name := text(one.get("id"), 64))), None)
    files = []
    for entry in entries:
        name, links = str(entry.get("key")), mapping(entry.get("links"))
        link = text(links.get("content"), 2000) or text(links.get("self"), 2000)
        if link and name.lower().endswith(".pdf") and not names_other_document(name):
            files.append(RecoveredFile(Link(link, "invenio-rest"), text(entry.get("checksum"), 130), license_))
    return Recovery(tuple(files[:3])) if files else Recovery(note="the record has no PDF")


def _invenio_entries(record: JsonObject) -> list[JsonObject]:
    files = record.get("files")
    inside = files if isinstance(files, list) else mapping(files).get("entries")
    return list(objects(list(inside.values()) if isinstance(inside, dict) else inside))


def _is_figshare(url: str, page: str, made_by: str) -> str | None:
    host = urlsplit(url).netloc.lower()
    marked = host.endswith("figshare.com") or "figshare.com" in page
    match = _FIGSHARE_ARTICLE.search(urlsplit(url).path) if marked else None
    return match[1] if match else None


def _ask_figshare(url: str, page: str, identifier: str) -> Recovering:
    response = yield _request(f"https://api.figshare.com/v2/articles/{identifier}")
    record = _json(response)
    if not isinstance(record, dict):
        return _refused(response, "the article in Figshare's interface")
    if record.get("is_embargoed") is True:
        return _embargoed(text(record.get("embargo_date"), 20))
    license_, files = text(dig(record, "license", "name"), 64), []
    for file in objects(record.get("files")):
        name, link = str(file.get("name")), text(file.get("download_url"), 2000)
        if link and name.lower().endswith(".pdf") and not names_other_document(name):
            md5 = text(file.get("computed_md5"), 40)
            files.append(RecoveredFile(Link(link, "figshare-rest"), f"md5:{md5.lower()}" if md5 else None, license_))
    return Recovery(tuple(files[:3])) if files else Recovery(note="the article has no PDF")


def _is_eprints(url: str, page: str, made_by: str) -> str | None:
    match = _EPRINT.search(urlsplit(url).path) if "eprints" in made_by or "ep_tm_" in page else None
    return match[1] if match else None


def _ask_eprints(url: str, page: str, identifier: str) -> Recovering:
    response = yield _request(f"{_origin(url)}/cgi/export/eprint/{identifier}/JSON/eprint-{identifier}.js")
    data = _json(response)
    record = mapping(items(data)[0] if items(data) else data)
    if not record:
        return _refused(response, "the export of the record")
    closed: Recovery | None = None
    for document in objects(record.get("documents")):
        name, position = text(document.get("main"), 300), document.get("pos") or document.get("placement") or 1
        kinds = {str(document.get(key)).lower() for key in ("mime_type", "format")}
        if not name or not (name.lower().endswith(".pdf") or kinds & _FORMATS) or names_other_document(name):
            continue
        if document.get("security") in (None, "public"):
            link = f"{_origin(url)}/id/eprint/{identifier}/{position}/{quote(name)}"
            return Recovery((RecoveredFile(Link(link, "eprints-export")),))
        until = text(document.get("date_embargo"), 20)
        closed = closed or (_embargoed(until) if until else _RESTRICTED)
    return closed or Recovery(note="the record has no PDF")


PLATFORMS = (
    Platform("dspace", _is_dspace, _ask_dspace),
    Platform("invenio", _is_invenio, _ask_invenio),
    Platform("figshare", _is_figshare, _ask_figshare),
    Platform("eprints", _is_eprints, _ask_eprints),
)
