"""The rule table: where on a page the link to the full text is, and what a rule is.

A rule is data: what it looks at, where it applies, how its value becomes an address, and an example that the tests run.
The order is the order of trust: what the page declares, then what is known of platforms (`platforms.py`), then what leads
to XML, to HTML, or only to the next page. `link_scoring.py` scores links that no rule knows. docs/landing.md describes how to
write a rule.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Any
from urllib.parse import parse_qs, unquote, urljoin

import orjson

from docstokg_assets.domain.plans import Target
from docstokg_assets.landing.page import PDF_META
from docstokg_assets.landing.page_state import files_in_state, has_data

EXAMPLE_PAGE = "https://www.example.org/a/1"
PDF, XML, HTML, STEP = Target.PDF, Target.XML, Target.HTML, Target.LANDING  # a STEP leads to the next page


class On(Enum):
    """What a rule looks at."""

    META = "the content of the metas of a name"
    LINK = "the addresses of <link> elements of a type"
    ANCHOR = "what can be clicked"
    FRAME = "what is shown in a frame"
    SCRIPT = "the text of scripts"
    FIELD = "the value of a hidden field"
    ADDRESS = "the page's own address"


Reader = Callable[[str], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Rule:
    technique: str
    target: Target
    on: On
    example: str  # a piece of such a page …
    expects: str  # … and what the rule finds on it …
    page: str = EXAMPLE_PAGE  # … at this address
    name: str = ""  # of the meta or field; the type of a link; a class or id of an anchor
    host: str = ""  # applies to this host and its subdomains
    generator: str = ""  # applies to pages made by this software
    part: str = ""  # a text that the URL must contain, in lower case; checked first, because it is cheap
    match: re.Pattern[str] | None = None  # a pattern that must be found in the URL; …
    template: str | None = None  # … what it matches is replaced by this
    label: re.Pattern[str] | None = None  # a pattern that must be found in the text of the link
    read: Reader | None = None  # extracts URLs from a longer text
    certain: bool = False  # the page declares it: the surroundings of the link do not matter


def pattern(text: str) -> re.Pattern[str] | None:
    return re.compile(text, re.IGNORECASE) if text else None


def declared(name: str, target: Target, ending: str, match: str = "") -> Rule:
    """What a page declares in a meta element."""
    example, address = f'<meta name="{name}" content="/x/1.{ending}">', f"https://www.example.org/x/1.{ending}"
    return Rule(name, target, On.META, example, address, name=name, match=pattern(match), certain=True)


def link(technique: str, name: str, href: str, match: str = "", target: Target = PDF) -> Rule:
    """What a page declares in a <link> element; `name` is its `rel` and its type."""
    rel, _, kind = name.partition(" ")
    example, expects = f'<link rel="{rel}" type="{kind}" href="{href}">', urljoin(EXAMPLE_PAGE, href)
    return Rule(technique, target, On.LINK, example, expects, name=name, match=pattern(match), certain=True)


def script(technique: str, text: str, expects: str, read: Reader, target: Target = PDF, **fields: Any) -> Rule:
    """What the text of a script holds; `name` is the type of the script. `fields` are further fields of the Rule."""
    example = f'<script type="{fields.get("name", "")}">{text}</script>'
    address = urljoin(fields.get("page", EXAMPLE_PAGE), expects)
    return Rule(technique, target, On.SCRIPT, example, address, read=read, **fields)


def frame(technique: str, shown: str, expects: str, match: str = "", target: Target = PDF, **fields: Any) -> Rule:
    """What a frame shows; `name` is its type. `fields` are further fields of the Rule."""
    address = urljoin(EXAMPLE_PAGE, expects)
    return Rule(technique, target, On.FRAME, f"<{shown}>", address, match=pattern(match), **fields)


def anchor(
    technique: str, href: str, part: str = "", match: str = "", template: str | None = None, *, name: str = "",
    host: str = "", generator: str = "", label: str = "", says: str = "", page: str = "", expects: str = "",
    target: Target = PDF, attribute: str = "href",
) -> Rule:  # fmt: skip
    """Something to click. The example is made of `href` (what `attribute` holds) and of what the link `says`; a link to another
    site must offer a PDF to be taken for one."""
    page = page or (f"https://{host}/a/1" if host else EXAMPLE_PAGE)
    says = says or ("Download PDF" if target is PDF and href.startswith("http") else "x")
    example = f'<a class="{name}" {attribute}="{html.escape(href)}">{says}</a>'
    if generator:
        example = f'<meta name="generator" content="{generator}">{example}'
    return Rule(
        technique, target, On.ANCHOR, example, urljoin(page, expects or href), page, name, host, generator, part,
        pattern(match), template, pattern(label), certain=target is STEP,
    )  # fmt: skip


_JSON_LD_PARTS = ("@graph", "encoding", "encodings", "associatedMedia", "mainEntity", "distribution")


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
            pending.extend(node.get(key) for key in _JSON_LD_PARTS)


_STATE_KEYS = (
    "linkToPdf|pdfPath|pdfUrl|pdf_url|pdfURL|pdfLink|pdf_link|pdfHref|articlePdfUrl|fullTextPdfUrl|exportPdfDownloadUrl"
)
_STATE_URL = re.compile(rf"[\"']?\b(?:{_STATE_KEYS})[\"']?\s{{0,9}}[:=]\s{{0,9}}[\"']([^\"'\s<>]{{4,1500}})[\"']")
_SCIENCEDIRECT_KEYS = ("path", "pii", "pdfExtension", "md5", "pid")
_SCIENCEDIRECT = tuple(re.compile(rf'"{key}":"([^"\s]{{1,200}})"') for key in _SCIENCEDIRECT_KEYS)
_NAMED_FILE = re.compile(r'"name":"[^"]{1,300}\.pdf"[^{}]{0,600}"downloadUrl":"([^"\s]{8,1000})"')
_REFRESH_URL = pattern(
    r"^\s*(?:[0-9]|10)(?:\.[0-9]{0,3})?\s*[;,]\s*(?:url\s*=\s*)?[\"']?([^\"'\s][^\"']{0,3000}?)[\"']?\s*$"
)
_SCRIPTED_HOP = re.compile(
    r"(?i)(?:window\.|document\.|top\.|self\.)?location(?:\.href)?\s{0,9}(?:=|\.replace\(|\.assign\()"
    r"\s{0,9}[\"']([^\"'\s]{1,3000})[\"']"
)
_JOURNAL_URL = re.compile(r"\bjournalURL\s{0,9}=\s{0,9}[\"'](https?://[^\"'\s]{4,1500})[\"']")
_XML_LABEL = (
    r"^(?:(?:download|view|full|text|article|jats|nlm|the|as)[ -]){0,5}\W?xml"
    r"(?: \W?(?:file|version|full|text|download|nlm|jats)\W?){0,4}\W?$"
)
_PUBLISHER_LABEL = (
    r"^(?:publisher|journal)'?s? (?:web ?site|page|version|full text)$"
    r"|^(?:access|view|read) (?:the )?(?:article|paper|full text) (?:at|on|from) "
)
_FULL_TEXT_LABEL = (
    r"^(?:(?:view|read|go to|see|display|open) )?(?:the )?(?:full[ -]?text|full article|article html|html)"
    r"(?: \W?(?:html|article|version|online|full[ -]?text|xhtml)\W?){0,3}$"
    r"|^(?:texto completo|texte intégral|volltext)(?: \W?html\W?)?$"
)


def unescaped(value: str) -> str:
    """A value from inside a script, its escapes read as JSON reads them."""
    try:
        return str(orjson.loads(f'"{value}"'))
    except ValueError:
        return value


def _in_script(found: re.Pattern[str], most: int = 1) -> Reader:
    """Read the first group of the first matches of a pattern."""
    return lambda script: (unescaped(match[1]) for match in islice(found.finditer(script), most))


def _in_code(found: re.Pattern[str], most: int) -> Reader:
    """As `_in_script`, for scripts that hold code and no data."""
    read = _in_script(found, most)
    return lambda script: read(script) if "pdf" in script.lower() and not has_data(script) else ()


def _sciencedirect_state(script: str) -> Iterator[str]:
    start = script.find('"pdfDownload":')
    found = [pattern.search(script[start : start + 1000]) for pattern in _SCIENCEDIRECT] if start >= 0 else []
    if found and all(found):
        path, pii, ending, md5, pid = (match[1] for match in found if match)
        yield f"/{path}/{pii}{ending}?md5={md5}&pid={pid}"


def in_query(*names: str) -> Reader:
    """Read the URLs that a viewer, a counter or a redirect page has as parameters."""
    return lambda url: (values[0] for name in names if (values := parse_qs(url.partition("?")[2]).get(name)))


def _in_fragment(url: str) -> Iterator[str]:
    """Read the file that a viewer shows from the fragment of its URL; it is relative to the viewer."""
    viewer, _, file = url.partition("#")
    yield urljoin(viewer, unquote(file))


def _scripted_hops(script: str) -> Iterator[str]:
    """The redirect of a short script. A long script may redirect only after a click."""
    if len(script) < 1500 and "function" not in script and (match := _SCRIPTED_HOP.search(script)):
        yield unescaped(match[1])


# fmt: off
_PDF_FILE = r"^(?:https?:/|/)[^?#]{1,2000}\.pdf$"
_NO_FEED = r"^(?!.{0,500}(?:rss|feed|atom|oai|sitemap|opensearch|marc|mods|ris|cite))"
_PII = "S0000000000000001"

DECLARED: tuple[Rule, ...] = (
    *(declared(f"{name}_url", PDF, "pdf") for name in ("citation_pdf", "bepress_citation_pdf", "wkhealth_pdf")),
    *(declared(name, PDF, "pdf") for name in ("citation_pdf", "citation_fulltext_pdf_url", "fulltext_pdf")),
    declared("eprints.document_url", PDF, "pdf", r"\.pdf(?:$|[?#])"),
    *(declared(name, PDF, "pdf", _PDF_FILE) for name in ("dc.identifier", "dc.identifier.uri", "dcterms.identifier")),
    *(declared(name, PDF, "pdf", r"\.pdf$") for name in ("prism.url", "contenturl")),
    link("link-alternate", "alternate application/pdf", "1.pdf"),
    link("link-item", "item application/pdf", "/files/1"),
    link("link-item-file", "item ", "/files/1.pdf", r"\.pdf$"),
    link("link-pdf", "fulltext application/pdf", "1.pdf"),
    script("json-ld", '{"@type":"Article","encoding":{"encodingFormat":"application/pdf","contentUrl":"/a/1/pdf"}}',
           "/a/1/pdf", _json_ld_files, name="application/ld+json", certain=True),
    script("sciencedirect-state",
           '{"article":{"pdfDownload":{"isPdfFullText":false,"urlMetadata":{"queryParams":{"md5":"0a1b","pid":'
           f'"1-s2.0-{_PII}-main.pdf"}},"pii":"{_PII}","pdfExtension":"/pdfft","path":"science/article/pii"}}}}}}}}',
           f"/science/article/pii/{_PII}/pdfft?md5=0a1b&pid=1-s2.0-{_PII}-main.pdf", _sciencedirect_state,
           page=f"https://www.sciencedirect.com/science/article/pii/{_PII}", host="sciencedirect.com"),
    script("state-pdf-url", r'a(function(b){return {pdfUrl:"\u002Fstamp\u002Fstamp.jsp?tp=&arnumber=8730316"}});',
           "/stamp/stamp.jsp?tp=&arnumber=8730316", _in_code(_STATE_URL, 20), match=pattern("pdf|stamp")),
    script("state-named-file", '{"files":[{"name":"paper.pdf","size":1,"downloadUrl":"https://files.example.org/7"}]}',
           "https://files.example.org/7", _in_script(_NAMED_FILE, 5)),
    script("page-state", 'window.S = {"article":{"files":[{"type":"pdf","href":"/api/1/file"}],"related":[{"pdf":"/2.pdf"}]}};',
           "/api/1/file", files_in_state),
    Rule("meta-named-pdf", PDF, On.META, '<meta property="og:pdf" content="/x/1.pdf">', "https://www.example.org/x/1.pdf",
         name=PDF_META, match=pattern(r"^(?:https?:/|/)[^?#\s]{1,2000}(?:\.pdf$|/pdf(?:/|$))"), certain=True),
)

FRAMES: tuple[Rule, ...] = (
    frame("viewer-frame", 'iframe src="/plugins/pdf.js/web/viewer.html?file=%2Fj%2Farticle%2Fdownload%2F1%2F2"',
          "/j/article/download/1/2", r"viewer\.html\?|[?&]url=|/gview\?", read=in_query("file", "url", "src")),
    frame("viewer-fragment", 'iframe src="/ViewerJS/#../uploads/5.pdf"', "/uploads/5.pdf",
          r"#[^#\s]{1,1000}\.pdf$", read=_in_fragment),
    frame("typed-frame", 'embed type="application/pdf" src="/show/1"', "/show/1", name="application/pdf"),
    frame("file-frame", 'iframe src="/ielx7/1/2/3.pdf?tp=&amp;arnumber=3"', "/ielx7/1/2/3.pdf?tp=&arnumber=3",
          r"\.pdf(?:$|[?#])|/pdfdirect/|/getPDF\.jsp"),
)

XML_RULES: tuple[Rule, ...] = (
    declared("citation_xml_url", XML, "xml"),
    declared("fulltext_xml", XML, "xml"),
    link("link-item-xml", "item application/xml", "/files/1.xml", target=XML),
    link("link-item-jats", "item application/jats+xml", "/files/1", target=XML),
    link("link-alternate-xml", "alternate application/xml", "1.xml", _NO_FEED, XML),
    link("link-alternate-text-xml", "alternate text/xml", "1.xml", _NO_FEED, XML),
    anchor("scielo-xml", "/scieloOrg/php/articleXML.php?pid=S1&lang=en", "articlexml", target=XML),
    anchor("ojs-xml-galley", "/j/article/view/12/35", "/article/view/", r"/article/view/([^/?#]+/[^/?#]+)",
           r"/article/download/\1", name="obj_galley_link", label=r"\bxml\b", says="XML",
           expects="/j/article/download/12/35", target=XML),
    anchor("arpha-xml", "/article/26391/download/xml/", "/download/xml/", target=XML),
    anchor("frontiers-xml", "/articles/10.3389/fnins.2021.1/xml/nlm", "/xml/nlm", target=XML),
    anchor("plos-xml", "/plosone/article/file?id=10.1371/journal.1&type=manuscript", "type=manuscript", target=XML),
    anchor("europepmc-xml", "https://www.ebi.ac.uk/europepmc/webservices/rest/PMC1234/fullTextXML", "/fulltextxml",
           says="Download", target=XML),
    anchor("anchor-xml", "/a/1.xml", ".xml", r"\.xml(?:$|\?)", label=_XML_LABEL, says="Download XML", target=XML),
    anchor("anchor-xml-path", "/2072/1/1/xml", "/xml", r"/xml(?:$|\?)", label=_XML_LABEL, says="Full XML", target=XML),
)

HTML_RULES: tuple[Rule, ...] = (
    declared("citation_fulltext_html_url", HTML, "html"),
    declared("citation_full_html_url", HTML, "html"),
    frame("ojs-html-frame", 'iframe name="htmlFrame" src="/j/article/download/1/2?inline=1"',
          "/j/article/download/1/2?inline=1", r"[?&/]inline=1", target=HTML),
    anchor("ojs-html-galley", "/j/article/view/12/36", "/article/view/", name="obj_galley_link", label=r"\bhtml?\b",
           says="HTML", target=HTML),
    anchor("atypon-full", "/doi/full/10.5555/1?scroll=top", "/doi/full/10.", r"(/doi/full/10\.[^?#]{1,300}).*", r"\1",
           expects="/doi/full/10.5555/1", target=HTML),
    anchor("highwire-full", "/content/12/3/1.full", ".full", r"/content/[^?#]{1,300}\.full(?:-text)?$", target=HTML),
    anchor("scielo-text", "/scielo.php?script=sci_arttext&pid=S1", "script=sci_arttext", target=HTML),
    anchor("dovepress-text", "/a-title-peer-reviewed-fulltext-article-JIR", "-fulltext-article", target=HTML),
    anchor("anchor-full-text", "/a/1/full", label=_FULL_TEXT_LABEL, says="View full text", target=HTML),
)

STEPS: tuple[Rule, ...] = (
    Rule("hidden-redirect", STEP, On.FIELD, '<input name="redirectURL" value="https%3A%2F%2Fjournal.example%2F1">',
         "https://journal.example/1", name="redirecturl", read=lambda value: (unquote(value),), certain=True),
    Rule("meta-refresh", STEP, On.META, '<meta http-equiv="Refresh" content="0; URL=\'/science/1\'">',
         "https://www.example.org/science/1", name="refresh", match=_REFRESH_URL, template=r"\1", certain=True),
    script("script-redirect", 'window.location.href = "/science/1";', "/science/1", _scripted_hops, STEP, certain=True),
    script("ovid-journal", 'var journalURL = "https://journal.example/1";', "https://journal.example/1", _in_script(_JOURNAL_URL),
           STEP, page="https://insights.ovid.com/crossref", host="ovid.com", certain=True),
    frame("interstitial-frame", 'frameset><frame src="/j/article/viewPDFInterstitial/1/2"></frameset',
          "/j/article/viewPDFInterstitial/1/2", "viewPDFInterstitial", target=STEP),
    anchor("doaj-access", "https://journal.example/1", name="button--primary", host="doaj.org", target=STEP),
    anchor("pubmed-linkout", "https://press.example/1", name="link-item", host="pubmed.ncbi.nlm.nih.gov", target=STEP),
    anchor("repository-link-out", "https://press.example/1", label=_PUBLISHER_LABEL, says="Journal page", target=STEP),
)
# fmt: on
