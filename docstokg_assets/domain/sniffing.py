"""Detect the kind of a body from its first bytes; from its Content-Type only where the bytes are not enough. Pure."""

from __future__ import annotations

import codecs
import re

from resources.records import Kind

_JUNK_BYTES = 1024  # that a PDF may have before its beginning
SNIFF_BYTES = _JUNK_BYTES + len(b"%PDF-")
_HTML = re.compile(rb"<(?:!doctype\s+html|html|head|body|title|script|meta)\b", re.IGNORECASE)
# a long list of entities may come before the root
_ROOT = re.compile(rb"<(?:!doctype\s+)?([A-Za-z_][\w.:-]*)", re.IGNORECASE)
_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_FULL_TEXT_ROOTS = frozenset(
    {b"article", b"pmc-articleset", b"tei", b"teicorpus", b"book-part", b"full-text-retrieval-response"}
)
_ENDS_AS_HTML, _HTML_BEHIND = "ends as an HTML page", "has an HTML page behind its end"
TWO_IN_ONE = frozenset({_ENDS_AS_HTML, _HTML_BEHIND})
_PDF_TYPES = (None, "application/pdf", "application/x-pdf", "application/octet-stream", "binary/octet-stream")
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def sniff(start: bytes, content_type: str | None) -> Kind | None:
    """The kind of a body that begins with `start` (at least SNIFF_BYTES of it, or all); None for any other.

    XML counts only when its root is that of an article: feeds, error messages and metadata are no full text.
    """
    if b"%PDF-" in start[:SNIFF_BYTES]:
        return Kind.PDF if content_type in _PDF_TYPES else Kind.PDF_UNKNOWN
    text = _COMMENT.sub(b"", _as_utf8(start)).lstrip()
    root = _ROOT.search(text)
    name = root.group(1).lower().rpartition(b":")[2] if root is not None else b""
    if name in _FULL_TEXT_ROOTS and content_type != "text/html":
        return Kind.XML
    if text.startswith(b"<?xml") and name != b"html":
        return None
    return Kind.HTML if _HTML.search(text) or (content_type == "text/html" and text) else None


def _as_utf8(start: bytes) -> bytes:
    for bom, encoding in _BOMS:
        if start.startswith(bom):
            return start.decode(encoding, "ignore").encode()
    silent = {b"<\0": "utf-16-le", b"\0<": "utf-16-be"}.get(start[:2])
    return start.decode(silent, "ignore").encode() if silent else start


def pdf_fault(size: int, tail: bytes) -> str | None:
    """Why a PDF of `size` bytes with these last bytes is corrupt, or None. Those of TWO_IN_ONE are something else as well."""
    if size < 1024:
        return f"only {size} bytes"
    if b"</html" in tail[-1024:].lower():
        return _ENDS_AS_HTML
    _, marker, behind = tail.rpartition(b"%%EOF")
    if not marker:
        return "has no end marker"
    return _HTML_BEHIND if _HTML.search(behind) else None
