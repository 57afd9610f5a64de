"""Parse a page and collect all that rules examine in one pass. Fetches nothing.

Pages are untrusted: any encoding, any nesting, any size up to the client's limit. What is collected is bounded, so that a
hundred rules cost no more on a large page than on a small one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from urllib.parse import unquote, urldefrag, urlencode, urljoin

from lxml import etree, html
from w3lib.encoding import html_to_unicode

from docstokg_assets.domain.identifiers import normalize_url
from resources.http.canonical import host_of

_MAX_OF_A_KIND = 3000  # elements; more links than this are no landing page
_MAX_ADDRESS = 2048
_MAX_SCRIPTS, _MAX_SCRIPT = 200, 2_000_000  # scripts, and characters of one
_WORDS = 200  # characters of a link's text
_TAGS = frozenset(
    (
        "meta",
        "link",
        "a",
        "area",
        "button",
        "form",
        "iframe",
        "embed",
        "object",
        "param",
        "frame",
        "script",
        "input",
        "h1",
    )
)
_MAX_OTHERS = 60_000  # other elements whose attributes are looked at
# Attributes with the URL of a link or button; `onclick` has it as the argument of a call.
_DATA_ATTRIBUTES = (
    *(
        "data-article-url",
        "data-pdf-url",
        "data-popup",
        "data-download-url",
        "data-downloadurl",
        "data-href",
        "data-url",
    ),
    *("data-pdf", "data-file", "data-link", "data-fileurl", "data-file-url", "data-pdfurl", "data-pdf-src"),
)
_SHOWN = frozenset({"source", "data-pdf", "data-pdf-src", "data-src"})  # what a viewer made by a script shows
_STATE_ATTRIBUTE = re.compile(r"\s{0,20}[{\[]\s{0,20}[{\"\[]")  # JSON for the page's own scripts
_ADDRESS_ATTRIBUTES = ("href", *_DATA_ATTRIBUTES, "action")
_HINTS = ("title", "aria-label", "download", "data-title", "data-download-type", "alt")
_PDF_ICON = re.compile(r"(?i)acrobat|adobe|pdf")
_META_SEPARATOR = re.compile(r"^citation[.:-]")
PDF_META = "(pdf)"  # all metas with PDF in their name
_NO_URL = ("#", "javascript:", "mailto:", "data:", "tel:", "about:")
_CALLED = re.compile(
    r"""(?i)(?:open|location|href|assign|replace|(?:download|pdf|popup)\w{0,20}+)\W{1,6}["']([^"'\s]{4,1000})["']"""
)
# Calls with the parts of a URL as arguments: what is called, and the URL.
_CALLS = (
    (
        re.compile(r"lsdy[0-9]?\(\s?'PDF',\s?'([0-9]{1,12})',\s?'(https?://[^'\s]{4,200})'"),
        r"\2/CN/article/downloadArticleFile.do?attachType=PDF&id=\1",
    ),
)
# Identifiers of works in URLs and texts: a link whose URL has another identifier than the page leads to another work.
_IDENTITIES = (
    ("doi", re.compile(r"10\.[0-9]{4,9}/[^\s\"'<>?#&]{2,200}")),
    ("pii", re.compile(r"(?<![a-z0-9])s[0-9]{15}[0-9x](?![0-9])")),
    ("pmcid", re.compile(r"(?<![a-z0-9])pmc[0-9]{4,9}")),
    ("arxiv", re.compile(r"(?<=/)[0-9]{4}\.[0-9]{4,5}(?=v[0-9]|\.pdf|/|$)")),
    ("ojs", re.compile(r"(?<=/article/)(?:view|viewfile|download|viewpdfinterstitial)/([0-9]{1,9})(?=[/?#]|$)")),
    ("handle", re.compile(r"/(?:handle|bitstream(?:/handle)?)/([0-9][0-9.]{1,20}/[0-9]{1,9})(?=[/?#]|$)")),
    ("hal", re.compile(r"(?<=/)((?:hal|tel|inria|halshs|insu|cel|dumas|pasteur)-[0-9]{8})(?![0-9])")),
    ("arnumber", re.compile(r"[?&]arnumber=([0-9]{4,9})")),
)
# What may follow an identifier in a URL; removed repeatedly.
_TAIL = re.compile(
    r"(?:\.full|\.e?pdf|\.xml|\.html?|/e?pdf[a-z]{0,8}|/full|/abstract|/meta|/html|/xml|/download|v[0-9]{1,2}|[/.,;)]{1,3})$"
)
_IDENTIFYING = (
    *("citation_doi", "dc.identifier", "dc.identifier.doi", "dcterms.identifier", "prism.doi", "doi", "citation_pii"),
    *("bepress_citation_doi", "publication_doi", "evt-doipage", "citation_arxiv_id"),
)


@dataclass(slots=True)
class Anchor:
    """A clickable element: its URL as written, its text, its class and id."""

    address: str
    element: html.HtmlElement
    names: frozenset[str]  # class and id, in lower case
    words: str
    hints: str = ""  # title, label for screen readers, file name, names of pictures: what is not in the text
    lowered: str = field(init=False)

    def __post_init__(self) -> None:
        self.lowered = self.address.lower()


@dataclass(slots=True)
class Page:
    url: str
    root: html.HtmlElement
    base: str = ""
    metas: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    links: list[tuple[str, str, str]] = field(default_factory=list)  # rel, type, href
    anchors: list[Anchor] = field(default_factory=list)
    frames: list[tuple[str, html.HtmlElement]] = field(default_factory=list)
    scripts: list[tuple[str, str]] = field(default_factory=list)  # type, text
    fields: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    titles: set[str] = field(default_factory=set)
    identities: dict[str, set[str]] = field(default_factory=dict)
    room: int = 600_000  # characters of URLs that are still collected; an ordinary landing page has a tenth of that

    @property
    def host(self) -> str:
        return host_of(self.url)

    def absolute(self, value: str) -> str | None:
        """A value of the page as an absolute URL, or None for fragments, scripts and mail addresses."""
        cleaned = "".join(value.split("\n")).replace("\t", "").replace("\r", "").replace("\\", "/").strip()
        cleaned = cleaned.replace("&amp;", "&")  # escaped twice
        lowered = cleaned[:12].lower()
        if not cleaned or "{{" in cleaned or lowered.startswith(_NO_URL):
            return None
        if lowered.startswith("www."):
            cleaned = f"https://{cleaned}"
        try:
            return normalize_url(urldefrag(urljoin(self.base, cleaned))[0])
        except ValueError:
            return None


def read_page(page: bytes, content_type: str | None, url: str) -> Page | None:
    """The parsed page, or None when it cannot be parsed."""
    root = parse(page, content_type)
    if root is None:
        return None
    made = Page(url, root, base=url)
    base = next(iter(root.xpath("//base/@href")), None)
    made.base = (made.absolute(base) if base else None) or url
    counts: dict[str, int] = defaultdict(int)
    for element in root.iter():
        if element.tag in _TAGS:
            counts[element.tag] += 1
            if counts[element.tag] <= _MAX_OF_A_KIND:
                _gather(made, element)
        elif counts[""] < _MAX_OTHERS:
            counts[""] += 1
            _gather_other(made, element)
    made.titles.update(title.lower() for title in made.metas.get("citation_title", ()))
    own = " ".join(value for name in _IDENTIFYING for value in made.metas.get(name, ())[:5])
    made.identities = identities(f"{url} {own}")
    return made


def identities(text: str) -> dict[str, set[str]]:
    """The identifiers of works that a text names, by kind, in lower case."""
    lowered = unquote(text[: 4 * _MAX_ADDRESS]).lower()
    found = {kind: {_bare(name) for name in pattern.findall(lowered)} for kind, pattern in _IDENTITIES}
    return {kind: names for kind, names in found.items() if names}


def _bare(name: str) -> str:
    while (shorter := _TAIL.sub("", name)) != name:
        name = shorter
    return name


def parse(page: bytes, content_type: str | None) -> html.HtmlElement | None:
    """The page as a tree. Encoding as in browsers: BOM, header, meta; then UTF-8 if it is, else windows-1252."""
    parser = html.HTMLParser(encoding="utf-8", huge_tree=False, no_network=True, remove_comments=True)
    try:
        return html.document_fromstring(_text(page, content_type).encode("utf-8", "replace"), parser=parser)
    except (etree.LxmlError, ValueError):
        return None


def words_of(element: html.HtmlElement, limit: int = _WORDS) -> str:
    """The text of an element, from a bounded number of its descendants."""
    pieces: list[str] = []
    pending: list[html.HtmlElement | str] = [element]
    for _ in range(60):
        if not pending:
            break
        node = pending.pop()
        if isinstance(node, str):
            pieces.append(node[:limit])
        elif isinstance(node.tag, str) and node.tag not in ("script", "style"):
            pieces.append((node.text or "")[:limit])
            inner = [part for child in islice(node, 20) for part in (child, child.tail or "")]
            pending.extend(reversed(inner))
    return " ".join(" ".join(pieces).split())[:limit]


def _text(page: bytes, content_type: str | None) -> str:
    header = content_type if content_type and "charset" in content_type.lower() else None
    start = page[:64].lstrip()
    for mark, encoding in ((b"<\0", "utf-16-le"), (b"\0<", "utf-16-be")):
        if start.startswith(mark):
            return page.decode(encoding, "replace")
    body = page if page[:2] in (b"\xff\xfe", b"\xfe\xff") else page.replace(b"\0", b"")
    _, text = html_to_unicode(header, body, auto_detect_fun=_detect, default_encoding="utf-8")
    return text.replace("\0", "")


def _detect(body: bytes) -> str:
    try:
        body.decode("utf-8")
        return "utf-8"
    except UnicodeDecodeError:
        return "windows-1252"


def _gather(page: Page, element: html.HtmlElement) -> None:
    tag = element.tag
    if tag == "meta":
        names = {element.get(key, "").lower().strip() for key in ("name", "property", "http-equiv", "itemprop", "id")}
        content = (element.get("content") or element.get("value") or "")[:_MAX_ADDRESS].strip()
        for name in filter(None, names):
            page.metas[_META_SEPARATOR.sub("citation_", name)].append(content)
        if any("pdf" in name for name in names):
            page.metas[PDF_META].append(content)
    elif tag == "link":
        rel, kind = element.get("rel", "").lower(), element.get("type", "").lower().strip()
        page.links.append((rel, kind, element.get("href", "")))
    elif tag in ("a", "area", "button", "form"):
        _gather_anchor(page, element)
    elif tag in ("iframe", "embed", "object", "frame"):
        sources = (element.get(name) for name in ("src", "data", "data-src", "data-lazy-src"))
        page.frames.extend((source[:_MAX_ADDRESS], element) for source in dict.fromkeys(filter(None, sources)))
    elif tag == "param":
        if element.get("name", "").lower() in ("src", "movie", "filename", "url"):
            page.frames.append((element.get("value", "")[:_MAX_ADDRESS], element))
    elif tag == "script":
        if element.text and len(page.scripts) < _MAX_SCRIPTS:
            page.scripts.append((element.get("type", "").lower(), element.text[:_MAX_SCRIPT]))
    elif tag == "input":
        page.fields[element.get("name", "").lower()].append(element.get("value", "")[:_MAX_ADDRESS])
    else:
        page.titles.add(words_of(element).lower())


def _gather_other(page: Page, element: html.HtmlElement) -> None:
    """Elements that a script makes clickable, and those that carry the data of a script."""
    attributes = element.attrib
    if not attributes:
        return
    if "onclick" in attributes or any(name in attributes for name in _DATA_ATTRIBUTES):
        _gather_anchor(page, element)
    for name, value in islice(attributes.items(), 20):
        if name in _SHOWN and value[:_MAX_ADDRESS].partition("?")[0].lower().endswith(".pdf"):
            page.frames.append((value[:_MAX_ADDRESS], element))
        elif len(value) > 40 and name not in ("style", "class") and _STATE_ATTRIBUTE.match(value):
            page.scripts.append(("attribute", value[:_MAX_SCRIPT]))
        if len(page.scripts) >= _MAX_SCRIPTS or len(page.frames) >= _MAX_OF_A_KIND:
            return


def _called(code: str) -> Iterator[str]:
    """The URL that a click leads to, in the code of an event handler."""
    for call, url in _CALLS:
        if match := call.search(code[:_MAX_ADDRESS]):
            yield match.expand(url)
    if called := _CALLED.search(code[:_MAX_ADDRESS]):
        yield called[1]


def _form_url(form: html.HtmlElement) -> str:
    """The URL that a form with the method GET requests when its button is clicked."""
    fields = [
        (field.get("name", ""), field.get("value", ""))
        for field in islice(form.iter("input"), 20)
        if field.get("type", "").lower() == "hidden" and field.get("name")
    ]
    action = form.get("action", "")
    return f"{action}{'&' if '?' in action else '?'}{urlencode(fields)}" if fields else action


def _gather_anchor(page: Page, element: html.HtmlElement) -> None:
    addresses = [element.get(name) for name in (_ADDRESS_ATTRIBUTES if element.tag in _TAGS else _DATA_ATTRIBUTES)]
    addresses.extend(_called(element.get("onclick") or ""))
    if element.tag == "a" and element.get("href", "")[:11].lower() == "javascript:":
        addresses.extend(_called(element.get("href", "")))
    if element.tag == "form" and element.get("method", "get").lower() == "get" and element.get("action"):
        addresses.append(_form_url(element))
    names = frozenset(
        f"{element.get('class', '')} {element.get('id', '')} {element.get('itemprop', '')}"[:500].lower().split()
    )
    hints = [element.get(name, "") for name in _HINTS]
    hints += ["pdf" for name, value in element.items() if name.startswith("data-") and "pdf" in value[:40].lower()][:1]
    if "pdf" in element.get("type", "").lower():
        hints.append("pdf")
    for inner in islice(element.iter(), 12):
        if inner.tag == "input" and inner.get("type", "").lower() in ("submit", "button", "image"):
            hints += [inner.get("value", ""), inner.get("alt", "")]
        elif inner.tag == "img":
            icon = inner.get("src", "").rpartition("/")[2].partition(".")[0]
            hints += [inner.get("alt", ""), "pdf" if _PDF_ICON.search(icon) else icon]
        elif inner is not element and "pdf" in inner.get("class", "")[:200].lower():  # an icon
            hints.append("pdf")
    for address in dict.fromkeys(address for address in addresses if address):
        page.room -= len(address)
        if len(address) <= _MAX_ADDRESS and not address.startswith("#") and page.room > 0:
            page.anchors.append(Anchor(address, element, names, words_of(element), " ".join(hints)[:300].strip()))
