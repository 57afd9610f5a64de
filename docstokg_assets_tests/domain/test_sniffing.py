"""What a body is, from its first bytes."""

from __future__ import annotations

import codecs

import pytest

from docstokg_assets.domain.sniffing import pdf_fault, sniff
from resources.records import Kind

JATS = b'<?xml version="1.0"?><!DOCTYPE article PUBLIC "-//NLM//DTD JATS"><article><front><title-group><title>x</title>'


@pytest.mark.requirement("DL-2")
@pytest.mark.parametrize(
    ("start", "content_type", "kind"),
    [
        (b"%PDF-1.7\n", "application/pdf", Kind.PDF),
        (b"%PDF-1.7\n", "application/octet-stream", Kind.PDF),
        (b"\r\n\r\njunk %PDF-1.4", "application/pdf", Kind.PDF),
        (b"x" * 1024 + b"%PDF-1.4", "application/pdf", Kind.PDF),
        (b"x" * 1025 + b"%PDF-1.4", "application/pdf", None),
        (b"<br />\n<b>Warning</b>: in /srv/pdf.php\n%PDF-1.4", "application/pdf", Kind.PDF),
        (b"%PDF-1.7\n", "text/html", Kind.PDF_UNKNOWN),
        (b"<!DOCTYPE html><html>", "application/pdf", Kind.HTML),
        (b'<?xml version="1.0"?><html xmlns="x"><head>', "application/xhtml+xml", Kind.HTML),
        (codecs.BOM_UTF16_LE + "<html><body>".encode("utf-16-le"), "text/html", Kind.HTML),
        (codecs.BOM_UTF16_BE + "<html><body>".encode("utf-16-be"), "application/pdf", Kind.HTML),
        ("<!DOCTYPE html><html>".encode("utf-16-le"), None, Kind.HTML),
        ("<?xml version='1.0'?><article>".encode("utf-16-be"), "application/xml", Kind.XML),
        (b'<?xml version="1.0"?><!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0"><html>', "application/pdf", Kind.HTML),
        (b"plain words", "text/html", Kind.HTML),
        (JATS, "application/xml", Kind.XML),
        (JATS, None, Kind.XML),
        (b"<article><front/></article>", "text/xml", Kind.XML),
        (b"<jats:article xmlns:jats='x'>", "application/xml", Kind.XML),
        (JATS[:60] + b" [" + b"<!ENTITY x 'y'>" * 80, "application/xml", Kind.XML),  # the root comes much later
        (b"<?xml version='1.0'?><!-- <feed> as <html> --><article>", "application/xml", Kind.XML),
        (b"<!-- an <article> --><rss version='2.0'>", "application/xml", None),
        (b'<?xml version="1.0"?><Error><Code>NoSuchKey</Code></Error>', "application/xml", None),
        (b'<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom">', "application/xml", None),
        (b"\x89PNG\r\n", "image/png", None),
        (b"", "application/pdf", None),
        (b"plain words", "text/plain", None),
    ],
)
def test_the_first_bytes_decide(start: bytes, content_type: str | None, kind: Kind | None) -> None:
    assert sniff(start, content_type) is kind


@pytest.mark.requirement("DL-6")
@pytest.mark.parametrize(
    ("size", "tail", "whole"),
    [
        (5000, b"startxref\n123\n%%EOF\n", True),
        (1024, b"%%EOF" + b"\0" * 900, True),
        (1023, b"%%EOF", False),
        (5000, b"no end", False),
        (5000, b"%%EOF\n<p>sorry</p></HTML>", False),
        (5000, b"%%EOF\n<script>track()</script>" + b" " * 1200, False),
        (5000, b"<html in a stream> %%EOF\n", True),
    ],
)
def test_a_pdf_is_whole_by_size_and_tail(size: int, tail: bytes, whole: bool) -> None:
    assert (pdf_fault(size, tail) is None) is whole
