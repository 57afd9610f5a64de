"""Wayback Machine: captures of addresses that are dead today, found by asking its index (CDX). The last resort."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from pydantic import Field

from docstokg_assets.identifiers import normalize_url
from docstokg_assets.loose_json import items
from docstokg_assets.plans import Candidate, Target, Tier
from docstokg_assets.resolvers.answers import answer, api_request, bad_answer, failure, json_of, nothing
from docstokg_assets.resolvers.registry import (
    Example,
    Resolution,
    Resolver,
    ResolverContext,
    ResolverResult,
    ResolverSettings,
    register,
)
from docstokg_assets.resolvers.routes import looks_like_pdf
from docstokg_assets.works import Work
from resources.records import Reason

_FIELDS = ("timestamp", "original", "mimetype", "statuscode", "digest")
_UNTYPED = frozenset({"application/octet-stream", "binary/octet-stream", "unk", "application/x-download"})
_PAGES = frozenset({"text/html", "application/xhtml+xml"})

_DEAD = ResolverContext(dead_urls=("https://peerj.com/articles/1.pdf", "https://peerj.com/articles/1"))
_ROW = ["20260401120000", "https://peerj.com/articles/1.pdf", "application/pdf", "200", "DMH3E3XE"]


class WaybackSettings(ResolverSettings):
    max_urls: int = Field(default=1, ge=0, description="dead addresses of one work that are looked up")


@register("wayback")
class WaybackResolver(Resolver):
    tier = Tier.WAYBACK
    api_host = "web.archive.org"
    robots = False  # the archive serves captures to programs on this route; its robots.txt speaks to search engines
    head_precheck = False
    Settings = WaybackSettings
    EXAMPLES = (
        Example(
            Work("W1"),
            [
                answer(
                    [
                        list(_FIELDS),
                        ["20240101000000", "https://peerj.com/articles/1.pdf", "text/html", "200", "AAAA"],
                        _ROW,
                        ["20260927204213", "https://peerj.com/articles/1.pdf", "warc/revisit", "-", "DMH3E3XE"],
                        [],
                        ["com%2Cpeerj%29+20260927204214"],
                    ]
                )
            ],
            ["https://web.archive.org/web/20260401120000id_/https://peerj.com/articles/1.pdf"],
            _DEAD,
        ),
        Example(Work("W2"), [answer([])], (), _DEAD, Reason.NO_CANDIDATE),
        Example(Work("W3"), [answer(b"<h1>Too Many Requests</h1>", 429)], (), _DEAD, Reason.RATE_LIMITED),
        Example(Work("W4"), [answer(b"<h1>maintenance</h1>")], (), _DEAD, Reason.BAD_ANSWER),
        Example(Work("W5"), reason=Reason.NO_CANDIDATE),  # nothing is dead: nobody is asked
    )

    def __init__(self, settings: WaybackSettings, position: int | None = None) -> None:
        super().__init__(settings, position)
        self.max_urls = settings.max_urls

    def applies(self, work: Work) -> bool:
        return True

    def resolve(self, work: Work, context: ResolverContext) -> Resolution:
        found: list[Candidate] = []
        for dead in context.dead_urls[: self.max_urls]:
            response = yield api_request(_index_url(dead))
            failed = failure(response)
            rows = json_of(response)
            if failed is None and not isinstance(rows, list):
                failed = bad_answer("the Wayback index did not answer with a list")
            if failed:
                return ResolverResult(tuple(found), failed.reason, failed.note)
            found.extend(self._candidates(rows))
        return ResolverResult(tuple(found)) if found else nothing()

    def _candidates(self, rows: Sequence[Any]) -> Iterator[Candidate]:
        """PDF captures first, then the newest; the same bytes once."""
        captures = {row["digest"]: row for row in _captures(rows)}  # rows are in order of time: the newest stays
        typed = [(target, row) for row in captures.values() if (target := _target(row))]
        typed.sort(key=lambda pair: pair[1]["timestamp"], reverse=True)
        typed.sort(key=lambda pair: pair[0] is not Target.PDF)
        for target, row in typed:
            # `id_` asks for the bytes as they were captured, without the archive's banner and rewritten links
            if url := normalize_url(f"https://web.archive.org/web/{row['timestamp']}id_/{row['original']}"):
                yield Candidate(url, self.name, self.tier, target, self.rank, captured_from=row["original"])


def _index_url(dead: str) -> str:
    query = [
        ("url", dead),
        ("output", "json"),
        ("fl", ",".join(_FIELDS)),
        ("filter", "statuscode:200"),
        ("limit", "-5"),
    ]
    return f"https://web.archive.org/cdx/search/cdx?{urlencode(query)}"


def _captures(rows: Sequence[Any]) -> Iterator[Mapping[str, str]]:
    """The usable rows. The first is the heading, a resume key may follow the last, a revisit has no body of its own."""
    for row in rows[1:]:
        values = items(row)
        if len(values) == len(_FIELDS) and all(isinstance(value, str) for value in values):
            capture = dict(zip(_FIELDS, values, strict=True))
            if capture["statuscode"] == "200" and capture["timestamp"].isdigit():
                yield capture


def _target(capture: Mapping[str, str]) -> Target | None:
    """A page in place of a PDF is what a wall looked like; a page in place of a page may name the PDF."""
    kind, pdf_wanted = capture["mimetype"].lower(), looks_like_pdf(capture["original"])
    if kind == "application/pdf" or (kind in _UNTYPED and pdf_wanted):
        return Target.PDF
    return Target.LANDING if kind in _PAGES and not pdf_wanted else None
