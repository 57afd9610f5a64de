"""The publishers that are hardest to read, each from its landing page to the file or to the reason why there is none.

The pages are written for these tests; they have the structure of the real ones and nothing of their text.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from docstokg_assets_tests.support.search import PDF, Answer, Web, located, pipeline, search
from resources.http.messages import Response
from resources.records import DownloadOutcome, Reason

FILE = (200, "application/pdf", PDF)
CHALLENGE = """<!DOCTYPE html><html><head><title>Just a moment...</title><meta http-equiv="refresh" content="35"></head>
<body><noscript>Enable JavaScript and cookies to continue</noscript>
<script>window._cf_chl_opt={cZone:'pubs.acs.org'};</script></body></html>"""
ACS = """<html><head><meta name="dc.Identifier" scheme="doi" content="10.1021/acs.estlett.9b00379"></head><body>
<div class="article_header"><a href="/doi/pdf/10.1021/acs.estlett.9b00379" title="PDF" target="_blank">PDF (2 MB)</a></div>
<a class="suppl-anchor" href="/doi/suppl/10.1021/acs.estlett.9b00379/suppl_file/ez9b00379_si_001.pdf">PDF</a>
<ol id="references"><li><a href="/doi/pdf/10.1021/es0123456">PDF</a></li></ol></body></html>"""
LINKING_HUB = """<html><head><title>Redirecting</title>
<meta HTTP-EQUIV="REFRESH" content="2; url='/retrieve/articleSelectSinglePerm?Redirect=x'">
</head><body><input type="hidden" name="redirectURL"
value="https%3A%2F%2Fwww.sciencedirect.com%2Fscience%2Farticle%2Fpii%2FS0169204621000670%3Fvia%253Dihub"></body></html>"""
SCIENCE_DIRECT = """<html><head><title>A paper</title></head><body><section class="recommended-articles">
<a href="/science/article/pii/S0009261408007574/pdfft?md5=1&amp;pid=1-s2.0-S0009261408007574-main.pdf">PDF</a></section>
<script type="application/json" data-iso-key="_0">{"article":{"pdfDownload":{"isPdfFullText":false,"urlMetadata":{"queryParams":
{"md5":"c4a8","pid":"1-s2.0-S0169204621000670-main.pdf"},"pii":"S0169204621000670","pdfExtension":"/pdfft",
"path":"science/article/pii"}}}}</script></body></html>"""
BOUNCE = (
    "<html><script>window.location = 'https://pdf.sciencedirectassets.com/1/main.pdf?X-Amz-Date=1';</script></html>"
)
OUP = """<html><head><meta name="citation_doi" content="10.1210/js.2019-SUN-203"><meta name="citation_pdf_url"
content="https://academic.oup.com/jes/article-pdf/3/Supplement_1/SUN-203/28625137/js.2019-sun-203.pdf"></head></html>"""
OUP_WITHOUT_META = """<html><head></head><body><div class="toolbar"><a class="al-link pdf article-pdfLink"
href="/jes/article-pdf/3/Supplement_1/SUN-203/28625137/js.2019-sun-203.pdf">PDF</a></div></body></html>"""
JCANCER = """<html><head><title>A paper</title></head><body><div class="divboxright">
<a class="text-button" href="v10p4038.pdf">PDF</a>
<a class="text-button" href="v10p4038s1.pdf">Supplementary material</a></div>
<p>Doe J. Another. <a href="https://other.example/9.pdf">PubMed</a></p></body></html>"""
OUP_FILE = "https://academic.oup.com/jes/article-pdf/3/Supplement_1/SUN-203/28625137/js.2019-sun-203.pdf"


def html(body: str) -> Answer:
    return 200, "text/html", body.encode()


def sought(tmp_path: Path, landing: str, answers: dict[str, Answer]) -> tuple[DownloadOutcome, list[str]]:
    web = Web(answers)
    outcome = search(pipeline(tmp_path, ("landing",)), located(landing=landing), web)
    return outcome, web.urls


@pytest.mark.requirement("RES-9")
def test_acs_gives_its_article_and_neither_supplement_nor_reference(tmp_path: Path) -> None:
    page, file = (
        "https://pubs.acs.org/doi/10.1021/acs.estlett.9b00379",
        "https://pubs.acs.org/doi/pdf/10.1021/acs.estlett.9b00379",
    )
    outcome, asked = sought(tmp_path, page, {file: FILE, page: html(ACS)})
    assert (outcome.ok, asked) == (True, [page, file])


@pytest.mark.requirement("RES-9")
def test_acs_behind_its_challenge_is_blocked(tmp_path: Path) -> None:
    outcome, _ = sought(tmp_path, "https://pubs.acs.org/doi/10.1021/x", {"https://pubs.acs.org/": html(CHALLENGE)})
    assert outcome.reason is Reason.BLOCKED_WAF


@pytest.mark.requirement("RES-9")
def test_elseviers_hub_leads_to_the_page_whose_state_names_the_file(tmp_path: Path) -> None:
    hub = "https://linkinghub.elsevier.com/retrieve/pii/S0169204621000670"
    page = "https://www.sciencedirect.com/science/article/pii/S0169204621000670"
    file = f"{page}/pdfft?md5=c4a8&pid=1-s2.0-S0169204621000670-main.pdf"
    outcome, asked = sought(tmp_path, hub, {hub: html(LINKING_HUB), file: FILE, page: html(SCIENCE_DIRECT)})
    assert (outcome.ok, asked) == (True, [hub, f"{page}?via%3Dihub", file])


@pytest.mark.requirement("RES-9")
def test_the_bounce_page_before_a_file_of_elseviers_is_followed(tmp_path: Path) -> None:
    page = "https://www.sciencedirect.com/science/article/pii/S0169204621000670"
    file = "https://pdf.sciencedirectassets.com/1/main.pdf?X-Amz-Date=1"
    answers = {f"{page}/pdfft": html(BOUNCE), page: html(SCIENCE_DIRECT), "https://pdf.sciencedirectassets.com/": FILE}
    outcome, asked = sought(tmp_path, page, answers)
    assert (outcome.ok, asked[-1]) == (True, file)


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://www.osapublishing.org/captcha/?guid=39B0E947", Reason.BLOCKED_CAPTCHA),
        ("https://opg.optica.org/captcha/?guid=39B0E947", Reason.BLOCKED_CAPTCHA),
        ("https://utpjournals.press/action/cookieAbsent", Reason.BLOCKED_COOKIE),
    ],
)
def test_optica_and_utp_lead_to_walls_that_are_known_by_their_address(tmp_path: Path, url: str, reason: Reason) -> None:
    outcome, asked = sought(tmp_path, url, {})
    assert (outcome.reason, asked) == (reason, [])
    moved = Response(
        200, url, {"content-type": "text/html"}, b"<html><title>Please wait</title><p>One step more.</p></html>"
    )
    outcome, asked = sought(tmp_path, "https://j.example/1", {"https://j.example/1": moved})  # a redirect led there
    assert (outcome.reason, asked) == (reason, ["https://j.example/1"])


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize("body", [OUP, OUP_WITHOUT_META], ids=["declared", "button"])
def test_an_abstract_in_a_supplement_issue_of_oup_is_the_article(tmp_path: Path, body: str) -> None:
    page = "https://academic.oup.com/jes/article/3/Supplement_1/SUN-203/5484104"
    outcome, asked = sought(tmp_path, page, {page: html(body), OUP_FILE: FILE})
    assert (outcome.ok, asked) == (True, [page, OUP_FILE])


@pytest.mark.requirement("RES-9")
def test_jcancer_gives_its_article_and_not_its_supplement(tmp_path: Path) -> None:
    page, file = "https://www.jcancer.org/v10p4038.htm", "https://www.jcancer.org/v10p4038.pdf"
    outcome, asked = sought(tmp_path, page, {page: html(JCANCER), file: FILE})
    assert (outcome.ok, asked) == (True, [page, file])


@pytest.mark.requirement("RES-9")
def test_a_page_that_only_leads_to_the_text_as_html_is_followed(tmp_path: Path) -> None:
    page, text = "https://j.example/article/view/1", "https://j.example/article/view/1/2"
    words = "<h2>Introduction</h2><h2>Methods</h2><h2>Results</h2><p>" + "word " * 3000
    landing = html(f'<meta name="citation_fulltext_html_url" content="{text}">')
    outcome, asked = sought(tmp_path, page, {text: html(words), page: landing})
    assert (outcome.reason, asked) == (Reason.HTML_ONLY, [page, text])
