"""Elsevier's article API, for those entitled: off without a key. Files are for text and data mining under Elsevier's terms.

The direct PDF may be a one-page preview. Then the full XML is asked for, which names the attachment with the whole PDF.
Entitlement follows from the address or from the institutional token.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from pydantic import Field, SecretStr

import docstokg_assets.resolvers as kit

_API = "https://api.elsevier.com/content"
_PREFIXES = "10.1016 10.1006 10.1053 10.1054 10.1067 10.1078 10.1197 10.2353 10.3182 10.4065"
_ATTACHMENT = re.compile(rb"<(?:[a-z]{1,10}:)?attachment-eid>(1-s2\.0-[0-9A-Za-z()-]{5,60}-main\.pdf)<")
_DENIED_WORDS = re.compile(r"(?i)not.?entitled|authorization_error|first page|view parameter|invalid_input")
_LICENSE = "tdm-elsevier"


class ElsevierSettings(kit.KeyedSettings):
    inst_token: SecretStr | None = Field(None, description="institutional token; keep it on the server")


_WORK = kit.Work("W1", doi="10.1016/j.ice.2024.1")
_KEYED = kit.ResolverContext(api_keys={"elsevier": "key"})
_DIRECT, _FULL = f"{_API}/article/doi/10.1016/j.ice.2024.1", f"{_API}/article/doi/10.1016/j.ice.2024.1?view=FULL"
_EID = "1-s2.0-S0000000000000001-main.pdf"
_XML = f"<full-text-retrieval-response><xocs:attachment-eid>{_EID}</xocs:attachment-eid></full-text-retrieval-response>"
_DENIED = {"service-error": {"status": {"statusCode": "AUTHORIZATION_ERROR", "statusText": "NOT_ENTITLED"}}}
_INVALID = {"service-error": {"status": {"statusCode": "INVALID_INPUT", "statusText": "View parameter is not valid"}}}


@kit.register("elsevier")
class ElsevierResolver(kit.Resolver):
    tier = kit.Tier.PUBLISHER_KEY
    default_rank = 10
    api_host = "api.elsevier.com"
    needs_key = True
    robots = False
    head_precheck = False
    Settings = ElsevierSettings
    settings: ElsevierSettings
    EXAMPLES = (
        kit.Example(_WORK, [_XML.encode()], [_DIRECT, f"{_API}/object/eid/{_EID}", _FULL], _KEYED),
        kit.Example(_WORK, [b"<full-text-retrieval-response/>"], [_DIRECT, _FULL], _KEYED),
        kit.Example(_WORK, [kit.answer(_DENIED, 403)], [_DIRECT], _KEYED, kit.Reason.NOT_ENTITLED),
        kit.Example(_WORK, [kit.answer(_INVALID, 400)], [_DIRECT], _KEYED, kit.Reason.NOT_ENTITLED),
        kit.Example(_WORK, [kit.answer({"error": "APIKEY_INVALID"}, 401)], [_DIRECT], _KEYED, kit.Reason.HTTP_4XX),
        kit.Example(_WORK, [kit.answer({}, 404)], [_DIRECT], _KEYED, kit.Reason.NO_CANDIDATE),
        kit.Example(kit.Work("W2", doi="10.5555/1")),
    )

    def applies(self, work: kit.Work) -> bool:
        return kit.has_prefix(work, _PREFIXES)

    def candidates(self, work: kit.Work) -> kit.Candidates:
        yield self.candidate(_article(work), license=_LICENSE)

    def resolve(self, work: kit.Work, context: kit.ResolverContext) -> kit.Resolution:
        """Asked when the direct PDF was refused or was a preview."""
        secret = self._secrets(context)
        url = f"{_article(work)}?view=FULL"
        response = yield kit.api_request(url, headers={"Accept": "application/xml"}, secret_headers=secret, cache=False)
        if _DENIED_WORDS.search(_said(response)) and response.status in (400, 403):
            return kit.ResolverResult(reason=kit.Reason.NOT_ENTITLED, note="no entitlement to the full text")
        if failed := kit.failure(response):
            return failed
        if b"full-text-retrieval-response" not in response.body:
            return kit.bad_answer("unexpected answer of api.elsevier.com")
        found = []
        if eid := _ATTACHMENT.search(response.body):
            found.append(self.candidate(f"{_API}/object/eid/{eid[1].decode()}", license=_LICENSE))
        found.append(self.candidate(url, kit.Target.XML, rank=self.rank + 1, license=_LICENSE))
        return kit.ResolverResult(tuple(found))

    def authorize(self, candidate: kit.Candidate, context: kit.ResolverContext) -> kit.Authorization:
        accept = "application/xml" if candidate.target is kit.Target.XML else "application/pdf"
        return kit.Authorization({"Accept": accept}, self._secrets(context))

    def refuses(self, candidate: kit.Candidate, response: kit.Response) -> tuple[kit.Reason, str] | None:
        if response.status == 401:
            return kit.Reason.HTTP_4XX, "the key of resolvers.elsevier is missing or wrong (HTTP 401)"
        if response.status == 403 or (response.status == 400 and _DENIED_WORDS.search(_said(response))):
            return kit.Reason.NOT_ENTITLED, "no entitlement to the full text"
        if response.ok and _DENIED_WORDS.search(response.headers.get("x-els-status", "")):
            return kit.Reason.NOT_ENTITLED, "only a preview was sent"
        return None

    def _secrets(self, context: kit.ResolverContext) -> dict[str, str]:
        token = self.settings.inst_token
        own = {"X-ELS-Insttoken": token.get_secret_value()} if token is not None else {}
        return {"X-ELS-APIKey": context.api_keys.get(self.name, ""), **own}


def _said(response: kit.Response) -> str:
    return f"{response.headers.get('x-els-status', '')} {response.body[:2000].decode('utf-8', 'replace')}"


def _article(work: kit.Work) -> str:
    return f"{_API}/article/doi/{quote(work.doi or '', safe='/:;()')}"
