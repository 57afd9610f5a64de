"""Extract full-text links from a landing page: apply the rule table, then score the other links. Fetches nothing."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from lxml import html

from docstokg_assets.domain.plans import Target
from docstokg_assets.landing.link_scoring import ENOUGH, closeness, rejection_reason, score_link, unusable_reason
from docstokg_assets.landing.page import Anchor, Page, read_page, words_of
from docstokg_assets.landing.platforms import BUTTONS, PLATFORMS
from docstokg_assets.landing.rules import DECLARED, FRAMES, HTML_RULES, STEPS, XML_RULES, On, Rule
from docstokg_assets.landing.signposting import TypedLink, first, link_header
from docstokg_assets.landing.walls import wall_at
from resources.http.canonical import canonical_url

RULES: tuple[Rule, ...] = (*DECLARED, *PLATFORMS, *FRAMES, *BUTTONS, *XML_RULES, *HTML_RULES, *STEPS)
_CERTAIN = frozenset(rule.technique for rule in RULES if rule.certain)
GUESSED, ITSELF, BOUNCE = "anchor", "page-itself", "bounce"  # not rules: a scored link, the page itself, its only link
MAX_LINKS = 5  # of one kind
_SHORT_PAGE = 700  # characters of a page that only leads to another one
_BOUNCE = re.compile(
    r"(?i)redirect|will (?:begin|start|be (?:downloaded|displayed|opened))|should (?:begin|start|load|open|download)"
    r"|if (?:it|the|your|nothing|this)[^.]{0,60}(?:not|n't)|automatically|please wait|wird (?:in kürze|automatisch)|weiterleit"
    r"|descarga comenzará|redirigi|sera automatiquement|rediriger|перенаправ|начнётся|开始下载|跳转"
)
_CLICK_HERE = re.compile(r"(?i)click|\bhere\b|\bhier\b|\baquí\b|\bici\b|здесь|点击|download|continue|proceed|manual")
_MANY, _MANY_GUESSES = 6, 3  # links of one technique; more are a list of papers, not a paper
_FULL_TEXT_WORDS = 1500
_DECLARED_FULL_TEXT_WORDS = 800
_SECTIONS = re.compile(
    r"(?i)\W*(?:[0-9ivx.]+\W+)?(introduction|background|(?:materials? (?:and|&) )?methods?|methodology|results?"
    r"|discussion|conclusions?|references|bibliography|acknowledge?ments?)\b"
)
_HTML_METAS = ("citation_fulltext_html_url", "citation_full_html_url")
_LIST_ADDRESS = re.compile(
    r"(?i)/(?:profiles?|authors?|people|search|toc|issue/view|browse|current)(?:/|$)|/issues(?:/[^/]{1,80}){0,2}/?$"
)
_REFERENCES = re.compile(r"(?i)\W{0,3}(?:references|notes|works cited|bibliography|literature cited)\W{0,3}")
_BODY = re.compile(r"(?i)\bbodymatter\b|\barticlebody\b|\barticle-?full-?text\b|\bfulltext-?view\b")  # of an article


@dataclass(frozen=True, slots=True)
class Link:
    url: str
    technique: str


@dataclass(frozen=True, slots=True)
class Rejected(Link):
    """A link that looked like the article and is something else."""

    why: str


@dataclass(frozen=True, slots=True)
class Found:
    """What a page says about the full text, the most trusted link of each kind first."""

    pdf: tuple[Link, ...] = ()
    xml: tuple[Link, ...] = ()
    html: tuple[Link, ...] = ()
    step: Link | None = None  # the page is only a step on the way to this one
    is_full_text: bool = False  # the page is itself the article
    rejected: tuple[Rejected, ...] = ()
    license: str | None = None  # what the page or its header declares, as is `cite_as`
    cite_as: str | None = None  # the URL by which the described work is cited, usually its DOI
    linkset: str | None = None  # a document with further links

    @property
    def next_page(self) -> str | None:
        return self.step.url if self.step else None


class _Finds:
    """The links found so far, by target and URL. A URL keeps the technique that found it first."""

    def __init__(self, page: Page) -> None:
        self._page, self._own = page, canonical_url(page.url)
        self.links: dict[Target, dict[str, Link]] = {target: {} for target in Target}
        self.rejected: dict[str, Rejected] = {}

    def apply(self, rule: Rule) -> None:
        good: dict[str, Link] = {}
        for value, anchor in _values(rule, self._page):
            link = self._page.absolute(value)
            if link is None or (rule.target is not Target.HTML and canonical_url(link) == self._own):
                continue
            is_file = rule.target in (Target.PDF, Target.XML)
            why = "wall" if wall_at(link) else unusable_reason(link) if is_file else None
            if why is None and not rule.certain:
                why = rejection_reason(self._page, anchor, link)
            if why is None:
                good.setdefault(canonical_url(link), Link(link, rule.technique))
            elif is_file:
                self.reject(link, rule.technique, why)
        for key, one in good.items():
            if not rule.certain and len(good) > _MANY:
                self.reject(one.url, one.technique, "list")
            else:
                self.links[rule.target].setdefault(key, one)

    def reject(self, link: str, technique: str, why: str) -> None:
        self.rejected.setdefault(canonical_url(link), Rejected(link, technique, why))

    def guess(self) -> None:
        """The best of the links that no rule knows, if any is good enough."""
        scored: dict[str, tuple[int, str]] = {}
        for anchor in self._page.anchors:
            link = self._page.absolute(anchor.address)
            if link is None or (key := canonical_url(link)) == self._own:
                continue
            score = score_link(self._page, anchor, link)
            if score < ENOUGH and ".pdf" not in link.lower():
                continue
            why = "wall" if wall_at(link) else unusable_reason(link) or rejection_reason(self._page, anchor, link)
            if why or score < ENOUGH:
                self.reject(link, GUESSED, why or "too-little")
            elif score > scored.get(key, (0, ""))[0]:
                scored[key] = (score, link)
        best = max((score for score, _ in scored.values()), default=0)
        near = sorted((one for one in scored.values() if one[0] >= best - 1), key=lambda one: -one[0])
        lists_works = "citation_title" not in self._page.metas and _LIST_ADDRESS.search(urlsplit(self._page.url).path)
        for _, link in near:
            if len(near) > _MANY_GUESSES or len(scored) > _MANY or lists_works:
                self.reject(link, GUESSED, "list")
            else:
                self.links[Target.PDF].setdefault(canonical_url(link), Link(link, GUESSED))

    def follow_bounce(self) -> None:
        """The only link of a page that says that the file will be sent, or that the reader is being redirected."""
        if not _BOUNCE.search(words_of(self._page.root, _SHORT_PAGE + 1)[:_SHORT_PAGE]) or len(self._page.anchors) > 12:
            return
        named = [a for a in self._page.anchors if _CLICK_HERE.search(f"{a.words} {a.hints}")] or self._page.anchors
        links = {canonical_url(link): link for a in named if (link := self._page.absolute(a.address))}
        links = {key: link for key, link in links.items() if key != self._own and not wall_at(link)}
        if len(links) == 1:
            self.links[Target.LANDING].update({key: Link(link, BOUNCE) for key, link in links.items()})

    def fetch_steps(self) -> None:
        """A next page whose URL is that of a PDF is the file; asked for as a page, it would be asked for twice."""
        for key, step in list(self.links[Target.LANDING].items()):
            if urlsplit(step.url).path.lower().endswith(".pdf") and not self.links[Target.PDF]:
                self.links[Target.PDF][key] = step

    def best(self, target: Target) -> tuple[Link, ...]:
        """In the order of the rules; of the links of one rule, those that name this work first."""
        links = list(self.links[target].values())
        if target is Target.PDF and len(links) > 1:
            places = {link.technique: place for place, link in reversed([*enumerate(links)])}
            key = {link.url: closeness(self._page, link.url) for link in links if link.technique not in _CERTAIN}
            links = sorted(links, key=lambda link: (places[link.technique], key.get(link.url, 0)))
        return tuple(links)[:MAX_LINKS]


def extract(page: bytes, content_type: str | None, url: str, headers: Mapping[str, str] | None = None) -> Found:
    """The links to the full text on the page that was got from `url`. `headers`: of its response, names in lower case."""
    read = read_page(page, content_type, url) or Page(url, html.Element("html"), base=url)
    typed = [TypedLink(*link) for link in read.links]
    for link in link_header(headers or {}):
        read.links.append((link.rel, link.type, link.href))
        typed.append(link)
    finds = _Finds(read)
    for rule in RULES:
        if rule not in BUTTONS or not finds.links[Target.PDF]:
            finds.apply(rule)
    if not finds.links[Target.PDF]:
        finds.guess()
    if not finds.links[Target.PDF] and not finds.links[Target.LANDING]:
        finds.follow_bounce()
    finds.fetch_steps()
    itself = _is_full_text(read)
    page_html = finds.best(Target.HTML) or ((Link(url, ITSELF),) if itself else ())
    known = finds.links[Target.PDF].keys() | finds.links[Target.XML].keys()
    rejected = (one for key, one in finds.rejected.items() if key not in known)
    step = next(iter(finds.best(Target.LANDING)), None)
    files = finds.best(Target.PDF), finds.best(Target.XML), page_html
    license_, cite_as = first(typed, "license"), first(typed, "cite-as")
    linkset = first(typed, "linkset", "application/linkset+json")
    linkset = read.absolute(linkset) if linkset else None
    return Found(*files, step, itself, tuple(rejected)[:20], license_, cite_as, linkset)


def _is_full_text(page: Page) -> bool:
    """Whether the page is itself the article: it has enough words, and says so or has the headings of an article."""
    paragraphs = [node for node in page.root.iter("p", "div") if node.tag == "p" or node.get("role") == "paragraph"]
    words = sum(len("".join(paragraph.itertext()).split()) for paragraph in paragraphs)
    parts = page.root.iter("section", "div", "article")
    names = (node.get(name, "")[:200] for node in parts for name in ("id", "class", "property", "itemprop"))
    if words >= _FULL_TEXT_WORDS and any(map(_BODY.search, names)):
        return True
    if words >= _DECLARED_FULL_TEXT_WORDS:
        named = (value for name in _HTML_METAS for value in page.metas.get(name, ()))
        links = (page.absolute(value) for value in named)
        if any(link and canonical_url(link) == canonical_url(page.url) for link in links):
            return True
    if words >= 2 * _FULL_TEXT_WORDS:
        last = deque(page.root.iter("h2", "h3", "h4", "p", "b", "strong"), maxlen=1500)
        if any(_REFERENCES.fullmatch(words_of(node, 40)) for node in last):
            return True
    headings = (words_of(heading) for heading in page.root.iter("h2", "h3", "h4"))
    sections = {match[1].lower() for heading in headings if (match := _SECTIONS.match(heading))}
    return words >= _FULL_TEXT_WORDS and len(sections) >= 3


def _values(rule: Rule, page: Page) -> Iterator[tuple[str, Anchor | None]]:
    """What a rule finds on this page, each value with the anchor that has it, if any."""
    if rule.host and not f".{page.host}".endswith(f".{rule.host}"):
        return
    software = rule.generator.lower().rstrip("0123456789. ")
    if software and not any(software in made.lower() for made in page.metas.get("generator", ())):
        return
    for raw, anchor in _looked_at(rule, page):
        if rule.part and rule.on is not On.ANCHOR and rule.part not in raw.lower():
            continue
        if rule.on is On.FRAME and rule.match and not rule.match.search(raw):
            continue
        for value in rule.read(raw) if rule.read else (raw,):
            if rule.match is None or rule.on is On.FRAME:
                yield value, anchor
            elif rule.match.search(value):
                yield (rule.match.sub(rule.template, value, count=1) if rule.template else value), anchor


def _looked_at(rule: Rule, page: Page) -> Iterator[tuple[str, Anchor | None]]:
    """The values of the page that a rule examines, each with the anchor or frame that has it, if any."""
    match rule.on:
        case On.ANCHOR:
            for anchor in page.anchors:
                applies = rule.part in anchor.lowered and (not rule.name or rule.name in anchor.names)
                if applies and (rule.label is None or rule.label.search(anchor.words)):
                    yield anchor.address, anchor
        case On.FRAME:
            for source, element in page.frames:
                if not rule.name or rule.name in element.get("type", "").lower():
                    yield source, Anchor(source, element, frozenset(), "")
        case On.META | On.FIELD:
            named = page.metas if rule.on is On.META else page.fields
            yield from ((value, None) for value in named.get(rule.name, ()))
        case On.LINK:
            rel, _, kind = rule.name.partition(" ")
            yield from (
                (href, None) for rels, type_, href in page.links if rel in rels.split() and type_.startswith(kind)
            )
        case On.SCRIPT:
            yield from ((text, None) for kind, text in page.scripts if not rule.name or kind == rule.name)
        case On.ADDRESS:
            yield page.url, None
