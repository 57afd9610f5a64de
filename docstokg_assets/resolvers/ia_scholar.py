"""Internet Archive Scholar: preserved copies of a work, by DOI. Asked before the Wayback index, and needs no dead URL.

The lookup redirects to the page of a release, whose `citation_pdf_url` metas name the copies; 404 means that the DOI is unknown.
"""

from __future__ import annotations

import re

import docstokg_assets.resolvers as kit

_LOOKUP = "https://scholar.archive.org/fatcat/release/lookup"
_CAPTURE = re.compile(r"https?://web\.archive\.org/web/([0-9]{4,14})(?:id_)?/(https?://.+)")
_MOST = 3  # copies of one work

_WORK = kit.Work("W1", doi="10.5555/1")
_FILE = "https://press.example/1.pdf"
_DOWNLOAD = "https://archive.org/download/x/1.pdf"
_META = '<meta name="citation_pdf_url" content="{}">'
_OTHER = (_META.format(_DOWNLOAD) + "<title>A title</title>").encode()
_PAGE = (_META.format(f"https://web.archive.org/web/20190101000000/{_FILE}") + "<title>A title</title>").encode()


@kit.register("ia_scholar")
class IaScholarResolver(kit.Resolver):
    tier = kit.Tier.WAYBACK
    default_rank = 40
    api_host = "scholar.archive.org"
    robots = False  # as for the Wayback Machine
    head_precheck = False
    EXAMPLES = (
        kit.Example(_WORK, [_PAGE], [f"https://web.archive.org/web/20190101000000id_/{_FILE}"]),
        kit.Example(_WORK, [_OTHER], [_DOWNLOAD]),
        kit.Example(_WORK, [b"<title>A title</title>"]),
        kit.Example(_WORK, [kit.answer(b"<title>404 Not Found</title>", 404)]),
        kit.Example(_WORK, [b"<title>Session Verification</title>"], reason=kit.Reason.BAD_ANSWER),
        kit.Example(_WORK, (), context=kit.ResolverContext(takes_unlicensed=False), reason=kit.Reason.NO_CANDIDATE),
        kit.Example(kit.Work("W2")),
    )

    def applies(self, work: kit.Work) -> bool:
        return kit.indexed_doi(work) is not None

    def resolve(self, work: kit.Work, context: kit.ResolverContext) -> kit.Resolution:
        if not context.takes_unlicensed:
            return kit.nothing("its copies have no stated licence, and download.licenses excludes those")
        response = yield kit.api_request(_LOOKUP, {"doi": work.doi})
        if failed := kit.failure(response):
            return failed
        if b"Session Verification" in response.body[:4096]:
            return kit.bad_answer("the archive asks for a session verification")
        if b"<title" not in response.body[:65_536].lower():
            return kit.bad_answer("the archive did not answer with the page of a release")
        named = kit.metas_of(response, "citation_pdf_url")
        return kit.result_of(self._copies(named[:_MOST]), "no preserved copy")

    def _copies(self, named: list[str]) -> kit.Candidates:
        for value in named:
            if capture := _CAPTURE.fullmatch(value):
                # `id_` requests the bytes as they were captured
                replay = f"https://web.archive.org/web/{capture[1]}id_/{capture[2]}"
                yield self.candidate(replay, captured_from=capture[2])
            elif url := kit.normalize_url(value):
                yield self.candidate(url)
