"""What is found on a landing page, and what is not mistaken for the article."""

from __future__ import annotations

import time

import pytest

from docstokg_assets.domain.plans import Target
from docstokg_assets.landing.extract import BOUNCE, GUESSED, ITSELF, RULES, Found, Link, extract
from docstokg_assets.landing.rules import Rule

URL = "https://www.example.org/a/1"


def found(page: str | bytes, url: str = URL, content_type: str | None = "text/html") -> Found:
    return extract(page.encode() if isinstance(page, str) else page, content_type, url)


def pdfs(page: str | bytes, url: str = URL, content_type: str | None = "text/html") -> list[str]:
    return [link.url for link in found(page, url, content_type).pdf]


def best(rule: Rule) -> Link | None:
    """What is found first, of the rule's kind, on the page of its example."""
    result = found(f"<html><head></head><body>{rule.example}</body></html>", rule.page)
    links = {Target.PDF: result.pdf, Target.XML: result.xml, Target.HTML: result.html, Target.LANDING: (result.step,)}
    return next(iter(links[rule.target]), None)


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.technique)
def test_a_rule_finds_what_its_example_says(rule: Rule) -> None:
    assert best(rule) == Link(rule.expects, rule.technique)


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.technique)
def test_no_rule_is_idle(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the rule its example is not found, or only by a rule that is less certain of it."""
    rest = tuple(other for other in RULES if other is not rule)
    monkeypatch.setattr("docstokg_assets.landing.extract.RULES", rest)
    left = best(rule)
    assert left is None or left.technique != rule.technique
    order = [other.technique for other in RULES]
    assert (
        left is None
        or left.technique in (GUESSED, ITSELF, BOUNCE)
        or order.index(left.technique) > order.index(rule.technique)
    )


@pytest.mark.requirement("RES-9")
def test_there_are_rules_for_what_the_web_is_made_of() -> None:
    assert sum(rule.target is Target.PDF for rule in RULES) >= 60


@pytest.mark.requirement("RES-9")
def test_a_rule_of_a_platform_does_not_apply_elsewhere() -> None:
    muse = '<a href="/article/12/pdf">x</a>'
    assert pdfs(muse, "https://muse.jhu.edu/article/12") and not pdfs(muse, "https://notmuse.jhu.edu.example/a/1")
    assert "/download/" not in pdfs('<a href="/j/article/view/a-name/pdf">PDF</a>')[0]


@pytest.mark.requirement("RES-9")
def test_techniques_have_names_of_their_own() -> None:
    assert len({rule.technique for rule in RULES}) == len(RULES)


@pytest.mark.requirement("RES-9")
def test_what_the_page_declares_comes_before_what_is_guessed_and_each_url_once() -> None:
    page = """<meta name="citation_pdf_url" content="https://www.example.org/a/1.pdf">
              <a href="/a/other.pdf">Full text</a> <a href="1.pdf#page=2">PDF</a>"""
    result = found(page)
    assert [link.technique for link in result.pdf] == ["citation_pdf_url"]
    assert [link.technique for link in found('<a href="/a/x.pdf">Full text</a><a href="x.pdf#page=2">PDF</a>').pdf] == [
        GUESSED
    ]


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize(
    ("page", "url"),
    [
        ('<base href="https://cdn.example.org/x/"><a href="1.pdf">PDF</a>', "https://cdn.example.org/x/1.pdf"),
        ('<base href="/x/"><a href="1.pdf">PDF</a>', "https://www.example.org/x/1.pdf"),
        ('<a href="//cdn.example.org/1.pdf">PDF</a>', "https://cdn.example.org/1.pdf"),
        ('<a href=" ../1.pdf\n">PDF</a>', "https://www.example.org/1.pdf"),
        ('<a href="/d?id=1&amp;t=2">PDF</a>', "https://www.example.org/d?id=1&t=2"),
        ('<META NAME="Citation_PDF_URL" CONTENT="/1.pdf">', "https://www.example.org/1.pdf"),
        ('<meta property="citation_pdf_url" content="/1.pdf">', "https://www.example.org/1.pdf"),
        ('<a href="/a b.pdf">PDF</a>', "https://www.example.org/a%20b.pdf"),
        ('<meta name="citation_pdf_url" content="/d?id=1&amp;amp;t=2">', "https://www.example.org/d?id=1&t=2"),
        ('<meta name="citation_pdf_url" content="www.example.org/1.pdf">', "https://www.example.org/1.pdf"),
        ('<a href="/a\n/1.pdf">PDF</a>', "https://www.example.org/a/1.pdf"),
        ("<button onclick=\"window.open('/a/1.pdf')\">PDF</button>", "https://www.example.org/a/1.pdf"),
        ('<a data-pdf-url="/a/1.pdf" href="#">PDF</a>', "https://www.example.org/a/1.pdf"),
        ('<a href="/get/1"><img src="/i/pdf.gif" alt="Download PDF"></a>', "https://www.example.org/get/1"),
        ('<a href="/get/1" title="Download PDF"><i></i></a>', "https://www.example.org/get/1"),
        ('<a href="/get/1"><i class="fa fa-file-pdf"></i> Download</a>', "https://www.example.org/get/1"),
        ('<a href="/get/1" data-format="PDF">Download article</a>', "https://www.example.org/get/1"),
    ],
)
def test_links_are_made_absolute(page: str, url: str) -> None:
    assert pdfs(page) == [url]


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize(
    "href",
    ["javascript:print()", "#pdf", "mailto:a@example.org", "ftp://example.org/1.pdf", "http://[1.pdf", "", "data:,pdf"],
)
def test_links_that_must_not_be_followed_are_dropped(href: str) -> None:
    assert pdfs(f'<a href="{href}">PDF</a><meta name="citation_pdf_url" content="{href}">') == []


@pytest.mark.requirement("RES-9")
def test_a_page_does_not_name_itself_as_its_pdf() -> None:
    assert pdfs(f'<meta name="citation_pdf_url" content="{URL}">') == []


@pytest.mark.requirement("DL-11")
@pytest.mark.parametrize(
    ("page", "why"),
    [
        ('<div class="supplementary-material"><a href="s1.pdf">PDF</a></div>', "supplement"),
        ('<a href="/files/mmc1.pdf">Download</a>', "supplement"),
        ('<ol id="references"><li><a href="https://other.example/9.pdf">PDF</a></li></ol>', "references"),
        ('<a href="/about/author-guidelines.pdf">Author guidelines</a>', "guidelines"),
        ('<aside class="related-articles"><a href="2.pdf">Download PDF</a></aside>', "related"),
        ('<h3>Supplementary materials</h3><ul><li><a href="x.pdf">PDF</a></li></ul>', "supplement"),
        ('<h2>References</h2><ol><li>Doe. <a href="9.pdf">PDF</a></li></ol>', "references"),
        ('<a href="/doi/suppl/10.5555/1/suppl_file/x.pdf">PDF</a>', "supplement"),
        ('<div class="issue-toc"><a href="/doi/pdf/10.5555/1">PDF</a></div>', "issue"),
        ('<a href="/issues/12.pdf">Download full issue PDF</a>', "issue"),
        ('<a href="front-matter.pdf">PDF</a>', "issue"),
        ('<a href="/forms/copyright.pdf">Copyright transfer form (PDF)</a>', "guidelines"),
        ('<a href="/cfp.pdf">Call for papers (PDF)</a>', "guidelines"),
        ('<a href="cover-letter.pdf">PDF</a>', "companion"),
        ('<a href="/slides.pdf">Slides PDF</a>', "companion"),
        ('<a href="/a/1.pdf">Purchase PDF</a>', "paywall"),
        ('<a href="/action/ssostart?to=/a/1.pdf">PDF</a>', "wall"),
        ('<meta name="citation_doi" content="10.5555/abc1"><a href="/doi/pdf/10.5555/abc2">PDF</a>', "another-work"),
        ('<p>See the report of the agency (<a href="https://other.example/report.pdf">here</a>).</p>', "elsewhere"),
        ('<a href="/uploads/strategy.pdf">Our strategy for the years to come</a>', "too-little"),
        ('<meta name="citation_pdf_url" content="/a/1.docx">', "other-format"),
        ('<meta name="citation_pdf_url" content="https://doi.org/10.5555/1">', "no-file"),
    ],
)
def test_other_files_are_rejected_with_their_reason(page: str, why: str) -> None:
    result = found(page)
    assert result.pdf == ()
    assert [rejected.why for rejected in result.rejected] == [why]


@pytest.mark.requirement("RES-9")
def test_what_the_page_declares_is_believed_even_when_its_name_sounds_odd() -> None:
    assert pdfs('<meta name="citation_pdf_url" content="/guidelines-for-diabetes.pdf">') != []


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize(
    "label",
    [
        "PDF",
        "Download PDF",
        "View PDF",
        "Full text PDF (1.2 MB)",
        "PDF (English)",
        "Texto completo (PDF)",
        "Télécharger le PDF",
        "Descargar PDF",
        "Baixar PDF",
        "Artikel als PDF herunterladen",
        "Скачать PDF",
        "Полный текст статьи (PDF)",
        "PDF下载",
        "下载全文 PDF",
        "PDFダウンロード (1.2MB)",
        "원문 PDF 다운로드",
        "Tam Metin (PDF)",
        "Pobierz PDF",
        "Unduh PDF",
        "تحميل PDF",
        "Download [PDF] 12 pages",
    ],
)
def test_words_that_mean_the_pdf(label: str) -> None:
    assert pdfs(f'<a href="/get/1">{label}</a>') == ["https://www.example.org/get/1"]


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize(
    "label",
    [
        '<i class="icon-pdf"></i>Our plans for next year',
        "How to read a PDF file",
        "PDF of the previous article",
        "Get Adobe PDF reader",
        "Abstract",
    ],
)
def test_words_that_do_not(label: str) -> None:
    assert pdfs(f'<a href="/get/1">{label}</a>') == []


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize(
    ("page", "content_type"),
    [
        ('<a href="/ü.pdf">PDF</a>'.encode("utf-16"), "text/html"),
        ('<a href="/ü.pdf">PDF</a>'.encode("iso-8859-1"), "text/html; charset=ISO-8859-1"),
        ('<meta charset="iso-8859-1"><a href="/ü.pdf">PDF</a>'.encode("iso-8859-1"), None),
        ('<a href="/ü.pdf">PDF</a>'.encode(), "text/html; charset=utf-8"),
        ('\ufeff<a href="/ü.pdf">PDF</a>'.encode(), None),
        ('<?xml version="1.0" encoding="utf-8"?><a href="/ü.pdf">PDF</a>'.encode(), "application/xhtml+xml"),
        ('<a href="/ü.pdf">PDF</a>'.encode(), "text/html; charset=no-such-thing"),
        ('<a href="/ü.pdf">PDF</a>'.encode("utf-16-le"), None),
        ('<a href="/ü.pdf">PDF</a>'.encode("windows-1252"), None),
        ('<meta charset="utf-8"><p>«»</p><a href="/ü.pdf">PDF</a>'.encode("utf-16"), None),
    ],
)
def test_pages_in_many_encodings_are_read(page: bytes, content_type: str | None) -> None:
    assert pdfs(page, content_type=content_type) == ["https://www.example.org/ü.pdf"]


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize("encoding", ["shift_jis", "euc_jp", "utf-8", "iso-2022-jp"])
def test_a_label_is_read_in_the_encoding_that_the_page_declares(encoding: str) -> None:
    page = (
        f'<meta http-equiv="Content-Type" content="text/html; charset={encoding}"><a href="/get/1">PDFダウンロード</a>'
    )
    assert pdfs(page.encode(encoding), content_type=None) == ["https://www.example.org/get/1"]


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize(
    "page", [b"", b"   ", b"\0\0", b"\xff\xfe", b"\xff\xfe\x00", b"%PDF-1.7 \x80\x81", b"<!-- only -->", b"\x80" * 99]
)
def test_what_is_no_page_has_no_links(page: bytes) -> None:
    assert found(page) == Found()


@pytest.mark.requirement("RES-9")
def test_broken_bytes_and_nuls_do_not_hide_a_link() -> None:
    assert pdfs(b'<p>\x80\xff\0<a href="/1\0.pdf">PDF</a>') == ["https://www.example.org/1.pdf"]


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize(
    "page",
    [
        '<meta http-equiv="refresh" content="5;url=/next">',
        "<script>setTimeout(\"location.replace('/next')\", 10)</script>",
        "<script>top.location = '/next'</script>",
    ],
)
def test_a_page_that_is_only_a_step_names_the_next(page: str) -> None:
    assert found(page).next_page == "https://www.example.org/next"


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize(
    "page",
    [
        '<meta http-equiv="refresh" content="300">',
        f'<meta http-equiv="refresh" content="0;url={URL}#top">',
        "<script>button.onclick = function () { location.href = '/next' }</script>",
        f"<script>{'x=1;' * 1000} location.href = '/next'</script>",
    ],
)
def test_a_page_that_only_reloads_or_waits_for_a_click_is_no_step(page: str) -> None:
    assert found(page).next_page is None


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize("link", ['<a href="/{}.pdf">PDF</a>', '<a href="/doi/pdf/10.5555/{}">PDF</a>'])
def test_a_list_of_papers_is_no_paper(link: str) -> None:
    result = found("".join(link.format(number) for number in range(100, 600)))
    assert result.pdf == ()
    assert {rejected.why for rejected in result.rejected} == {"list"}


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize(
    "page",
    [
        b"<div>" * 80_000,
        b'<div><a href="x.pdf">PDF' * 20_000,
        b'<a href="' + b"/bitstream" * 40_000 + b'">PDF</a>',
        b"<a href=x>" + b"download " * 110_000 + b"</a>",
        b'<meta http-equiv=refresh content="' + b"0;" * 200_000 + b'">',
        b'<script type="application/ld+json">' + b"[" * 400_000,
        b"<!DOCTYPE x [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;&a;&a;'>]><p>&b;&b;" * 2000,
        b"<" * 1_000_000,
        b"<p>" + b"a " * 500_000,
        b'<a class="pdf" href="/article/view/1/2.pdf">PDF</a>' * 100_000,
        b'<p>A sentence. <a href="https://other.example/doi/pdf/10.5555/x?u=1.pdf">Download</a></p>' * 60_000,
        b'<script>"pdfUrl":"' * 50_000 + b'{"name":"a.pdf","pdfDownload":' * 100_000,
        b"<meta name=citation_doi content=10.5555/1>" * 100_000,
        b"<a>" * 400_000 + b"x",
        (b'<a href="/' + b"article/" * 240 + b'">PDF</a>') * 2500,
        b"<h2>References</h2>" + b"<li>" * 400_000 + b'<a href="1.pdf">PDF</a>' * 1000,
    ],
    ids=range(16),
)
def test_hostile_pages_of_up_to_five_megabytes_take_less_than_a_second(page: bytes) -> None:
    started = time.process_time()
    found(page)
    assert time.process_time() - started < 1


def article(words: int, headings: str = "<h2>1. Introduction</h2><h2>Methods</h2><h2>Results</h2>") -> bytes:
    return f"<html><body>{headings}<p>{'word ' * words}</p></body></html>".encode()


@pytest.mark.requirement("RES-9")
def test_a_long_page_with_the_headings_of_an_article_is_full_text() -> None:
    assert found(article(3000)).is_full_text


@pytest.mark.requirement("RES-9")
def test_an_abstract_page_or_a_long_page_without_sections_is_not() -> None:
    assert not found(article(250)).is_full_text
    assert not found(article(3000, "<h2>Abstract</h2><h2>About us</h2>")).is_full_text


@pytest.mark.requirement("RES-9")
def test_a_very_long_page_that_ends_in_references_is_full_text_without_headings() -> None:
    assert found(article(3500, "<p><b>Notes</b></p>")).is_full_text
    assert found(article(3500, "<p><b>Notes</b></p>")).html == (Link(URL, ITSELF),)
    assert not found(article(3500, "<p>Notes on how to order</p>")).is_full_text


@pytest.mark.requirement("RES-9")
def test_an_offer_of_this_very_work_may_stand_anywhere_but_among_supplements() -> None:
    page = '<div class="{}"><a href="/articles/4886-ice.pdf">PDF</a></div>'
    own = "https://www.example.org/articles/4886-ice/"
    assert pdfs(page.format("modal peer-review-tools"), own) == ["https://www.example.org/articles/4886-ice.pdf"]
    assert pdfs(page.format("supplementary-files"), own) == []
    assert pdfs(page.format("related-articles"), "https://www.example.org/articles/9999-snow/") == []


@pytest.mark.requirement("RES-9")
def test_nothing_is_guessed_on_a_page_that_lists_the_works_of_somebody() -> None:
    page = '<a href="/p/1.pdf">Download</a>'
    assert pdfs(page) and not pdfs(page, "https://www.example.org/profile/jane_doe/publications")


@pytest.mark.requirement("RES-9")
def test_a_page_that_calls_itself_the_full_text_needs_fewer_words() -> None:
    own = f'<meta name="citation_fulltext_html_url" content="{URL}">'
    assert found(article(1000, own)).is_full_text
    assert not found(article(1000, own), "https://www.example.org/a/2").is_full_text
    assert not found(article(200, own)).is_full_text
