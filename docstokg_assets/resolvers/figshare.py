"""Figshare: the files of an item, by asking its API for the item that the work's DOI or one of its pages names.

Files are asked for at ndownloader.figshare.com; the same path on figshare.com answers programs with a challenge (202).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from docstokg_assets.loose_json import items, mapping
from docstokg_assets.plans import Candidate, Tier
from docstokg_assets.resolvers.answers import (
    answer,
    api_request,
    bad_answer,
    failure,
    json_of,
    license_name,
    nothing,
    number_in,
)
from docstokg_assets.resolvers.registry import Example, Resolution, Resolver, ResolverContext, ResolverResult, register
from docstokg_assets.resolvers.routes import file_url
from docstokg_assets.works import Location, Work
from resources.records import Reason

_DOI = re.compile(r"(?i)10\.[0-9]{4,9}/(?:\w+\.)?figshare\.([0-9]+)(?:\.v[0-9]+)?")
_PAGE = re.compile(r"(?i)https?://(?:[\w-]+\.)?figshare\.com/articles/(?:[^/]+/)+?([0-9]+)(?:/[0-9]+)?/?")

_WORK = Work("W1", doi="10.6084/m9.figshare.29999999.v2")
_FILE = {
    "name": "paper.pdf",
    "mimetype": "application/pdf",
    "is_link_only": False,
    "download_url": "https://ndownloader.figshare.com/files/58999999",
}
_ORDINARY = {
    "id": 29999999,
    "is_embargoed": False,
    "download_disabled": False,
    "license": {"name": "CC BY 4.0", "url": "https://creativecommons.org/licenses/by/4.0/"},
    "files": [_FILE, {**_FILE, "name": "table.xlsx", "mimetype": "application/vnd.ms-excel"}],
}
_GONE = {"message": "Entity not found: ArticlePublic", "code": "EntityNotFound"}


@register("figshare")
class FigshareResolver(Resolver):
    tier = Tier.DIRECT_OA
    default_rank = 24
    api_host = "api.figshare.com"
    robots = False  # the API gives these links to programs
    head_precheck = False  # the item says what its files are
    EXAMPLES = (
        Example(_WORK, [answer(_ORDINARY)], ["https://ndownloader.figshare.com/files/58999999"]),
        Example(
            Work("W2", locations=(Location("https://figshare.com/articles/preprint/A_title/29999999/2", is_oa=True),)),
            [answer({**_ORDINARY, "files": [{**_FILE, "download_url": "https://figshare.com/ndownloader/files/7"}]})],
            ["https://ndownloader.figshare.com/files/7"],
        ),
        Example(_WORK, [answer({**_ORDINARY, "is_embargoed": True})], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer(_GONE, 404)], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"message": "Forbidden"}, 403)], reason=Reason.HTTP_4XX),
        Example(_WORK, [answer([])], reason=Reason.BAD_ANSWER),
        Example(Work("W3", doi="10.5555/1")),
    )

    def applies(self, work: Work) -> bool:
        return number_in(work, _DOI, _PAGE) is not None

    def resolve(self, work: Work, context: ResolverContext) -> Resolution:
        number = number_in(work, _DOI, _PAGE)
        if number is None:
            return nothing()
        response = yield api_request(f"https://api.figshare.com/v2/articles/{number}")
        if failed := failure(response):
            return failed
        item = mapping(json_of(response))
        if "files" not in item:
            return bad_answer("Figshare's answer has no files")
        candidates = tuple(self._candidates(item))
        return ResolverResult(candidates) if candidates else nothing()

    def _candidates(self, item: Mapping[str, Any]) -> Iterator[Candidate]:
        if any(item.get(name) is True for name in ("is_embargoed", "download_disabled", "is_metadata_record")):
            return
        license_ = license_name(mapping(item.get("license")).get("url"))
        for file in map(mapping, items(item["files"])):
            is_pdf = file.get("mimetype") == "application/pdf" or str(file.get("name")).lower().endswith(".pdf")
            url = file_url(file.get("download_url"))
            if url and is_pdf and file.get("is_link_only") is not True:
                yield Candidate(url, self.name, self.tier, rank=self.rank, license=license_)
