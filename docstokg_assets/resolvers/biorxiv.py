"""bioRxiv and medRxiv: the newest version of a preprint, from their common API, by DOI.

Since December 2025 both servers register under 10.64898, before under 10.1101, which journals of the same press use too.
"""

from __future__ import annotations

import re

from docstokg_assets.resolvers import (
    ApiResolver,
    Candidates,
    Example,
    JsonObject,
    Location,
    Reason,
    Resolution,
    ResolverContext,
    ResolverResult,
    Target,
    Work,
    answer,
    api_request,
    bad_answer,
    dig,
    failure,
    host_of,
    json_of,
    mapping,
    nothing,
    register,
    text,
)

_DOI = re.compile(r"10\.64898/\S+|10\.1101/(?:[0-9]{6}|(?:19|20)[0-9]{2}\.[0-9]{2}\.[0-9]{2}\.[0-9]{6,8})")
_SERVERS = ("biorxiv", "medrxiv")

_WORK = Work("W1", doi="10.64898/2026.03.02.709999")
_POST = {"doi": "10.64898/2026.03.02.709999", "license": "cc_by", "server": "bioRxiv"}
_ORDINARY = {
    "messages": [{"status": "ok"}],
    "collection": [
        {**_POST, "version": "1"},
        {**_POST, "version": "2", "jatsxml": "https://www.biorxiv.org/content/early/2026/05/01/709999.source.xml"},
    ],
}
_NO_POSTS = {"messages": [{"status": "no posts found"}], "collection": []}


@register("biorxiv")
class BiorxivResolver(ApiResolver):
    default_rank = 21
    api_host = "api.biorxiv.org"
    EXAMPLES = (
        Example(
            _WORK,
            [answer(_ORDINARY)],
            [
                "https://www.biorxiv.org/content/10.64898/2026.03.02.709999v2.full.pdf",
                "https://www.biorxiv.org/content/early/2026/05/01/709999.source.xml",
            ],
        ),
        Example(
            Work("W2", doi="10.1101/2020.01.01.20000001"),
            [answer(_NO_POSTS), answer({"collection": [{"version": "1", "server": "medRxiv"}]})],
            ["https://www.medrxiv.org/content/10.1101/2020.01.01.20000001v1.full.pdf"],
        ),
        Example(
            Work("W3", doi="10.1101/123456", locations=(Location("https://www.medrxiv.org/content/10.1101/123456v1"),)),
            [answer({"collection": [{"version": 1}]})],
            ["https://www.medrxiv.org/content/10.1101/123456v1.full.pdf"],
        ),
        Example(_WORK, [answer(_NO_POSTS), answer(_NO_POSTS)], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer(b"")], reason=Reason.BAD_ANSWER),  # an empty 200 happens
        Example(Work("W4", doi="10.1101/gr.123456.118")),  # a journal of the same press
    )

    def applies(self, work: Work) -> bool:
        return work.doi is not None and _DOI.fullmatch(work.doi) is not None

    def resolve(self, work: Work, context: ResolverContext) -> Resolution:
        for server in _servers(work):
            response = yield api_request(f"https://api.biorxiv.org/details/{server}/{work.doi}/na/json")
            if failed := failure(response):
                return failed
            posts = dig(json_of(response), "collection")
            if not isinstance(posts, list):
                return bad_answer("unexpected answer of api.biorxiv.org")
            if posts and (candidates := tuple(self._candidates(work, mapping(posts[-1]), server))):
                return ResolverResult(candidates)
        return nothing()

    def _candidates(self, work: Work, post: JsonObject, server: str) -> Candidates:
        number = text(str(post.get("version")), 4)
        if number is None or not number.isdigit():
            return
        pdf = f"https://www.{server}.org/content/{work.doi}v{number}.full.pdf"
        for url, target in ((pdf, Target.PDF), (post.get("jatsxml"), Target.XML)):
            yield from self.file(url, target, post.get("license"), version="submittedVersion")


def _servers(work: Work) -> tuple[str, ...]:
    """The servers in the order to query: the DOI does not tell which one holds it, but a known page may."""
    hosts = {host_of(location.landing_url or location.pdf_url or "") for location in work.locations}
    return _SERVERS[::-1] if any(host.endswith("medrxiv.org") for host in hosts) else _SERVERS
