"""What the search does with a landing page besides following its links: what the page declares, and the interface of its
repository."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Any

from docstokg_assets.domain.identifiers import normalize_doi
from docstokg_assets.domain.plans import Candidate, Target
from docstokg_assets.domain.works import Work
from docstokg_assets.landing.extract import Found
from docstokg_assets.landing.repositories import Recovering, Recovery
from docstokg_assets.resolvers.api import license_name
from resources.http.errors import HttpError
from resources.http.messages import Request, Response


def as_declared(candidate: Candidate, found: Found, work: Work) -> Candidate:
    """The candidate with the licence that its page declares, if none is known, and whether the page is about another DOI."""
    declared, cited = license_name(found.license), normalize_doi(found.cite_as)
    doubted = bool(cited and work.doi and cited.lower() != work.doi.lower())
    return replace(candidate, license=candidate.license or declared, doubted=candidate.doubted or doubted)


def sent_as(candidate: Candidate, recovering: Recovering, **fields: Any) -> Generator[Request, Response, Recovery]:
    """Send the requests of a recovery in the name of the candidate's resolver. `fields` are fields of each Request."""
    fields |= {"resolver": candidate.resolver, "tier": str(candidate.tier)}
    request = next(recovering)
    try:
        while True:
            request = recovering.send((yield replace(request, **fields)))
    except StopIteration as done:
        recovery: Recovery = done.value
        return recovery
    except HttpError:
        recovering.close()
        raise


def recovered_files(candidate: Candidate, recovery: Recovery) -> Iterator[Candidate]:
    """The files that the interface of a repository names, as candidates."""
    for file in recovery.files:
        license_ = candidate.license or license_name(file.license)
        file_of_page = replace(candidate, url=file.link.url, target=Target.PDF, hop=candidate.hop + 1)
        yield replace(file_of_page, referer=None, checksum=file.checksum, license=license_)
