"""OpenAlex content: the copy that OpenAlex itself keeps and sells, a cent a file. Off until it is enabled, has a key, and money.

What a day may cost is a setting; what it has cost is counted in the catalog, for all runs and processes together. The money
is taken before the request and given back when nothing was sold. The address of what was bought carries a signature, and so is
never written down; it is remembered here for as long as it lasts, so that a work that must wait does not buy twice.
"""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field

from docstokg_assets.domain.identifiers import normalize_openalex_id, normalize_url
from docstokg_assets.domain.plans import Candidate, Tier
from docstokg_assets.domain.works import Work
from docstokg_assets.resolvers.answers import answer, api_request, bad_answer, failure, nothing
from docstokg_assets.resolvers.registry import (
    Example,
    KeyedSettings,
    Resolution,
    Resolver,
    ResolverContext,
    ResolverResult,
    register,
)
from resources.catalog.spending import Spent
from resources.clock import Clock, SystemClock
from resources.records import Reason

FILE_USD = 0.01
NOT_THERE_USD = 0.0001  # asking for a file that is not there costs a credit
LINK_LASTS_S = 300.0


class OpenAlexContentSettings(KeyedSettings):
    enabled: bool = Field(False, description="whether it is asked at all; it costs money")
    budget_usd_per_day: float = Field(
        1.0, ge=0, description="most that it may spend in a day (UTC), all runs and processes together; 0.01 a file"
    )


class FakeBudget:
    """Money for the examples."""

    def __init__(self, full: bool) -> None:
        self._full = full

    def spend(self, name: str, amount: float, per_day: float) -> Spent:
        return Spent(self._full, 20_000)

    def give_back(self, name: str, amount: float, day: int) -> None:
        pass


_WORK = Work("W1", has_content=True)
_PAYING = ResolverContext(api_keys={"openalex_content": "key"}, budget=FakeBudget(full=True))
_SIGNED = "https://a1.r2.cloudflarestorage.com/openalex-pdfs/1.pdf?X-Amz-Signature=1"


@register("openalex_content")
class OpenAlexContentResolver(Resolver):
    tier = Tier.LANDING_SCRAPE  # after all that is free, but before the archive
    default_rank = 90
    api_host = "content.openalex.org"
    needs_key = True
    robots = False
    head_precheck = False  # the signed address is made for one GET
    Settings = OpenAlexContentSettings
    EXAMPLES = (
        Example(_WORK, [answer(b"", 302, {"location": _SIGNED})], [_SIGNED], _PAYING),
        Example(_WORK, [answer(b"<title>404 Not Found</title>", 404)], (), _PAYING, Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"error": "Invalid or missing API key"}, 401)], (), _PAYING, Reason.HTTP_4XX),
        Example(_WORK, [answer(b"%PDF-1.7")], (), _PAYING, Reason.BAD_ANSWER),
        Example(_WORK, (), (), replace(_PAYING, budget=FakeBudget(full=False)), Reason.BUDGET_SPENT),
        Example(_WORK, reason=Reason.NO_CANDIDATE),  # no key: nobody is asked
        Example(Work("W2")),  # OpenAlex says that it has no copy
    )

    def __init__(self, settings: OpenAlexContentSettings, position: int | None = None) -> None:
        super().__init__(settings, position)
        self.budget = settings.budget_usd_per_day
        self.clock: Clock = SystemClock()
        self._bought: dict[str, tuple[float, Candidate]] = {}  # work -> until when its link lasts, and the link

    def applies(self, work: Work) -> bool:
        return work.has_content and normalize_openalex_id(work.work_id) is not None

    def resolve(self, work: Work, context: ResolverContext) -> Resolution:
        key, budget = context.api_keys.get(self.name), context.budget
        if not key or budget is None:
            return nothing("OpenAlex content needs a key: set DOCSTOKG_CONTENT_API_KEY_OPENALEX_CONTENT")
        lasts, link = self._bought.get(work.work_id, (0.0, None))
        if link is not None and lasts > self.clock.monotonic():
            return ResolverResult((link,))
        spent = budget.spend(self.name, FILE_USD, self.budget)
        if not spent.taken:
            note = f"today's {self.budget:g} USD for OpenAlex content are spent (budget_usd_per_day)"
            return ResolverResult((), Reason.BUDGET_SPENT, note, spent.next_day_begins)
        request = api_request(f"https://content.openalex.org/works/{work.work_id}.pdf")
        try:
            # the redirect leads to a signed address on another host, which the key must not follow
            response = yield replace(request, secret_params={"api_key": key}, follow_redirects=False, cache=False)
        except BaseException:  # also when the work is given back before its request could leave
            budget.give_back(self.name, FILE_USD, spent.day)
            raise
        url = normalize_url(response.headers.get("location"))
        if 300 <= response.status < 400 and url:
            return ResolverResult((self._remembered(work, Candidate(url, self.name, self.tier, rank=self.rank)),))
        budget.give_back(self.name, FILE_USD - (NOT_THERE_USD if response.status == 404 else 0.0), spent.day)
        return failure(response) or bad_answer("OpenAlex content did not say where the file is")

    def _remembered(self, work: Work, link: Candidate) -> Candidate:
        now = self.clock.monotonic()
        for name, (until, _) in list(self._bought.items()):
            if until <= now:
                self._bought.pop(name, None)
        self._bought[work.work_id] = (now + LINK_LASTS_S, link)
        return link
