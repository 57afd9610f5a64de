"""Wiley's text and data mining API, for those entitled: off without a token. It redirects to the PDF."""

from __future__ import annotations

from urllib.parse import quote

import docstokg_assets.resolvers as kit

_API = "https://api.wiley.com/onlinelibrary/tdm/v1/articles"
_PREFIXES = "10.1002 10.1111 10.1046 10.1113 10.1196 10.1256 10.1348 10.1359 10.1526 10.1029 10.1634 10.1096 10.1049"


@kit.register("wiley")
class WileyResolver(kit.Resolver):
    tier = kit.Tier.PUBLISHER_KEY
    default_rank = 20
    needs_key = True
    robots = False
    head_precheck = False
    Settings = kit.KeyedSettings
    EXAMPLES = (
        kit.Example(kit.Work("W1", doi="10.1002/ice.1"), urls=[f"{_API}/10.1002%2Fice.1"]),
        kit.Example(kit.Work("W2", doi="10.5555/1")),
        kit.Example(kit.Work("W3")),
    )

    def applies(self, work: kit.Work) -> bool:
        return kit.has_prefix(work, _PREFIXES)

    def candidates(self, work: kit.Work) -> kit.Candidates:
        yield self.candidate(f"{_API}/{quote(work.doi or '', safe='')}", license="tdm-wiley")

    def authorize(self, candidate: kit.Candidate, context: kit.ResolverContext) -> kit.Authorization:
        secret = {"Wiley-TDM-Client-Token": context.api_keys.get(self.name, "")}
        return kit.Authorization({"Accept": "application/pdf"}, secret)

    def refuses(self, candidate: kit.Candidate, response: kit.Response) -> tuple[kit.Reason, str] | None:
        if response.status == 401 or (response.status == 400 and b"token" in response.body[:2000].lower()):
            return kit.Reason.HTTP_4XX, f"the token of resolvers.wiley is missing or wrong (HTTP {response.status})"
        return (kit.Reason.NOT_ENTITLED, "no entitlement to the full text") if response.status == 403 else None
