"""Pages as platforms write them, whole: the article among all that stands around it. Written for these tests."""

from __future__ import annotations

import pytest

from docstokg_assets.landing.extract import extract

PAGES: dict[str, tuple[str, str, str | None]] = {
    "ojs3": (
        "https://j.org/index.php/x/article/view/12",
        '<meta name="generator" content="Open Journal Systems 3.3.0.14"><nav>'
        '<a href="/files/Author_Guidelines.pdf">Author Guidelines</a></nav><div class="obj_article_details">'
        '<h2 class="label">Downloads</h2><ul class="value galleys_links"><li>'
        '<a class="obj_galley_link pdf" href="https://j.org/index.php/x/article/view/12/34">PDF (Português (Brasil))'
        '</a></li></ul><section class="item references"><h2>References</h2><p>Doe '
        '<a href="https://o.org/9.pdf">https://o.org/9.pdf</a></p></section></div>',
        "https://j.org/index.php/x/article/download/12/34",
    ),
    "dspace-jspui": (
        "https://r.edu/handle/123/4",
        '<table class="panel-body"><tr><th>File</th><th>Format</th></tr><tr><td>'
        '<a target="_blank" href="/bitstream/123/4/1/paper.pdf">paper.pdf</a></td><td>Adobe PDF</td><td>'
        '<a href="/bitstream/123/4/1/paper.pdf">View/Open</a></td></tr><tr><td>'
        '<a href="/bitstream/123/4/2/license.txt">license.txt</a></td></tr></table>'
        '<img src="/bitstream/123/4/3/paper.pdf.jpg">',
        "https://r.edu/bitstream/123/4/1/paper.pdf",
    ),
    "dspace7": (
        "https://r.edu/items/0a1b2c3d-0000-4000-8000-00000000000f",
        "<ds-file-download-link>"
        '<a class="dont-break-out" href="/bitstreams/1a1b2c3d-0000-4000-8000-00000000000a/download"> data.docx (12'
        " KB)"
        "</a></ds-file-download-link><ds-file-download-link>"
        '<a class="dont-break-out" href="/bitstreams/2a1b2c3d-0000-4000-8000-00000000000b/download"> '
        "<span>paper.pdf</span> (1.2 MB)</a></ds-file-download-link>",
        "https://r.edu/bitstreams/2a1b2c3d-0000-4000-8000-00000000000b/download",
    ),
    "eprints": (
        "http://eprints.x.ac.uk/123/",
        '<div class="ep_summary_content"><table><tr><td><a href="http://eprints.x.ac.uk/123/1/paper.pdf">'
        '<img class="ep_doc_icon" alt="[img]" src="/style/images/fileicons/application_pdf.png"></a></td><td>'
        '<span class="ep_document_citation">PDF</span><br>'
        '<a href="http://eprints.x.ac.uk/123/1/paper.pdf" class="ep_document_link">Download (1MB)</a></td>'
        "</tr></table></div>",
        "http://eprints.x.ac.uk/123/1/paper.pdf",
    ),
    "bepress": (
        "https://dc.edu/fac/12/",
        '<div id="document"><div class="aside download-button">'
        '<a id="pdf" class="btn" href="https://dc.edu/cgi/viewcontent.cgi?article=1011&amp;context=fac" title="PDF'
        ' (1 MB) opens in new window">'
        '<i></i>Download</a></div><div id="attach_additional_files">'
        "<a"
        ' href="https://dc.edu/cgi/viewcontent.cgi?filename=0&amp;article=1011&amp;context=fac&amp;type=additional">A'
        "ppendix"
        "</a></div></div>",
        "https://dc.edu/cgi/viewcontent.cgi?article=1011&context=fac",
    ),
    "static": (
        "http://old.org/v1/a12.html",
        '<a href="/instructions.pdf">Instructions to authors</a><h1>On ice</h1><a href="a12.pdf">'
        '<img src="/img/pdficon.gif" border=0></a>',
        "http://old.org/v1/a12.pdf",
    ),
    "magtech": (
        "http://www.j.com.cn/CN/abstract/abstract12.shtml",
        "<a href=\"#\" onclick=\"lsdy1('PDF','12','http://www.j.com.cn','2020','1');return false;\">PDF</a>"
        '<a href="/CN/article/downloadArticleFile.do?attachType=PDF&amp;id=12">PDF (1234KB)</a>'
        '<div class="J_relatedArticles">x</div>',
        "http://www.j.com.cn/CN/article/downloadArticleFile.do?attachType=PDF&id=12",
    ),
    "jstage": (
        "https://www.jstage.jst.go.jp/article/j/1/2/1_3/_article/-char/ja/",
        '<a href="https://www.jstage.jst.go.jp/article/j/1/2/1_3/_pdf/-char/ja"'
        ' class="thirdlevel-pdf-btn">PDFをダウンロード (1071K)'
        "</a>",
        "https://www.jstage.jst.go.jp/article/j/1/2/1_3/_pdf/-char/ja",
    ),
    "pmc": (
        "https://pmc.ncbi.nlm.nih.gov/articles/PMC1234567/",
        '<section aria-label="Resources">'
        '<a href="pdf/nihms-1.pdf" class="usa-button usa-button--unstyled" data-ga-label="pdf_download_desktop">PDF'
        " (1.2 MB)"
        '</a></section><ol class="ref-list"><li>[<a href="/articles/PMC7654321/pdf/x.pdf">PMC free article'
        "</a>]</li></ol>",
        "https://pmc.ncbi.nlm.nih.gov/articles/PMC1234567/pdf/nihms-1.pdf",
    ),
    "pure": (
        "https://research.u.nl/en/publications/on-ice",
        '<section class="page-section"><h2>Access to Document</h2><ul class="dois"><li>'
        '<a href="https://doi.org/10.1/x">10.1/x</a></li></ul><ul class="documents"><li class="open-access">'
        '<a href="https://research.u.nl/files/12345/On_ice.pdf" class="link document-link">On_ice</a>'
        "<span>Final published version, 1.2 MB</span></li></ul></section>",
        "https://research.u.nl/files/12345/On_ice.pdf",
    ),
    "jcore": (
        "https://www.jneurosci.org/content/40/1/1",
        '<ul class="tabs"><li><a href="/content/40/1/1.full.pdf">PDF</a></li></ul><div class="article-nav">'
        '<a href="/content/40/1/9.full.pdf">Next article</a></div>',
        "https://www.jneurosci.org/content/40/1/1.full.pdf",
    ),
    "thesis": (
        "https://t.edu/etd/12",
        '<ul><li><a href="/etd/12/abstract.pdf">Abstract (PDF)</a></li><li>'
        '<a href="/etd/12/full.pdf">Full text (PDF)</a></li><li>'
        '<a href="/etd/12/toc.pdf">Table of contents (PDF)</a></li></ul>',
        "https://t.edu/etd/12/full.pdf",
    ),
    "wordpress": (
        "https://wpj.org/2020/01/on-ice/",
        '<a class="wp-block-button__link" href="https://wpj.org/wp-content/uploads/2020/01/Article-3.pdf">Download'
        " Article"
        '</a><footer><a href="/wp-content/uploads/2019/ethics.pdf">Publication ethics PDF</a></footer>',
        "https://wpj.org/wp-content/uploads/2020/01/Article-3.pdf",
    ),
    "russian": (
        "https://vestnik.ru/article/12",
        '<div>Скачать статью: <a href="/files/12/statya.pdf">PDF</a></div><p>'
        '<a href="/files/pravila.pdf">Правила для авторов (PDF)</a></p>',
        "https://vestnik.ru/files/12/statya.pdf",
    ),
    "spanish": (
        "https://rev.es/articulo/12",
        '<a class="descargar" href="/descargas/12-345-articulo.pdf">Descargar artículo</a>'
        '<a href="/numero/5-completo.pdf">Descargar número completo (PDF)</a>',
        "https://rev.es/descargas/12-345-articulo.pdf",
    ),
    "abstract heading": (
        "https://a.org/p/12",
        '<h1>T</h1><h2>Abstract</h2><p>words words</p><p><a href="/p/12/pdf">PDF</a></p>',
        "https://a.org/p/12/pdf",
    ),
    "closed": (
        "https://closed.org/article/12",
        '<h1>T</h1><a href="/buy/12">Purchase PDF</a><a href="/login?to=/12.pdf">Log in to view PDF</a>'
        '<ol class="references"><li><a href="/x.pdf">PDF</a></li></ol>',
        None,
    ),
    "issue page": (
        "https://i.org/issue/view/5",
        '<div class="obj_issue_toc"><div class="obj_article_summary">'
        '<a class="obj_galley_link pdf" href="/article/view/0/1">PDF</a></div>'
        '<div class="obj_article_summary"><a class="obj_galley_link pdf" href="/article/view/1/2">PDF</a>'
        '</div><div class="obj_article_summary"><a class="obj_galley_link pdf" href="/article/view/2/3">PDF'
        "</a></div></div>",
        None,
    ),
    "zenodo": (
        "https://zenodo.org/records/123",
        '<link rel="item" type="application/pdf" href="https://zenodo.org/records/123/files/p.pdf">'
        '<a href="/records/123/files/p.pdf?download=1">Download</a>'
        '<a href="/records/123/files/data.zip?download=1">Download</a>',
        "https://zenodo.org/records/123/files/p.pdf",
    ),
    "ieee": (
        "https://ieeexplore.ieee.org/document/8730316",
        '<script>xplGlobal.document.metadata={"doi":"10.1109/x","pdfUrl":"/stamp/stamp.jsp?tp=&arnumber=8730316","pdf'
        'Path":"/iel7/6287639/8600701/08730316.pdf"};'
        "</script>",
        "https://ieeexplore.ieee.org/stamp/stamp.jsp?tp=&arnumber=8730316",
    ),
    "isca": (
        "https://www.isca-speech.org/archive/interspeech_2006/chitturi06b_interspeech.html",
        '<div class="w3-container"><a href="pdfs/interspeech_2006/chitturi06b_interspeech.pdf"><span>PDF'
        "</span></a></div>",
        "https://www.isca-speech.org/archive/interspeech_2006/pdfs/interspeech_2006/chitturi06b_interspeech.pdf",
    ),
    "iframe": (
        "https://e.org/show/1",
        '<iframe src="https://docs.google.com/viewer?url=https://e.org/files/1.pdf&embedded=true"></iframe>',
        "https://e.org/files/1.pdf",
    ),
    "worldsci": (
        "https://www.worldscientific.com/doi/abs/10.1142/S0116110521500098",
        '<div class="single__download"><a href="/doi/reader/10.1142/S0116110521500098">PDF/EPUB</a></div>',
        "https://www.worldscientific.com/doi/pdf/10.1142/S0116110521500098",
    ),
    "mdpi": (
        "https://www.mdpi.com/2072-4292/1/1/1",
        '<div class="UD_Listings_ArticlePDF">'
        '<a href="/2072-4292/1/1/1/pdf?version=1" class="UD_ArticlePDF">Download PDF</a></div>'
        '<a href="/2072-4292/1/1/1/xml">Full-Text XML</a>',
        "https://www.mdpi.com/2072-4292/1/1/1/pdf?version=1",
    ),
    "annualreviews": (
        "https://www.annualreviews.org/content/journals/10.1146/annurev-x-1",
        "<form"
        ' action="/deliver/fulltext/x/1/1/annurev-x-1.pdf?itemId=/content/journals/10.1146/annurev-x-1&amp;mimeType=p'
        'df" class="ft-download-content__form ft-download-content__form--pdf">'
        "<button>Download PDF</button></form>",
        "https://www.annualreviews.org/deliver/fulltext/x/1/1/annurev-x-1.pdf?itemId=/content/journals/10.1146/annurev-x-1&mimeType=pdf",
    ),
}


@pytest.mark.requirement("RES-9", "DL-11")
@pytest.mark.parametrize("name", PAGES)
def test_the_article_is_found_among_all_that_stands_around_it(name: str) -> None:
    url, page, article = PAGES[name]
    found = extract(f"<html><head></head><body>{page}</body></html>".encode(), "text/html", url)
    assert next((link.url for link in found.pdf), None) == article
