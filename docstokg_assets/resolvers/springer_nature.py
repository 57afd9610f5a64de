"""Springer Nature's open access API: full texts as JATS, with a free key; off without one."""

from __future__ import annotations

from dataclasses import replace

import docstokg_assets.resolvers as kit

_XML = b'<?xml version="1.0" encoding="UTF-8"?>\n'
_JATS = "https://api.springernature.com/openaccess/jats"
_PREFIXES = (
    "10.1007 10.1038 10.1186 10.1057 10.1140 10.1617 10.1023 10.1245 10.1251 10.1361 10.1365 10.1379 10.1381 10.1385"
    " 10.1891 10.3758 10.1114 10.1208 10.1065 10.1013 10.17269"
)
_WORK = kit.Work("W1", doi="10.1007/s1-2")
_KEYED = kit.ResolverContext(api_keys={"springer_nature": "key"})
_ARTICLE = b"<response><records><article><front/><body><p>words</p></body></article></records></response>"
_FILE = f"{_JATS}?q=doi%3A10.1007%2Fs1-2"


@kit.register("springer_nature")
class SpringerNatureResolver(kit.Resolver):
    tier = kit.Tier.PUBLISHER_KEY
    default_rank = 30
    api_host = "api.springernature.com"
    needs_key = True
    robots = False
    head_precheck = False
    Settings = kit.KeyedSettings
    EXAMPLES = (
        kit.Example(_WORK, [_ARTICLE], [_FILE], _KEYED),
        kit.Example(_WORK, [b"<response><result><total>0</total></result><records/></response>"], context=_KEYED),
        kit.Example(_WORK, [kit.answer({"status": "Fail"}, 401)], (), _KEYED, kit.Reason.HTTP_4XX),
        kit.Example(_WORK, [kit.answer({"message": "Not entitled"}, 403)], (), _KEYED, kit.Reason.NOT_ENTITLED),
        kit.Example(kit.Work("W2", doi="10.5555/1")),
    )

    def applies(self, work: kit.Work) -> bool:
        return kit.has_prefix(work, _PREFIXES)

    def resolve(self, work: kit.Work, context: kit.ResolverContext) -> kit.Resolution:
        """The answer is the file, so it is not requested again."""
        secret = {"api_key": context.api_keys.get(self.name, "")}
        request = kit.api_request(_JATS, {"q": f"doi:{work.doi}"}, secret_params=secret, cache=False)
        response = yield request
        if response.status == 403 and b"entitle" in response.body[:2000].lower():
            return kit.ResolverResult(reason=kit.Reason.NOT_ENTITLED, note="no entitlement to the full text")
        if failed := kit.failure(response):
            return failed
        if b"<response" not in response.body[:4096]:
            return kit.bad_answer("unexpected answer of api.springernature.com")
        start, end = response.body.find(b"<article"), response.body.rfind(b"</article>")
        if b"<body" not in response.body or not 0 <= start < end:
            return kit.nothing("no full text of this DOI")
        article = _XML + response.body[start : end + len(b"</article>")]  # without the envelope
        file = self.candidate(request.url, kit.Target.XML, license="tdm-springer-nature")
        return kit.ResolverResult((file,), delivered=replace(response, body=article))
