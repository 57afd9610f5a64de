"""The server itself: TLS of its own, files and walls, limits, faults, control, and a clean end."""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urljoin

import pytest
import requests
from cryptography import x509
from cryptography.x509.oid import NameOID

from docstokg_assets.sandbox import Sandbox, Work
from docstokg_assets.sandbox.venues import ALL, BY_KEY
from docstokg_assets_tests.support.sandbox import proxied_session


@pytest.fixture(scope="module")
def shared(start: Callable[..., Sandbox]) -> Sandbox:
    return start(works_per_year=900, years=(2023, 2024), mix={"corrupt": 3, "wall": 3, "robots": 2})


@pytest.fixture
def box(shared: Sandbox) -> Sandbox:
    shared.reset()
    shared.enforce_limits(True)
    return shared


@pytest.fixture
def web(box: Sandbox) -> requests.Session:
    return proxied_session(box)


def some(box: Sandbox, archetype: str) -> list[Work]:
    return [w for w in box.universe.works() if w.archetype == archetype]


def gold_at(box: Sandbox, venue: str) -> tuple[Work, str]:
    work = next(w for w in some(box, "gold") if w.publisher.key == venue)
    return work, box.universe.truth(work.id).url or ""


# -- proxy and TLS


def test_the_ca_is_known_by_its_name_and_is_needed(box: Sandbox, web: requests.Session) -> None:
    ca = x509.load_pem_x509_certificate(box.ca_bundle.read_bytes())
    assert ca.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "DocsToKG Sandbox CA"
    assert web.get("https://api.crossref.org/robots.txt").status_code == 200
    with pytest.raises(requests.exceptions.SSLError):
        requests.get("https://api.crossref.org/robots.txt", proxies=web.proxies, timeout=5)
    assert not list(box.ca_bundle.parent.glob("leaf-*"))


def test_an_unknown_host_is_refused_with_a_clear_text(box: Sandbox, web: requests.Session) -> None:
    with pytest.raises(requests.exceptions.ProxyError, match="502"):
        web.get("https://unknown.example/")
    answer = web.get("http://unknown.example/x")
    assert answer.status_code == 502 and "no such host here" in answer.text


def test_plain_http_is_sent_to_https_by_the_proxy_and_played_when_asked_directly(
    box: Sandbox, web: requests.Session
) -> None:
    _, url = gold_at(box, "aurora")
    assert web.get(url.replace("https:", "http:"), allow_redirects=False).headers["Location"] == url
    host, path = url.removeprefix("https://").split("/", 1)
    assert requests.get(f"{box.base_url}/{path}", headers={"Host": host}, timeout=5).content.startswith(b"%PDF-")


def test_benchmark_files(box: Sandbox) -> None:
    first, again = (requests.get(f"{box.base_url}/bench/300000", timeout=5).content for _ in range(2))
    assert len(first) == 300_000 and first == again
    pdfs = {requests.get(f"{box.base_url}/bench/pdf/{n}", timeout=5).content for n in range(3)}
    assert len(pdfs) == 3 and all(p.startswith(b"%PDF-") for p in pdfs)


# -- what the web looks like


@pytest.mark.parametrize("archetype", ["gold", "repository", "later_location", "unpaywall_only", "crossref_link",
                                       "doi_redirect",
                                       "landing", "pmc", "wayback_only"])  # fmt: skip
def test_the_good_copy_is_where_the_truth_says(box: Sandbox, web: requests.Session, archetype: str) -> None:
    for work in some(box, archetype)[:12]:
        truth = box.universe.truth(work.id)
        assert truth.reachable and truth.url and truth.kind == "pdf"
        assert web.get(truth.url).content.startswith(b"%PDF-"), truth


def test_html_and_xml_only(box: Sandbox, web: requests.Session) -> None:
    page = web.get(box.universe.truth(some(box, "html_only")[0].id).url or "")
    assert "citation_fulltext_html_url" in page.text and "citation_pdf_url" not in page.text
    xml = web.get(box.universe.truth(some(box, "jats_only")[0].id).url or "")
    assert xml.headers["Content-Type"] == "application/xml" and b"<article " in xml.content


def test_landing_pages_lead_to_the_file_in_four_styles(box: Sandbox, web: requests.Session) -> None:
    patterns = {
        "meta": r'citation_pdf_url" content="([^"]+)"',
        "alternate": r'rel="alternate" type="application/pdf"[^>]*href="([^"]+)"',
        "anchor": r'class="btn pdf" href="([^"]+)"', "base": r'class="pdf-link" href="([^"]+)"',
    }  # fmt: skip
    seen = set()
    for work in some(box, "landing")[:30]:
        story = box.universe.scenario(work)
        answer = web.get(story.doi_url)
        if "http-equiv" in answer.text:  # a hop page: follow it as a browser would
            answer = web.get(re.search(r"url='([^']+)'", answer.text)[1])  # type: ignore[index]
        base = re.search(r'<base href="([^"]+)"', answer.text)
        style, link = next((s, m[1]) for s, p in patterns.items() if (m := re.search(p, answer.text)))
        assert urljoin(base[1] if base else answer.url, link.replace("&amp;", "&")) == story.good_url
        seen.add(style)
    assert seen == set(patterns)


def test_manners_of_the_venues(box: Sandbox, web: requests.Session) -> None:
    assert web.head(gold_at(box, "headless")[1]).status_code == 405
    assert web.head(gold_at(box, "atlas")[1]).status_code == 403
    token = web.get(gold_at(box, "silverleaf")[1])
    assert token.url.startswith("https://cdn.silverleaf.example/") and "token=" in token.url
    octets = web.get(gold_at(box, "octavo")[1])
    assert octets.headers["Content-Type"] == "application/octet-stream"
    assert "filename*=UTF-8''" in octets.headers["Content-Disposition"]
    started = time.monotonic()
    web.get(gold_at(box, "tortoise")[1])
    assert time.monotonic() - started >= 0.05
    work, _ = gold_at(box, "lusitana")
    page = web.get(box.universe.scenario(work).doi_url)
    assert page.headers["Content-Encoding"] == "gzip" and page.encoding == "ISO-8859-1" and "<base" in page.text
    assert "http-equiv" in web.get(box.universe.scenario(gold_at(box, "hopscotch")[0]).doi_url).text


def test_the_cookie_must_come_back_in_the_chain(box: Sandbox, web: requests.Session) -> None:
    _, url = gold_at(box, "cookiejar")
    first = web.get(url, allow_redirects=False)
    web.cookies.clear()
    assert first.status_code == 302 and "pass=1" in first.headers["Set-Cookie"]
    assert "enable cookies" in web.get(urljoin(url, first.headers["Location"])).text
    assert web.get(url).content.startswith(b"%PDF-")


def test_failures_fail_as_the_truth_says(box: Sandbox, web: requests.Session) -> None:
    for archetype in ("loop_pdf", "loop_doi"):
        with pytest.raises(requests.TooManyRedirects):
            web.get(box.universe.scenario(some(box, archetype)[0]).doi_url)
    statuses = {
        web.get(box.universe.scenario(w).locations[0].pdf or "").status_code for w in some(box, "bad_status")[:24]
    }
    assert statuses == {403, 500, 503, 410}
    walls = " ".join(web.get(box.universe.scenario(w).locations[0].pdf or "").text for w in some(box, "wall")[:24])
    for marker in ("enable cookies", "Just a moment", 'type="password"', "POW_CHALLENGE"):
        assert marker in walls
    assert not any(box.universe.truth(w.id).reachable for a in ("wall", "corrupt", "robots") for w in some(box, a))


def test_corrupt_files_are_corrupt(box: Sandbox, web: requests.Session) -> None:
    seen = set()
    for work in some(box, "corrupt"):
        try:
            answer = web.get(box.universe.scenario(work).locations[0].pdf or "")
        except requests.exceptions.ChunkedEncodingError:
            seen.add("truncated")
            continue
        body, kind = answer.content, answer.headers["Content-Type"]
        seen.add(
            "type" if kind == "image/png" else "html" if b"<html" in body else "tiny" if len(body) < 1024 else "cut"
        )
        assert not (body.startswith(b"%PDF-") and body.rstrip().endswith(b"%%EOF") and len(body) >= 1024)
    assert seen == {"truncated", "type", "html", "tiny", "cut"}


def test_every_venue_has_its_robots(box: Sandbox, web: requests.Session) -> None:
    assert {v.key: web.get(f"https://{v.host}/robots.txt").status_code for v in ALL} == {
        v.key: v.robots_status for v in ALL
    }
    assert {v.robots_status for v in ALL} == {200, 404, 503}
    assert "Disallow: /private/" in web.get(f"https://{BY_KEY['keepout'].host}/robots.txt").text


def test_conditional_and_range_requests(box: Sandbox, web: requests.Session) -> None:
    _, url = gold_at(box, "aurora")
    whole = web.get(url)
    tag, modified = whole.headers["ETag"], whole.headers["Last-Modified"]
    same = web.get(url, headers={"If-None-Match": tag})
    assert (same.status_code, same.content, same.headers["ETag"]) == (304, b"", tag)
    assert web.get(url, headers={"If-Modified-Since": modified}).status_code == 304
    assert web.get(url, headers={"If-None-Match": '"other"'}).status_code == 200
    part = web.get(url, headers={"Range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, whole.content[10:20])
    assert part.headers["Content-Range"] == f"bytes 10-19/{len(whole.content)}"
    assert web.get(url, headers={"Range": "bytes=-5"}).content == whole.content[-5:]
    assert web.get(url, headers={"Range": "bytes=99999999-"}).status_code == 416
    head = web.head(url)
    assert head.status_code == 200 and int(head.headers["Content-Length"]) == len(whole.content)


# -- limits


def test_arxiv_hosts_share_one_pace(box: Sandbox, web: requests.Session) -> None:
    assert web.get("https://arxiv.org/abs/x").status_code == 404
    refused = web.get("https://export.arxiv.org/abs/x")
    assert (refused.status_code, refused.text) == (429, "Rate exceeded.") and "Retry-After" not in refused.headers
    assert [v["limit"] for v in box.violations()] == ["arxiv"]


def test_limits_are_counted_and_not_enforced_when_told_so(box: Sandbox, web: requests.Session) -> None:
    box.enforce_limits(False)
    statuses = {web.get("https://api.crossref.org/works/x").status_code for _ in range(8)}
    assert statuses == {404} and len(box.violations()) == 3


def test_openalex_refuses_by_second_and_by_budget(box: Sandbox, web: requests.Session) -> None:
    answers = [web.get("https://api.openalex.org/works?per_page=1&select=id") for _ in range(14)]
    refused = next(a for a in answers if a.status_code == 429)
    assert "10 requests per second" in refused.json()["message"] and refused.headers["Retry-After"] == "1"
    box.enforce_limits(False)
    for _ in range(100):  # a search costs 10 of the 1,000 credits that callers without a key have
        web.get("https://api.openalex.org/works?search=zzz&per_page=1&select=id")
    box.enforce_limits(True)
    time.sleep(1)
    spent = web.get("https://api.openalex.org/works?per_page=1")
    assert (
        spent.status_code == 429
        and spent.json()["creditsRemaining"] == 0
        and "Insufficient budget" in spent.json()["message"]
    )


def test_the_cdx_index_takes_thirty_a_minute(box: Sandbox, web: requests.Session) -> None:
    url = "https://web.archive.org/cdx/search/cdx?url=a.example&output=json"
    assert [web.get(url).status_code for _ in range(31)] == [200] * 30 + [429]


# -- faults and control


def test_a_fault_applies_to_the_first_requests_only(box: Sandbox, web: requests.Session) -> None:
    box.add_fault(host="doi.org", path="/10.*", status=503, headers={"Retry-After": "3600"}, times=2)
    answers = [web.get("https://doi.org/10.1/x") for _ in range(3)]
    assert [a.status_code for a in answers] == [503, 503, 404] and answers[0].headers["Retry-After"] == "3600"
    assert web.get("https://doi.org/doiRA/10.1/x").status_code == 200


def test_a_fault_with_a_share_always_meets_the_same_addresses(box: Sandbox, web: requests.Session) -> None:
    box.add_fault(host="doi.org", name="any", share=0.25, status=503)
    first, again = ([web.get(f"https://doi.org/10.1/{n}").status_code for n in range(80)] for _ in range(2))
    assert first == again and 8 <= first.count(503) <= 34


def test_stamped_pdfs_are_never_equal(box: Sandbox, web: requests.Session) -> None:
    _, url = gold_at(box, "aurora")
    plain = web.get(url).content
    box.add_fault(stamp=True)
    one, other = web.get(url), web.get(url)
    assert one.content != other.content and all(copy.content.startswith(plain) for copy in (one, other))
    assert "ETag" not in one.headers and int(one.headers["Content-Length"]) == len(one.content)


def test_faults_spoil_bodies(box: Sandbox, web: requests.Session) -> None:
    _, url = gold_at(box, "aurora")
    size = len(web.get(url).content)
    box.add_fault(host="*.aurora-press.example", truncate=100)
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        web.get(url)
    box.clear_faults()
    box.add_fault(host="*.aurora-press.example", type="text/html", no_length=True, truncate=1000)
    cut = web.get(url)
    assert (
        cut.headers["Content-Type"] == "text/html"
        and "Content-Length" not in cut.headers
        and len(cut.content) == 1000 < size
    )
    box.clear_faults()
    box.add_fault(host="*.aurora-press.example", endless=True)
    with web.get(url, stream=True) as endless:
        assert len(endless.raw.read(3_000_000)) == 3_000_000
    box.clear_faults()
    box.add_fault(host="*.aurora-press.example", path="/robots.txt", body="Disallow: /x\n", body_repeat=100_000)
    assert len(web.get("https://journals.aurora-press.example/robots.txt").content) == 1_300_000
    assert web.get(url).content.startswith(b"%PDF-")


def test_faults_of_time(box: Sandbox, web: requests.Session) -> None:
    box.add_fault(path="/slow*", delay=0.2)
    box.add_fault(path="/drip*", status=200, body="x" * 40, drip=100)
    box.add_fault(path="/heads*", status=200, header_drip=400)
    for path, least in (("slow", 0.2), ("drip", 0.3), ("heads", 0.1)):
        started = time.monotonic()
        web.get(f"https://www.plainpages.example/{path}")
        assert time.monotonic() - started >= least, path


def test_faults_of_manners(box: Sandbox, web: requests.Session) -> None:
    box.add_fault(path="/loop*", loop=True)
    box.add_fault(path="/wall*", wall="captcha")
    box.add_fault(path="/close*", close=True)
    box.add_fault(path="/away*", redirect="file:///etc/passwd")
    site = "https://www.plainpages.example"
    with pytest.raises(requests.TooManyRedirects):
        web.get(f"{site}/loop")
    assert "Just a moment" in web.get(f"{site}/wall").text
    with pytest.raises(requests.ConnectionError):
        web.get(f"{site}/close")
    assert web.get(f"{site}/away", allow_redirects=False).headers["Location"] == "file:///etc/passwd"


def test_an_unknown_fault_is_refused(box: Sandbox) -> None:
    with pytest.raises(RuntimeError, match="unknown in fault: stattus"):
        box.add_fault(stattus=500)


def test_arrivals_are_recorded(box: Sandbox, web: requests.Session) -> None:
    web.get("https://doi.org/10.1/x?y=1", headers={"User-Agent": "me"})
    web.get("https://api.crossref.org/robots.txt")
    (row,) = box.arrivals("doi.org")
    assert (row["host"], row["method"], row["path"], row["status"], row["user_agent"]) == (
        "doi.org",
        "GET",
        "/10.1/x?y=1",
        404,
        "me",
    )
    assert len(box.arrivals()) == 2 and box.stats()["by_host"] == {"doi.org": 1, "api.crossref.org": 1}
    box.reset()
    assert box.arrivals() == [] == box.violations()


# -- processes


def test_the_server_ends_with_its_parent(tmp_path: Path) -> None:
    script = (
        "import os, sys; from docstokg_assets.sandbox import Sandbox\n"
        f"box = Sandbox.start({str(tmp_path)!r}); print(box.port, flush=True); os._exit(9)"
    )
    port = int(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout)
    for _ in range(50):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return
        time.sleep(0.1)
    pytest.fail("the server outlived its parent")


def test_the_command_prints_the_two_settings_and_ends_cleanly(tmp_path: Path, box: Sandbox) -> None:
    command = [
        sys.executable,
        "-c",
        "from docstokg_assets.cli.sandbox import app; app()",
        "serve",
        "--state-dir",
        str(tmp_path),
    ]
    process = subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    shown = ""
    while "Ctrl-C" not in shown:
        shown += process.stdout.readline()
    process.send_signal(2)
    rest, errors = process.communicate(timeout=5)
    proxy = re.search(r"proxy: (http://127\.0\.0\.1:\d+)\n", shown)
    assert proxy and f"export DTKG_HTTP__PROXY={proxy[1]}\n" in shown
    assert (
        f"ca_bundle: {tmp_path}/sandbox-ca.pem" in shown and f"DTKG_HTTP__CA_BUNDLE={tmp_path}/sandbox-ca.pem" in shown
    )
    assert process.returncode == 0 and "Traceback" not in errors + rest
    taken = subprocess.run([*command, "--port", str(box.port)], capture_output=True, text=True)
    assert (
        taken.returncode == 2
        and f"port {box.port} on 127.0.0.1 is taken" in taken.stderr
        and "Traceback" not in taken.stderr
    )


def test_a_tls_client_that_does_not_speak_http_harms_nobody(box: Sandbox, web: requests.Session) -> None:
    context = ssl.create_default_context(cafile=str(box.ca_bundle))
    with socket.create_connection(("127.0.0.1", box.port)) as raw:
        raw.sendall(b"CONNECT doi.org:443 HTTP/1.1\r\nHost: doi.org:443\r\n\r\n")
        assert b"200" in raw.recv(100)
        with context.wrap_socket(raw, server_hostname="doi.org") as tls:
            tls.sendall(b"\x00\x01 not http\r\n\r\n")
            assert tls.recv(100).startswith(b"HTTP/1.1 400")
    assert web.get("https://doi.org/doiRA/10.1/x").status_code == 200
