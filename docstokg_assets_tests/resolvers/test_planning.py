"""The resolvers together: what stands in a plan, in which order, and what they ask for."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import docstokg_assets.resolvers as package
from docstokg_assets.domain.plans import Plan, Target, Tier
from docstokg_assets.domain.works import Location, Work
from docstokg_assets.resolvers import answer
from docstokg_assets.resolvers.registry import (
    REGISTRY,
    Resolver,
    ResolverContext,
    ResolverSettings,
    build_resolvers,
    load_resolvers,
    make_plan,
    register,
)
from docstokg_assets.resolvers.routes import FILE_ROUTES, Route, file_url, looks_like_pdf, page_url
from resources.http.errors import ConnectionFailed
from resources.records import Reason

ORDER = ("arxiv", "openalex", "unpaywall", "crossref", "doi", "landing", "wayback")
WORK = Work(
    "W1",
    doi="10.5555/1",
    arxiv_id="2401.00001",
    locations=(
        Location("https://press.example/1", "https://press.example/1.pdf", True, "publishedVersion", "cc-by"),
        Location("https://arxiv.org/abs/2401.00001", "https://arxiv.org/pdf/2401.00001", True),
    ),
)


def resolvers(*names: str, **changed: ResolverSettings) -> tuple[Resolver, ...]:
    return build_resolvers(names, {name: cls.Settings() for name, cls in load_resolvers().items()} | changed)


def resolver(name: str) -> Resolver:
    return resolvers(name)[0]


def steps(plan: Plan) -> list[str]:
    return [step.candidate.url if step.candidate else f"ask {step.resolver}" for step in plan.steps]


@pytest.mark.requirement("RES-2")
def test_a_plan_goes_tier_by_tier_and_names_each_url_once() -> None:
    plan = make_plan(WORK, resolvers(*ORDER))
    assert steps(plan) == [
        "https://export.arxiv.org/pdf/2401.00001",
        "https://press.example/1.pdf",
        "ask crossref",  # Unpaywall would say what OpenAlex has said
        "https://doi.org/10.5555/1",
        "https://press.example/1",
        "ask wayback",
    ]
    assert [step.tier for step in plan.steps] == sorted((step.tier for step in plan.steps), key=lambda tier: tier.order)
    assert plan.steps[0].resolver == "arxiv"  # who may ask the harvest host, not who merely knew the address
    closed = make_plan(Work("W2", doi="10.5555/2"), resolvers(*ORDER))
    assert steps(closed) == ["ask unpaywall", "ask crossref", "https://doi.org/10.5555/2", "ask wayback"]
    assert plan.steps[1].candidate is not None and plan.steps[1].candidate.license == "cc-by"


@pytest.mark.requirement("RES-1")
def test_order_enablement_and_priority_come_from_the_settings() -> None:
    chosen = resolvers("doi", "arxiv", "openalex", arxiv=ResolverSettings(enabled=False))
    assert [one.name for one in chosen] == ["doi", "openalex"]
    last = resolvers("arxiv", "openalex", arxiv=ResolverSettings(priority=90))
    work = Work("W1", arxiv_id="2401.00001", locations=WORK.locations[:1])
    assert steps(make_plan(work, last)) == ["https://press.example/1.pdf", "https://export.arxiv.org/pdf/2401.00001"]


@pytest.mark.requirement("RES-1")
def test_a_resolver_from_outside_needs_only_its_decorator() -> None:
    try:

        @register("outside")
        class Outside(Resolver):
            tier = Tier.DIRECT_OA

            def applies(self, work: Work) -> bool:
                return False

        assert isinstance(resolvers("outside")[0], Outside)
    finally:
        REGISTRY.pop("outside", None)


@pytest.mark.requirement("RES-4")
def test_resolvers_of_typed_files_ship_without_head_precheck() -> None:
    assert not [name for name in ORDER if resolver(name).prechecks]
    assert resolvers("arxiv", arxiv=ResolverSettings(head_precheck=True))[0].prechecks


@pytest.mark.requirement("HTTP-13")
def test_only_sanctioned_harvest_routes_are_exempt_from_robots() -> None:
    assert {name for name in ORDER if not resolver(name).obeys_robots} == {"arxiv", "wayback"}


@pytest.mark.requirement("RES-7")
def test_no_resolver_imports_another() -> None:
    folder = Path(package.__path__[0])
    names = set(load_resolvers())
    for name in names & {path.stem for path in folder.glob("*.py")}:
        for node in ast.walk(ast.parse((folder / f"{name}.py").read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("docstokg_assets.resolvers"):
                assert (node.module or "").rpartition(".")[2] not in names - {name}


@pytest.mark.requirement("RES-3")
@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("unpaywall", "https://api.unpaywall.org/v2/10.1000/a%3C1%3E?email=us%40docs.test"),
        ("crossref", "https://api.crossref.org/works/10.1000%2Fa%3C1%3E?mailto=us%40docs.test"),
        (
            "wayback",
            "https://web.archive.org/cdx/search/cdx?url=https%3A%2F%2Fpress.example%2F1.pdf%3Fa%3D1%26b%3D2&output=json"
            "&fl=timestamp%2Coriginal%2Cmimetype%2Cstatuscode%2Cdigest&filter=%21statuscode%3A%5B345%5D..&collapse=digest&limit=-5",
        ),
    ],
)
def test_apis_are_asked_with_whatever_the_identifier_holds_well_escaped(name: str, url: str) -> None:
    context = ResolverContext("us@docs.test", dead_urls=("https://press.example/1.pdf?a=1&b=2",))
    request = next(resolver(name).resolve(Work("W1", doi="10.1000/a<1>"), context))
    assert request.url == url
    assert not request.obey_robots


@pytest.mark.requirement("RES-3")
def test_unpaywall_pages_wait_for_the_tier_of_pages() -> None:
    resolution = resolver("unpaywall").resolve(WORK, ResolverContext("us@docs.test"))
    next(resolution)
    location = {"url_for_pdf": None, "url_for_landing_page": "https://repo.example/1", "license": 7}
    with pytest.raises(StopIteration) as done:
        resolution.send(answer({"oa_locations": [location, None, "text"]}))
    (candidate,) = done.value.value.candidates
    assert (candidate.target, candidate.tier, candidate.license) == (Target.LANDING, Tier.LANDING_SCRAPE, None)


@pytest.mark.requirement("RES-3")
def test_unpaywall_that_refuses_the_contact_says_which_setting_to_change() -> None:
    resolution = resolver("unpaywall").resolve(WORK, ResolverContext("us@example.com"))
    next(resolution)
    with pytest.raises(StopIteration) as done:
        resolution.send(answer({"message": "Please use your own email address"}, 422))
    assert done.value.value.reason is Reason.BAD_ANSWER
    assert "http.contact_email" in done.value.value.note and "own email" in done.value.value.note


@pytest.mark.requirement("RES-3")
def test_crossref_names_versions_and_licences_as_the_others_do() -> None:
    resolution = resolver("crossref").resolve(WORK, ResolverContext())
    assert "mailto" not in next(resolution).url
    link = {"content-type": "application/pdf", "intended-application": "text-mining"}
    message = {
        "license": [{"URL": "http://creativecommons.org/licenses/by-nc/4.0/", "content-version": "am"}],
        "link": [
            {**link, "URL": "https://press.example/am.pdf", "content-version": "am"},
            {**link, "URL": "https://press.example/tdm.pdf", "content-version": "tdm"},
            {**link, "URL": "https://api.elsevier.com/content/1", "content-version": "vor"},
            {**link, "URL": "https://press.example/page", "content-version": "vor", "content-type": "unspecified"},
        ],
    }
    with pytest.raises(StopIteration) as done:
        resolution.send(answer({"message": message}))
    (candidate,) = done.value.value.candidates
    assert (candidate.version, candidate.license) == ("acceptedVersion", "cc-by-nc")


@pytest.mark.requirement("RES-3")
def test_the_newest_capture_of_the_same_bytes_stands_for_all_and_pdfs_come_first() -> None:
    page, pdf = "https://press.example/1", "https://press.example/1.pdf"
    rows = [
        ["timestamp", "original", "mimetype", "statuscode", "digest"],
        ["20200101000000", pdf, "application/pdf", "200", "A"],
        ["20210101000000", pdf, "application/pdf", "200", "A"],
        ["20250101000000", page, "text/html", "200", "B"],
        ["20190101000000", pdf, "application/octet-stream", "200", "C"],
        ["20240101000000", pdf, "image/png", "200", "D"],
    ]
    resolution = resolver("wayback").resolve(WORK, ResolverContext(dead_urls=(pdf, page)))
    next(resolution)
    with pytest.raises(StopIteration) as done:
        resolution.send(answer(rows))
    assert [candidate.url.split("/")[4][:4] for candidate in done.value.value.candidates] == ["2021", "2019", "2025"]
    assert [candidate.target for candidate in done.value.value.candidates] == [Target.PDF, Target.PDF, Target.LANDING]


def test_a_transport_error_is_left_to_who_drives_the_resolver() -> None:
    resolution = resolver("crossref").resolve(WORK, ResolverContext())
    next(resolution)
    with pytest.raises(ConnectionFailed):
        resolution.throw(ConnectionFailed("no route"))


@pytest.mark.requirement("RES-3")
@pytest.mark.parametrize("route", FILE_ROUTES, ids=lambda route: route.example[0])
def test_every_route_does_as_its_example_says(route: Route) -> None:
    named, asked = (f"https://{part}" if part else None for part in route.example)
    assert named and route.pattern.fullmatch(named) and file_url(named) == asked
    assert asked is None or file_url(asked) == asked  # where it leads is where it stays


@pytest.mark.parametrize("url", ["https://press.example/arxiv.org/pdf/2401.00001", "https://a.example/doi/pdf/10.1/x"])
def test_other_addresses_are_left_as_they_are(url: str) -> None:
    assert file_url(url) == url
    assert file_url("not a url") is None


@pytest.mark.parametrize(
    "url",
    [
        "https://link.springer.com/article/10.1007/s1-2/figures/3",
        "https://iopscience.iop.org/article/10.1088/1-1/1/1/media",
        "https://onlinelibrary.wiley.com/doi/full-xml/10.1002/abc.123",
    ],
)
def test_what_belongs_to_an_article_is_not_taken_for_its_file(url: str) -> None:
    assert file_url(url) == url


@pytest.mark.requirement("RES-3")
def test_an_address_of_xml_is_not_led_to_the_pdf_but_to_where_all_files_are() -> None:
    for_pdf = "https://onlinelibrary.wiley.com/doi/full/10.1002/abc.123"
    assert file_url(for_pdf, Target.XML) == for_pdf != file_url(for_pdf)
    galley = "https://ojs.example/index.php/j/article/view/12/34"
    assert file_url(galley, Target.XML) == file_url(galley) != galley
    assert file_url("https://api.wiley.com/xml/1", Target.XML) is None


def test_pages_that_others_cover_are_no_landing_pages() -> None:
    assert page_url("https://doi.org/10.1000/1") is None
    assert page_url("https://repo.example/1") == "https://repo.example/1"


@pytest.mark.parametrize(
    ("url", "pdf"),
    [
        ("https://a.example/x.PDF?download=1", True),
        ("https://a.example/doi/pdf/10.1000/1", True),
        ("https://a.example/science/1/pdfft", True),
        ("https://a.example/article/1", False),
        ("https://a.example/view?file=x.pdf", False),
    ],
)
def test_which_addresses_look_like_a_pdf(url: str, pdf: bool) -> None:
    assert looks_like_pdf(url) is pdf
