"""One candidate, from URL to durable file, in three phases: prepare (what to ask), stream (one GET, hashed while it is written),
finalize (is it whole, then store it under the work's name). And the short way: a file that is there already, stored by a process
that did not live to record it.

Which candidate is tried, and what happens after a failure, is the pipeline's; sending is the client's; names are `naming`'s.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from docstokg_assets.domain.naming import USUAL, artifact_path, extension_of
from docstokg_assets.domain.pdf_match import PdfValidator, Verdict
from docstokg_assets.domain.plans import Candidate, Target, Tier
from docstokg_assets.domain.sniffing import SNIFF_BYTES, TWO_IN_ONE, pdf_fault, sniff
from docstokg_assets.domain.works import Work
from docstokg_assets.landing.walls import recognise_wall
from resources.artifacts.file_system import PartFile
from resources.artifacts.quarantine import Quarantine
from resources.artifacts.store import ArtifactStore
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


@dataclass(frozen=True, slots=True)
class DownloadPlan:
    url: str
    resolver_name: str
    referer: str | None = None
    expected_mime: str | None = None
    checksum: str | None = None
    # of the copy that we have: the file is sent only if it is another one
    etag: str | None = None
    last_modified: str | None = None
    repeatable: bool = True  # False: tried once; its host has just failed for long enough

    @property
    def conditions(self) -> dict[str, str]:
        named = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True)
class DownloadStreamResult:
    """A body that arrived whole: as a part file, or, for an HTML page, in memory."""

    path_tmp: str | None
    bytes_written: int
    http_status: int
    content_type: str | None
    kind: Kind
    sha256: str
    digests: Mapping[str, str] = field(default_factory=dict)  # others that were asked for
    tail: bytes = b""
    page: bytes = b""
    part: PartFile | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class DownloadLimits:
    max_bytes: int
    max_page_bytes: int
    also_hash: tuple[str, ...] = ()  # `sha1`, `md5`: where more than SHA-256 is to be told of a file


class ArtifactSink:
    """Takes the body of an artifact GET. The first bytes decide: PDF and XML go to a part file, HTML is kept in memory, because
    it is a wall, a landing page, or in the rarer case a full text; anything else is not read further."""

    def __init__(
        self, head: ResponseHead, store: ArtifactStore, limits: DownloadLimits, plan: DownloadPlan | None = None
    ) -> None:
        announced = head.content_length
        if announced is not None and announced > limits.max_bytes:
            raise ContentRefused(
                f"{announced} bytes, more than download.max_bytes", url=head.url, reason=Reason.POLICY_SIZE
            )
        self._head, self._store, self._limits = head, store, limits
        self._expected = plan.expected_mime if plan is not None else None
        self._stated = _stated(head, plan)
        wanted = dict.fromkeys(("sha256", *limits.also_hash, *(algorithm for algorithm, _ in self._stated)))
        self._hashes = {name: hashlib.new(name, usedforsecurity=False) for name in wanted}
        self._start = b""
        self._size = 0
        self._tail = b""
        self._kind: Kind | None = None
        self._part: PartFile | None = None
        self._page: list[bytes] = []

    def write(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._size > self._limits.max_bytes:
            raise BodyTooLarge(f"more than {self._limits.max_bytes} bytes", url=self._head.url)
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
            digests={name: digests[name] for name in self._limits.also_hash},
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
            shown = self._head.content_type or "no content type"
            raise ContentRefused(
                f"neither PDF, XML nor HTML ({shown})", url=self._head.url, reason=Reason.UNEXPECTED_CT
            )
        wanted = self._expected
        if wanted is not None and _MIMES.get(kind, wanted) != wanted:  # a page is no mistake: it is read, not kept
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
            if self._size > self._limits.max_page_bytes:
                raise BodyTooLarge(f"an HTML page of more than {self._limits.max_page_bytes} bytes", url=self._head.url)
            self._page.append(chunk)
            return
        self._part.write(chunk)
        self._tail = chunk[-_TAIL_BYTES:] if len(chunk) >= _TAIL_BYTES else (self._tail + chunk)[-_TAIL_BYTES:]


def _stated(head: ResponseHead, plan: DownloadPlan | None) -> list[tuple[str, str]]:
    """Algorithms and digests that the bytes must have, by what the server says and what the source of the candidate said."""
    stated = list(stated_digests(head.headers).items())
    if plan is not None and plan.checksum is not None:
        algorithm, _, digest = plan.checksum.lower().partition(":")
        stated += [(algorithm, digest)] if algorithm in KNOWN else []
    return stated


def prepare_candidate_download(candidate: Candidate) -> DownloadPlan:
    expected = _EXPECTED.get(candidate.target)
    return DownloadPlan(candidate.url, candidate.resolver, candidate.referer, expected, candidate.checksum)


def stream_candidate_payload(
    plan: DownloadPlan, candidate: Candidate, store: ArtifactStore, limits: DownloadLimits, obey_robots: bool
) -> Generator[Request, Response, Response]:
    """Exactly one GET. A 2xx answer's `payload` is a DownloadStreamResult."""
    response = yield Request(
        plan.url,
        Role.ARTIFACT,
        repeatable=plan.repeatable,
        resolver=plan.resolver_name,
        tier=str(candidate.tier),
        headers=plan.conditions,
        referer=plan.referer,
        obey_robots=obey_robots,
        sink=lambda head: ArtifactSink(head, store, limits, plan),
    )
    return response


def finalize_candidate_download(
    work: Work,
    candidate: Candidate,
    response: Response,
    store: ArtifactStore,
    *,
    conditional: bool = False,
    judge: PdfValidator | None = None,
    quarantine: Quarantine | None = None,
) -> DownloadOutcome:
    """Integrity, whether it is this paper, then the store. Leaves no part file behind, whatever it finds. `conditional`: the
    plan named our copy; `quarantine`: where a PDF goes that is something else as well."""
    if response.status == 304 and conditional:
        return not_modified(candidate, response)
    if not response.ok:
        reason = reason_of_status(response.status)
        if reason is Reason.OK:  # a redirect to nowhere, or "not modified" to somebody who has nothing
            reason = Reason.PROTOCOL_ERROR
        return failed(candidate, reason, http_status=response.status)
    stream = response.payload
    assert isinstance(stream, DownloadStreamResult)
    verdict = Verdict()
    if stream.kind in (Kind.PDF, Kind.PDF_UNKNOWN):
        assert stream.part is not None
        fault = pdf_fault(stream.bytes_written, stream.tail)
        if fault is not None:
            meta: dict[str, object] = {"fault": fault}
            if quarantine is not None and fault in TWO_IN_ONE:
                kept = quarantine.take(stream.part, stream.sha256, "pdf")
                meta |= {"quarantined": kept} if kept is not None else {}
            stream.part.discard()
            return failed(candidate, Reason.PDF_CORRUPT, kind=Kind.PDF_CORRUPT, http_status=response.status, meta=meta)
        verdict = judge(work, response.url, stream.part.path) if judge is not None else verdict
        if verdict.reason is not None:
            stream.part.discard()
            noticed = _noticed(verdict)
            return failed(candidate, verdict.reason, kind=stream.kind, http_status=response.status, meta=noticed)
    part = stream.part
    if part is None:  # an HTML full text, so far in memory
        part = store.begin(FOLDERS[stream.kind])
        part.write(stream.page)
    return store_file(work, candidate, response, stream, part, store, verdict)


def store_file(
    work: Work,
    candidate: Candidate,
    response: Response,
    stream: DownloadStreamResult,
    part: PartFile,
    store: ArtifactStore,
    verdict: Verdict,
) -> DownloadOutcome:
    kind = stream.kind
    extension = extension_of(kind, stream.content_type, response.headers.get("content-disposition"), response.url)
    name = artifact_path(work.year, work.title, work.work_id, FOLDERS[kind], extension)
    meta: dict[str, object] = {**stream.digests, **_provenance(candidate, response), **_noticed(verdict)}
    outcome = DownloadOutcome(
        ok=True,
        path=None,
        classification=Classification.SUCCESS,
        reason=Reason.OK,
        kind=kind,
        url=candidate.url,
        resolver=candidate.resolver,
        tier=str(candidate.tier),
        http_status=response.status,
        sha256=stream.sha256,
        content_length=stream.bytes_written,
        content_type=stream.content_type,
        etag=response.headers.get("etag"),
        last_modified=response.headers.get("last-modified"),
        license=candidate.license,
        version=candidate.version,
        meta=meta,
    )
    stored = store.commit(part, name, stream.sha256, orjson.dumps(without_secrets(outcome)))
    named = {"name": name} if stored.path != name else {}  # for people, where the store goes by hashes
    return replace(outcome, path=stored.path, meta={**meta, **named})


def adopted(work: Work, store: ArtifactStore, wanted: Callable[[DownloadOutcome], bool]) -> DownloadOutcome | None:
    """The outcome of a file that lies under the work's name, by what was noted with it, if that is `wanted` and its bytes are
    still those."""
    for kind in (Kind.PDF, Kind.XML):
        path = artifact_path(work.year, work.title, work.work_id, FOLDERS[kind], USUAL[kind][0])
        note = store.note_of(path)
        if note is None:
            continue
        with suppress(ValueError, TypeError, KeyError):  # a note of somebody else, or of another version
            outcome = outcome_from_json(orjson.loads(note))
            named = outcome.ok and outcome.url and outcome.resolver and outcome.tier and Tier(outcome.tier)
            if not named or not wanted(outcome):
                continue
            if (outcome.sha256, outcome.content_length) == store.settled(path):
                return replace(outcome, path=path, meta={**outcome.meta, "adopted": True})
    return None


def without_secrets(outcome: DownloadOutcome) -> DownloadOutcome:
    """As it may be written down."""
    meta = {name: redact_url(value) if isinstance(value, str) else value for name, value in outcome.meta.items()}
    return replace(outcome, url=redact_url(outcome.url) if outcome.url else None, meta=meta)


def outcome_from_json(raw: Mapping[str, Any]) -> DownloadOutcome:
    tokens = {"reason": Reason(raw["reason"]), "kind": Kind(raw["kind"])}
    return DownloadOutcome(**{**raw, **tokens, "classification": Classification(raw["classification"])})


def _provenance(candidate: Candidate, response: Response) -> dict[str, str]:
    """Where a file really came from, as the catalog keeps it with the artifact."""
    found = {"final_url": response.url} if response.url != candidate.url else {}
    if candidate.captured_from is not None:
        found |= {"derivation": "archive-capture", "derived_from": candidate.captured_from}
    return found


def _noticed(verdict: Verdict) -> dict[str, object]:
    """What stands on the row of a file that is not beyond doubt."""
    if not verdict.flags:
        return {}
    return {"flags": [str(flag) for flag in verdict.flags], "evidence": verdict.evidence}


def not_modified(candidate: Candidate, response: Response) -> DownloadOutcome:
    """Our copy is still the current one: nothing came, and nothing is stored."""
    return DownloadOutcome(
        ok=True,
        path=None,
        classification=Classification.SKIP,
        reason=Reason.NOT_MODIFIED,
        url=candidate.url,
        resolver=candidate.resolver,
        tier=str(candidate.tier),
        http_status=response.status,
        etag=response.headers.get("etag"),
        last_modified=response.headers.get("last-modified"),
    )


def failed(
    candidate: Candidate,
    reason: Reason,
    *,
    kind: Kind | None = None,
    http_status: int | None = None,
    meta: dict[str, object] | None = None,
) -> DownloadOutcome:
    return DownloadOutcome(
        ok=False,
        path=None,
        classification=Classification.ERROR,
        reason=reason,
        kind=kind,
        url=candidate.url,
        resolver=candidate.resolver,
        tier=str(candidate.tier),
        http_status=http_status,
        meta=meta or {},
    )
