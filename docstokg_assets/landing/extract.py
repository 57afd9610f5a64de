"""Reading a landing page: applies the rule table to the page and sorts what it finds. Fetches nothing.

The page is hostile until shown otherwise: any encoding, any nesting, any size up to the client's cap.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from urllib.parse import urljoin

from lxml import etree, html
from w3lib.encoding import html_to_unicode

from docstokg_assets.identifiers import normalize_url
from docstokg_assets.landing.rules import NOT_THE_ARTICLE, RULES, Rule
from docstokg_assets.plans import Target
from resources.http.canonical import canonical_url, host_of

MAX_LINKS = 10  # of one kind; more would be a list of papers, not a paper
_MAX_VALUES = 3000  # looked at for one rule
_CONTEXT_DEPTH = 12  # ancestors whose names say where a link stands
_FULL_TEXT_WORDS = 1500
_DECLARED_FULL_TEXT_WORDS = 800
_SECTIONS = re.compile(
    r"(?i)\W*(?:[0-9ivx.]+\W+)?(introduction|background|(?:materials? (?:and|&) )?methods?|methodology|results?"
    r"|discussion|conclusions?|references|bibliography|acknowledge?ments?)\b"
)


@dataclass(frozen=True, slots=True)
class Link:
    url: str
    technique: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """A link that looked like the article and is something else."""

    url: str
    technique: str
    why: str


@dataclass(frozen=True, slots=True)
class Found:
    """What a page says about the full text, the most trusted link of each kind first."""

    pdf: tuple[Link, ...] = ()
    xml: tuple[Link, ...] = ()
    html: tuple[Link, ...] = ()
    next_page: str | None = None  # the page is only a step on the way to this one
    rejected: tuple[Rejected, ...] = ()


def extract(page: bytes, content_type: str | None, url: str) -> Found:
    """The links to the full text on the page that was got from `url`."""
    root = _parse(page, content_type)
    if root is None:
        return Found()
    links: dict[Target, dict[str, Link]] = {target: {} for target in Target}
    rejected: dict[str, Rejected] = {}
    base = _base(root, url)
    own = canonical_url(url)
    for rule in RULES:
        for value, element in _values(rule, root, host_of(url)):
            link = normalize_url(urljoin(base, value)) if _joinable(value) else None
            if link is None or (rule.target is not Target.HTML and canonical_url(link) == own):
                continue
            if rule.guesses and (why := _not_the_article(link, element)):
                rejected.setdefault(link, Rejected(link, rule.technique, why))
            else:
                links[rule.target].setdefault(canonical_url(link), Link(link, rule.technique))
    return Found(
        pdf=_best(links[Target.PDF]),
        xml=_best(links[Target.XML]),
        html=_best(links[Target.HTML]),
        next_page=next((link.url for link in links[Target.LANDING].values()), None),
        rejected=tuple(rejected.values())[:MAX_LINKS],
    )


def is_full_text_html(page: bytes, content_type: str | None = None, url: str = "") -> bool:
    """Whether the page is itself the article: it has the words, and it says so or has an article's headings."""
    root = _parse(page, content_type)
    if root is None:
        return False
    words = sum(len(_words(paragraph).split()) for paragraph in root.iter("p"))
    declared = _declares_full_text(root, url)
    if declared and words >= _DECLARED_FULL_TEXT_WORDS:
        return True
    headings = (_words(heading)[:200] for heading in root.iter("h2", "h3", "h4"))
    sections = {match[1].lower() for heading in headings if (match := _SECTIONS.match(heading))}
    return words >= _FULL_TEXT_WORDS and len(sections) >= 3


def _parse(page: bytes, content_type: str | None) -> html.HtmlElement | None:
    """The page as a tree, or None when there is nothing to read. Encoding as in browsers: BOM, header, meta, UTF-8."""
    header = content_type if content_type and "charset" in content_type.lower() else None
    _, text = html_to_unicode(
        header, page.replace(b"\0", b"") if not _is_utf16(page) else page, default_encoding="utf-8"
    )
    parser = html.HTMLParser(encoding="utf-8", huge_tree=False, no_network=True, remove_comments=True)
    try:
        root = html.document_fromstring(text.replace("\0", "").encode("utf-8", "replace"), parser=parser)
    except (etree.LxmlError, ValueError):
        return None
    return root


def _is_utf16(page: bytes) -> bool:
    return page[:2] in (b"\xff\xfe", b"\xfe\xff")


def _base(root: html.HtmlElement, url: str) -> str:
    base = next(iter(root.xpath("//base/@href")), "")
    return normalize_url(urljoin(url, base.strip())) or url if _joinable(base) else url


def _joinable(value: str) -> bool:
    """Whether a value can be made a URL at all; fragments, scripts and mail addresses cannot."""
    lowered = value.strip().lower()
    if not lowered or lowered.startswith(("#", "javascript:", "mailto:", "data:", "tel:")):
        return False
    try:
        urljoin("https://www.example.org/", value)
    except ValueError:
        return False
    return True


def _values(rule: Rule, root: html.HtmlElement, host: str) -> Iterator[tuple[str, html.HtmlElement | None]]:
    """What a rule selects on this page, each value with the element that it stands on."""
    if rule.host and not (host == rule.host or host.endswith("." + rule.host)):
        return
    if rule.marker and not _xpath(rule.marker)(root):
        return
    for raw in _xpath(rule.select)(root)[:_MAX_VALUES]:
        element = raw.getparent()
        if rule.label and not rule.label.fullmatch(_words(element)[:120]):
            continue
        for value in rule.read(str(raw)) if rule.read else (str(raw).strip(),):
            if rule.match is None:
                yield value, element
            elif match := rule.match.fullmatch(value):
                yield (match.expand(rule.template) if rule.template else value), element


@cache
def _xpath(expression: str) -> etree.XPath:
    """Compiled once; the table is fixed, so the cache is as large as the table."""
    return etree.XPath(expression)


def _not_the_article(link: str, element: html.HtmlElement | None) -> str | None:
    """Why a guessed link is not the article, by its address, its words, and the names of the parts around it."""
    spoken = [link.partition("?")[0].rpartition("/")[2]]
    if element is not None:
        spoken.append(_words(element)[:200])
        for depth, ancestor in enumerate((element, *element.iterancestors())):
            if depth > _CONTEXT_DEPTH or ancestor.tag == "body":
                break
            spoken.append(f"{ancestor.get('class', '')} {ancestor.get('id', '')}"[:300])
    return next((why for why, pattern in NOT_THE_ARTICLE if any(pattern.search(words) for words in spoken)), None)


def _declares_full_text(root: html.HtmlElement, url: str) -> bool:
    base, own = _base(root, url), canonical_url(url)
    rules = (rule for rule in RULES if rule.target is Target.HTML)
    return any(
        canonical_url(urljoin(base, value)) == own
        for rule in rules
        for value, _ in _values(rule, root, host_of(url))
        if _joinable(value)
    )


def _best(links: dict[str, Link]) -> tuple[Link, ...]:
    return tuple(links.values())[:MAX_LINKS]


def _words(element: html.HtmlElement) -> str:
    return " ".join("".join(element.itertext()).split())
