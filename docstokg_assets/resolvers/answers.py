"""What resolvers that ask an API have in common: the shape of a request, what an answer without success means, and the two ways
that most of them go. What stands in a good answer is each resolver's own business; retries and pauses are the driver's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import orjson

from docstokg_assets.domain.identifiers import normalize_doi
from docstokg_assets.domain.json_access import mapping, text
from docstokg_assets.domain.plans import Candidate, Target, Tier
from docstokg_assets.domain.works import Work
from docstokg_assets.resolvers.registry import Resolution, Resolver, ResolverContext, ResolverResult
from docstokg_assets.resolvers.routes import file_url, looks_like_pdf, page_url
from resources.http.messages import BatchableRequest, Request, Response, Role
from resources.records import Reason

_CC_URL = re.compile(r"(?i)https?://creativecommons\.org/(?:licenses/(by[a-z-]*)|(publicdomain/zero))/.*")
_CC_NAME = re.compile(r"(?i)cc[\s_-]*(by|0|zero)((?:[\s_-]*(?:nc|nd|sa))*)(?![a-z]).*")


def api_request(url: str, **more: Any) -> Request:
    """An API is asked under its own terms; robots.txt speaks of pages. `more` are further fields of the Request."""
    return Request(url, Role.METADATA, obey_robots=False, **more)


def batchable_request(item: str, most: int, build: Callable[[Sequence[str]], Request], **more: Any) -> Request:
    """A request that may be made for others too that wait for the same. The answer's `items` tell whose is whose. `more` are
    further fields of the BatchableRequest."""
    return replace(build([item]), batchable=BatchableRequest(item, most, build, **more))


def nothing(note: str = "") -> ResolverResult:
    return ResolverResult(reason=Reason.NO_CANDIDATE, note=note)


def named(candidates: Iterable[Candidate], note: str = "") -> ResolverResult:
    found = tuple(candidates)
    return ResolverResult(found) if found else nothing(note)


def failure(response: Response) -> ResolverResult | None:
    """None for a 2xx answer; "not there" is an ordinary empty result, everything else names its reason."""
    if response.ok:
        return None
    note = f"HTTP {response.status}"
    if response.status in (404, 410):
        return nothing(note)
    if response.status == 429:
        return ResolverResult(reason=Reason.RATE_LIMITED, note=note)
    if response.status in (401, 403):
        note += ", as for a key that is missing or wrong"
    reason = Reason.HTTP_5XX if response.status >= 500 else Reason.HTTP_4XX
    return ResolverResult(reason=reason, note=note)


def bad_answer(note: str) -> ResolverResult:
    return ResolverResult(reason=Reason.BAD_ANSWER, note=text(note) or "")


def json_of(response: Response) -> Any:
    """The JSON value of an answer, or None when it is not JSON."""
    try:
        return response.json()
    except ValueError:
        return None


def phrase(value: str) -> str:
    """In quotation marks, as the query languages of search engines want what is to be found as it stands."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def indexed_doi(work: Work) -> str | None:
    """The DOI, unless it is one of arXiv's own: those who index journals do not know them, and the arxiv resolver does."""
    return work.doi if work.doi and not work.doi.lower().startswith("10.48550/") else None


def names_doi(value: Any, doi: str) -> bool:
    """Whether what a provider wrote down is this DOI; searches also find what is only similar."""
    found = normalize_doi(value)
    return found is not None and found.lower() == doi.lower()


def copies_at(resolver: Resolver, urls: Iterable[Any], **more: Any) -> Iterator[Candidate]:
    """Candidates for addresses of which a provider does not say what they are: a file where it looks like one, else a page, which
    belongs to a later tier. `more` are further fields of each Candidate."""
    for named in urls:
        url = file_url(named)
        if url and looks_like_pdf(url):
            yield Candidate(url, resolver.name, resolver.tier, rank=resolver.rank, **more)
        elif page := page_url(named):
            yield Candidate(page, resolver.name, Tier.LANDING_SCRAPE, Target.LANDING, resolver.rank, **more)


def license_name(value: Any) -> str | None:
    """`cc-by` and its kin, however a provider writes them or links to them; any other licence as it is written."""
    said = text(value, 200)
    if said and (link := _CC_URL.fullmatch(said)):
        return f"cc-{link[1].lower()}" if link[1] else "cc0"
    if said and (name := _CC_NAME.fullmatch(said)):
        parts = re.findall("nc|nd|sa", name[2].lower())
        return "-".join(("cc-by", *parts)) if name[1].lower() == "by" else "cc0"
    return said


def number_in(work: Work, doi: re.Pattern[str], page: re.Pattern[str]) -> str | None:
    """The number under which a repository keeps a work, from its DOI or from a page that is known: the pattern's first group."""
    if work.doi and (match := doi.fullmatch(work.doi)):
        return match[1]
    urls = (url for location in work.locations for url in (location.landing_url, location.pdf_url) if url)
    return next((match[1] for url in urls if (match := page.fullmatch(url))), None)


class IndexResolver(Resolver):
    """One that knows, by DOI, what others hold. Asked when known copies failed."""

    tier = Tier.DIRECT_OA
    head_precheck = False

    def applies(self, work: Work) -> bool:
        return indexed_doi(work) is not None

    def ask_tier(self, work: Work) -> Tier:
        return Tier.LANDING_SCRAPE

    def resolve(self, work: Work, context: ResolverContext) -> Resolution:
        doi = work.doi or ""
        response = yield self.question(doi, context)
        if failed := failure(response):
            return failed
        records = self.records(mapping(json_of(response)))
        if not isinstance(records, list):
            return self.without_records(response)
        own = [record for record in map(mapping, records) if any(names_doi(said, doi) for said in self.dois(record))]
        return named(copy for record in own for copy in self.copies(record))

    def question(self, doi: str, context: ResolverContext) -> Request:
        raise NotImplementedError

    def records(self, said: Mapping[str, Any]) -> Any:
        """The list of records in a good answer."""
        return said.get("results")

    def without_records(self, response: Response) -> ResolverResult:
        return bad_answer(f"the answer of {self.api_host} has no records")

    def dois(self, record: Mapping[str, Any]) -> Iterable[Any]:
        """The DOIs that a record is of; it counts when ours is among them."""
        raise NotImplementedError

    def copies(self, record: Mapping[str, Any]) -> Iterator[Candidate]:
        raise NotImplementedError


class DepositResolver(Resolver):
    """A repository that keeps a work under a number of its own, which the work's DOI or one of its pages tells."""

    tier = Tier.DIRECT_OA
    robots = False  # the API gives these links to programs
    head_precheck = False  # the record says what its files are
    doi: ClassVar[re.Pattern[str]]
    page: ClassVar[re.Pattern[str]]
    record_url: ClassVar[str]  # {}: the number
    needed: ClassVar[str]  # what every record has

    def applies(self, work: Work) -> bool:
        return number_in(work, self.doi, self.page) is not None

    def resolve(self, work: Work, context: ResolverContext) -> Resolution:
        number = number_in(work, self.doi, self.page)
        if number is None:
            return nothing()
        response = yield api_request(self.record_url.format(number.lower()))
        if failed := failure(response):
            return failed
        record = self.record(mapping(json_of(response)))
        if self.needed not in record:
            return bad_answer(f"the answer of {self.api_host} has no {self.needed}")
        return named(self.copies(record))

    def record(self, said: Mapping[str, Any]) -> Mapping[str, Any]:
        return said

    def copies(self, record: Mapping[str, Any]) -> Iterator[Candidate]:
        raise NotImplementedError


def answer(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer for an example: JSON for anything but bytes."""
    if isinstance(body, bytes):
        return Response(status, "", {"content-type": "text/html", **(headers or {})}, body)
    return Response(status, "", {"content-type": "application/json", **(headers or {})}, orjson.dumps(body))
