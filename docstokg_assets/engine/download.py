"""Download one candidate in three phases: prepare (what to request), stream (one GET, hashed while it is written), finalize
(check that it is whole and the right article, then store it under the work's name). `adopted` finds a file that was stored
by a process that was killed before it could record it.

The search chooses the candidates and handles failures, the HTTP client sends, `domain.naming` makes the names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from docstokg_assets.domain.naming import USUAL, extension_of
from docstokg_assets.domain.pdf_match import PdfValidator, Verdict
from docstokg_assets.domain.plans import Candidate, Target, Tier
from docstokg_assets.domain.sniffing import SNIFF_BYTES, TWO_IN_ONE, pdf_fault, sniff
from docstokg_assets.domain.works import Work
from docstokg_assets.engine.custody import WorkFiles, is_left
from docstokg_assets.landing.walls import recognise_wall
from docstokg_assets.resolvers.registry import Authorization
from resources.artifacts.file_system import PartFile
from resources.artifacts.quarantine import Quarantine
from resources.artifacts.store import CAS, ArtifactStore
from resources.http.canonical import host_of
from resources.http.digests import KNOWN, stated_digests
from resources.http.errors import BodyTooLarge, ChecksumMismatch, ContentRefused
from resources.http.exchange import reason_of_status
from resources.http.messages import Request, Response, ResponseHead, Role
from resources.http.redact import redact_url
from resources.records import Classification, DownloadOutcome, Kind, Reason

FOLDERS = {Kind.PDF: "PDF", Kind.PDF_UNKNOWN: "PDF", Kind.HTML: "HTML", Kind.XML: "XML"}
_PDF, _XML, _HTML = "application/pdf", "application/xml", "text/html"
_EXPECTED = {Target.PDF: _PDF, Target.XML: _XML, Target.HTML: _HTML}
_MIMES = {Kind.PDF: _PDF, Kind.PDF_UNKNOWN: _PDF, Kind.XML: _XML}
_TAIL_BYTES = 2048
_NEGOTIATING_HOSTS = ("doi.org", "dx.doi.org", "www.doi.org")


@dataclass(frozen=True, slots=True)
class DownloadPlan:
    url: str
    resolver_name: str
    tier: str
    referer: str | None = None
    expected_mime: str | None = None
    checksum: str | None = None
    etag: str | None = None  # of the stored copy, as is `last_modified`: the server sends only a file that has changed
    last_modified: str | None = None
    authorization: Authorization = field(default_factory=Authorization)
    repeatable: bool = True  # False: no retries, because its host has just failed repeatedly
    obey_robots: bool = True

    @property
    def conditions(self) -> dict[str, str]:
        named = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True)
class DownloadStreamResult:
    """A body that was received completely: as a part file, or in memory for an HTML page."""

    path_tmp: str | None
    bytes_written: int
    http_status: int
    content_type: str | None
    kind: Kind
    sha256: str
    digests: Mapping[str, str] = field(default_factory=dict)  # of the algorithms in `also_hash`
    tail: bytes = b""
    page: bytes = b""
    part: PartFile | None = field(default=None, repr=False)

    def discard(self) -> None:
        if self.part is not None:
            self.part.discard()


class ArtifactSink:
    """Receives the body of an artifact GET. The first bytes decide: PDF and XML go to a part file, HTML stays in memory, because
    it is a wall, a landing page or, less often, a full text; anything else is not read further. `also_hash`: digests to compute
    besides SHA-256 (`sha1`, `md5`)."""

    def __init__(
        self,
        head: ResponseHead | Response,
        store: ArtifactStore,
        max_bytes: int,
        max_page_bytes: int,
        plan: DownloadPlan | None = None,
        also_hash: tuple[str, ...] = (),
    ) -> None:
        announced = head.content_length
        if announced is not None and announced > max_bytes:
            message = f"{announced} bytes, more than download.max_bytes"
            raise ContentRefused(message, url=head.url, reason=Reason.POLICY_SIZE)
        self._head, self._store, self._also_hash = head, store, also_hash
        self._max_bytes, self._max_page_bytes = max_bytes, max_page_bytes
        self._expected = plan.expected_mime if plan is not None else None
        self._stated = _stated(head, plan)
        wanted = dict.fromkeys(("sha256", *also_hash, *(algorithm for algorithm, _ in self._stated)))
        self._hashes = {name: hashlib.new(name, usedforsecurity=False) for name in wanted}
        self._start = b""
        self._size = 0
        self._tail = b""
        self._kind: Kind | None = None
        self._part: PartFile | None = None
        self._page: list[bytes] = []

    def write(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._size > self._max_bytes:
            raise BodyTooLarge(f"more than {self._max_bytes} bytes", url=self._head.url)
        if self._kind is not None:
            self._keep(chunk)
            return
        self._start += chunk
        if len(self._start) >= SNIFF_BYTES:
            self._decide()

    def finish(self) -> DownloadStreamResult:
        if self._kind is None:
            self._decide()
        assert self._kind is not None
        digests = {name: digest.hexdigest() for name, digest in self._hashes.items()}
        for algorithm, stated in self._stated:
            if self._part is not None and digests[algorithm] != stated:
                raise ChecksumMismatch(f"its {algorithm} is not the one that was stated", url=self._head.url)
        return DownloadStreamResult(
            path_tmp=str(self._part.path) if self._part is not None else None,
            bytes_written=self._size,
            http_status=self._head.status,
            content_type=self._head.content_type,
            kind=self._kind,
            sha256=digests["sha256"],
            digests={name: digests[name] for name in self._also_hash},
            tail=self._tail,
            page=b"".join(self._page),
            part=self._part,
        )

    def abort(self) -> None:
        if self._part is not None:
            self._part.discard()

    def _decide(self) -> None:
        kind = sniff(self._start, self._head.content_type)
        if kind is None:
            wall = recognise_wall(self._head.status, self._head.headers, self._start, self._head.url)
            if wall is not None:
                raise ContentRefused("a wall instead of a file", url=self._head.url, reason=wall)
            message = f"neither PDF, XML nor HTML ({self._head.content_type or 'no content type'})"
            raise ContentRefused(message, url=self._head.url, reason=Reason.UNEXPECTED_CT)
        wanted = self._expected
        if wanted is not None and _MIMES.get(kind, wanted) != wanted:  # HTML is allowed: pages are read, not stored
            raise ContentRefused(f"{_MIMES[kind]} instead of {wanted}", url=self._head.url, reason=Reason.POLICY_TYPE)
        self._kind = kind
        if kind is not Kind.HTML:
            self._part = self._store.begin(FOLDERS[kind])
        start, self._start = self._start, b""
        self._keep(start)

    def _keep(self, chunk: bytes) -> None:
        for digest in self._hashes.values():
            digest.update(chunk)
        if self._part is None:
            if self._size > self._max_page_bytes:
                raise BodyTooLarge(f"an HTML page of more than {self._max_page_bytes} bytes", url=self._head.url)
            self._page.append(chunk)
            return
        self._part.write(chunk)
        self._tail = chunk[-_TAIL_BYTES:] if len(chunk) >= _TAIL_BYTES else (self._tail + chunk)[-_TAIL_BYTES:]


def _stated(head: ResponseHead, plan: DownloadPlan | None) -> list[tuple[str, str]]:
    """(algorithm, digest) pairs that the body must match, as stated by the server or by the source of the candidate."""
    stated = list(stated_digests(head.headers).items())
    if plan is not None and plan.checksum is not None:
        algorithm, _, digest = plan.checksum.lower().partition(":")
        stated += [(algorithm, digest)] if algorithm in KNOWN else []
    return stated


def prepare_candidate_download(candidate: Candidate) -> DownloadPlan:
    expected, tier = _EXPECTED.get(candidate.target), str(candidate.tier)
    return DownloadPlan(candidate.url, candidate.resolver, tier, candidate.referer, expected, candidate.checksum)


def stream_candidate_payload(
    plan: DownloadPlan,
    store: ArtifactStore,
    max_bytes: int,
    max_page_bytes: int,
    also_hash: tuple[str, ...] = (),
    delivered: Response | None = None,
) -> Generator[Request, Response, Response]:
    """Send exactly one GET, or none for a file that a resolver has `delivered`. The `payload` of a 2xx response is a
    DownloadStreamResult. `also_hash`: as for ArtifactSink."""
    if delivered is not None:
        sink = ArtifactSink(delivered, store, max_bytes, max_page_bytes, plan, also_hash)
        try:
            sink.write(delivered.body)
            return replace(delivered, payload=sink.finish(), body=b"")
        except BaseException:
            sink.abort()
            raise
    request = Request(
        plan.url,
        Role.ARTIFACT,
        repeatable=plan.repeatable,
        resolver=plan.resolver_name,
        tier=plan.tier,
        headers={**_accept(plan.url), **plan.authorization.headers, **plan.conditions},
        secret_headers=plan.authorization.secret_headers,
        referer=plan.referer,
        obey_robots=plan.obey_robots,
        sink=lambda head: ArtifactSink(head, store, max_bytes, max_page_bytes, plan, also_hash),
    )
    return (yield request)


def _accept(url: str) -> dict[str, str]:
    """DOI resolvers answer 406, or with metadata, when the Accept header names a file type, so a page is asked for."""
    return {"Accept": "text/html, */*;q=0.8"} if host_of(url) in _NEGOTIATING_HOSTS else {}


def finalize_candidate_download(
    work: Work,
    candidate: Candidate,
    response: Response,
    store: ArtifactStore,
    *,
    validator: PdfValidator | None = None,
    quarantine: Quarantine | None = None,
    files: WorkFiles | None = None,
    owner: str = "",
    facts: Mapping[str, object] | None = None,
) -> DownloadOutcome:
    """Check integrity, validate that it is this article, then store. Never leaves a part file behind. `quarantine`:
    keeps PDFs that are another file type as well; `files`: of the work; `owner`: this process; `facts`: more for the `meta` of a
    success."""
    if not response.ok:
        reason = reason_of_status(response.status)
        if reason is Reason.OK:  # a redirect without a target, or "not modified" without a condition
            reason = Reason.PROTOCOL_ERROR
        return failed(candidate, reason, http_status=response.status)
    stream = response.payload
    assert isinstance(stream, DownloadStreamResult)
    verdict = Verdict()
    if stream.kind in (Kind.PDF, Kind.PDF_UNKNOWN):
        assert stream.part is not None
        meta: dict[str, object]
        fault = pdf_fault(stream.bytes_written, stream.tail)
        if fault is not None:
            meta = {"fault": fault}
            if quarantine is not None and fault in TWO_IN_ONE:
                kept = quarantine.take(stream.part, stream.sha256, "pdf")
                meta |= {"quarantined": kept} if kept is not None else {}
            stream.part.discard()
            return failed(candidate, Reason.PDF_CORRUPT, kind=Kind.PDF_CORRUPT, http_status=response.status, meta=meta)
        verdict = validator(work, response.url, stream.part.path) if validator is not None else verdict
        if verdict.reason is not None:
            stream.part.discard()
            meta = _flags(verdict)
            return failed(candidate, verdict.reason, kind=stream.kind, http_status=response.status, meta=meta)
    part = stream.part
    if part is None:  # an HTML full text, still in memory
        part = store.begin(FOLDERS[stream.kind])
        part.write(stream.page)
    kind = stream.kind
    extension = extension_of(kind, stream.content_type, response.headers.get("content-disposition"), response.url)
    files = WorkFiles() if files is None else files
    names = files.names(work, FOLDERS[kind], extension)
    outcome = _outcome(
        candidate,
        Reason.OK,
        Classification.SUCCESS,
        ok=True,
        kind=kind,
        sha256=stream.sha256,
        content_length=stream.bytes_written,
        content_type=stream.content_type,
        license=candidate.license,
        version=candidate.version,
        meta={**stream.digests, **_provenance(candidate, response), **_flags(verdict), **(facts or {})},
        **_validators(response),
    )
    path, name = files.store(store, part, names, stream.sha256, orjson.dumps(without_secrets(outcome)), owner)
    readable = {"name": name} if path.startswith(f"{CAS}/") else {}  # where the store names files by their hash
    return replace(outcome, path=path, meta={**outcome.meta, **readable})


def still_current(candidate: Candidate, response: Response, kept: DownloadOutcome) -> DownloadOutcome:
    """The outcome for a stored file that the host still has: it answered 304, or sent the same bytes, perhaps with another ETag
    or date. The outcome has the validators that the host sends now; a 304 need not repeat them."""
    if isinstance(response.payload, DownloadStreamResult):
        response.payload.discard()
    now = _validators(response)
    if response.status == 304 or not (now["etag"] or now["last_modified"]):
        now |= {"etag": now["etag"] or kept.etag, "last_modified": now["last_modified"] or kept.last_modified}
    return _outcome(candidate, Reason.NOT_MODIFIED, Classification.SKIP, ok=True, sha256=kept.sha256, **now)


def adopted(
    work: Work, store: ArtifactStore, files: WorkFiles, wanted: Callable[[DownloadOutcome], bool]
) -> DownloadOutcome | None:
    """The outcome that was noted with a file under one of the work's names, if it is `wanted`, the file has not changed, and the
    process that stored it has ended. While that process runs, it records or removes the file itself."""
    for kind in (Kind.PDF, Kind.XML):
        for path in files.names(work, FOLDERS[kind], USUAL[kind][0]):
            note = store.note_of(path)
            if note is None:
                break
            with suppress(ValueError, TypeError, KeyError):  # a note of another program or version
                outcome = outcome_from_json(orjson.loads(note))
                named = outcome.ok and outcome.url and outcome.resolver and outcome.tier and Tier(outcome.tier)
                if not named or not wanted(outcome) or not is_left(store, path):
                    continue
                if (outcome.sha256, outcome.content_length) == store.settled(path):
                    return replace(outcome, path=path, meta={**outcome.meta, "adopted": True})
    return None


def without_secrets(outcome: DownloadOutcome) -> DownloadOutcome:
    """The outcome with secrets removed from its URLs, as it may be written down."""
    meta = {name: redact_url(value) if isinstance(value, str) else value for name, value in outcome.meta.items()}
    return replace(outcome, url=redact_url(outcome.url) if outcome.url else None, meta=meta)


def outcome_from_json(raw: Mapping[str, Any]) -> DownloadOutcome:
    tokens = {"reason": Reason(raw["reason"]), "kind": Kind(raw["kind"])}
    return DownloadOutcome(**{**raw, **tokens, "classification": Classification(raw["classification"])})


def _provenance(candidate: Candidate, response: Response) -> dict[str, str]:
    """Where a file was really fetched from, as the catalog keeps it with the artifact."""
    found = {"final_url": response.url} if response.url != candidate.url else {}
    if candidate.captured_from is not None:
        found |= {"derivation": "archive-capture", "derived_from": candidate.captured_from}
    return found


def _flags(verdict: Verdict) -> dict[str, object]:
    """The flags of a suspect file, for its manifest row."""
    return {"flags": [str(flag) for flag in verdict.flags], "evidence": verdict.evidence} if verdict.flags else {}


def _validators(response: Response) -> dict[str, Any]:
    """What a later conditional GET needs, and the status."""
    etag, last_modified = response.headers.get("etag"), response.headers.get("last-modified")
    return {"http_status": response.status, "etag": etag, "last_modified": last_modified}


def failed(candidate: Candidate, reason: Reason, **fields: Any) -> DownloadOutcome:
    return _outcome(candidate, reason, Classification.ERROR, ok=False, **fields)


def _outcome(
    candidate: Candidate, reason: Reason, classification: Classification, *, ok: bool, **fields: Any
) -> DownloadOutcome:
    fields |= {"url": candidate.url, "resolver": candidate.resolver, "tier": str(candidate.tier)}
    return DownloadOutcome(ok, None, classification, reason, **fields)


def candidate_of(file: DownloadOutcome) -> Candidate:
    """The candidate that a stored PDF or XML file came from."""
    assert file.url and file.resolver and file.tier
    target = Target.XML if file.kind is Kind.XML else Target.PDF
    return Candidate(file.url, file.resolver, Tier(file.tier), target, version=file.version, license=file.license)


def left_as_is(outcome: DownloadOutcome) -> DownloadOutcome:
    return replace(outcome, ok=True, classification=Classification.SKIP)
