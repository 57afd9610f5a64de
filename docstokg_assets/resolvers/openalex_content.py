"""OpenAlex content: the copy that OpenAlex itself keeps and sells, a cent per file. Off until enabled, with a key and a budget.

The daily budget is a setting; the catalog counts what was spent, for all runs and processes together. The price is taken
from the budget before the request and returned when nothing was sold; a request whose answer was lost may have been sold, counts
as spent and is not repeated. The URL of a bought file carries a signature, so it is
never stored; it is cached here while it is valid, so that a work that must wait does not buy twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pydantic import Field

import docstokg_assets.resolvers as kit
from resources.clock import Clock, SystemClock

FILE_USD = 0.01
NOT_FOUND_USD = 0.0001  # a request for a missing file costs a credit
LINK_LASTS_S = 300.0
_UNSOLD = (
    kit.RefusedError,
    kit.HostClosed,
    kit.BreakerOpen,
    GeneratorExit,
)  # nothing was sent, or the server did nothing


class OpenAlexContentSettings(kit.KeyedSettings):
    enabled: bool = Field(False, description="whether it is asked at all; it costs money")
    budget_usd_per_day: float = Field(
        1.0, ge=0, description="most that it may spend in a day (UTC), all runs and processes together; 0.01 a file"
    )


@dataclass(frozen=True)
class FakeBudget:
    """A budget for the examples."""

    full: bool

    def spend(self, name: str, amount: float, per_day: float) -> kit.Spent:
        return kit.Spent(self.full, 20_000)

    def give_back(self, name: str, amount: float, day: int) -> None:
        pass


_WORK = kit.Work("W1", has_content=True)
_PAYING = kit.ResolverContext(api_keys={"openalex_content": "key"}, budget=FakeBudget(full=True))
_SIGNED = "https://a1.r2.cloudflarestorage.com/openalex-pdfs/1.pdf?X-Amz-Signature=1"


@kit.register("openalex_content")
class OpenAlexContentResolver(kit.Resolver):
    tier = kit.Tier.LANDING_SCRAPE  # after all that is free, before the archive
    default_rank = 90
    api_host = "content.openalex.org"
    needs_key = True
    robots = False
    head_precheck = False  # the signed URL is made for one GET
    Settings = OpenAlexContentSettings
    EXAMPLES = (
        kit.Example(_WORK, [kit.answer(b"", 302, {"location": _SIGNED})], [_SIGNED], _PAYING),
        kit.Example(_WORK, [kit.answer(b"<title>404 Not Found</title>", 404)], context=_PAYING),
        kit.Example(_WORK, [kit.answer({"error": "Invalid API key"}, 401)], (), _PAYING, kit.Reason.HTTP_4XX),
        kit.Example(_WORK, [b"%PDF-1.7"], ["https://content.openalex.org/works/W1.pdf"], _PAYING),
        kit.Example(_WORK, [b"<html>Just a moment</html>"], (), _PAYING, kit.Reason.BAD_ANSWER),
        kit.Example(_WORK, (), (), replace(_PAYING, budget=FakeBudget(full=False)), kit.Reason.BUDGET_SPENT),
        kit.Example(_WORK, reason=kit.Reason.NO_CANDIDATE),  # without a key no request is sent
        kit.Example(kit.Work("W2")),  # OpenAlex has no copy
    )

    settings: OpenAlexContentSettings

    def __init__(self, settings: kit.ResolverSettings, position: int | None = None) -> None:
        super().__init__(settings, position)
        self.clock: Clock = SystemClock()
        self._bought: dict[str, tuple[float, kit.Candidate]] = {}  # work -> when its link expires, and the link

    def applies(self, work: kit.Work) -> bool:
        return work.has_content and kit.normalize_openalex_id(work.work_id) is not None

    def resolve(self, work: kit.Work, context: kit.ResolverContext) -> kit.Resolution:
        key, budget, per_day = context.api_keys.get(self.name), context.budget, self.settings.budget_usd_per_day
        if not key or budget is None:
            return kit.nothing("OpenAlex content needs a key: set DOCSTOKG_CONTENT_API_KEY_OPENALEX_CONTENT")
        expires, link = self._bought.get(work.work_id, (0.0, None))
        if link is not None and expires > self.clock.monotonic():
            return kit.ResolverResult((link,))
        spent = budget.spend(self.name, FILE_USD, per_day)
        if not spent.taken:
            note = f"today's {per_day:g} USD for OpenAlex content are spent (budget_usd_per_day)"
            return kit.ResolverResult((), kit.Reason.BUDGET_SPENT, note, spent.next_day_begins)
        # the redirect leads to a signed URL on another host, which must not receive the key
        once = {"secret_params": {"api_key": key}, "follow_redirects": False, "cache": False, "repeatable": False}
        try:
            response = yield kit.api_request(f"https://content.openalex.org/works/{work.work_id}.pdf", **once)
        except _UNSOLD:
            budget.give_back(self.name, FILE_USD, spent.day)
            raise
        url = kit.normalize_url(response.headers.get("location"))
        if 300 <= response.status < 400 and url:
            return kit.ResolverResult((self._remember(work, self.candidate(url)),))
        if response.ok and b"%PDF-" in response.body[:1024]:  # the file itself instead of a link to it
            file = self.candidate(f"https://content.openalex.org/works/{work.work_id}.pdf")
            return kit.ResolverResult((file,), delivered=response)
        budget.give_back(self.name, FILE_USD - (NOT_FOUND_USD if response.status == 404 else 0.0), spent.day)
        return kit.failure(response) or kit.bad_answer("OpenAlex content did not redirect to a file")

    def _remember(self, work: kit.Work, link: kit.Candidate) -> kit.Candidate:
        now = self.clock.monotonic()
        for work_id in [known for known, (expires, _) in list(self._bought.items()) if expires <= now]:
            self._bought.pop(work_id, None)
        self._bought[work.work_id] = (now + LINK_LASTS_S, link)
        return link
