"""bioRxiv and medRxiv: the newest version of a preprint, from their common API, by DOI.

Since December 2025 both servers register under 10.64898, before under 10.1101, which journals of the same press use too.
"""

from __future__ import annotations

import re

import docstokg_assets.resolvers as kit

_DOI = re.compile(r"10\.64898/\S+|10\.1101/(?:[0-9]{6}|(?:19|20)[0-9]{2}\.[0-9]{2}\.[0-9]{2}\.[0-9]{6,8})")

_WORK = kit.Work("W1", doi="10.64898/2026.03.02.709999")
_POST = {"doi": "10.64898/2026.03.02.709999", "license": "cc_by", "server": "bioRxiv"}
_XML = "https://www.biorxiv.org/content/early/2026/05/01/709999.source.xml"
_POSTS = {"collection": [{**_POST, "version": "1"}, {**_POST, "version": "2", "jatsxml": _XML}]}
_NO_POSTS = {"messages": [{"status": "no posts found"}], "collection": []}
_MEDRXIV = "https://www.medrxiv.org/content/10.1101"
_DATED = kit.Work("W2", doi="10.1101/2020.01.01.200001")
_AT_MEDRXIV = kit.Work("W3", doi="10.1101/123456", locations=(kit.Location(f"{_MEDRXIV}/123456v1"),))


@kit.register("biorxiv")
class BiorxivResolver(kit.ApiResolver):
    default_rank = 21
    api_host = "api.biorxiv.org"
    EXAMPLES = (
        kit.Example(_WORK, [_POSTS], [f"https://www.biorxiv.org/content/{_WORK.doi}v2.full.pdf", _XML]),
        kit.Example(
            _DATED, [_NO_POSTS, {"collection": [{"version": "1"}]}], [f"{_MEDRXIV}/2020.01.01.200001v1.full.pdf"]
        ),
        kit.Example(_AT_MEDRXIV, [{"collection": [{"version": 1}]}], [f"{_MEDRXIV}/123456v1.full.pdf"]),
        kit.Example(_WORK, [_NO_POSTS, _NO_POSTS]),
        kit.Example(_WORK, [b""], reason=kit.Reason.BAD_ANSWER),  # an empty 200 happens
        kit.Example(kit.Work("W4", doi="10.1101/gr.123456.118")),  # a journal of the same press
    )

    def applies(self, work: kit.Work) -> bool:
        return work.doi is not None and _DOI.fullmatch(work.doi) is not None

    def resolve(self, work: kit.Work, context: kit.ResolverContext) -> kit.Resolution:
        # the DOI does not tell which server holds it, but a known page may
        hosts = {kit.host_of(location.landing_url or location.pdf_url or "") for location in work.locations}
        at_medrxiv = any(host.endswith("medrxiv.org") for host in hosts)
        for server in ("medrxiv", "biorxiv") if at_medrxiv else ("biorxiv", "medrxiv"):
            response = yield kit.api_request(f"https://api.biorxiv.org/details/{server}/{work.doi}/na/json")
            if failed := kit.failure(response):
                return failed
            posts = kit.dig(kit.json_of(response), "collection")
            if not isinstance(posts, list):
                return kit.bad_answer("unexpected answer of api.biorxiv.org")
            if posts and (candidates := tuple(self._candidates(work, kit.mapping(posts[-1]), server))):
                return kit.ResolverResult(candidates)
        return kit.nothing()

    def _candidates(self, work: kit.Work, post: kit.JsonObject, server: str) -> kit.Candidates:
        number = kit.text(str(post.get("version")), 4)
        if number is None or not number.isdigit():
            return
        pdf = f"https://www.{server}.org/content/{work.doi}v{number}.full.pdf"
        for url, target in ((pdf, kit.Target.PDF), (post.get("jatsxml"), kit.Target.XML)):
            yield from self.file(url, target, post.get("license"), version="submittedVersion")
