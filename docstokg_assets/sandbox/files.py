"""Build the files: small valid PDFs, JATS articles, and HTML pages of several styles.

Everything is a pure function of a work and made in microseconds: a PDF is a page of text plus a slice of one shared
block of random bytes. `scenario.py` decides which page has which URL; `hosts/` sets the headers.
"""

from __future__ import annotations

import html
import random
from hashlib import blake2b

from . import titles
from .records import author, institution
from .universe import Work

_BLOCK_SIZE = 256 * 1024
_SMALLEST, _LARGEST = 2_000, 200_000
MARGIN = 1_600  # bytes of a PDF around its filler
ODD_PDFS = ("other", "supplement", "abstract")


class FileMaker:
    """Build the files of works; the only state is the shared block of random bytes."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._block = random.Random(seed).randbytes(_BLOCK_SIZE)

    def etag(self, work: Work, kind: str = "pdf") -> str:
        return f'"{blake2b(f"{self.seed}|{work.code}|{kind}".encode(), digest_size=9).hexdigest()}"'

    def pdf(self, work: Work) -> bytes:
        """Return a valid one-page PDF of 2-200 KB with title and DOI as text and the full title in /Info."""
        size = filler_size(work.rolls[8])
        start = work.rolls[9] % (_BLOCK_SIZE - size)
        return make_pdf(work.title, work.doi or work.id, author(work), self._block[start : start + size], work.code)

    def whole_pdf(self, work: Work) -> bytes:
        """Return a PDF of two pages, where one page alone would be a preview."""
        return make_pdf(work.title, work.doi or work.id, author(work), self._block[:3_000], work.code, pages=2)

    def odd_pdf(self, work: Work, style: str) -> bytes:
        """Return a valid PDF that is not the article: another paper, the supplement, or one page of abstract."""
        title, doi, lines = work.title, work.doi or work.id, _ARTICLE
        if style == "other":
            title, doi = "A catalogue of lighthouses on the northern coast", f"10.555599/lighthouse.{work.code}"
        elif style == "supplement":
            title = f"Supporting Information. {work.title}"
        else:
            lines = ["Abstract", "We will report on measurements that nobody has made yet."]
        return make_pdf(title, doi, author(work), self._block[:2_000], work.code, lines)

    def bench_pdf(self, number: int) -> bytes:
        """Return a PDF for benchmarks: 50-200 KB, different bytes for each number."""
        size = 50_000 + number * 7_919 % 150_000
        return make_pdf(
            f"Benchmark {number}", f"10.5555/bench.{number}", "Nobody", self._block[:size], f"{number:011d}"
        )

    def bench_bytes(self, size: int) -> bytes:
        return (self._block * (size // _BLOCK_SIZE + 1))[:size]


def filler_size(roll: int) -> int:
    """Return a size, log-uniform between the smallest and the largest: many small papers, few large ones."""
    return int(_SMALLEST * (_LARGEST / _SMALLEST) ** (roll / 2**32)) - MARGIN


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


_ARTICLE = ["This article is a work of fiction made for tests.",
            "Methods, results and discussion follow the usual order; all numbers are invented."]  # fmt: skip


def _text_lines(title: str, doi: str, writer: str, body: list[str]) -> str:
    shown = titles.latin(title)
    chunks = [shown[i : i + 80] for i in range(0, len(shown), 80)]
    lines = [*chunks, f"DOI: {doi}", f"By {titles.latin(writer)}", *body]
    return "".join(f"({_escape(line)}) Tj T*\n" for line in lines)


def make_pdf(
    title: str, doi: str, writer: str, filler: bytes, ident: str, lines: list[str] = _ARTICLE, pages: int = 1
) -> bytes:
    content = f"BT /F1 12 Tf 60 760 Td 15 TL\n{_text_lines(title, doi, writer, lines)}ET".encode("latin-1", "replace")
    info = ("\ufeff" + title).encode("utf-16-be", "replace").hex().upper()
    bodies = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%b] /Count %d >>" % (b" ".join([b"3 0 R"] * pages), pages),
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 5 0 R /Resources << /Font << /F1 4 0 R >>"
        b" >> >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Length %d >>\nstream\n%b\nendstream" % (len(content), content),
        f"<< /Title <{info}> /Subject ({_escape(doi)}) /Producer (DocsToKG sandbox) >>".encode("latin-1", "replace"),
        b"<< /Length %d >>\nstream\n%b\nendstream" % (len(filler), filler),
    ]
    parts, offsets, position = [b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"], [], 15
    for number, body in enumerate(bodies, 1):
        part = b"%d 0 obj\n%b\nendobj\n" % (number, body)
        offsets.append(position)
        position += len(part)
        parts.append(part)
    xref = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    parts.append(
        b"xref\n0 %d\n0000000000 65535 f \n%btrailer\n<< /Size %d /Root 1 0 R /Info 6 0 R /ID [<%032d> <%032d>] >>\n"
        b"startxref\n%d\n%%%%EOF\n" % (len(bodies) + 1, xref, len(bodies) + 1, int(ident), int(ident), position)
    )
    return b"".join(parts)


# -- XML and HTML ------------------------------------------------------------------------------------------------------

_PARAGRAPH = ("We describe an experiment that nobody carried out, on samples that do not exist. The results agree "
              "with the "
              "theory in every respect, which is the privilege of invented data. ")  # fmt: skip


def jats(work: Work) -> bytes:
    title = html.escape(titles.latin(work.title) if work.language == "en" else work.title)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<!DOCTYPE article PUBLIC "-//NLM//DTD JATS (Z39.96) Journal Publishing DTD v1.3 20210610//EN" '
        '"JATS-journalpublishing1-3.dtd">\n'
        '<article xmlns:xlink="http://www.w3.org/1999/xlink" article-type="research-article" dtd-version="1.3">'
        f"<front><journal-meta><journal-title-group><journal-title>{html.escape(work.publisher.name)}</journal-title>"
        f'</journal-title-group></journal-meta><article-meta><article-id pub-id-type="doi">'
        f"{html.escape(work.doi or '')}"
        f"</article-id><title-group><article-title>{title}</article-title></title-group><pub-date><year>{work.year}</year>"
        f"</pub-date></article-meta></front><body><sec><title>Introduction</title><p>{_PARAGRAPH * 8}</p></sec>"
        f"<sec><title>Results</title><p>{_PARAGRAPH * 8}</p></sec></body></article>\n"
    ).encode()


def _meta(work: Work) -> str:
    rows = {
        "citation_title": work.title, "citation_author": author(work), "citation_journal_title": work.publisher.name,
        "citation_publication_date": f"{work.date:%Y/%m/%d}", "citation_author_institution": institution(work)[1],
    }  # fmt: skip
    if work.doi:
        rows["citation_doi"] = work.doi
    return "".join(f'<meta name="{k}" content="{html.escape(v)}">\n' for k, v in rows.items())


def _links(file: str, style: str) -> tuple[str, str]:
    """Return the (head, body) markup with which a landing page links to its file."""
    url = html.escape(file)
    if not file:
        return "", '<p class="access">Access through your institution or <a href="/purchase">buy this article</a>.</p>'
    if style == "meta":
        return f'<meta name="citation_pdf_url" content="{url}">\n', f'<a href="{url}">Download</a>'
    if style == "alternate":
        return f'<link rel="alternate" type="application/pdf" title="PDF" href="{url}">\n', ""
    if style == "xml":
        return (f'<meta name="citation_xml_url" content="{url}">\n<link rel="alternate" type="application/xml" '
                f'href="{url}">\n',
                f'<a href="{url}">XML</a>')  # fmt: skip
    if style == "base":
        root, _, rest = url.removeprefix("https://").partition("/")
        return f'<base href="https://{root}/">\n', f'<a class="pdf-link" href="{rest}">Texto completo (PDF)</a>'
    path = "/" + url.removeprefix("https://").partition("/")[2]
    return "", f'<div class="download"><a class="btn pdf" href="{path}">View PDF</a></div>'


def landing(work: Work, file: str, style: str, charset: str = "utf-8") -> bytes:
    head, body = _links(file, style)
    lang = f'lang="{work.language}"' + (' dir="rtl"' if work.language in ("ar", "he") else "")
    page = (
        f'<!DOCTYPE html>\n<html {lang}><head><meta charset="{charset}">\n<title>{html.escape(work.title)}</title>\n'
        f'{_meta(work)}{head}</head>\n<body><header><nav><a href="/">Home</a> <a href="/search">Search</a></nav>'
        f"</header>\n"
        f"<main><h1>{html.escape(work.title)}</h1><p>{html.escape(author(work))}</p>\n<section><h2>Abstract</h2>"
        f"<p>{_PARAGRAPH}</p></section>\n{body}\n"
        '<aside>Related: <a href="/files/supplement.zip">Supplementary data</a></aside></main></body></html>\n'
    )
    return page.encode(charset, "xmlcharrefreplace")


def fulltext(work: Work, url: str) -> bytes:
    sections = "".join(
        f"<section><h2>{name}</h2>{f'<p>{_PARAGRAPH * 4}</p>' * 4}</section>\n"
        for name in ("Abstract", "Introduction", "Methods", "Results", "Discussion", "References")
    )
    return (
        f'<!DOCTYPE html>\n<html lang="{work.language}"><head><meta charset="utf-8"><title>'
        f"{html.escape(work.title)}</title>\n"
        f'{_meta(work)}<meta name="citation_fulltext_html_url" content="{html.escape(url)}">\n</head>\n'
        f'<body><article class="fulltext"><h1>{html.escape(work.title)}</h1>\n{sections}</article></body></html>\n'
    ).encode()


def hop_page(target: str) -> bytes:
    url = html.escape(target)
    return (
        f'<!DOCTYPE html><html><head><title>Redirecting</title><meta http-equiv="refresh" content="0; url=\'{url}\'">'
        f'</head><body><form><input type="hidden" name="redirectURL" id="redirectURL" value="{url}"></form>'
        f'<script>window.location.replace("{url}");</script></body></html>\n'
    ).encode()


WALLS: dict[str, tuple[int, str]] = {
    "cookie": (200, "<html><head><title>Cookies required</title></head><body><h1>Please enable cookies to continue</h1>"
                    "<p>This site uses cookies. Your browser does not accept cookies (cookieAbsent).</p></body>"
                    "</html>"),
    "captcha": (403, "<!DOCTYPE html><html><head><title>Just a moment...</title></head><body><div "
                     "id=\"cf-wrapper\">Checking "
                     "your browser</div><script>window.__cf_chl_opt={};</script><div class=\"g-recaptcha\"></div>"
                     "</body></html>"),
    "login": (200, "<html><head><title>Sign in</title></head><body><h1>Institutional sign in</h1><form "
                   "action=\"/login\" "
                   "method=\"post\"><input name=\"username\"><input type=\"password\" name=\"password\"></form>"
                   "</body></html>"),
    "pow": (200, "<!DOCTYPE html><html><head><title>Preparing to download ...</title></head><body><p>Preparing to "
                 "download "
                 "...</p>\n<script>const POW_CHALLENGE = \"c2FuZGJveA-not-a-real-challenge\"; const "
                 "POW_DIFFICULTY = \"4\"; "
                 "const POW_COOKIE_NAME = \"cloudpmc-viewer-pow\"; /* sha256 loop */</script></body></html>"),
}  # fmt: skip
