"""What resolvers of providers with an API share: requests, alone or for several works at once; how answers are read; base
classes for any JSON API, an index by DOI, a repository by record number."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar
from urllib.parse import urlencode

from docstokg_assets.domain.identifiers import normalize_doi
from docstokg_assets.domain.json_access import JsonObject, dig, mapping, text, values_at
from docstokg_assets.domain.plans import Candidate, Target, Tier
from docstokg_assets.domain.works import Work
from docstokg_assets.resolvers.registry import Candidates, Resolution, Resolver, ResolverContext, ResolverResult
from docstokg_assets.resolvers.routes import file_url, looks_like_pdf, page_url
from resources.http.exchange import reason_of_status
from resources.http.messages import BatchableRequest, Request, Response, Role
from resources.records import Reason

_CC_URL = re.compile(r"(?i)https?://creativecommons\.org/(?:licenses/(by[a-z-]*)|(publicdomain/zero))/.*")
_CC_NAME = re.compile(r"(?i)cc[\s_-]*(by|0|zero)((?:[\s_-]*(?:nc|nd|sa))*)(?![a-z]).*")


def api_request(url: str, query: Mapping[str, Any] | None = None, /, **fields: Any) -> Request:
    """A metadata request. APIs are used under their own terms, so robots.txt, which is about pages, does not apply.

    `query` holds the parameters of the URL; `fields` are further fields of the Request.
    """
    return Request(f"{url}?{urlencode(query)}" if query else url, Role.METADATA, obey_robots=False, **fields)


@dataclass(frozen=True, slots=True)
class BatchBuilder:
    """Call `build` with the items of a batch and with what the work's context gives, such as a key.

    Requests with equal builders may be sent as one.
    """

    build: Callable[..., Request]
    arguments: tuple[Any, ...] = field(default=(), repr=False)  # may hold a key

    def __call__(self, items: Sequence[str]) -> Request:
        return self.build(items, *self.arguments)


def batchable_request(
    item: str,
    most: int,
    build: Callable[..., Request],
    *arguments: Any,
    is_for_all: Callable[[Response], bool] = lambda response: False,
) -> Request:
    """A request for `item` that may also carry the items of other works, at most `most` of them.

    `build(items, *arguments)` makes the request for several items; `response.items` lists them in the order asked for.
    `is_for_all` tells an error about the whole batch from one that a single item caused.
    """
    builder = BatchBuilder(build, arguments)
    return replace(builder([item]), batchable=BatchableRequest(item, most, builder, is_for_all))


def nothing(note: str = "") -> ResolverResult:
    """An empty result: the provider knows no copy."""
    return ResolverResult(reason=Reason.NO_CANDIDATE, note=note)


def result_of(candidates: Iterable[Candidate], note: str = "") -> ResolverResult:
    """A result with these candidates, or an empty one with `note` when there are none."""
    found = tuple(candidates)
    return ResolverResult(found) if found else nothing(note)


def failure(response: Response) -> ResolverResult | None:
    """The result for an HTTP error; None for a 2xx answer. "Not found" is an ordinary empty result."""
    if response.ok:
        return None
    note = f"HTTP {response.status}"
    if response.status in (404, 410):
        return nothing(note)
    if response.status in (401, 403):
        note += ", as for a key that is missing or wrong"
    reason = reason_of_status(response.status)
    return ResolverResult(reason=Reason.HTTP_4XX if reason is Reason.OK else reason, note=note)


def bad_answer(note: str) -> ResolverResult:
    """The result for a 2xx answer that does not have the documented form."""
    return ResolverResult(reason=Reason.BAD_ANSWER, note=text(note) or "")


def json_of(response: Response) -> Any:
    """The JSON value of an answer, or None when it is not JSON."""
    try:
        return response.json()
    except ValueError:
        return None


def phrase(value: str) -> str:
    """A quoted phrase for the query languages of search engines, which match it literally."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def names_doi(value: Any, doi: str) -> bool:
    """Whether a value from a provider is this DOI; searches also return similar ones."""
    found = normalize_doi(value)
    return found is not None and found.lower() == doi.lower()


def license_name(value: Any) -> str | None:
    """`cc-by`, `cc-by-nc`, `cc0` … from any spelling or link that providers use; other licences as written."""
    written = text(value, 200)
    if written and (link := _CC_URL.fullmatch(written)):
        return f"cc-{link[1].lower()}" if link[1] else "cc0"
    if written and (name := _CC_NAME.fullmatch(written)):
        parts = re.findall("nc|nd|sa", name[2].lower())
        return "-".join(("cc-by", *parts)) if name[1].lower() == "by" else "cc0"
    return written


def indexed_doi(work: Work) -> str | None:
    """The DOI unless it is arXiv's own: journal indexes do not list those, and the arxiv resolver needs no index."""
    return work.doi if work.doi and not work.doi.lower().startswith("10.48550/") else None


def has_prefix(work: Work, prefixes: str) -> bool:
    """Whether the DOI of a work has one of these prefixes, written with spaces between them."""
    return work.doi is not None and work.doi.partition("/")[0] in prefixes.split()


def metas_of(response: Response, name: str) -> list[str]:
    """The contents of the metas of a name on a page."""
    from docstokg_assets.landing.page import read_page  # lxml is not for commands that read no page

    page = read_page(response.body, response.headers.get("content-type"), response.url or "https://invalid.example/")
    return page.metas.get(name, []) if page is not None else []


class ApiResolver(Resolver):
    """One request per work, answered with JSON. A subclass writes `request` and `read`."""

    tier = Tier.DIRECT_OA
    head_precheck = False  # the API names files, and a GET shows as well whether it is one

    def item(self, work: Work) -> str | None:
        """The id by which the provider is queried for a work; None when it cannot know the work."""
        return indexed_doi(work)

    def applies(self, work: Work) -> bool:
        return self.item(work) is not None

    def resolve(self, work: Work, context: ResolverContext) -> Resolution:
        request = self.request(work, context)
        if isinstance(request, ResolverResult):
            return request
        response = yield request
        if failed := self.failure(response):
            return failed
        found = self.read(json_of(response), work, response)
        return bad_answer(f"unexpected answer of {self.api_host}") if found is None else result_of(found)

    def request(self, work: Work, context: ResolverContext) -> Request | ResolverResult:
        """The request to send, or a result when there is no point in sending one."""
        raise NotImplementedError

    def failure(self, response: Response) -> ResolverResult | None:
        """The result when the answer is an error. Extend it where a provider reports errors in its own way."""
        return failure(response)

    def read(self, data: Any, work: Work, response: Response) -> Candidates | None:
        """The candidates in an answer; None when it does not have the documented form. `data` is its JSON."""
        raise NotImplementedError

    def copies(self, record: JsonObject) -> Candidates:
        """The candidates in a record of the work, where `read` is inherited."""
        raise NotImplementedError

    def file(self, value: Any, target: Target = Target.PDF, license_: Any = None, **fields: Any) -> Candidates:
        """A candidate for a file that the provider names, if its URL is usable. `license_` is the provider's spelling."""
        if url := file_url(value, target):
            yield self.candidate(url, target, license=license_name(license_), **fields)


class IndexResolver(ApiResolver):
    """An index, searched by DOI, of what others hold. Asked when the known copies have failed."""

    asked_in: ClassVar[Tier | None] = Tier.LANDING_SCRAPE
    records_at: ClassVar[tuple[str, ...]] = ("results",)  # the keys that lead to the list of records in a good answer
    doi_key: ClassVar[str] = "doi"  # where a record has its DOIs: a key, or keys with dots between them

    def request(self, work: Work, context: ResolverContext) -> Request:
        return self.search(work.doi or "", context)

    def read(self, data: Any, work: Work, response: Response) -> Candidates | None:
        records = self.records(mapping(data))
        if not isinstance(records, list):
            return None
        doi = work.doi or ""
        own = [one for one in map(mapping, records) if any(names_doi(found, doi) for found in self.dois(one))]
        return (candidate for record in own for candidate in self.copies(record))

    def search(self, doi: str, context: ResolverContext) -> Request:
        """The search request for one DOI."""
        raise NotImplementedError

    def records(self, data: JsonObject) -> Any:
        """The list of records in a good answer."""
        return dig(data, *self.records_at)

    def dois(self, record: JsonObject) -> Iterable[Any]:
        """The DOIs of a record; it is used when the work's DOI is among them."""
        return values_at(record, self.doi_key)

    def copies_at(self, urls: Iterable[Any], license_: Any = None, **fields: Any) -> Candidates:
        """Candidates for URLs of unknown type: a file if it looks like one, else a landing page, which is for a later tier.

        `fields` are further fields of each Candidate.
        """
        for value in urls:
            given = {"license": license_name(license_), **fields}
            if (url := file_url(value)) and looks_like_pdf(url):
                yield self.candidate(url, **given)
            elif page := page_url(value):
                yield self.candidate(page, Target.LANDING, tier=Tier.LANDING_SCRAPE, **given)


class DepositResolver(ApiResolver):
    """A repository that keeps a work under a record number, which the work's DOI or one of its pages contains."""

    robots = False  # the API gives these links to programs
    doi_pattern: ClassVar[re.Pattern[str]]  # group 1: the number
    page_pattern: ClassVar[re.Pattern[str]]  # group 1: the number
    record_url: ClassVar[str]  # {}: the number
    record_at: ClassVar[tuple[str, ...]] = ()  # the keys that lead to the record in a good answer
    needed: ClassVar[str]  # a key that every record has

    def item(self, work: Work) -> str | None:
        if work.doi and (match := self.doi_pattern.fullmatch(work.doi)):
            return match[1]
        match_page = self.page_pattern.fullmatch
        for location in work.locations:
            for url in (location.landing_url, location.pdf_url):
                if url and (match := match_page(url)):
                    return match[1]
        return None

    def request(self, work: Work, context: ResolverContext) -> Request:
        return api_request(self.record_url.format((self.item(work) or "").lower()))

    def read(self, data: Any, work: Work, response: Response) -> Candidates | None:
        record = mapping(dig(data, *self.record_at))
        return self.copies(record) if self.needed in record else None
