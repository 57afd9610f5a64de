"""One candidate from its answer to a durable file: what is hashed, refused, quarantined, and that nothing is left behind."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from docstokg_assets.domain.plans import Candidate, Target, Tier
from docstokg_assets.domain.works import Work
from docstokg_assets.engine.download import (
    ArtifactSink,
    DownloadStreamResult,
    finalize_candidate_download,
    prepare_candidate_download,
    still_current,
    stream_candidate_payload,
)
from resources.artifacts.file_system import FileSystemStore
from resources.http.errors import BodyTooLarge, ChecksumMismatch, ContentRefused
from resources.http.messages import Response, ResponseHead
from resources.records import Classification, DownloadOutcome, Kind, Reason

WORK = Work("W1", title="On the Growth of Ice", year=2024)
CANDIDATE = Candidate(
    "https://a.example/1.pdf", "openalex", Tier.DIRECT_OA, license="cc-by", version="publishedVersion"
)
PDF = b"%PDF-1.7\n" + b"x" * 5000 + b"\nstartxref\n9\n%%EOF\n"
LIMITS = 100_000, 20_000  # bytes of a file, and of a page


@pytest.fixture
def store(tmp_path: Path) -> FileSystemStore:
    return FileSystemStore(tmp_path)


def head(content_type: str = "application/pdf", status: int = 200, **headers: str) -> ResponseHead:
    return ResponseHead(status, CANDIDATE.url, {"content-type": content_type, **headers})


def pieces(body: bytes, size: int = 700) -> Iterator[bytes]:
    return (body[at : at + size] for at in range(0, len(body), size))


def received(store: FileSystemStore, body: bytes, at: ResponseHead | None = None) -> DownloadStreamResult:
    sink = ArtifactSink(at or head(), store, *LIMITS)
    for piece in pieces(body):
        sink.write(piece)
    return sink.finish()


def finalized(store: FileSystemStore, body: bytes, at: ResponseHead | None = None) -> DownloadOutcome:
    at = at or head()
    stream = received(store, body, at)
    return finalize_candidate_download(WORK, CANDIDATE, Response(200, at.url, at.headers, payload=stream), store)


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@pytest.mark.requirement("DL-3")
@pytest.mark.requirement("DL-9")
def test_a_good_pdf_is_hashed_while_it_is_written_and_named_after_its_work(
    store: FileSystemStore, tmp_path: Path
) -> None:
    outcome = finalized(store, PDF)
    assert files(tmp_path) == ["PDF/2024__on-the-growth-of-ice__W1.pdf"]
    stored = (tmp_path / files(tmp_path)[0]).read_bytes()
    assert stored == PDF
    assert (outcome.sha256, outcome.content_length) == (hashlib.sha256(stored).hexdigest(), len(stored))
    assert (outcome.classification, outcome.reason, outcome.kind) == (Classification.SUCCESS, Reason.OK, Kind.PDF)
    assert (outcome.license, outcome.version) == ("cc-by", "publishedVersion")


@pytest.mark.requirement("DL-3")
def test_further_hashes_are_made_while_writing_when_they_are_asked_for(store: FileSystemStore) -> None:
    assert finalized(store, PDF).meta == {}
    sink = ArtifactSink(head(), store, *LIMITS, also_hash=("sha1", "md5"))
    sink.write(PDF)
    response = Response(200, CANDIDATE.url, {}, payload=sink.finish())
    outcome = finalize_candidate_download(WORK, CANDIDATE, response, store)
    assert outcome.meta == {"sha1": hashlib.sha1(PDF).hexdigest(), "md5": hashlib.md5(PDF).hexdigest()}


@pytest.mark.requirement("DL-7")
@pytest.mark.parametrize("algorithm", ["md5", "sha1", "sha256"])
def test_a_checksum_that_came_with_the_candidate_is_compared(
    store: FileSystemStore, tmp_path: Path, algorithm: str
) -> None:
    stated = f"{algorithm}:{hashlib.new(algorithm, PDF).hexdigest().upper()}"
    for body, whole in ((PDF, True), (PDF.replace(b"x", b"y", 1), False)):
        sink = ArtifactSink(head(), store, *LIMITS, prepare_candidate_download(replace(CANDIDATE, checksum=stated)))
        sink.write(body)
        if whole:
            sink.finish()
        else:
            with pytest.raises(ChecksumMismatch):
                sink.finish()
        sink.abort()
    page = ArtifactSink(
        head("text/html"), store, *LIMITS, prepare_candidate_download(replace(CANDIDATE, checksum=stated))
    )
    page.write(b"<html>a wall</html>")
    assert page.finish().kind is Kind.HTML  # what the page is, is for others to say
    assert files(tmp_path) == []


@pytest.mark.requirement("DL-9")
def test_by_hash_the_readable_name_is_told_besides(tmp_path: Path) -> None:
    outcome = finalized(FileSystemStore(tmp_path, "cas"), PDF)
    sha256 = hashlib.sha256(PDF).hexdigest()
    assert files(tmp_path) == [outcome.path] == [f"cas/{sha256[:2]}/{sha256[2:4]}/{sha256}.pdf"]
    assert outcome.meta == {"name": "PDF/2024__on-the-growth-of-ice__W1.pdf"}


@pytest.mark.requirement("DL-1")
def test_a_plan_says_what_is_expected_and_the_stream_is_exactly_one_get(store: FileSystemStore) -> None:
    plan = prepare_candidate_download(CANDIDATE)
    assert (plan.url, plan.resolver_name, plan.expected_mime) == (CANDIDATE.url, "openalex", "application/pdf")
    stream = stream_candidate_payload(plan, store, *LIMITS)
    request = next(stream)
    assert (request.verb, request.role, request.sink is not None) == ("GET", "artifact", True)
    with pytest.raises(StopIteration) as done:
        stream.send(Response(404, CANDIDATE.url, {}))
    assert done.value.value.status == 404


@pytest.mark.requirement("DL-6")
@pytest.mark.parametrize("body", [PDF[:500], PDF[:3000], PDF + b"<html>error</html>"])
def test_a_corrupt_pdf_is_not_kept(store: FileSystemStore, tmp_path: Path, body: bytes) -> None:
    outcome = finalized(store, body)
    assert (outcome.ok, outcome.reason, outcome.kind) == (False, Reason.PDF_CORRUPT, Kind.PDF_CORRUPT)
    assert files(tmp_path) == []


@pytest.mark.requirement("DL-5")
def test_a_file_that_is_announced_too_large_is_refused_before_a_byte_is_read(store: FileSystemStore) -> None:
    with pytest.raises(ContentRefused) as refused:
        ArtifactSink(head(**{"content-length": "100001"}), store, *LIMITS)
    assert refused.value.reason is Reason.POLICY_SIZE


@pytest.mark.requirement("DL-5")
def test_a_body_that_does_not_end_is_cut_at_the_cap_and_leaves_nothing(store: FileSystemStore, tmp_path: Path) -> None:
    sink = ArtifactSink(head(), store, *LIMITS)
    sink.write(PDF)
    with pytest.raises(BodyTooLarge):
        for _ in range(1000):
            sink.write(b"x" * 1000)
    sink.abort()
    sink.abort()
    assert files(tmp_path) == []


def test_what_is_no_full_text_is_not_read_to_its_end(store: FileSystemStore, tmp_path: Path) -> None:
    sink = ArtifactSink(head("image/png"), store, *LIMITS)
    with pytest.raises(ContentRefused) as refused:
        sink.write(b"\x89PNG" * 400)
    assert refused.value.reason is Reason.UNEXPECTED_CT
    assert files(tmp_path) == []


def test_an_empty_202_of_a_firewall_is_a_wall(store: FileSystemStore) -> None:
    challenge = head("text/html", status=202, **{"x-amzn-waf-action": "challenge"})
    with pytest.raises(ContentRefused) as refused:
        ArtifactSink(challenge, store, *LIMITS).finish()
    assert refused.value.reason is Reason.BLOCKED_WAF


def test_an_html_answer_stays_in_memory_until_it_is_wanted(store: FileSystemStore, tmp_path: Path) -> None:
    page = b"<!doctype html><html><body>" + b"words " * 400 + b"</body></html>"
    stream = received(store, page, head("text/html"))
    assert (stream.kind, stream.page, stream.path_tmp, files(tmp_path)) == (Kind.HTML, page, None, [])
    outcome = finalized(store, page, head("text/html"))
    assert files(tmp_path) == ["HTML/2024__on-the-growth-of-ice__W1.html"]
    assert outcome.sha256 == hashlib.sha256(page).hexdigest()


def test_a_jats_article_is_stored_as_xml(store: FileSystemStore, tmp_path: Path) -> None:
    article = b'<?xml version="1.0"?><article><body>' + b"<p>words</p>" * 200 + b"</body></article>"
    candidate = Candidate("https://a.example/1.xml", "crossref", Tier.DIRECT_OA, Target.XML)
    at = head("application/xml")
    stream = received(store, article, at)
    outcome = finalize_candidate_download(WORK, candidate, Response(200, at.url, at.headers, payload=stream), store)
    assert (outcome.ok, outcome.kind, files(tmp_path)) == (True, Kind.XML, ["XML/2024__on-the-growth-of-ice__W1.xml"])


@pytest.mark.parametrize(
    ("status", "reason"),
    [(404, Reason.HTTP_4XX), (403, Reason.HTTP_4XX), (503, Reason.HTTP_5XX), (429, Reason.RATE_LIMITED)],
)
def test_a_status_that_is_no_success_is_the_reason(store: FileSystemStore, status: int, reason: Reason) -> None:
    outcome = finalize_candidate_download(WORK, CANDIDATE, Response(status, CANDIDATE.url, {}), store)
    assert (outcome.ok, outcome.reason, outcome.http_status) == (False, reason, status)


@pytest.mark.requirement("HTTP-7")
def test_a_copy_that_has_not_changed_is_skipped_and_nothing_is_stored(store: FileSystemStore, tmp_path: Path) -> None:
    plan = replace(prepare_candidate_download(CANDIDATE), etag='"1"', last_modified="Mon, 01 Jan 2024 00:00:00 GMT")
    request = next(stream_candidate_payload(plan, store, *LIMITS))
    assert request.headers == {"If-None-Match": '"1"', "If-Modified-Since": "Mon, 01 Jan 2024 00:00:00 GMT"}
    answer = Response(304, CANDIDATE.url, {"etag": '"1"'})
    validators = {"etag": plan.etag, "last_modified": plan.last_modified}
    kept = DownloadOutcome(True, None, Classification.SUCCESS, Reason.OK, sha256="abc", **validators)
    outcome = still_current(CANDIDATE, answer, kept)
    assert (outcome.classification, outcome.reason, outcome.ok) == (Classification.SKIP, Reason.NOT_MODIFIED, True)
    assert (outcome.path, outcome.http_status, outcome.etag) == (None, 304, '"1"') and files(tmp_path) == []
    assert outcome.last_modified == plan.last_modified, "a 304 need not repeat what has not changed"


@pytest.mark.parametrize("status", [302, 304])
def test_a_redirect_to_nowhere_or_an_unasked_not_modified_is_no_file(store: FileSystemStore, status: int) -> None:
    outcome = finalize_candidate_download(WORK, CANDIDATE, Response(status, CANDIDATE.url, {}), store)
    assert (outcome.ok, outcome.reason) == (False, Reason.PROTOCOL_ERROR)
