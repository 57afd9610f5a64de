"""Base classes for resolvers that send one request per work: any JSON API, an index by DOI, a repository by record number."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar

from docstokg_assets.domain.json_access import JsonObject, dig, mapping
from docstokg_assets.domain.plans import Target, Tier
from docstokg_assets.domain.works import Work
from docstokg_assets.resolvers import answers
from docstokg_assets.resolvers.registry import Candidates, Resolution, Resolver, ResolverContext, ResolverResult
from docstokg_assets.resolvers.routes import file_url, looks_like_pdf, page_url
from resources.http.messages import Request, Response


def indexed_doi(work: Work) -> str | None:
    """The DOI unless it is arXiv's own: journal indexes do not list those, and the arxiv resolver needs no index."""
    return work.doi if work.doi and not work.doi.lower().startswith("10.48550/") else None


class ApiResolver(Resolver):
    """One request per work, answered with JSON. A subclass writes `request` and `read`."""

    tier = Tier.DIRECT_OA
    head_precheck = False  # the API names files, and a GET tells a page from a file as well

    def applies(self, work: Work) -> bool:
        return indexed_doi(work) is not None

    def resolve(self, work: Work, context: ResolverContext) -> Resolution:
        request = self.request(work, context)
        if isinstance(request, ResolverResult):
            return request
        response = yield request
        if failed := self.failure(response):
            return failed
        found = self.read(answers.json_of(response), work, response)
        return (
            answers.bad_answer(f"unexpected answer of {self.api_host}") if found is None else answers.result_of(found)
        )

    def request(self, work: Work, context: ResolverContext) -> Request | ResolverResult:
        """The request to send, or a result when there is no point in sending one."""
        raise NotImplementedError

    def failure(self, response: Response) -> ResolverResult | None:
        """The result when the answer is an error. Extend it where a provider reports errors in its own way."""
        return answers.failure(response)

    def read(self, data: Any, work: Work, response: Response) -> Candidates | None:
        """The candidates in an answer; None when it does not have the documented form. `data` is its JSON."""
        raise NotImplementedError

    def file(self, value: Any, target: Target = Target.PDF, license_: Any = None, **fields: Any) -> Candidates:
        """A candidate for a file that the provider names, if its URL is usable. `license_` is the provider's spelling."""
        if url := file_url(value, target):
            yield self.candidate(url, target, license=answers.license_name(license_), **fields)


class IndexResolver(ApiResolver):
    """An index, searched by DOI, of what others hold. Asked when the known copies have failed."""

    asked_in: ClassVar[Tier | None] = Tier.LANDING_SCRAPE
    records_at: ClassVar[tuple[str, ...]] = ("results",)  # the keys that lead to the list of records in a good answer
    doi_key: ClassVar[str] = "doi"  # the key of a record under which it has its DOI, or a list of them

    def request(self, work: Work, context: ResolverContext) -> Request:
        return self.search(work.doi or "", context)

    def read(self, data: Any, work: Work, response: Response) -> Candidates | None:
        records = self.records(mapping(data))
        if not isinstance(records, list):
            return None
        found = map(mapping, records)
        own = [record for record in found if any(answers.names_doi(doi, work.doi or "") for doi in self.dois(record))]
        return (candidate for record in own for candidate in self.copies(record))

    def search(self, doi: str, context: ResolverContext) -> Request:
        """The search request for one DOI."""
        raise NotImplementedError

    def records(self, data: JsonObject) -> Any:
        """The list of records in a good answer."""
        return dig(data, *self.records_at)

    def dois(self, record: JsonObject) -> Iterable[Any]:
        """The DOIs of a record; it is used when the work's DOI is among them."""
        found = record.get(self.doi_key)
        return found if isinstance(found, list) else [found]

    def copies(self, record: JsonObject) -> Candidates:
        """The candidates in a record of the work."""
        raise NotImplementedError

    def copies_at(self, urls: Iterable[Any], license_: Any = None, **fields: Any) -> Candidates:
        """Candidates for URLs of unknown type: a file if it looks like one, else a landing page, which is for a later tier.

        `fields` are further fields of each Candidate.
        """
        for value in urls:
            url = file_url(value)
            if url and looks_like_pdf(url):
                yield self.candidate(url, license=answers.license_name(license_), **fields)
            elif page := page_url(value):
                tier, license_ = Tier.LANDING_SCRAPE, answers.license_name(license_)
                yield self.candidate(page, Target.LANDING, tier=tier, license=license_, **fields)


class DepositResolver(ApiResolver):
    """A repository that keeps a work under a record number, which the work's DOI or one of its pages contains."""

    robots = False  # the API gives these links to programs
    doi_pattern: ClassVar[re.Pattern[str]]  # group 1: the number
    page_pattern: ClassVar[re.Pattern[str]]  # group 1: the number
    record_url: ClassVar[str]  # {}: the number
    needed: ClassVar[str]  # a key that every record has

    def applies(self, work: Work) -> bool:
        return self._number(work) is not None

    def request(self, work: Work, context: ResolverContext) -> Request | ResolverResult:
        number = self._number(work)
        return answers.nothing() if number is None else answers.api_request(self.record_url.format(number.lower()))

    def read(self, data: Any, work: Work, response: Response) -> Candidates | None:
        record = self.record(mapping(data))
        return self.copies(record) if self.needed in record else None

    def record(self, data: JsonObject) -> JsonObject:
        """The record in a good answer."""
        return data

    def copies(self, record: JsonObject) -> Candidates:
        """The candidates in a record."""
        raise NotImplementedError

    def _number(self, work: Work) -> str | None:
        if work.doi and (match := self.doi_pattern.fullmatch(work.doi)):
            return match[1]
        urls = (url for location in work.locations for url in (location.landing_url, location.pdf_url) if url)
        return next((match[1] for url in urls if (match := self.page_pattern.fullmatch(url))), None)
