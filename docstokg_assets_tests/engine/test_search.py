"""The state of one work, driven by hand: answers are fed to the generator, nothing is sent."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from docstokg_assets.domain.pdf_match import Flag, Verdict
from docstokg_assets.domain.plans import Candidate, Tier
from docstokg_assets.domain.works import Location, Work
from docstokg_assets.engine.search import ResolverPipeline
from docstokg_assets.engine.search_state import NextTry, next_try
from docstokg_assets.resolvers.registry import (
    Resolution,
    Resolver,
    ResolverContext,
    ResolverResult,
    ResolverSettings,
)
from docstokg_assets_tests.support.search import PDF, Answer, Web, located, log_to, page, pdf_meta, pipeline, search
from resources.http.errors import ConnectionFailed, HostClosed, HttpError, Interrupted, RobotsRefused
from resources.http.messages import Request, Response, Role
from resources.records import AttemptRecord, Classification, Kind, Reason, Status


@pytest.mark.requirement("RES-2")
def test_the_first_good_copy_ends_the_search(tmp_path: Path) -> None:
    web = Web({"https://a.example/": (200, "application/pdf", PDF)})
    outcome = search(
        pipeline(tmp_path), located("https://a.example/1.pdf", "https://b.example/1.pdf", doi="10.5555/1"), web
    )
    assert (outcome.ok, outcome.resolver, outcome.tier) == (True, "openalex", "direct_oa")
    assert web.asked == [("GET", "https://a.example/1.pdf")]


@pytest.mark.requirement("RES-2")
def test_tiers_are_tried_in_order_and_the_chain_is_on_the_outcome(tmp_path: Path) -> None:
    web = Web(
        {
            "https://api.crossref.org/": (404, "text/plain", b"Resource not found."),
            "https://doi.org/": page(pdf_meta("https://pub.example/x.pdf")),
            "https://pub.example/": (200, "application/pdf", PDF),
        }
    )
    outcome = search(pipeline(tmp_path), located("https://dead.example/1.pdf", doi="10.5555/1"), web)
    assert outcome.fallback_chain == ("openalex", "crossref", "doi")
    assert (outcome.tier, outcome.url) == ("doi_redirect", "https://pub.example/x.pdf")


def test_the_reason_of_the_most_promising_copy_stands_and_the_others_are_on_the_row(tmp_path: Path) -> None:
    web = Web({"https://a.example/": (403, "text/html", b"no"), "https://b.example/": ConnectionFailed("reset")})
    made = pipeline(tmp_path, ("openalex",))
    outcome = search(made, located("https://a.example/1.pdf", "https://b.example/1.pdf"), web)
    assert (outcome.reason, outcome.http_status, outcome.classification) == (Reason.HTTP_4XX, 403, Classification.ERROR)
    assert [other["reason"] for other in outcome.meta["others"]] == ["conn-error"]


def test_a_work_that_nobody_knows_a_copy_of_has_no_candidate(tmp_path: Path) -> None:
    assert search(pipeline(tmp_path), Work("W1"), Web({})).reason is Reason.NO_CANDIDATE


def test_a_silent_api_alone_is_a_reason_that_can_be_retried(tmp_path: Path) -> None:
    made = pipeline(tmp_path, ("unpaywall",))
    work = Work("W1", doi="10.5555/1")
    state = made.begin(work)
    outcome = search(made, work, Web({"https://api.unpaywall.org/": ConnectionFailed("reset")}), state)
    assert outcome.reason is Reason.CONN_ERROR
    assert next_try(state, now=1000.0, tries=0) == NextTry(4600.0)


@pytest.mark.requirement("HTTP-13")
def test_a_copy_that_robots_forbid_is_skipped(tmp_path: Path) -> None:
    web = Web({"https://a.example/": RobotsRefused("no")})
    outcome = search(pipeline(tmp_path, ("openalex",)), located("https://a.example/1.pdf"), web)
    assert (outcome.classification, outcome.reason) == (Classification.SKIP, Reason.ROBOTS)


@pytest.mark.requirement("HTTP-4")
def test_a_closed_host_is_left_for_later_and_the_other_copies_are_tried(tmp_path: Path) -> None:
    web = Web({"https://a.example/": HostClosed("pause", until=5000.0), "https://b.example/": (404, "text/html", b"")})
    made = pipeline(tmp_path, ("openalex",))
    work = located("https://a.example/1.pdf", "https://b.example/1.pdf")
    state = made.begin(work)
    outcome = search(made, work, web, state)
    assert (outcome.reason, len(web.urls)) == (Reason.RETRY_AFTER, 2)
    assert next_try(state, now=1000.0, tries=0) == NextTry(5000.0)
    assert next_try(state, now=1000.0, tries=5) == NextTry()


def test_terminal_failures_are_not_retried(tmp_path: Path) -> None:
    made, work = pipeline(tmp_path, ("openalex",)), located("https://a.example/1.pdf")
    state = made.begin(work)
    search(made, work, Web({}), state)
    assert next_try(state, now=1000.0, tries=0) == NextTry()


def test_a_wall_is_recognised_and_left_alone(tmp_path: Path) -> None:
    wall = (200, "text/html", b"<html><title>Just a moment...</title><body><div id='__cf_chl_rt'></div></body></html>")
    outcome = search(
        pipeline(tmp_path, ("openalex",)), located("https://a.example/1.pdf"), Web({"https://a.example/": wall})
    )
    assert outcome.reason is Reason.BLOCKED_WAF
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_html_served_as_pdf_is_corrupt(tmp_path: Path) -> None:
    fake = (200, "application/pdf", b"<html><body>" + b"sorry " * 300 + b"</body></html>")
    outcome = search(
        pipeline(tmp_path, ("openalex",)), located("https://a.example/1.pdf"), Web({"https://a.example/": fake})
    )
    assert (outcome.reason, outcome.kind) == (Reason.PDF_CORRUPT, Kind.PDF_CORRUPT)


def test_a_page_behind_a_pdf_link_is_read_for_the_real_one(tmp_path: Path) -> None:
    web = Web(
        {
            "https://a.example/1.pdf": page(pdf_meta("https://a.example/files/real.pdf")),
            "https://a.example/files/real.pdf": (200, "application/pdf", PDF),
        }
    )
    assert search(pipeline(tmp_path, ("openalex",)), located("https://a.example/1.pdf"), web).ok


@pytest.mark.requirement("RES-9")
def test_hops_are_bounded_and_loops_end(tmp_path: Path) -> None:
    refresh = '<meta http-equiv="refresh" content="0; url={}">'
    web = Web({f"https://a.example/{n}": page(refresh.format(f"https://a.example/{n + 1}")) for n in range(9)})
    outcome = search(pipeline(tmp_path, ("landing",)), located(landing="https://a.example/0"), web)
    assert (outcome.reason, len(web.urls)) == (Reason.NO_PDF_LINK, 4)
    circle = Web({"https://a.example/0": page(refresh.format("https://a.example/0"))})
    outcome = search(pipeline(tmp_path, ("landing",)), located(landing="https://a.example/0"), circle)
    assert (outcome.reason, len(circle.urls)) == (Reason.NO_PDF_LINK, 1)


def test_an_html_full_text_is_kept_and_ends_the_search_only_when_nothing_better_is_left(tmp_path: Path) -> None:
    sections = "".join(
        f"<h2>{name}</h2><p>{'word ' * 600}</p>" for name in ("Introduction", "Methods", "Results", "Discussion")
    )
    article = (200, "text/html", f"<html><body><article>{sections}</article></body></html>".encode())
    work = located(landing="https://a.example/full")
    outcome = search(pipeline(tmp_path, ("landing",)), work, Web({"https://a.example/full": article}))
    assert (outcome.ok, outcome.reason, outcome.kind) == (True, Reason.HTML_ONLY, Kind.HTML)
    better = located("https://b.example/1.pdf", landing="https://a.example/full")
    web = Web({"https://a.example/full": article, "https://b.example/": (200, "application/pdf", PDF)})
    assert search(pipeline(tmp_path, ("landing", "openalex")), better, web).kind is Kind.PDF


@pytest.mark.requirement("CAT-5")
def test_a_page_that_was_kept_before_a_pdf_was_found_stays_beside_it(tmp_path: Path) -> None:
    sections = "".join(f"<h2>{name}</h2><p>{'word ' * 900}</p>" for name in ("Introduction", "Methods", "Results"))
    link = "<head><meta name='citation_pdf_url' content='https://b.example/1.pdf'></head>"
    article = (200, "text/html", f"<html>{link}<body><article>{sections}</article></body></html>".encode())
    web = Web({"https://a.example/full": article, "https://b.example/": (200, "application/pdf", PDF)})
    outcome = search(pipeline(tmp_path, ("landing",)), located(landing="https://a.example/full"), web)
    assert outcome.kind is Kind.PDF
    (page,) = outcome.beside  # which the catalog records as a file of its own
    assert (page.kind, page.url, page.path) == (Kind.HTML, "https://a.example/full", outcome.html_paths[0])
    assert page.sha256 == hashlib.sha256(article[2]).hexdigest()


@pytest.mark.requirement("RES-4")
def test_a_head_that_says_html_makes_the_link_a_page_and_a_refused_head_says_nothing(tmp_path: Path) -> None:
    link = {"URL": "https://a.example/pdf", "content-type": "application/pdf", "content-version": "vor"}
    link["intended-application"] = "text-mining"
    crossref = {"status": "ok", "message": {"DOI": "10.5555/1", "link": [link]}}
    body = orjson.dumps(crossref)

    class Choosy(Web):
        def answer(self, request: Request) -> Response | HttpError:
            if request.verb == "HEAD" and request.url == "https://a.example/pdf":
                self.asked.append(("HEAD", request.url))
                return Response(self.head_status, request.url, {"content-type": self.head_type})
            return super().answer(request)

        head_status, head_type = 405, "text/html"

    web = Choosy(
        {
            "https://api.crossref.org/": (200, "application/json", body),
            "https://a.example/": (200, "application/pdf", PDF),
        }
    )
    work = Work("W1", doi="10.5555/1")
    assert search(pipeline(tmp_path, ("crossref",), ("crossref",)), work, web).ok
    assert [verb for verb, url in web.asked if "a.example" in url] == ["HEAD", "GET"]

    web = Choosy(
        {
            "https://api.crossref.org/": (200, "application/json", body),
            "https://a.example/": (200, "application/pdf", PDF),
        }
    )
    web.head_status = 404
    outcome = search(pipeline(tmp_path, ("crossref",), ("crossref",)), work, web)
    assert (outcome.reason, [verb for verb, url in web.asked if "a.example" in url]) == (Reason.HTTP_4XX, ["HEAD"])

    web = Choosy({"https://api.crossref.org/": (200, "application/json", body), "https://a.example/pdf": page(pdf_meta("https://a.example/real.pdf")), "https://a.example/real.pdf": (200, "application/pdf", PDF)})  # fmt: skip  # noqa: E501
    web.head_status = 200
    assert search(pipeline(tmp_path, ("crossref",), ("crossref",)), work, web).url == "https://a.example/real.pdf"

    web = Choosy(
        {
            "https://api.crossref.org/": (200, "application/json", body),
            "https://a.example/": (200, "application/pdf", PDF),
        }
    )
    assert search(pipeline(tmp_path, ("crossref",), ("crossref",), head_precheck=False), work, web).ok
    assert ("HEAD", "https://a.example/pdf") not in web.asked


@pytest.mark.requirement("RES-6")
def test_a_url_is_tried_once_for_a_work_however_it_is_spelt(tmp_path: Path) -> None:
    web = Web({})
    work = located(
        "https://A.example/1.pdf?utm_source=x", "http://a.example/1.pdf#page=2", "https://a.example:443/1.pdf"
    )
    search(pipeline(tmp_path, ("openalex",)), work, web)
    assert len(web.urls) == 1


@pytest.mark.requirement("RES-6")
def test_across_works_a_url_is_tried_once_only_where_that_is_asked_for(tmp_path: Path) -> None:
    web = Web({"https://a.example/": (200, "application/pdf", PDF)})
    first, second = located("https://a.example/1.pdf"), replace(located("https://a.example/1.pdf"), work_id="W2")
    made = pipeline(tmp_path, ("openalex",), global_url_dedupe=True)
    assert search(made, first, web).ok
    records: list[AttemptRecord] = []
    outcome = search(made, second, web, records=records)
    assert (outcome.classification, outcome.reason) == (Classification.SKIP, Reason.DUPLICATE_URL_GLOBAL)
    assert [(r.status, r.reason, r.work_id) for r in records] == [(Status.SKIPPED, Reason.DUPLICATE_URL_GLOBAL, "W2")]
    free = pipeline(tmp_path, ("openalex",))
    assert search(free, first, web).ok
    assert search(free, second, web).ok


@pytest.mark.requirement("DL-8")
def test_a_dry_run_asks_metadata_only_and_writes_nothing(tmp_path: Path) -> None:
    location = {"url": "https://u.example/1.pdf", "url_for_pdf": "https://u.example/1.pdf", "host_type": "repository"}
    answer = orjson.dumps({"doi": "10.5555/1", "is_oa": True, "best_oa_location": location, "oa_locations": [location]})
    web = Web({"https://api.unpaywall.org/": (200, "application/json", answer)})
    made = pipeline(tmp_path, ("landing", "unpaywall", "doi", "wayback"), dry_run=True)
    outcome = search(made, Work("W1", doi="10.5555/1", urls=("https://a.example/1.pdf",)), web)
    assert (outcome.reason, outcome.sha256, outcome.content_length) == (Reason.DRY_RUN, None, None)
    assert {c["url"] for c in outcome.meta["candidates"]} >= {"https://a.example/1.pdf", "https://u.example/1.pdf"}
    assert all("api.unpaywall.org" in url for _, url in web.asked)
    assert list(tmp_path.rglob("*.pdf")) == []


def test_what_was_learnt_before_a_pause_is_not_asked_again(tmp_path: Path) -> None:
    web = Web({"https://api.crossref.org/": (404, "text/plain", b"")})
    made, work = pipeline(tmp_path), located("https://a.example/1.pdf", doi="10.5555/1")
    state = made.begin(work)
    web.answers = {**web.answers, "https://doi.org/": Interrupted("the run is being ended")}
    with pytest.raises(Interrupted):
        search(made, work, web, state)
    kept = orjson.loads(orjson.dumps(state.to_json(), default=str))
    later = Web(
        {
            "https://doi.org/": page(pdf_meta("https://p.example/x.pdf")),
            "https://p.example/": (200, "application/pdf", PDF),
        }
    )
    outcome = search(made, work, later, made.begin(work, kept))
    assert outcome.ok
    assert later.urls == ["https://doi.org/10.5555/1", "https://p.example/x.pdf"]
    assert outcome.fallback_chain == ("openalex", "crossref", "doi")


def test_failures_that_may_mend_are_tried_again_after_a_pause_and_the_others_are_not(tmp_path: Path) -> None:
    made, work = pipeline(tmp_path, ("openalex",)), located("https://a.example/1.pdf", "https://b.example/1.pdf")
    state = made.begin(work)
    search(made, work, Web({"https://b.example/": ConnectionFailed("reset")}), state)
    later = Web({"https://b.example/": (200, "application/pdf", PDF)})
    outcome = search(made, work, later, made.begin(work, orjson.loads(orjson.dumps(state.to_json(), default=str))))
    assert (outcome.ok, later.urls) == (True, ["https://b.example/1.pdf"])


def test_a_server_that_answers_head_wrongly_is_not_asked_for_ever(tmp_path: Path) -> None:
    link = {"URL": "https://a.example/pdf", "content-type": "application/pdf", "content-version": "vor"}
    link["intended-application"] = "text-mining"
    body = orjson.dumps({"status": "ok", "message": {"DOI": "10.5555/1", "link": [link]}})

    class SaysHtml(Web):
        def answer(self, request: Request) -> Response | HttpError:
            if request.verb == "HEAD":
                self.asked.append(("HEAD", request.url))
                return Response(200, request.url, {"content-type": "text/html"})
            return super().answer(request)

    web = SaysHtml(
        {
            "https://api.crossref.org/": (200, "application/json", body),
            "https://a.example/": (200, "application/pdf", PDF),
        }
    )
    assert search(pipeline(tmp_path, ("crossref",), ("crossref",)), Work("W1", doi="10.5555/1"), web).ok
    assert [verb for verb, url in web.asked if "a.example" in url] == ["HEAD", "GET", "GET"]


@pytest.mark.requirement("RES-1")
def test_resolvers_are_asked_in_the_configured_order(tmp_path: Path) -> None:
    web = Web({})
    work = Work("W1", doi="10.5555/1", arxiv_id="2401.00001")
    search(pipeline(tmp_path, ("crossref", "unpaywall", "arxiv")), work, web)
    hosts = [url.split("/")[2] for url in web.urls]
    assert hosts == ["api.crossref.org", "api.unpaywall.org", "export.arxiv.org"]


@pytest.mark.requirement("RES-3")
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"versions": ("published",)}, Reason.POLICY_VERSION),
        ({"licenses": ("cc-by", "cc0")}, Reason.POLICY_LICENSE),
        ({"versions": ("accepted",), "licenses": ("CC-BY*",)}, None),
        ({"versions": ("accepted", "unknown")}, None),
    ],
)
def test_a_copy_of_an_unwanted_version_or_licence_is_not_asked_for(
    tmp_path: Path, settings: dict[str, Any], reason: Reason | None
) -> None:
    place = Location(None, "https://a.example/1.pdf", True, "acceptedVersion", "cc-by-nc")
    web, records = Web({"https://a.example/": (200, "application/pdf", PDF)}), list[AttemptRecord]()
    work = Work("W1", title="A title", year=2024, locations=(place,))
    outcome = search(pipeline(tmp_path, ("openalex",), **settings), work, web, records=records)
    if reason is None:
        assert (outcome.ok, outcome.version, outcome.license) == (True, "acceptedVersion", "cc-by-nc")
    else:
        assert (outcome.classification, outcome.reason, web.asked) == (Classification.SKIP, reason, [])
        assert [(r.status, r.reason) for r in records] == [(Status.CONTENT_POLICY_SKIP, reason)]


@pytest.mark.requirement("RES-3")
def test_a_copy_of_which_nobody_tells_the_licence_counts_as_unknown(tmp_path: Path) -> None:
    web = Web({"https://a.example/": (200, "application/pdf", PDF)})
    work = located("https://a.example/1.pdf")
    assert not search(pipeline(tmp_path, ("openalex",), licenses=("cc-by",)), work, web).ok
    assert search(pipeline(tmp_path, ("openalex",), licenses=("cc-by", "unknown")), work, web).ok


def crossref_page(url: str) -> bytes:
    return orjson.dumps({"message": {"DOI": "10.5555/1", "resource": {"primary": {"URL": url}}}})


@pytest.mark.requirement("RES-6")
def test_the_page_that_crossref_names_is_read_instead_of_asking_doi_org_for_it(tmp_path: Path) -> None:
    web = Web(
        {
            "https://api.crossref.org/": (200, "application/json", crossref_page("https://p.example/1")),
            "https://p.example/1": page(pdf_meta("https://p.example/files/1.pdf")),
            "https://p.example/files/": (200, "application/pdf", PDF),
        }
    )
    outcome = search(pipeline(tmp_path, ("crossref", "doi")), Work("W1", title="T", year=2024, doi="10.5555/1"), web)
    assert (outcome.ok, outcome.tier) == (True, "doi_redirect")
    assert [url.split("/")[2] for url in web.urls] == ["api.crossref.org", "p.example", "p.example"]


def test_a_host_that_put_up_a_wall_is_not_asked_again_for_the_same_work(tmp_path: Path) -> None:
    wall = (403, "text/html", b"<html><title>Just a moment...</title><body><div id='__cf_chl_rt'></div></body></html>")
    web = Web(
        {
            "https://api.crossref.org/": (200, "application/json", crossref_page("https://a.example/abs/1")),
            "https://a.example/": wall,
        }
    )
    outcome = search(
        pipeline(tmp_path, ("openalex", "crossref", "doi")), located("https://a.example/1.pdf", doi="10.5555/1"), web
    )
    assert outcome.reason is Reason.BLOCKED_WAF
    assert web.urls == [
        "https://a.example/1.pdf",
        "https://api.crossref.org/works/10.5555%2F1?mailto=me%40library-of-tests.edu",
    ]
    assert [other["url"] for other in outcome.meta["others"]] == ["https://a.example/abs/1"]


def test_a_wall_is_that_of_the_host_that_redirects_led_to(tmp_path: Path) -> None:
    """A hub that sends one visitor to a walled publisher is asked for its other copies."""
    body = b"<html><title>Just a moment...</title><body><div id='__cf_chl_rt'></div></body></html>"
    wall = Response(403, "https://walled.example/1", {"content-type": "text/html"}, body)
    web = Web({"https://hub.example/1": wall, "https://hub.example/2": (200, "application/pdf", PDF)})
    copies = ("https://hub.example/1.pdf", "https://walled.example/1.pdf", "https://hub.example/2.pdf")
    made = pipeline(tmp_path, ("openalex",))
    work = located(*copies)
    state = made.begin(work)
    assert search(made, work, web, state).url == "https://hub.example/2.pdf"
    assert web.urls == ["https://hub.example/1.pdf", "https://hub.example/2.pdf"]
    assert state.wall_of("walled.example") is Reason.BLOCKED_WAF and state.wall_of("hub.example") is None


SIGNED = "https://files.example/1.pdf?token=s3cret"


@pytest.mark.requirement("HTTP-14")
@pytest.mark.parametrize("status", [404, 403])
def test_a_failed_link_with_a_key_is_looked_for_in_the_archive_without_it(tmp_path: Path, status: int) -> None:
    web = Web(
        {
            "https://doi.org/": page(pdf_meta(SIGNED)),
            SIGNED: (status, "text/html", b"no"),
            "https://web.archive.org/": (200, "application/json", b"[]"),
        }
    )
    outcome = search(pipeline(tmp_path, ("doi", "wayback")), Work("W1", doi="10.5555/1"), web)
    assert outcome.reason is Reason.HTTP_4XX
    archive = [url for url in web.urls if url.startswith("https://web.archive.org/")]
    assert archive and all("files.example" in url and "s3cret" not in url for url in archive)


@pytest.mark.requirement("HTTP-14")
def test_no_failure_with_a_password_in_its_address_is_written_down(tmp_path: Path) -> None:
    made, work = pipeline(tmp_path, ("openalex",)), Work("W1")
    state = made.begin(work)
    state.add(Candidate("https://me:s3cret@files.example/1.pdf", "openalex", Tier.DIRECT_OA))
    search(made, work, Web({}), state)
    written = orjson.dumps(state.to_json())
    assert any("s3cret" in (failure.url or "") for failure in state.failures.values())
    assert b"s3cret" not in written
    made.begin(work, orjson.loads(written)).dead_files()


class Faulty(Resolver):
    """A resolver with a fault of ours in one place."""

    name, tier, api_host, place = "faulty", Tier.DIRECT_OA, "api.faulty.example", ""

    def _reach(self, place: str) -> None:
        if self.place == place:
            raise KeyError(place)

    def applies(self, work: Work) -> bool:
        self._reach("applies")
        return True

    def candidates(self, work: Work) -> tuple[Candidate, ...]:
        self._reach("candidates")
        return ()

    def resolve(self, work: Work, context: ResolverContext) -> Resolution:
        yield Request("https://api.faulty.example/", Role.METADATA)
        self._reach("resolve")
        return ResolverResult()


@pytest.mark.requirement("RES-1")
@pytest.mark.parametrize("place", ["applies", "candidates", "resolve"])
def test_a_fault_in_one_resolver_costs_its_answer_and_not_the_work(tmp_path: Path, place: str) -> None:
    made = pipeline(tmp_path, ("doi",))
    faulty = Faulty(ResolverSettings())
    faulty.place = place
    made.resolvers = {"faulty": faulty, **made.resolvers}
    web = Web(
        {
            "https://doi.org/": page(pdf_meta("https://a.example/1.pdf")),
            "https://a.example/": (200, "application/pdf", PDF),
            "https://api.faulty.example/": page(),
        }
    )
    work = Work("W1", doi="10.5555/1")
    assert search(made, work, web).ok
    made.resolvers = {"faulty": faulty}
    alone = search(made, work, web)
    assert alone.reason is (Reason.INTERNAL_ERROR if place == "resolve" else Reason.NO_CANDIDATE)


def article(_: Work, __: str, ___: Path) -> Verdict:
    return Verdict()


def taught(tmp_path: Path, order: tuple[str, ...], **settings: Any) -> ResolverPipeline:
    """One that has found three files of a publisher, each under the number of its DOI."""
    made = pipeline(tmp_path, order, **{"validator": article, **settings})
    web = Web({"https://p.example/files/": (200, "application/pdf", PDF)})
    for number in range(1000, 1003):
        assert search(made, located(f"https://p.example/files/{number}.pdf", doi=f"10.5555/p.{number}"), web).ok
    return made


def next_of(publisher: str = "p", number: int = 7654, **fields: Any) -> Work:
    return Work(f"W{number}", title="T", year=2024, doi=f"10.5555/{publisher}.{number}", **fields)


GUESS, DOI_PAGE = "https://p.example/files/7654.pdf", "https://doi.org/10.5555/p.7654"


@pytest.mark.requirement("RES-2")
def test_where_a_publisher_keeps_its_files_is_learnt_and_nobody_is_asked_for_the_next_one(tmp_path: Path) -> None:
    made = taught(tmp_path, ("openalex", "crossref", "doi", "landing"))
    web = Web({"https://p.example/files/": (200, "application/pdf", PDF)})
    page_of = Location("https://p.example/7654", is_oa=True, version="publishedVersion", license="cc-by")
    outcome = search(made, next_of(locations=(page_of,)), web)
    assert web.urls == [GUESS]
    assert (outcome.ok, outcome.resolver, outcome.version, outcome.license) == (
        *(True, "landing"),
        *("publishedVersion", "cc-by"),
    )
    web.asked.clear()
    assert search(made, next_of(number=7655), web).resolver == "doi"
    assert web.urls == ["https://p.example/files/7655.pdf"]


@pytest.mark.requirement("RES-2")
@pytest.mark.parametrize(
    "settings", [{"guess_files": False}, {"validator": None}], ids=["switched off", "no validator"]
)
def test_nothing_is_guessed_where_that_is_not_wanted_or_no_file_is_looked_into(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    made = taught(tmp_path, ("openalex", "doi"), **settings)
    web = Web({"https://doi.org/": page()})
    search(made, next_of(), web)
    assert web.urls == [DOI_PAGE]


@pytest.mark.requirement("RES-2")
@pytest.mark.parametrize("there", [(404, "text/html", b"gone"), (200, "text/html", b"<html>Buy this article</html>")])
@pytest.mark.parametrize("prechecked", [(), ("doi",)])
def test_a_guess_that_fails_is_never_the_reason_and_the_search_goes_on(
    tmp_path: Path, there: tuple[int, str, bytes], prechecked: tuple[str, ...]
) -> None:
    made = taught(tmp_path, ("openalex", "doi", "wayback"), prechecked=prechecked)
    web = Web({"https://p.example/files/": there, "https://doi.org/": page()})
    outcome = search(made, next_of(), web)
    assert [url for _, url in web.asked] == [GUESS, DOI_PAGE]
    assert (outcome.reason, outcome.url, outcome.meta) == (Reason.NO_PDF_LINK, DOI_PAGE, {})


class FirstTime(Web):
    """Some addresses answer otherwise when they are asked for the first time."""

    def __init__(self, first: Mapping[str, Answer], then: Mapping[str, Answer]) -> None:
        super().__init__(then)
        self._first = dict(first)

    def answer(self, request: Request) -> Response | HttpError:
        if (first := self._first.pop(request.url, None)) is None:
            return super().answer(request)
        self.asked.append((request.verb, request.url))
        return first if not isinstance(first, tuple) else Response(first[0], request.url, {}, first[2])


@pytest.mark.requirement("RES-2")
@pytest.mark.parametrize("first", [(503, "text/html", b""), ConnectionFailed("reset", url=GUESS)])
def test_a_guess_that_failed_is_tried_again_when_a_page_names_it(tmp_path: Path, first: Answer) -> None:
    made = taught(tmp_path, ("openalex", "doi"))
    then = {"https://doi.org/": page(pdf_meta(GUESS)), GUESS: (200, "application/pdf", PDF)}
    web = FirstTime({GUESS: first}, then)
    outcome = search(made, next_of(), web)
    assert web.urls == [GUESS, DOI_PAGE, GUESS] and outcome.ok


@pytest.mark.requirement("RES-2")
def test_a_guess_that_failed_for_now_is_no_reason_to_try_the_work_again(tmp_path: Path) -> None:
    made = taught(tmp_path, ("openalex", "doi"))
    work = next_of()
    state = made.begin(work)
    web = Web({GUESS: (503, "text/html", b""), "https://doi.org/": page()})
    assert search(made, work, web, state).reason is Reason.NO_PDF_LINK
    assert next_try(state, 0.0, tries=0) == NextTry()
    later = pipeline(tmp_path, ("openalex", "doi"))  # of another run, which knows no habits
    web.asked.clear()
    search(later, work, web, later.begin(work, orjson.loads(orjson.dumps(state.to_json()))))
    assert GUESS not in web.urls


@pytest.mark.requirement("RES-2", "HTTP-13")
@pytest.mark.parametrize(
    "there",
    [
        (403, "text/html", b"no"),
        (429, "text/html", b"slower"),
        (200, "text/html", b"<html><title>Just a moment...</title><div class='cf-turnstile'></div></html>"),
        RobotsRefused("no", url=GUESS),
    ],
    ids=["forbidden", "too many", "wall", "robots"],
)
def test_a_host_that_turns_a_guess_away_is_not_bothered_with_another(tmp_path: Path, there: Answer) -> None:
    made = taught(tmp_path, ("openalex", "doi"))
    web = Web({"https://p.example/": there, "https://doi.org/": page()})
    search(made, next_of(), web)
    assert web.urls == [GUESS, DOI_PAGE]
    web.asked.clear()
    search(made, next_of(number=7655), web)
    assert web.urls == ["https://doi.org/10.5555/p.7655"]


@pytest.mark.requirement("RES-2")
@pytest.mark.parametrize(
    "there",
    [
        (503, "text/html", b""),
        (200, "text/html", b"<html><title>Just a moment...</title><div class='cf-turnstile'></div></html>"),
    ],
    ids=["broken", "wall"],
)
def test_a_guess_speaks_against_no_page_that_somebody_named(tmp_path: Path, there: Answer) -> None:
    made = taught(tmp_path, ("openalex", "landing"))
    named, file = "https://p.example/7654", "https://p.example/other/7654.pdf"
    work = next_of(locations=(Location(named, is_oa=True),))
    web = Web({GUESS: there, named: page(pdf_meta(file)), file: (200, "application/pdf", PDF)})
    begun = made.search(work, made.begin(work), log_to([], work))
    guess = next(begun)
    assert guess.url == GUESS
    answer = web.answer(guess)
    assert not isinstance(answer, HttpError)
    asked = begun.send(answer)
    assert (asked.url, asked.repeatable) == (named, True)
    assert search(made, work, web).ok


@pytest.mark.requirement("RES-2")
def test_a_file_that_was_guessed_must_be_beyond_doubt_and_one_that_a_page_names_need_not(tmp_path: Path) -> None:
    def doubtful(work: Work, _: str, __: Path) -> Verdict:
        return (
            Verdict((Flag.SUSPECT_MISMATCH,), "its first pages do not show the title")
            if work == next_of()
            else Verdict()
        )

    made = taught(tmp_path, ("openalex", "doi"), validator=doubtful)
    web = Web({GUESS: (200, "application/pdf", PDF), "https://doi.org/": page()})
    records: list[AttemptRecord] = []
    assert search(made, next_of(), web, records=records).reason is Reason.NO_PDF_LINK
    assert [record.reason for record in records] == [Reason.WRONG_PAPER]
    assert not [path for path in tmp_path.rglob("*W7654*") if path.is_file()]
    named = Web({GUESS: (200, "application/pdf", PDF), "https://doi.org/": page(pdf_meta(GUESS))})
    outcome = search(made, next_of(), named)
    assert outcome.ok and outcome.meta["flags"] == [Flag.SUSPECT_MISMATCH]


@pytest.mark.requirement("RES-2", "HTTP-2")
def test_a_guess_is_asked_for_once_whatever_the_answer(tmp_path: Path) -> None:
    made = taught(tmp_path, ("openalex", "doi"), prechecked=("doi",))
    work = next_of()
    search = made.search(work, made.begin(work), log_to([], work))
    request = next(search)
    assert (request.verb, request.url, request.repeatable) == ("GET", GUESS, False)
    assert search.send(Response(503, GUESS, {})).url != GUESS


@pytest.mark.requirement("HTTP-2")
def test_a_host_that_failed_for_one_copy_is_tried_once_for_the_next(tmp_path: Path) -> None:
    made = pipeline(tmp_path, ("openalex",))
    work = located("https://a.example/1.pdf", "https://b.example/1.pdf", "https://a.example/2.pdf")
    search = made.search(work, made.begin(work), log_to([], work))
    request = next(search)
    asked = [(request.url, request.repeatable)]
    with pytest.raises(StopIteration):
        while True:
            request = search.send(Response(503, request.url, {}))
            asked.append((request.url, request.repeatable))
    assert asked == [
        ("https://a.example/1.pdf", True),
        ("https://b.example/1.pdf", True),
        ("https://a.example/2.pdf", False),
    ]


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize(("depth", "found"), [(1, False), (3, False), (4, True), (5, True)])
def test_the_pages_on_the_way_to_a_file_are_bounded(tmp_path: Path, depth: int, found: bool) -> None:
    """Three redirect pages and a page with the link: four pages before the file."""
    steps = {
        f"https://a.example/{n}": page(f'<meta http-equiv="refresh" content="0; url=/{n + 1}">') for n in range(1, 4)
    }
    web = Web(
        {
            **steps,
            "https://a.example/4": page(pdf_meta("/f.pdf")),
            "https://a.example/f.pdf": (200, "application/pdf", PDF),
        }
    )
    outcome = search(pipeline(tmp_path, ("landing",), max_depth=depth), located(landing="https://a.example/1"), web)
    assert (outcome.ok, len(web.urls)) == (found, 5 if found else depth)


@pytest.mark.requirement("RES-9")
def test_pages_that_lead_to_each_other_end_without_a_loop(tmp_path: Path) -> None:
    there = page('<meta http-equiv="refresh" content="0; url=/2">')
    back = page('<meta http-equiv="refresh" content="0; url=/1">')
    web = Web({"https://a.example/1": there, "https://a.example/2": back})
    outcome = search(pipeline(tmp_path, ("landing",), max_depth=10), located(landing="https://a.example/1"), web)
    assert (outcome.ok, len(web.urls)) == (False, 2)


@pytest.mark.requirement("RES-3")
def test_an_excluded_copy_is_not_looked_up_in_the_archive_either(tmp_path: Path) -> None:
    place = Location(None, "https://a.example/1.pdf", True, "publishedVersion", "cc-by-nc-nd")
    web = Web({})
    work = Work("W1", title="A title", year=2024, doi="10.5555/1", locations=(place,))
    outcome = search(pipeline(tmp_path, ("openalex", "doi", "wayback"), licenses=("cc-by",)), work, web)
    assert (outcome.reason, web.asked) == (Reason.POLICY_LICENSE, [])
    assert outcome.meta["note"] == "licence: cc-by-nc-nd"


@pytest.mark.requirement("RES-3")
def test_an_archived_copy_has_the_licence_of_the_copy_that_was_captured(tmp_path: Path) -> None:
    file = "https://a.example/1.pdf"
    place = Location(None, file, True, "publishedVersion", "cc-by")
    fields = ["timestamp", "original", "mimetype", "statuscode", "digest"]
    rows = [fields, ["20240101000000", file, "application/pdf", "200", "A"]]
    replay = f"https://web.archive.org/web/20240101000000id_/{file}"
    index = (200, "application/json", orjson.dumps(rows))
    web = Web(
        {file: (404, "text/html", b"gone"), "https://web.archive.org/cdx": index, replay: (200, "application/pdf", PDF)}
    )
    work = Work("W1", title="A title", year=2024, locations=(place,))
    outcome = search(pipeline(tmp_path, ("openalex", "wayback"), licenses=("cc-by",)), work, web)
    assert (outcome.ok, outcome.license, outcome.version) == (True, "cc-by", "publishedVersion")
