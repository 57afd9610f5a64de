"""Faults 4 to 8, 21, 22, 28 and 32: bodies that lie, and what is left of them, through the whole pipeline."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from resources.http.errors import BodyTooLarge, BodyTruncated
from resources.http.messages import Request, Role

URL = "http://a.example/1.pdf"
OTHER = "http://b.example/1.pdf"
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\nTransfer-Encoding: chunked\r\n\r\n"
CLOSING = b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\nConnection: close\r\n\r\n"
WALLS = {
    "blocked-cookie": b"<html><title>Cookies required</title><p>Please enable cookies.</p></html>",
    "blocked-captcha": b'<html><title>One moment</title><div class="g-recaptcha"></div></html>',
    "blocked-login": b'<html><title>Sign in</title><form><input type="password"></form></html>',
    "blocked-pow": b'<html><title>Preparing to download ...</title><script>const POW_CHALLENGE = "x";</script></html>',
}


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@pytest.mark.requirement("DL-5")
def test_fault_04_a_gzip_that_was_cut_is_truncated_though_its_length_is_right(
    pull: Callable[..., Any], answers: Any, pdf: bytes
) -> None:
    cut = gzip.compress(pdf)[:-9]
    got = pull(answers.ok(cut, Content_Encoding="gzip", Content_Type="application/pdf"), URL)
    assert (got.reason, got.files) == ("truncated", {})
    assert [record.extra["cause"] for record in got.attempts] == ["truncated"] * 2  # asked again, then given up


@pytest.mark.requirement("DL-5")
def test_fault_05_a_body_shorter_than_its_length_leaves_no_file(
    pull: Callable[..., Any], answers: Any, pdf: bytes
) -> None:
    short = answers.ok(pdf, Content_Type="application/pdf", Connection="close")[:-10]
    got = pull(short, URL)
    assert (got.reason, got.files) == ("size-mismatch", {})
    assert str(got.attempts[-1].status) == "size-mismatch"


@pytest.mark.requirement("DL-6")
@pytest.mark.parametrize("cut", [2000, -6])
def test_fault_06_a_pdf_without_length_that_ends_early_fails_its_tail_check(
    pull: Callable[..., Any], pdf: bytes, cut: int
) -> None:
    got = pull(CLOSING + pdf[:cut], URL)
    assert (got.reason, str(got.entry.kind), got.files) == ("pdf-corrupt", "pdf_corrupt", {})


@pytest.mark.requirement("HTTP-2")
def test_fault_07_a_broken_chunk_is_asked_for_again_and_the_file_is_whole(pull: Callable[..., Any], pdf: bytes) -> None:
    broken = [CHUNKED.replace(b"Transfer", b"Connection: close\r\nTransfer") + chunk(pdf[:3000]) + b"zz\r\nnonsense"]
    whole = CHUNKED + chunk(pdf[:3000]) + chunk(pdf[3000:]) + b"0\r\n\r\n"
    got = pull(lambda request: broken if request.number == 1 else whole, URL)
    assert got.reason == "ok" and list(got.files.values()) == [pdf]
    assert [str(record.status) for record in got.attempts] == ["retry", "http-200"]
    assert got.attempts[0].extra["cause"] == "truncated"


@pytest.mark.requirement("DL-5")
def test_fault_08_an_endless_body_is_cut_at_the_cap(pull: Callable[..., Any], pdf: bytes) -> None:
    endless = [CHUNKED + chunk(pdf)] + [chunk(b"y" * 65_536)] * 4000
    got = pull(endless, URL, download__max_bytes=2_000_000)
    assert (got.reason, got.files) == ("too-large", {})
    assert len(got.server.requests) == 1


# -- names and places -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("DL-9")
@pytest.mark.parametrize(
    "name",
    ['"../../../etc/passwd"', '"a\x00b.pdf"', '"CON.pdf"', "CON", "\"a.html\"; filename*=UTF-8''..%2F..%2Fx.exe"],
)
def test_fault_21_the_name_of_a_file_comes_from_its_work(
    pull: Callable[..., Any], answers: Any, pdf: bytes, name: str
) -> None:
    answer = answers.ok(pdf, Content_Type="application/pdf", Content_Disposition=f"attachment; filename={name}")
    got = pull(answer, URL)
    if "\x00" in name:  # no header may hold it; whether the answer is taken or not, no such name is
        assert got.reason in ("ok", "protocol-error")
    else:
        assert list(got.files) == ["PDF/2024__a-title__W1.pdf"]
    assert all(path.startswith("PDF/2024__") for path in got.files)


@pytest.mark.requirement("DL-4")
@pytest.mark.parametrize("aim", ["file", "folder", "nothing"])
def test_fault_22_a_link_waiting_at_the_target_is_not_followed(
    pull: Callable[..., Any], answers: Any, pdf: bytes, tmp_path: Path, aim: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    victim = outside / "victim"
    victim.write_bytes(b"precious")
    waits_for = {"file": victim, "folder": outside, "nothing": outside / "new"}[aim]

    def lay(root: Path) -> None:
        (root / "PDF").mkdir(parents=True)
        (root / "PDF" / "2024__a-title__W1.pdf").symlink_to(waits_for)

    got = pull(answers.ok(pdf, Content_Type="application/pdf"), URL, before=lay)
    assert got.reason == "ok" and list(got.files.values()) == [pdf]
    assert not (got.root / "PDF" / "2024__a-title__W1.pdf").is_symlink()
    assert victim.read_bytes() == b"precious" and list(outside.iterdir()) == [victim]


# -- walls ------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize("reason", WALLS)
def test_fault_28_a_wall_with_status_200_is_not_stored_and_the_next_tier_is_tried(
    pull: Callable[..., Any], answers: Any, pdf: bytes, reason: str
) -> None:
    wall = answers.ok(WALLS[reason], Content_Type="text/html")
    page = answers.ok(
        b'<html><meta name="citation_pdf_url" content="http://b.example/1.pdf"></html>', Content_Type="text/html"
    )
    plan = {URL: wall, "http://b.example/": page, OTHER: answers.ok(pdf, Content_Type="application/pdf")}

    def answer(request: Any) -> bytes:
        return plan[request.path]  # type: ignore[no-any-return]

    got = pull(answer, URL, landing="http://b.example/")
    assert (got.reason, got.entry.tier) == ("ok", "landing_scrape")
    assert list(got.files.values()) == [pdf]


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize("reason", WALLS)
@pytest.mark.parametrize("named", ["text/html", "application/pdf"])
def test_fault_28_a_wall_alone_is_the_reason(pull: Callable[..., Any], answers: Any, reason: str, named: str) -> None:
    got = pull(answers.ok(WALLS[reason], Content_Type=named), URL)
    assert (got.reason, got.files) == (reason, {})


# -- gzip that nobody announced ---------------------------------------------------------------------------------------


def archive(name: str, content: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()


@pytest.mark.requirement("DL-3")
def test_fault_32_a_gzip_without_its_header_is_unwrapped_and_the_hash_is_of_what_is_stored(
    pull: Callable[..., Any], answers: Any, pdf: bytes
) -> None:
    got = pull(answers.ok(gzip.compress(pdf), Content_Type="application/pdf"), URL)
    assert got.reason == "ok" and list(got.files.values()) == [pdf]
    assert got.entry.sha256 == hashlib.sha256(pdf).hexdigest()
    assert got.entry.bytes == len(pdf)


def test_fault_32_a_page_is_unwrapped_in_pieces_of_any_size(
    polite: Callable[..., Any], serve: Callable[..., Any]
) -> None:
    page = b"<html><p>" + b"words " * 3000 + b"</html>"
    body = gzip.compress(page)
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    client = polite()
    for size in (1, 2, 100, len(body)):
        pieces = b"".join(chunk(body[at : at + size]) for at in range(0, len(body), size))
        server = serve(head + pieces + b"0\r\n\r\n")
        assert client.ask(Request(server.url, Role.LANDING)).body == page


def test_fault_32_once_and_no_deeper(polite: Callable[..., Any], serve: Callable[..., Any], answers: Any) -> None:
    inner = gzip.compress(b"<html>page</html>")
    server = serve(answers.ok(gzip.compress(inner)))
    assert polite().ask(Request(server.url, Role.LANDING)).body[:2] == b"\x1f\x8b"


@pytest.mark.parametrize("name", ["figure.pdf", "index.html"])
def test_fault_32_an_archive_is_no_article_though_one_is_in_it(
    pull: Callable[..., Any], answers: Any, pdf: bytes, name: str
) -> None:
    content = pdf if name.endswith("pdf") else b"<html><body>" + b"words " * 500
    got = pull(answers.ok(archive(name, content), Content_Type="application/pdf"), URL)
    assert (got.reason, got.files) == ("unexpected-ct", {})


def test_fault_32_the_caps_hold_inside(polite: Callable[..., Any], serve: Callable[..., Any], answers: Any) -> None:
    big = gzip.compress(b"<html>" + b"a" * 3_000_000)
    client = polite(http={"max_page_bytes": 5_000_000, "retry": {"max_attempts": 1}})
    with pytest.raises(BodyTooLarge):
        client.ask(Request(serve(answers.ok(big)).url, Role.LANDING, max_bytes=1_000_000))
    with pytest.raises(BodyTruncated):
        client.ask(Request(serve(answers.ok(big[:-4])).url, Role.LANDING))
