"""Repositories whose pages are empty: from the landing page over the interface to the file, counting requests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from docstokg_assets_tests.support.search import PDF, Answer, Web, located, pipeline, search
from resources.http.errors import HttpError, RobotsRefused
from resources.http.messages import Request, Response
from resources.records import DownloadOutcome, Reason

UUID, FILE_ID, OTHER_ID = (f"0a1b2c3d-0000-4000-8000-00000000000{n}" for n in (1, 2, 3))
ITEM, HANDLE = f"https://repo.example/items/{UUID}", "https://repo.example/handle/10.1/77"
SHELL = (
    200,
    "text/html",
    b"<!doctype html><html><head><title>DSpace</title></head><body><ds-app></ds-app></body></html>",
)
REST, CONTENT = "https://repo.example/server/api", f"/core/bitstreams/{FILE_ID}/content"
FILE = (200, "application/pdf", PDF)
MD5 = hashlib.md5(PDF, usedforsecurity=False).hexdigest()


def json(value: Any, status: int = 200) -> Answer:
    return status, "application/json", orjson.dumps(value)


def bitstream(uuid: str, name: str, md5: str = MD5) -> dict[str, Any]:
    return {"uuid": uuid, "name": name, "sizeBytes": 1, "checkSum": {"checkSumAlgorithm": "MD5", "value": md5}}


def bundle(name: str, *bitstreams: dict[str, Any], primary: str | None = None) -> dict[str, Any]:
    inside = {"bitstreams": {"_embedded": {"bitstreams": list(bitstreams)}}}
    links = {"primarybitstream": {"href": f"{REST}/core/bitstreams/{primary}"}} if primary else {}
    return {"name": name, "_embedded": inside, "_links": links}


def bundles(*several: dict[str, Any]) -> Answer:
    return json({"_embedded": {"bundles": list(several)}, "page": {"number": 0}})


ORDINARY = bundles(
    bundle("THUMBNAIL", bitstream(OTHER_ID, "paper.pdf.jpg")),
    bundle("TEXT", bitstream(OTHER_ID, "paper.pdf")),
    bundle("LICENSE", bitstream(OTHER_ID, "license.pdf")),
    bundle("ORIGINAL", bitstream(OTHER_ID, "data.csv"), bitstream(FILE_ID, "paper.pdf")),
)


def sought(tmp_path: Path, page: str, answers: dict[str, Answer], **fields: Any) -> tuple[DownloadOutcome, list[str]]:
    web = Web({**answers, page: answers.get(page, SHELL)})
    return search(pipeline(tmp_path, ("landing",), **fields), located(landing=page), web), web.urls


@pytest.mark.requirement("RES-9")
def test_the_page_of_an_item_leads_to_its_file_in_three_requests(tmp_path: Path) -> None:
    answers = {f"{REST}{CONTENT}": FILE, f"{REST}/core/items/{UUID}/bundles": ORDINARY}
    outcome, asked = sought(
        tmp_path,
        ITEM,
        {f"{REST}{CONTENT.removesuffix('/content')}/accessStatus": json({"status": "open.access"}), **answers},
    )
    assert (outcome.ok, outcome.url, len(asked)) == (True, f"{REST}{CONTENT}", 4)


@pytest.mark.requirement("RES-9")
def test_a_handle_is_looked_up_first(tmp_path: Path) -> None:
    answers = {f"{REST}/pid/find?id=10.1/77": json({"uuid": UUID, "type": "item"}), f"{REST}{CONTENT}": FILE}
    outcome, asked = sought(tmp_path, HANDLE, {**answers, f"{REST}/core/items/{UUID}/bundles": ORDINARY})
    assert (outcome.ok, len(asked)) == (True, 5)


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize("page", [ITEM, HANDLE])
def test_an_interface_on_another_host_is_found_in_the_configuration(tmp_path: Path, page: str) -> None:
    rest = "https://api.repo.example/rest/api"
    config = {"rest": {"ssl": True, "host": "api.repo.example", "port": 443, "nameSpace": "/rest"}}
    answers = {
        "https://repo.example/assets/config.json": json(config),
        f"{rest}/pid/find": json({"uuid": UUID}),
        f"{rest}/core/items/{UUID}/bundles": ORDINARY,
        f"{rest}{CONTENT}": FILE,
    }
    outcome, asked = sought(tmp_path, page, answers)
    assert outcome.ok and len(asked) <= 7


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize(
    ("status", "reason", "note"),
    [
        ({"status": "embargo", "embargoDate": "2027-05-01"}, Reason.EMBARGOED, "embargoed until 2027-05-01"),
        ({"status": "restricted"}, Reason.NOT_ENTITLED, "the repository restricts access to the file"),
    ],
)
def test_a_file_under_embargo_or_restricted_is_not_fetched(
    tmp_path: Path, status: dict[str, str], reason: Reason, note: str
) -> None:
    address = f"{REST}/core/bitstreams/{FILE_ID}"
    answers = {f"{REST}/core/items/{UUID}/bundles": ORDINARY, f"{address}/accessStatus": json(status)}
    outcome, asked = sought(tmp_path, ITEM, answers)
    assert (outcome.reason, outcome.meta["note"], len(asked)) == (reason, note, 3)
    assert f"{address}/content" not in asked


@pytest.mark.requirement("RES-9")
def test_the_primary_file_comes_first_and_supplements_never(tmp_path: Path) -> None:
    several = bitstream(OTHER_ID, "supplement.pdf"), bitstream(UUID, "a.pdf"), bitstream(FILE_ID, "b.pdf")
    answers = {f"{REST}{CONTENT}": FILE, f"{REST}/core/items/": bundles(bundle("ORIGINAL", *several, primary=FILE_ID))}
    assert sought(tmp_path, ITEM, answers)[0].url == f"{REST}{CONTENT}"
    only = {f"{REST}/core/items/": bundles(bundle("ORIGINAL", several[0]))}
    assert sought(tmp_path, ITEM, only)[0].reason is Reason.NO_PDF_LINK


@pytest.mark.requirement("RES-9", "DL-5")
def test_a_file_that_is_not_the_stated_one_is_not_kept(tmp_path: Path) -> None:
    lie = bundles(bundle("ORIGINAL", bitstream(FILE_ID, "paper.pdf", "0" * 32)))
    outcome, _ = sought(tmp_path, ITEM, {f"{REST}{CONTENT}": FILE, f"{REST}/core/items/": lie})
    assert outcome.reason is Reason.CHECKSUM_MISMATCH


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (json({}, 404), Reason.NO_PDF_LINK),
        (json({}, 401), Reason.NOT_ENTITLED),
        ((200, "text/html", b"<html>"), Reason.NO_PDF_LINK),
        (json([]), Reason.NO_PDF_LINK),
        (json({"_embedded": {"bundles": 5}}), Reason.NO_PDF_LINK),
        (
            json({"_embedded": {"bundles": [{"name": "ORIGINAL", "_embedded": {"bitstreams": "x"}}]}}),
            Reason.NO_PDF_LINK,
        ),
        ((200, "application/json", b"[" * 100_000), Reason.NO_PDF_LINK),
        (RobotsRefused("no"), Reason.ROBOTS),
    ],
)
def test_odd_answers_of_the_interface_end_the_page_with_a_reason(
    tmp_path: Path, answer: Answer, reason: Reason
) -> None:
    outcome, asked = sought(tmp_path, ITEM, {f"{REST}/": answer})
    assert outcome.reason is reason and len(asked) <= 7


@pytest.mark.requirement("RES-9")
def test_robots_are_obeyed_by_the_interface_too(tmp_path: Path) -> None:
    seen: list[Request] = []

    class Watching(Web):
        def answer(self, request: Request) -> Response | HttpError:
            seen.append(request)
            return super().answer(request)

    search(pipeline(tmp_path, ("landing",)), located(landing=ITEM), Watching({ITEM: SHELL}))
    assert len(seen) > 1 and all(request.obey_robots for request in seen)


INVENIO = (200, "text/html", b'<script src="/static/dist/js/invenio-app-rdm.js"></script>')
EPRINTS = (200, "text/html", b'<meta name="generator" content="EPrints 3.4.5"><div class="ep_tm_page">')
FIGSHARE = (200, "text/html", b'<script src="https://s3.figshare.com/app.js"></script>')


def invenio(**fields: Any) -> dict[str, Any]:
    links = {"content": "https://r.example/api/records/ab1/files/p.pdf/content"}
    return {"files": {"entries": {"p.pdf": {"key": "p.pdf", "checksum": f"md5:{MD5}", "links": links}}}, **fields}


def eprint(**fields: Any) -> list[dict[str, Any]]:
    return [
        {"documents": [{"main": "p.pdf", "pos": 2, "mime_type": "application/pdf", "security": "public", **fields}]}
    ]


def figshare(**fields: Any) -> dict[str, Any]:
    file = {"name": "p.pdf", "download_url": "https://ndownloader.figshare.com/files/9", "computed_md5": MD5}
    return {"files": [file], **fields}


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize(
    ("page", "shell", "api", "data", "file", "closed", "reason"),
    [
        (
            "https://r.example/records/ab1",
            INVENIO,
            "https://r.example/api/records/ab1",
            invenio,
            "https://r.example/api/records/ab1/files/p.pdf/content",
            {"access": {"files": "restricted", "embargo": {"active": True, "until": "2030-01-01"}}},
            Reason.EMBARGOED,
        ),
        (
            "https://e.example/id/eprint/12/",
            EPRINTS,
            "https://e.example/cgi/export/eprint/12/JSON/",
            eprint,
            "https://e.example/id/eprint/12/2/p.pdf",
            {"security": "staffonly"},
            Reason.NOT_ENTITLED,
        ),
        (
            "https://data.uni.example/articles/thesis/On_ice/12345/1",
            FIGSHARE,
            "https://api.figshare.com/v2/articles/12345",
            figshare,
            "https://ndownloader.figshare.com/files/9",
            {"is_embargoed": True, "embargo_date": "2030-01-01"},
            Reason.EMBARGOED,
        ),
    ],
    ids=["invenio", "eprints", "figshare"],
)
def test_other_platforms_are_asked_too(
    tmp_path: Path, page: str, shell: Answer, api: str, data: Callable[..., Any], file: str, closed: dict[str, Any],
    reason: Reason,
) -> None:  # fmt: skip
    outcome, asked = sought(tmp_path, page, {file: FILE, page: shell, api: json(data())})
    assert (outcome.ok, outcome.url, len(asked)) == (True, file, 3)
    outcome, asked = sought(tmp_path / "closed", page, {page: shell, api: json(data(**closed))})
    assert (outcome.reason, len(asked)) == (reason, 2)


@pytest.mark.requirement("RES-9")
def test_a_linkset_is_one_hop(tmp_path: Path) -> None:
    page, linkset = "https://z.example/records/1", "https://z.example/linkset"
    head = {"content-type": "text/html", "link": f'<{linkset}>; rel="linkset"; type="application/linkset+json"'}
    item = {"href": "https://z.example/f/1", "type": "application/pdf"}
    answers = {page: Response(200, page, head, b"<p>shell"), linkset: json({"linkset": [{"item": [item]}]})}
    outcome, asked = sought(tmp_path, page, {**answers, "https://z.example/f/1": FILE})
    assert (outcome.ok, asked) == (True, [page, linkset, "https://z.example/f/1"])
