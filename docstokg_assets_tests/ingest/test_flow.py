"""The way of a request through archive, live web and Save Page Now, on the real path over the sandbox."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.ingest.flow import ingest, linking, page
from docstokg_assets_tests.support.configs import ConfigFor

SANDBOX: dict[str, Any] = {"works_per_year": 5, "years": (2024, 2024), "enforce_limits": False}
URL = "https://journal.press.org/article/1.pdf"
KEY = {"resolvers__wayback__api_key": "sandbox-key:secret"}


def paths(box: Sandbox, host: str) -> list[str]:
    return [row["path"] for row in box.arrivals(host) if row["path"] != "/robots.txt"]


@pytest.mark.requirement("ING-3")
@pytest.mark.requirement("ING-7")
def test_a_capture_is_used_before_the_live_web(box: Sandbox, config_for: ConfigFor) -> None:
    box.place({"url": URL, "pdf": 1}, {"url": URL, "pdf": 2, "timestamp": "20250102030405"})
    config = config_for(box)
    (result,) = ingest(config, {"base_url": URL, "ext_ids": {"doi": "10.5555/1"}, "edit_extra": {"a": 1}})
    assert (result.status, result.hit, result.route) == ("success", True, "archive")
    assert result.terminal is not None
    assert (result.terminal.terminal_url, result.terminal.terminal_dt) == (URL, "20250102030405")
    assert result.archive_url == f"https://web.archive.org/web/20250102030405/{URL}"
    assert result.file_meta is not None
    assert result.path is not None
    stored = (Path(config.data_root) / result.path).read_bytes()
    assert result.file_meta.model_dump() == {
        "size_bytes": len(stored),
        "md5hex": hashlib.md5(stored).hexdigest(),
        "sha1hex": hashlib.sha1(stored).hexdigest(),
        "sha256hex": hashlib.sha256(stored).hexdigest(),
        "mimetype": "application/pdf",
    }
    assert result.terminal.terminal_sha1hex == result.file_meta.sha1hex
    assert result.terminal.terminal_status_code == 200
    assert result.cdx is not None
    assert (result.cdx.datetime, result.cdx.status_code, result.cdx.sha1hex) == (
        "20250102030405",
        200,
        result.file_meta.sha1hex,
    )
    assert result.revisit_cdx is None
    assert result.grobid is None
    assert result.request["edit_extra"] == {"a": 1}
    assert paths(box, "journal.press.org") == []


@pytest.mark.requirement("ING-3")
def test_without_a_capture_the_url_is_fetched_live(box: Sandbox, config_for: ConfigFor) -> None:
    box.place({"url": URL, "pdf": 1})
    (result,) = ingest(config_for(box), {"base_url": URL})
    assert (result.status, result.hit, result.route) == ("success", True, "live")
    assert result.terminal is not None
    assert (result.terminal.terminal_url, result.terminal.terminal_dt, result.archive_url) == (URL, None, None)


@pytest.mark.requirement("ING-3")
def test_force_recrawl_does_not_ask_the_archive(box: Sandbox, config_for: ConfigFor) -> None:
    box.place({"url": URL, "pdf": 1}, {"url": URL, "pdf": 2, "timestamp": "20250102030405"})
    config = config_for(box)
    (first,) = ingest(config, {"base_url": URL})
    (result,) = ingest(config, {"base_url": URL, "force_recrawl": True})
    assert (first.route, result.route, result.hit) == ("archive", "live", True)
    assert first.file_meta != result.file_meta
    assert len(paths(box, "journal.press.org")) == 1


@pytest.mark.requirement("ING-3")
def test_a_capture_older_than_the_request_allows_is_taken_again(box: Sandbox, config_for: ConfigFor) -> None:
    box.place({"url": URL, "pdf": 1}, {"url": URL, "pdf": 2, "timestamp": "20150102030405"})
    (result,) = ingest(config_for(box), {"base_url": URL, "max_age_days": 365})
    assert (result.status, result.route) == ("success", "live")


@pytest.mark.requirement("ING-3")
def test_archive_only_names_the_missing_url(box: Sandbox, config_for: ConfigFor) -> None:
    article = "https://journal.press.org/article/1"
    box.place({"url": article, "body": linking(URL), "timestamp": "20250102030405"})
    (result,) = ingest(config_for(box, ingest__routes__priority=["archive"]), {"base_url": article})
    assert (result.status, result.hit) == ("no-capture", False)
    assert result.terminal is not None
    assert result.terminal.terminal_url == URL
    assert result.next_try is not None


@pytest.mark.requirement("ING-7")
def test_both_rows_of_a_revisit_are_kept(box: Sandbox, config_for: ConfigFor) -> None:
    box.place(
        {"url": URL, "pdf": 2, "timestamp": "20100102030405"},
        {"url": URL, "pdf": 2, "timestamp": "20260102030405", "revisit": True},
    )
    (result,) = ingest(config_for(box), {"base_url": URL, "max_age_days": 5000})
    assert (result.status, result.route) == ("success", "archive")
    assert result.cdx is not None
    assert result.revisit_cdx is not None
    assert result.terminal is not None
    assert (result.cdx.mimetype, result.cdx.status_code, result.cdx.datetime) == (
        "warc/revisit",
        None,
        "20260102030405",
    )
    assert (result.revisit_cdx.datetime, result.revisit_cdx.status_code) == ("20100102030405", 200)
    assert result.terminal.terminal_dt == "20260102030405"
    assert result.terminal.terminal_status_code == 200


@pytest.mark.requirement("ING-3")
def test_the_way_of_elsevier_fits(box: Sandbox, config_for: ConfigFor) -> None:
    """linkinghub → article → bounce page → PDF, each page live."""
    hub = "https://linkinghub.elsevier.com/retrieve/pii/S0001"
    article = "https://www.sciencedirect.com/science/article/pii/S0001"
    bounce = "https://www.sciencedirect.com/science/article/pii/S0001/pdfft?md5=1&pid=1-s2.0-S0001-main.pdf"
    pdf = "https://pdf.sciencedirectassets.com/S0001/main.pdf?x=1"
    box.place(
        {"url": "https://doi.org/10.5555/els", "status": 302, "headers": {"Location": hub}},
        {
            "url": hub,
            "body": page(
                f'<input type="hidden" name="redirectURL" id="redirectURL" value="{quote(article, safe="")}">',
                '<meta http-equiv="refresh" content="2;url=/retrieve/articleSelectSinglePerm?Redirect='
                f'{quote(article, safe="")}">',
            ),
        },
        {"url": article, "body": linking(bounce)},
        {
            "url": bounce,
            "body": page(
                f'<div id="redirect-message"><p>Redirecting</p><a href="{pdf}">here</a></div>',
                f'<meta http-equiv="refresh" content="0;url={pdf}">',
                "Redirecting",
            ),
        },
        {"url": pdf, "pdf": 3},
    )
    (result,) = ingest(config_for(box), {"base_url": "https://doi.org/10.5555/els"})
    assert (result.status, result.hit) == ("success", True), (result.error_message, result.hops)
    assert result.terminal is not None
    assert result.terminal.terminal_url == pdf
    assert result.hops[0] == "https://doi.org/10.5555/els"
    assert [hub, article, bounce] == [hop for hop in result.hops if hop in (hub, article, bounce)]


@pytest.mark.requirement("ING-3")
def test_captured_redirects_and_captured_pages_are_followed_in_the_archive(box: Sandbox, config_for: ConfigFor) -> None:
    doi, article = "https://doi.org/10.5555/arch", "https://journal.press.org/article/1"
    box.place(
        {"url": doi, "status": 302, "headers": {"Location": article}, "timestamp": "20240101000000"},
        {"url": article, "body": linking("/article/1.pdf"), "timestamp": "20240101000001"},
        {"url": URL, "pdf": 4, "timestamp": "20240101000002"},
    )
    (result,) = ingest(config_for(box), {"base_url": doi})
    assert (result.status, result.route) == ("success", "archive"), (result.error_message, result.hops)
    assert result.terminal is not None
    assert (result.terminal.terminal_url, result.terminal.terminal_dt) == (URL, "20240101000002")
    assert paths(box, "journal.press.org") == []


@pytest.mark.requirement("ING-3")
def test_save_page_now_is_used_where_it_is_configured(box: Sandbox, config_for: ConfigFor) -> None:
    box.place({"url": URL, "pdf": 5})
    config = config_for(box, ingest__routes__priority=["archive", "save"], **KEY)
    (result,) = ingest(config, {"base_url": URL})
    assert (result.status, result.route) == ("success", "save"), result.error_message
    assert result.terminal is not None
    assert result.terminal.terminal_dt == "20261101120000"
    assert result.cdx is not None
    assert result.cdx.sha1b32 is None  # a fresh capture has only a partial row
    assert paths(box, "journal.press.org") == []


@pytest.mark.requirement("ING-6")
@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("error:too-many-daily-captures", "too-many-daily-captures"),
        ("error:blocked-url", "spn2-error:blocked-url"),
        ("later:error:not-found", "not-found"),
        ("later:error:browsing-timeout", "spn2-error:browsing-timeout"),
        ("error:WorkerLostError", "spn2-error:unknown"),
    ],
)
def test_errors_of_save_page_now_have_their_status(box: Sandbox, config_for: ConfigFor, said: str, status: str) -> None:
    box.place({"url": URL, "pdf": 5, "save": said})
    (result,) = ingest(config_for(box, ingest__routes__priority=["save"], **KEY), {"base_url": URL})
    assert (result.status, result.hit) == (status, False)
    assert said.rpartition(":")[2] in (result.error_message or "")


@pytest.mark.requirement("ING-6")
def test_save_page_now_without_places_or_key_says_so(box: Sandbox, config_for: ConfigFor) -> None:
    box.place({"url": URL, "pdf": 5})
    box.set_save_places(1)
    only = {"ingest__routes__priority": ["save"]}
    (busy,) = ingest(config_for(box, **only, **KEY), {"base_url": URL})
    assert busy.status == "spn2-backoff"
    assert busy.next_try is not None
    (closed,) = ingest(config_for(box, **only), {"base_url": "https://journal.press.org/2.pdf"})
    assert closed.status == "spn2-error:unauthorized"
    assert "api_key" in (closed.error_message or "")


COOKIE = "https://utpjournals.press/action/cookieAbsent"
CAPTCHA = "https://www.osapublishing.org/captcha/?guid=39B0E947-C0FC-B5D8-2C0C-CCF004FF16B8"


@pytest.mark.requirement("ING-6")
@pytest.mark.parametrize(
    ("placed", "status"),
    [
        ({"status": 404, "body": "gone"}, "terminal-bad-status"),
        ({"status": 403, "body": "no"}, "terminal-bad-status"),
        ({"body": page("<h1>Nothing here</h1>")}, "no-pdf-link"),
        ({"body": "GIF89a\x01\x02" * 200, "type": "image/gif"}, "wrong-mimetype"),
        ({"status": 302, "headers": {"Location": COOKIE}}, "blocked-cookie"),
        ({"status": 302, "headers": {"Location": CAPTCHA}}, "blocked-captcha"),
        ({"body": page('<form><input type="password"></form>', title="Sign in")}, "blocked-wall"),
        ({"status": 302, "headers": {"Location": URL}}, "redirect-loop"),
    ],
)
def test_failures_have_the_status_that_the_facts_expect(
    box: Sandbox, config_for: ConfigFor, placed: dict[str, Any], status: str
) -> None:
    box.place({"url": URL, **placed})
    box.place({"url": COOKIE, "body": page("cookies")}, {"url": CAPTCHA, "body": page("captcha")})
    (result,) = ingest(config_for(box), {"base_url": URL})
    assert (result.status, result.hit) == (status, False), result.error_message
    assert result.terminal is not None
    assert result.error_message


@pytest.mark.requirement("ING-6")
def test_a_failing_archive_is_not_taken_for_an_empty_one(box: Sandbox, config_for: ConfigFor) -> None:
    box.place({"url": URL, "status": 404})
    box.add_fault(host="web.archive.org", status=503)
    only = config_for(box, ingest__routes__priority=["archive"], http__retry__max_attempts=1)
    (result,) = ingest(only, {"base_url": URL})
    assert result.status == "cdx-error"
    assert result.next_try is not None


@pytest.mark.requirement("ING-1")
def test_xml_and_html_are_asked_for_by_type(box: Sandbox, config_for: ConfigFor) -> None:
    xml = "https://journal.press.org/1.xml"
    text = "https://journal.press.org/text"
    words = "".join(
        f"<h2>{name}</h2><p>{'coral reefs grow slowly ' * 200}</p>"
        for name in ("Introduction", "Methods", "Results", "References")
    )
    box.place(
        {
            "url": xml,
            "body": '<?xml version="1.0"?><article><body><p>x</p></body></article>' + " " * 600,
            "type": "application/xml",
        },
        {"url": text, "body": page(words, '<meta name="citation_title" content="x">')},
        {"url": URL, "pdf": 1},
    )
    got = ingest(
        config_for(box),
        {"base_url": xml, "ingest_type": "xml"},
        {"base_url": text, "ingest_type": "html"},
        {"base_url": URL, "ingest_type": "html"},
        {"base_url": text, "ingest_type": "pdf"},
    )
    assert [(r.status, r.hit) for r in got] == [
        ("success", True),
        ("success", True),
        ("wrong-mimetype", False),
        ("no-pdf-link", False),
    ]
    assert got[0].file_meta is not None
    assert got[0].file_meta.mimetype == "application/xml"
    assert got[1].file_meta is not None
    assert (got[1].file_meta.mimetype, len(got[1].file_meta.sha1hex or "")) == ("text/html", 40)


@pytest.mark.requirement("ING-9")
def test_one_url_of_many_requests_is_fetched_once_and_answers_all(box: Sandbox, config_for: ConfigFor) -> None:
    box.place({"url": URL, "pdf": 1})
    requests = [{"base_url": URL, "link_source": "mag", "link_source_id": str(n)} for n in range(5)]
    results = ingest(config_for(box), *requests)
    assert [result.status for result in results] == ["success"] * 5
    assert [result.request["link_source_id"] for result in results] == list("01234")
    assert len(paths(box, "journal.press.org")) == 1
