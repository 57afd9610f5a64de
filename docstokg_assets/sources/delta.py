"""Find the years that have new works since a day. Sends at most two requests.

OpenAlex lists *updated* works only under some plans; otherwise the works *published* lately are counted, which finds new works
but no changes of old ones. The sensor `nightly_delta` calls this and requests the runs.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Literal

from docstokg_assets.sources import PlanRequired
from docstokg_assets.sources.openalex_api import OpenAlexApi
from resources.http.messages import Request, Response

LOOK_BACK = dt.timedelta(days=30)  # OpenAlex lists a record days or weeks after its publication date
Way = Literal["updated", "published"]
_PUBLISHED = "looked at works published since {since}: new works are found, changes of older ones are not"


@dataclass(frozen=True, slots=True)
class Delta:
    way: Way
    since: dt.date  # by `way`
    works: Mapping[int, int]  # by publication year
    message: str  # which way was used, and what the other would need


def find_delta(
    api: OpenAlexApi, works_filter: str, since: dt.date, *, has_key: bool
) -> Generator[Request, Response, Delta]:
    needs = "from_updated_date would, and needs an OpenAlex key with a plan that includes it (openalex.api_key)"
    if has_key:
        try:
            works = yield from api.counts_by_year(_with(works_filter, f"from_updated_date:{since}"))
            return Delta("updated", since, works, f"asked for works updated since {since} (from_updated_date)")
        except PlanRequired as refused:
            needs = f"from_updated_date would; {refused.message}"
    earlier = since - LOOK_BACK
    works = yield from api.counts_by_year(_with(works_filter, f"from_publication_date:{earlier}"))
    return Delta("published", earlier, works, f"{_PUBLISHED.format(since=earlier)}; {needs}")


def _with(works_filter: str, part: str) -> str:
    return f"{works_filter},{part}" if works_filter else part
