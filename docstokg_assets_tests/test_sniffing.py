"""What a body is, from its first bytes."""

from __future__ import annotations

import codecs

import pytest

from docstokg_assets.sniffing import pdf_fault, sniff
from resources.records import Kind

JATS = b'<?xml version="1.0"?><!DOCTYPE article PUBLIC "-//NLM//DTD JATS"><article><front><title-group><title>x</title>'


@pytest.mark.requirement("DL-2")
@pytest.mark.parametrize(
    ("start", "content_type", "kind"),
    [
        (b"%PDF-1.7\n", "application/pdf", Kind.PDF),
        (b"%PDF-1.7\n", "application/octet-stream", Kind.PDF),
        (b"\r\n\r\njunk %PDF-1.4", "application/pdf", Kind.PDF),
        (b"%PDF-1.7\n", "text/html", Kind.PDF_UNKNOWN),
        (b"<!DOCTYPE html><html>", "application/pdf", Kind.HTML),
        (b'<?xml version="1.0"?><html xmlns="x"><head>', "application/xhtml+xml", Kind.HTML),
        (codecs.BOM_UTF16_LE + "<html><body>".encode("utf-16-le"), "text/html", Kind.HTML),
        (b"plain words", "text/html", Kind.HTML),
        (JATS, "application/xml", Kind.XML),
        (JATS, None, Kind.XML),
        (b"<article><front/></article>", "text/xml", Kind.XML),
        (b"<jats:article xmlns:jats='x'>", "application/xml", Kind.XML),
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
    ],
)
def test_a_pdf_is_whole_by_size_and_tail(size: int, tail: bytes, whole: bool) -> None:
    assert (pdf_fault(size, tail) is None) is whole
