"""PDFs for tests: small real ones with what they say of themselves, and such as are made to exhaust whoever reads them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence


def pdf_of(bodies: Sequence[bytes], trailer: bytes = b"") -> bytes:
    """A PDF of these objects, numbered from 1; the first is the catalog."""
    out, offsets = bytearray(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"), []
    for number, body in enumerate(bodies, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    out += b"% padding: no article is as small as this\n" * 30
    start, size = len(out), len(bodies) + 1
    out += b"xref\n0 %d\n0000000000 65535 f \n" % size + b"".join(b"%010d 00000 n \n" % at for at in offsets)
    out += b"trailer\n<< /Size %d /Root 1 0 R %b >>\nstartxref\n%d\n%%%%EOF\n" % (size, trailer, start)
    return bytes(out)


def stream(data: bytes, entries: bytes = b"") -> bytes:
    return b"<< /Length %d %b >>\nstream\n%b\nendstream" % (len(data), entries, data)


def paper(*pages: str, title: str = "", xmp: str = "") -> bytes:
    """A PDF with one page for each text, a line a line, and the title and XMP properties as its metadata."""
    bodies = [b"<< /Type /Catalog /Pages 2 0 R %b >>" % (b"/Metadata 5 0 R" if xmp else b"")]
    kids = b" ".join(b"%d 0 R" % (6 + 2 * n) for n in range(len(pages)))
    bodies.append(b"<< /Type /Pages /Kids [%b] /Count %d >>" % (kids, len(pages)))
    bodies.append(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
    bodies.append(b"<< /Title <%b> >>" % ("\ufeff" + title).encode("utf-16-be").hex().encode())
    bodies.append(stream(f"<x:xmpmeta>{xmp}</x:xmpmeta>".encode(), b"/Type /Metadata /Subtype /XML"))
    for number, text in enumerate(pages):
        escaped = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
        shown = "".join(f"({line}) Tj T*\n" for line in escaped.splitlines())
        bodies.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R" % (7 + 2 * number)
            + b" /Resources << /Font << /F1 3 0 R >> >> >>"
        )
        bodies.append(stream(f"BT /F1 9 Tf 40 800 Td 11 TL\n{shown}ET".encode("cp1252", "replace")))
    return pdf_of(bodies, b"/Info 4 0 R" if title else b"")


def _one_page(contents: bytes, *others: bytes, resources: bytes = b"") -> bytes:
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R /Resources << %b >> >>" % resources
    pages = b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>"
    return pdf_of([b"<< /Type /Catalog /Pages 2 0 R >>", pages, page, contents, *others])


def flate_bomb() -> bytes:
    """Two filters on one stream: some kilobytes become ten gigabytes."""
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(b" " * 2**20) for _ in range(1024)) + packer.flush()
    return _one_page(stream(zlib.compress(packed * 10, 9), b"/Filter [/FlateDecode /FlateDecode]"))


def form_of_words() -> bytes:
    """A page that only shows a form, and in that form, of some kilobytes, forty megabytes of words."""
    return form_of(b"BT /F1 9 Tf " + b"[(a) 1 (b) 2] TJ " * 2_400_000 + b"ET")


def form_of(contents: bytes) -> bytes:
    """A page that only shows a form."""
    form = b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Filter /FlateDecode"
    form += b" /Resources << /Font << /F1 6 0 R >> >>"
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    return _one_page(
        stream(b"/X Do"), stream(zlib.compress(contents, 9), form), font, resources=b"/XObject << /X 5 0 R >>"
    )


def page_tree_in_a_circle() -> bytes:
    return pdf_of([b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 9 >>"])


def nested_arrays() -> bytes:
    return _one_page(b"[" * 200_000 + b"]" * 200_000)


BOMBS = {
    "nested flate streams": flate_bomb,
    "a form full of words": form_of_words,
    "nested arrays": nested_arrays,
}
