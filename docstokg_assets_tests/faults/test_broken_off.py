"""Transfers that break off and go on where they were, checksums that are stated, and files that are not what they say,
through the whole pipeline. Also faults 29 and 30."""

from __future__ import annotations

import base64
import gzip
import hashlib
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

URL = "http://a.example/1.pdf"
PDF = b"%PDF-1.7\n" + bytes(range(256)) * 4000 + b"\n%%EOF\n"
CUT = 600_000
TYPED = {"Content_Type": "application/pdf"}
RANGES = {**TYPED, "Accept_Ranges": "bytes"}


class Server:
    """Breaks its first answer off, and then does what a server does that knows ranges."""

    def __init__(self, answers: Any, etag: str = '"one"', later: bytes = PDF, later_etag: str | None = None) -> None:
        self._ok, self.etag, self.later, self.later_etag = answers.ok, etag, later, later_etag or etag
        self.breaks = 1

    def __call__(self, request: Any) -> bytes:
        if request.number == 1:
            whole: bytes = self._ok(PDF, **RANGES, ETag=self.etag, Connection="close")
            return whole[: -len(PDF) + CUT]
        wanted = request.headers.get("range")
        if wanted is None or request.headers.get("if-range") != self.later_etag:
            return self.answer(self.later)
        return self.rest(int(wanted.removeprefix("bytes=").removesuffix("-")))

    def answer(self, body: bytes) -> bytes:
        return self._ok(body, **RANGES, ETag=self.later_etag)  # type: ignore[no-any-return]

    def rest(self, start: int) -> bytes:
        told = {"Content_Range": f"bytes {start}-{len(self.later) - 1}/{len(self.later)}", "ETag": self.later_etag}
        return self._ok(self.later[start:], "206 Partial Content", **TYPED, **told)  # type: ignore[no-any-return]


def ranges(got: Any) -> list[str | None]:
    return [request.headers.get("range") for request in got.server.requests]


def whole(got: Any, content: bytes = PDF) -> bool:
    assert (got.reason, got.entry.http_status) == ("ok", 200), got.attempts
    assert got.entry.sha256 == hashlib.sha256(content).hexdigest() and got.entry.bytes == len(content)
    return list(got.files.values()) == [content]


@pytest.mark.requirement("DL-5")
def test_a_transfer_that_breaks_off_goes_on_where_it_was(pull: Callable[..., Any], answers: Any) -> None:
    got = pull(Server(answers), URL, download__chunk_size_bytes=65_536)
    assert whole(got)
    first, second = ranges(got)
    assert first is None and second is not None
    begun = int(second.removeprefix("bytes=").removesuffix("-"))
    assert CUT - 65_536 <= begun <= CUT
    assert got.server.requests[1].headers["if-range"] == '"one"'
    assert [str(record.status) for record in got.attempts] == ["retry", "http-200"]
    assert got.attempts[1].extra["went_on_at"] == begun and got.attempts[1].bytes_written == len(PDF)


@pytest.mark.requirement("DL-5")
def test_a_file_that_has_changed_meanwhile_comes_whole(pull: Callable[..., Any], answers: Any) -> None:
    newer = PDF.replace(b"%PDF-1.7", b"%PDF-1.6")
    got = pull(Server(answers, later=newer, later_etag='"two"'), URL)
    assert whole(got, newer)
    assert ranges(got)[1] is not None  # it was asked for, and everything came


@pytest.mark.requirement("DL-5")
@pytest.mark.parametrize("wrong", ["start", "etag", "size", "unsatisfiable"])
def test_a_rest_that_does_not_fit_is_not_taken(pull: Callable[..., Any], answers: Any, wrong: str) -> None:
    class Confused(Server):
        def rest(self, start: int) -> bytes:
            size, etag = len(PDF) + (wrong == "size"), '"other"' if wrong == "etag" else self.etag
            if wrong == "unsatisfiable":
                return answers.ok(b"", "416 Range Not Satisfiable", Content_Range=f"bytes */{size}")  # type: ignore[no-any-return]
            told = f"bytes {start + (wrong == 'start')}-{len(PDF) - 1}/{size}"
            return answers.ok(PDF[start:], "206 Partial Content", **TYPED, Content_Range=told, ETag=etag)  # type: ignore[no-any-return]

    got = pull(Confused(answers), URL, http__retry__max_attempts=3)
    assert whole(got)
    assert [wanted is not None for wanted in ranges(got)] == [False, True, False]


@pytest.mark.requirement("DL-5")
@pytest.mark.parametrize("told_by", ["Content-Length", "Content-Range"])
def test_less_than_the_whole_rest_is_not_taken_for_it(pull: Callable[..., Any], answers: Any, told_by: str) -> None:
    """A server may answer a range in portions; each is asked for, and what is stored is the whole."""

    class InPortions(Server):
        def __call__(self, request: Any) -> bytes:
            if request.number == 1 and told_by == "Content-Range":  # the first answer does not say how long it is
                head = b'HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\nAccept-Ranges: bytes\r\nETag: "one"\r\n'
                return head + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n%x\r\n%b" % (CUT, PDF[:CUT])
            return super().__call__(request)

        def rest(self, start: int) -> bytes:
            end = min(start + 100_000, len(PDF))
            told = {"Content_Range": f"bytes {start}-{end - 1}/{len(PDF)}", "ETag": self.etag}
            return answers.ok(PDF[start:end], "206 Partial Content", **TYPED, **told)  # type: ignore[no-any-return]

    got = pull(InPortions(answers), URL, http__retry__max_attempts=6, download__chunk_size_bytes=65_536)
    assert whole(got)
    assert len(got.server.requests) > 2


@pytest.mark.requirement("DL-5")
@pytest.mark.parametrize("etag", ['W/"one"', "one", ""])
def test_without_a_strong_validator_the_file_is_asked_for_anew(
    pull: Callable[..., Any], answers: Any, etag: str
) -> None:
    got = pull(Server(answers, etag=etag), URL)
    assert whole(got) and ranges(got) == [None, None]


@pytest.mark.requirement("DL-5")
def test_a_transfer_goes_on_over_several_breaks_and_a_busy_server(pull: Callable[..., Any], answers: Any) -> None:
    class Weak(Server):
        def rest(self, start: int) -> bytes:
            self.breaks += 1
            if self.breaks == 2:
                return answers.ok(b"busy", "503 Service Unavailable")  # type: ignore[no-any-return]
            kept = super().rest(start).replace(b"HTTP/1.1 206 Partial Content", b"HTTP/1.1 206 P\r\nConnection: close")
            return kept if self.breaks > 3 else kept[:-100_000]

    got = pull(Weak(answers), URL, http__retry__max_attempts=5, download__chunk_size_bytes=65_536)
    assert whole(got)
    starts = [int(wanted[6:-1]) for wanted in ranges(got) if wanted is not None]
    assert starts[0] == starts[1] < starts[2] and len(starts) == 3


@pytest.mark.requirement("DL-5")
def test_a_beginning_whose_rest_never_comes_leaves_nothing(pull: Callable[..., Any], answers: Any) -> None:
    class Dead(Server):
        def rest(self, start: int) -> Any:
            return None

    got = pull(Dead(answers), URL)
    assert (got.reason, got.files) == ("conn-error", {})


def test_a_place_in_what_was_unwrapped_is_no_place_in_what_comes(pull: Callable[..., Any], answers: Any) -> None:
    """A gzip without its header: its rest could not be put behind what was made of its beginning."""
    packed = gzip.compress(PDF, 1)

    def answer(request: Any) -> bytes:
        full: bytes = answers.ok(packed, **RANGES, ETag='"one"', Connection="close")
        return full[:-50] if request.number == 1 else full

    got = pull(answer, URL, download__chunk_size_bytes=1024)
    assert whole(got) and ranges(got) == [None, None]


# -- checksums --------------------------------------------------------------------------------------------------------


def b64(algorithm: str, content: bytes = PDF) -> str:
    return base64.b64encode(hashlib.new(algorithm, content).digest()).decode()


RIGHT = {
    "Content-MD5": b64("md5"),
    "Digest": f"adler32=03da0195,SHA-256={b64('sha256')}",
    "Repr-Digest": f"sha-512=:{b64('sha512')}:",
    "Content-Digest": f"unixsum=:AAA=:, sha-256=:{b64('sha256')}:",
}


@pytest.mark.requirement("DL-7")
@pytest.mark.parametrize("name", RIGHT)
def test_a_stated_checksum_is_compared(pull: Callable[..., Any], answers: Any, name: str) -> None:
    stated = {**TYPED, name: RIGHT[name]}
    flipped = PDF.replace(b"\x07", b"\x08", 1)
    got = pull(lambda request: answers.ok(flipped if request.number == 1 else PDF, **stated), URL)
    assert whole(got)
    assert [(str(r.status), r.extra.get("cause")) for r in got.attempts] == [
        ("retry", "checksum-mismatch"),
        ("http-200", None),
    ]


@pytest.mark.requirement("DL-7")
def test_a_checksum_that_never_fits_fails_after_three_retries_and_leaves_nothing(
    pull: Callable[..., Any], answers: Any
) -> None:
    got = pull(answers.ok(PDF, **TYPED, Content_MD5=b64("md5", b"other")), URL, http__retry__max_attempts=4)
    assert (got.reason, got.files, len(got.server.requests)) == ("checksum-mismatch", {}, 4)
    assert got.entry.retry_at is None


@pytest.mark.requirement("DL-7")
@pytest.mark.parametrize("stated", ["nonsense", "AAAA", "=", "\xe9", ""])
def test_a_checksum_that_cannot_be_read_was_not_stated(pull: Callable[..., Any], answers: Any, stated: str) -> None:
    got = pull(answers.ok(PDF, **TYPED, Content_MD5=stated, Digest=f"md5={stated}"), URL)
    assert whole(got)


# -- types ------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("DL-1")
def test_a_file_of_another_type_than_expected_is_skipped(pull: Callable[..., Any], answers: Any) -> None:
    article = b"<?xml version='1.0'?><article>" + b"<p>words</p>" * 300 + b"</article>"
    got = pull(answers.ok(article, Content_Type="application/xml"), URL)
    assert (got.reason, got.files, str(got.entry.classification)) == ("policy-type", {}, "skip")
    assert [str(record.status) for record in got.attempts] == ["content-policy-skip"]


XHTML = b'<?xml version="1.0"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"><body>' + b"<p>words</p>" * 300


@pytest.mark.requirement("DL-6")
@pytest.mark.parametrize(
    "body",
    [b"<html><body>not here</body></html>", XHTML, XHTML.decode().encode("utf-16"), b"%PDF-1.7\n%%EOF\n"],
    ids=["html", "xhtml", "utf-16", "500 bytes"],
)
def test_fault_29_html_served_as_pdf_and_a_tiny_pdf_are_corrupt(
    pull: Callable[..., Any], answers: Any, body: bytes
) -> None:
    got = pull(answers.ok(body, **TYPED), URL)
    assert (got.reason, str(got.entry.kind), got.files) == ("pdf-corrupt", "pdf_corrupt", {})


@pytest.mark.requirement("DL-6")
@pytest.mark.parametrize("layout", ["readable", "cas"])
@pytest.mark.parametrize("behind", [b"<html><body>pay</body></html>", b"\n<!DOCTYPE html><p>" + b"more " * 300])
def test_fault_30_a_pdf_with_html_behind_its_end_is_quarantined_and_its_reason_recorded(
    pull: Callable[..., Any], answers: Any, behind: bytes, layout: str
) -> None:
    spoiled = PDF + behind
    path = f"quarantine/{hashlib.sha256(spoiled).hexdigest()}.pdf"
    got = pull(answers.ok(spoiled, **TYPED), URL, artifacts__layout=layout)
    assert (got.reason, str(got.entry.kind), got.files) == ("pdf-corrupt", "pdf_corrupt", {})
    assert (got.entry.path, got.entry.sha256) == (None, None)
    assert "HTML page" in got.entry.meta["note"] and path in got.entry.meta["note"]
    assert quarantined(got) == {path: spoiled}
    came, verdict = got.attempts
    assert (str(came.status), str(verdict.status)) == ("http-200", "content-policy-skip")
    assert (verdict.work_id, verdict.url, str(verdict.reason)) == ("W1", URL, "pdf-corrupt")
    assert verdict.extra["quarantined"] == path and "HTML page" in verdict.extra["fault"]


@pytest.mark.requirement("DL-6")
def test_fault_30_the_next_copy_is_the_file_of_the_work_and_the_quarantined_one_none(
    pull: Callable[..., Any], answers: Any
) -> None:
    spoiled = PDF + b"<html><body>pay</body></html>"

    def answer(request: Any) -> bytes:
        return answers.ok(spoiled if "a.example" in request.line else PDF, **TYPED)  # type: ignore[no-any-return]

    got = pull(answer, URL, "http://b.example/1.pdf", download__check_pdf=False)
    assert whole(got) and list(quarantined(got).values()) == [spoiled]
    with closing(sqlite3.connect(got.root / "catalog.sqlite3")) as catalog:
        assert catalog.execute("SELECT count(*) FROM artifacts WHERE path LIKE 'quarantine%'").fetchone() == (0,)


@pytest.mark.requirement("DL-6")
@pytest.mark.parametrize(("room", "ending"), [(0, b"<html></html>"), (1 << 30, b"")], ids=["no room", "merely cut off"])
def test_fault_30_what_has_no_room_or_is_merely_broken_is_not_kept(
    pull: Callable[..., Any], answers: Any, room: int, ending: bytes
) -> None:
    got = pull(answers.ok(PDF[:-7] + ending, **TYPED), URL, download__quarantine_bytes=room)
    assert (got.reason, got.files, quarantined(got)) == ("pdf-corrupt", {}, {})


def quarantined(got: Any) -> dict[str, bytes]:
    paths = (got.root / "quarantine").rglob("*")
    return {path.relative_to(got.root).as_posix(): path.read_bytes() for path in paths if path.is_file()}
