"""The table of landing-page rules: where on a page the way to the full text is written, platform by platform.

A rule is data: what it selects (XPath), where it applies, how its value becomes a URL, and an example that the tests
run. The order is the order of trust. To teach the house a publisher, add a row. `extract.py` applies the rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import orjson

from docstokg_assets.plans import Target

_UPPER, _LOWER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Rule:
    technique: str
    target: Target  # LANDING: the page is only a step on the way, this is the next one
    select: str  # XPath giving attribute values or text
    example: str  # a piece of such a page …
    expects: str  # … and what the rule finds on it, when it is /a/1 of its host (or of www.example.org)
    host: str = ""  # applies to this host and its subdomains
    marker: str = ""  # XPath that must find something: the platform's fingerprint
    match: re.Pattern[str] | None = None  # the value must match; …
    template: str | None = None  # … and becomes this
    label: re.Pattern[str] | None = None  # the words of the link must match
    read: Callable[[str], Iterable[str]] | None = None  # takes the values out of a longer text
    # For rules that guess: what stands among references or supplements is not the article.
    guesses: bool = False


def _lower(attribute: str) -> str:
    return f"translate({attribute},'{_UPPER}','{_LOWER}')"


def _meta(name: str) -> str:
    return f"//meta[{_lower('@name')}='{name}' or {_lower('@property')}='{name}']/@content"


def _generator(word: str) -> str:
    return f"//meta[{_lower('@name')}='generator'][contains({_lower('@content')},'{word}')]"


def _meta_rule(name: str, target: Target, extension: str) -> Rule:
    example = f'<meta name="{name}" content="/a/1.{extension}">'
    return Rule(name, target, _meta(name), example, f"https://www.example.org/a/1.{extension}")


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


def _json_ld_files(script: str) -> Iterator[str]:
    """Addresses of PDFs in schema.org descriptions: `encoding` (or an associated medium) with a `contentUrl`."""
    try:
        pending: list[Any] = [orjson.loads(script)]
    except ValueError:
        return
    while pending:
        node = pending.pop(0)
        if isinstance(node, list):
            pending.extend(node)
        elif isinstance(node, dict):
            url, kind = node.get("contentUrl"), str(node.get("encodingFormat") or node.get("fileFormat") or "")
            if isinstance(url, str) and ("pdf" in kind.lower() or (not kind and url.lower().endswith(".pdf"))):
                yield url
            pending.extend(
                node.get(key) for key in ("@graph", "encoding", "associatedMedia", "mainEntity", "distribution")
            )


_PDF_FILE = _pattern(r"[^?#]{0,2000}\.pdf(?:[?#].{0,2000})?")
# The words before and behind "PDF" on a link to the article, in the languages of the large national platforms.
_BEFORE_PDF = (
    "download|view|open|get|read|full|text|article|paper|as|the|this|in|free|télécharger|texte|intégral|le|en|descargar"
    "|ver|texto|completo|el|artículo|baixar|integral|artigo|herunterladen|volltext|als|scarica|testo"
)
_BEHIND_PDF = "download|full|text|version|article|file|english|inglês|português|español|en|pt|es|fr|de|[0-9.,]+|[km]b"
_PDF_WORDS = _pattern(rf"\W*(?:(?:{_BEFORE_PDF})\W+)*pdf(?:\W+(?:{_BEHIND_PDF}))*\W*")
_REFRESH_URL = _pattern(
    r"\s*(?:[0-9]|10)(?:\.[0-9]*)?\s*[;,]\s*(?:url\s*=\s*)?[\"']?([^\"'\s][^\"']{0,3000}?)[\"']?\s*"
)
_SCRIPTED_HOP = _pattern(
    r"(?:window\.|document\.|top\.|self\.)?location(?:\.href)?\s*(?:=|\.replace\(|\.assign\()\s*[\"']([^\"'\s]{1,3000})[\"']"
)


def _scripted_hops(script: str) -> Iterator[str]:
    """Where a short script sends every visitor. A long one does much else, and goes only where somebody clicks."""
    if len(script) < 1500 and "function" not in script and (match := _SCRIPTED_HOP.search(script)):
        yield match[1]


def _unquoted(value: str) -> Iterator[str]:
    yield unquote(value)


PDF, XML, HTML = Target.PDF, Target.XML, Target.HTML

RULES: tuple[Rule, ...] = (
    # What the page itself declares
    _meta_rule("citation_pdf_url", PDF, "pdf"),
    _meta_rule("bepress_citation_pdf_url", PDF, "pdf"),
    _meta_rule("wkhealth_pdf_url", PDF, "pdf"),
    Rule(
        "eprints.document_url",
        PDF,
        _meta("eprints.document_url"),
        '<meta name="eprints.document_url" content="/id/eprint/1/1/paper.pdf">',
        "https://www.example.org/id/eprint/1/1/paper.pdf",
        match=_PDF_FILE,
    ),
    Rule(
        "dc.identifier",
        PDF,
        _meta("dc.identifier"),
        '<meta name="DC.Identifier" content="https://www.example.org/files/1.pdf">',
        "https://www.example.org/files/1.pdf",
        match=_pattern(r"https?://[^?#]{1,2000}\.pdf"),
    ),
    Rule(
        "link-alternate",
        PDF,
        f"//link[contains({_lower('@rel')},'alternate')][{_lower('@type')}='application/pdf']/@href",
        '<link rel="alternate" type="application/pdf" href="1.pdf">',
        "https://www.example.org/a/1.pdf",
    ),
    Rule(
        "json-ld",
        PDF,
        f"//script[{_lower('@type')}='application/ld+json']/text()",
        '<script type="application/ld+json">{"@type":"ScholarlyArticle","encoding":'
        '{"encodingFormat":"application/pdf","contentUrl":"/a/1/pdf"}}</script>',
        "https://www.example.org/a/1/pdf",
        read=_json_ld_files,
    ),
    # What we know of a platform
    Rule(
        "ojs-galley",
        PDF,
        "//a[contains(concat(' ',@class,' '),' obj_galley_link ')][contains(concat(' ',@class,' '),' pdf ')]/@href",
        '<a class="obj_galley_link pdf" href="/index.php/j/article/view/12/34">PDF</a>',
        "https://www.example.org/index.php/j/article/download/12/34",
        match=_pattern(r"(.{1,2000}/article)/(?:view|download)/([^/?#]+/[^/?#]+)"),
        template=r"\1/download/\2",
    ),
    Rule(
        "ojs-view",
        PDF,
        "//a[contains(@href,'/article/view/')]/@href",
        '<meta name="generator" content="Open Journal Systems 3.3.0.8"><a href="/j/article/view/12/34">Full PDF</a>',
        "https://www.example.org/j/article/download/12/34",
        marker=_generator("open journal systems"),
        match=_pattern(r"(.{0,2000}/article)/view/([^/?#]+/[^/?#]+)"),
        template=r"\1/download/\2",
        label=_pattern(r".{0,60}\bpdf\b.{0,60}"),
        guesses=True,
    ),
    Rule(
        "scielo-pdf",
        PDF,
        "//a[contains(@href,'format=pdf')]/@href",
        '<a href="/j/rsp/a/abc/?format=pdf&amp;lang=en">Download</a>',
        "https://scielo.br/j/rsp/a/abc/?format=pdf&lang=en",
        host="scielo.br",
    ),
    Rule(
        "dspace-bitstream",
        PDF,
        "//a[contains(@href,'/bitstream')]/@href",
        '<a href="/bitstream/handle/1887/1/paper.pdf?sequence=1&amp;isAllowed=y">View/Open</a>',
        "https://www.example.org/bitstream/handle/1887/1/paper.pdf?sequence=1&isAllowed=y",
        match=_pattern(r".{0,2000}/bitstreams?/(?:[^?#]{1,2000}\.pdf(?:\?.*)?|[0-9a-f-]{36}/download)"),
        guesses=True,
    ),
    Rule(
        "eprints-document",
        PDF,
        "//a[contains(concat(' ',@class,' '),' ep_document_link ')]/@href",
        '<a class="ep_document_link" href="/id/eprint/1/1/paper.pdf">Text</a>',
        "https://www.example.org/id/eprint/1/1/paper.pdf",
        match=_PDF_FILE,
    ),
    Rule(
        "atypon-pdf",
        PDF,
        "//a[contains(@href,'/doi/pdf') or contains(@href,'/doi/epdf')]/@href",
        '<a href="/doi/epdf/10.5555/1">PDF</a>',
        "https://www.example.org/doi/pdf/10.5555/1",
        match=_pattern(r"(.{0,2000}/doi)/(?:pdf|epdf|pdfdirect|pdfplus)/([^?#]{1,2000})(?:[?#].*)?"),
        template=r"\1/pdf/\2",
        guesses=True,
    ),
    Rule(
        "silverchair-pdf",
        PDF,
        "//a[contains(concat(' ',@class,' '),' article-pdfLink ') or contains(@href,'/article-pdf/')]/@href",
        '<a class="article-pdfLink" href="/slm/article-pdf/12/3/1/paper.pdf">PDF</a>',
        "https://www.example.org/slm/article-pdf/12/3/1/paper.pdf",
        match=_pattern(r".{0,2000}/article-pdf/.{1,2000}"),
    ),
    # Guesses
    Rule(
        "anchor-words",
        PDF,
        "//a/@href",
        '<a href="/review/1/get">Download <b>PDF</b> (1.2 MB)</a>',
        "https://www.example.org/review/1/get",
        label=_PDF_WORDS,
        guesses=True,
    ),
    Rule(
        "anchor-file",
        PDF,
        "//a/@href",
        '<a href="full.pdf?download=1">Full text</a>',
        "https://www.example.org/a/full.pdf?download=1",
        match=_PDF_FILE,
        guesses=True,
    ),
    # Other forms of the full text
    _meta_rule("citation_xml_url", XML, "xml"),
    _meta_rule("citation_fulltext_html_url", HTML, "html"),
    _meta_rule("citation_full_html_url", HTML, "html"),
    # Steps on the way
    Rule(
        "meta-refresh",
        Target.LANDING,
        f"//meta[{_lower('@http-equiv')}='refresh']/@content",
        '<meta http-equiv="Refresh" content="0; URL=\'/science/1\'">',
        "https://www.example.org/science/1",
        match=_REFRESH_URL,
        template=r"\1",
    ),
    Rule(
        "hidden-redirect",
        Target.LANDING,
        "//input[@name='redirectURL']/@value",
        '<input type="hidden" name="redirectURL" value="https%3A%2F%2Fwww.example.org%2Fscience%2F1">',
        "https://www.example.org/science/1",
        read=_unquoted,
    ),
    Rule(
        "script-redirect",
        Target.LANDING,
        "//script[not(@src)]/text()",
        '<script>window.location.href = "/science/1";</script>',
        "https://www.example.org/science/1",
        read=_scripted_hops,
    ),
)

# Links that are no article although they look like one: the word for `rejected`, and where it shows.
NOT_THE_ARTICLE: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("supplement", _pattern(r"suppl|appendix|additional[-_ ]file|supporting[-_ ]info|mmc[0-9]|esm\b|dataset")),
    ("references", _pattern(r"\brefer?ences?\b|bibliograph|\bciting|\bcited|\breflist|citation-list|ref-list")),
    (
        "related",
        _pattern(
            r"related|recommend|similar|most[-_ ]read|\bissue[-_ ]?pdf|table[-_ ]of[-_ ]contents|\btoc\b|sidebar-ad"
        ),
    ),
    (
        "guidelines",
        _pattern(
            r"guideline|instructions?[-_ ](?:for|to)|for[-_ ]authors|author[-_ ]info|template|terms|policy|policies"
            r"|privacy|copyright|licen[cs]e[-_ ](?:agreement|form)|checklist|brochure|flyer|media[-_ ]kit"
            r"|user[-_ ]guide|manual|help"
        ),
    ),
)
