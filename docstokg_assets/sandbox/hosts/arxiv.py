"""arxiv.org and export.arxiv.org: PDFs, abstract pages and the Atom API (whose errors are feeds with status 200).

`limits.py` counts the limit of one request in three seconds over all arXiv hosts together.
"""

from __future__ import annotations

import re
from html import escape
from itertools import islice

from .. import files
from ..records import author
from ..state import SandboxState
from ..universe import Work
from ..wire import Handler, Request, Response, not_found, redirect, text

_ROBOTS = ("User-agent: *\nCrawl-delay: 15\nAllow: /archive\nAllow: /abs\nAllow: /pdf\nAllow: /html\nDisallow: "
           "/api\nDisallow: /e-print\n"
           "Disallow: /src\nDisallow: /search\n")  # fmt: skip
ROBOTS = {"arxiv.org": (200, _ROBOTS), "export.arxiv.org": (200, _ROBOTS)}
_HEAD = ("<?xml version='1.0' encoding='UTF-8'?>\n<feed xmlns:opensearch=\"http://a9.com/-/spec/opensearch/1.1/\" "
         'xmlns:arxiv="http://arxiv.org/schemas/atom" xmlns="http://www.w3.org/2005/Atom">\n')  # fmt: skip
_ID = re.compile(r"^(\d{4}\.\d{4,6}|[a-z-]+(\.[A-Z]{2})?/\d{7})(v\d+)?$")
_SCAN = 20_000  # works looked at for a search by title


def _versions(work: Work) -> int:
    return 1 + work.rolls[13] % 3


def _entry(work: Work) -> str:
    ident = f"{work.arxiv}v{_versions(work)}"
    journal = f"<arxiv:doi>{escape(work.doi)}</arxiv:doi>" if work.doi and not work.is_datacite else ""
    return (
        f"  <entry>\n    <id>http://arxiv.org/abs/{ident}</id>\n    <title>{escape(work.title)}</title>\n"
        f"    <updated>{work.date}T10:00:00Z</updated>\n    <published>{work.date}T10:00:00Z</published>\n"
        f'    <link href="https://arxiv.org/abs/{ident}" rel="alternate" type="text/html"/>\n'
        f'    <link href="https://arxiv.org/pdf/{ident}" rel="related" type="application/pdf" title="pdf"/>\n'
        f"    <summary>Abstract text, also hard\n      wrapped.</summary>\n"
        f'    <category term="cs.DL" scheme="http://arxiv.org/schemas/atom"/>\n    <arxiv:primary_category '
        f'term="cs.DL"/>\n'
        f"    <arxiv:comment>12 pages</arxiv:comment>\n    {journal}\n    <author><name>"
        f"{escape(author(work))}</name></author>\n"
        "  </entry>\n"
    )


def _feed(entries: list[str], total: int, start: int, request: Request) -> Response:
    title = escape(f"arXiv Query: {request.query}")
    body = (
        f"{_HEAD}  <id>https://arxiv.org/api/sandbox</id>\n  <title>{title}</title>\n  <updated>"
        f"2026-11-16T00:00:00Z</updated>\n"
        f'  <link href="https://arxiv.org/api/query?{escape(request.query)}" type="application/atom+xml"/>\n'
        f"  <opensearch:itemsPerPage>{len(entries)}</opensearch:itemsPerPage>\n"
        f"  <opensearch:totalResults>{total}</opensearch:totalResults>\n"
        f"  <opensearch:startIndex>{start}</opensearch:startIndex>\n{''.join(entries)}</feed>\n"
    )
    return text(body, kind="application/atom+xml; charset=utf-8")


def _error(message: str) -> Response:
    url = f"http://arxiv.org/api/errors#{escape(message.replace(' ', '_'))}"
    return text(
        f'{_HEAD}  <id>{url}</id>\n  <title type="html">arXiv Search Results</title>\n'
        f"  <opensearch:totalResults>1</opensearch:totalResults>\n  <entry><id>{url}</id><title>Error</title>"
        f"<summary>{escape(message)}</summary></entry>\n</feed>\n",
        kind="application/atom+xml; charset=utf-8",
    )


def hosts(state: SandboxState) -> dict[str, Handler]:
    universe = state.universe

    def search(query: str) -> list[Work]:
        """Find works by DOI or by words of the title; title search covers only the first works of each year."""
        doi = re.search(r'doi:"?([^\s"]+)"?', query)
        if doi:
            found = universe.by_doi(doi[1])
            return [found] if found and found.arxiv else []
        words = [
            w.lower() for w in re.findall(r"[^\W_]+", re.sub(r"\b(ti|all|abs):", " ", query)) if w not in ("AND", "OR")
        ]
        some = islice(universe.works(), _SCAN)
        return [w for w in some if w.arxiv and words and all(word in w.title.lower() for word in words)]

    def query(request: Request) -> Response:
        if request.scheme == "http":
            return redirect(f"https://export.arxiv.org{request.raw_path}?{request.query}", 301)
        start, size = request.param("start", "0"), request.param("max_results", "10")
        if not start.isdigit():
            return _error("start must be an integer")
        if not size.isdigit():
            return _error("max_results must be an integer")
        ids = [i for i in request.param("id_list").split(",") if i]
        bad = next((i for i in ids if not _ID.match(i)), None)
        if bad is not None:
            return _error(f"incorrect id format for {bad}")
        works = [w for w in map(universe.by_arxiv, ids) if w] if ids else search(request.param("search_query"))
        first = int(start)
        return _feed([_entry(w) for w in works[first : first + int(size)]], len(works), first, request)

    def answer(request: Request) -> Response:
        area, _, ident = request.path.lstrip("/").partition("/")
        if request.path == "/api/query":
            return query(request)
        if area == "pdf":
            work = universe.by_arxiv(ident.removesuffix(".pdf"))
            version = re.search(r"v(\d+)$", ident.removesuffix(".pdf"))
            if work is None or (version and int(version[1]) > _versions(work)):
                return not_found("Article not found")
            return state.pdf(work)
        if area in ("abs", "html"):
            work = universe.by_arxiv(ident)
            if work is None or area == "html":
                return not_found("Article not found")
            return Response(200, files.landing(work, f"https://arxiv.org/pdf/{work.arxiv}", "meta"))
        return not_found()

    def www(request: Request) -> Response:
        return redirect(f"https://arxiv.org{request.raw_path}", 301)

    return {"arxiv.org": answer, "export.arxiv.org": answer, "www.arxiv.org": www}
