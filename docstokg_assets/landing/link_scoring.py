"""Score links that the page does not declare: reject those to other documents, give points to the rest.

A wrong file is worse than none. A link is rejected by its text, its file name, the classes and ids of the elements around
it, the heading above it, and when it names another work than the page. Everything that is examined is bounded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice, takewhile
from urllib.parse import unquote, urlsplit

from lxml import html

from docstokg_assets.landing.page import Anchor, Page, identities, words_of
from resources.http.canonical import host_of

ENOUGH = 5  # points that make a link the article
_DEPTH = 12  # ancestors whose names say where a link stands
_PROSE = 160  # characters around a link that make it part of a sentence
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6", "summary", "legend", "dt"})
_NO_FILES = ("doi.org", "dx.doi.org", "www.doi.org", "hdl.handle.net", "scholar.google.com", "creativecommons.org")
_OTHER_FORMATS = re.compile(
    r"(?i)\.(?:docx?|odt|rtf|epub|mobi|txt|zip|gz|rar|7z|xlsx?|csv|pptx?|jpe?g|png|gif|svg|tiff?|webp|mp[34]|avi|mov"
    r"|bib|ris|enw|css|js|json|rdf|ttl|torrent)$"
)


@dataclass(frozen=True, slots=True)
class NotTheArticle:
    """A kind of other document, recognised by link text, file name, surrounding elements or the heading above."""

    why: str
    said: re.Pattern[str]
    file: re.Pattern[str]
    around: re.Pattern[str]
    by_heading: bool = False


def _row(why: str, said: str, file: str = r"(?!)", around: str = r"(?!)", by_heading: bool = False) -> NotTheArticle:
    said_, file_, around_ = (re.compile(pattern, re.IGNORECASE) for pattern in (said, file, around))
    return NotTheArticle(why, said_, file_, around_, by_heading)


# fmt: off
NOT_THE_ARTICLE: tuple[NotTheArticle, ...] = (
    _row("supplement", r"suppl[ei]|append(?:ix|ices)|additional files?|supporting info|data ?set|multimedia|\banexo"
         r"|\bannexe|\banhang|приложени|补充|附件|付録|보충",
         file=r"suppl[ei]|[-_]suppl?\b|append(?:ix|ices)|\bmmc[0-9]|moesm|_esm\b|[-_.]sapp\b|[-_]sm\b|[-_]si[-_0-9.]"
         r"|supporting|_app[0-9]|[-_.]s[0-9]{1,3}\.pdf|dataset",
         around=r"suppl|appendix|additional-file|supporting-info|attach_additional", by_heading=True),
    _row("references", r"^\W*(?:[0-9ivx]+\W+)?(?:references?|bibliograph\w*|literature(?: cited)?|notes|works cited"
         r"|literatur\w*|referencias|referências|références|литература|参考文献|참고문헌)\W*$|\bcit(?:ing|ed) (?:by|articles?)",
         around=r"\b(?:refs|references?|cited|citing|footnotes?|endnotes?)\b|reflist|ref-list|references|bibliograph"
         r"|citation-list|citedby|cited-by", by_heading=True),
    _row("related", r"(?:related|recommended|similar|previous|next|other|more|popular|most read|most viewed"
         r"|latest) (?:articles?|papers?|content|publications?|items?|works?)|you may also|readers? also",
         around=r"related|recommend|similar|most-?(?:read|view|cited|popular)|trending|also-?read|latest-articles"
         r"|popular|(?:other|more|next|prev|previous)[-_]?articles?|carousel", by_heading=True),
    _row("issue", r"(?:full|whole|entire|complete|this) (?:issue|volume|book|proceedings)|front ?matter|back ?matter"
         r"|\b(?:book|ebook|issue|volume|proceedings) (?:as )?(?:e?pdf|download)|\bdownload (?:the )?(?:e?book|issue|volume)\b"
         r"|table of contents|editorial board|masthead|cover (?:page|image)|sumario|sommaire|inhaltsverzeichnis"
         r"|(?:número|numéro) compl",
         file=r"front[-_ ]?matter|back[-_ ]?matter|masthead|[-_]toc\b|booktoc|(?:full|whole)[-_]?issue|issue[-_]?pdf"
         r"|title[-_]?page|^(?:cover|omslag|spikblad|toc|contents|index)[-_0-9]{0,6}\.pdf$|fulltextcover|^(?:cover|spikblad)01",
         around=r"\btoc\b|table-of-contents|obj_issue|issue-(?:item|toc|pdf|cover)|toc-?(?:article|item|entry)"
         r"|search-results?|article-list|obj_article_summary"),
    _row("guidelines", r"(?:author|reviewer|submission|user|style)s?'? (?:guide|guidelines|information|instructions"
         r"|manual|agreement)|guide for|guidelines? for|instructions? (?:for|to)|(?:information )?for authors"
         r"|(?:manuscript|article|paper|word|latex) template|copyright (?:form|transfer|notice|agreement)"
         r"|(?:licen[cs]e|deposit|transfer) (?:agreement|form)|checklist|brochure|\bfl[iy]er\b|media kit|terms (?:of"
         r"|and)|privacy (?:policy|notice|statement)|cookie policy|price list|call for papers|order form|subscription"
         r"|catalogue?|modern slavery|annual report|\bfaq\b|\bhelp\b|disclosure form|(?:get|install) (?:adobe|acrobat)"
         r"|acrobat reader|adobe reader|directrices|normas (?:para|de)|instrucciones|consignes|правила|regulamin|pedoman"
         r"|(?:open access|\boa|editorial|data|archiving|sharing|journal|publication|copyright|self-archiving) polic(?:y|ies)"
         r"|قواعد|شروط|投稿|模板|版权|协议|稿约|執筆要領|투고|yazım kural|quy định|hướng dẫn|autorenhinweise"
         r"|richtlinien",
         file=r"guide(?:lines?)?[-_ ]?(?:for|to)[-_ ]|authors?[-_ ]?guide|for[-_]?authors|template|agreement|checklist"
         r"|brochure|fl[iy]er|media[-_]?kit|user[-_]?(?:guide|manual)|terms[-_]?of|privacy[-_]?policy|policies"
         r"|price[-_]?list|oa[-_]policy|[-_]policy\.pdf$|order[-_]?form|coi[-_]?disclosure|call[-_]for[-_]papers|leaflet|^licen[cs]e[-_0-9a-z]{0,12}\.pdf$"
         r"|^(?:rules|regulamin|normas|pravila|ethics|deposit[-_]?licen[cs]e)[-_0-9a-z]{0,12}\.pdf$",
         around=r"guidelines|for-authors|author-info|cookie|advert|sponsor|\bads?\b|author-guide"),
    _row("companion", r"\b(?:slides?|poster|presentation|video|audio|transcript|talk|cv|vita|résumé|handout)\b"
         r"|curriculum vitae|figures? (?:only|pdf)"
         r"|peer[- ]review|reviewers?'? (?:comments|reports?)|decision letter|reporting summary|review history"
         r"|author response|correction|erratum|corrigendum|\bcitations?\b|bibtex|\bris\b|metadata|first page|preview"
         r"|sample|extract\b|^\W*(?:view |download )?abstracts?\W*$|abstracts? (?:only|book)|book of abstracts"
         r"|cover letter|summary pdf|statistics",
         file=r"slides|poster|figures|[-_]talk\b|^(?:cv|vita|resume)[-_.0-9]"
         r"|cover[-_ ]?letter|peer[-_]?review(?:er|[-_]?(?:file|history|report)|\.pdf)"
         r"|decision[-_]?letter|first[-_]?page|preview|reporting[-_]?summary|downloadtable|downloadfigure"
         r"|googlepreview",
         around=r"\bfig(?:ure)?s?\b|\btable-(?:wrap|download|responsive-tools)|peer-review|review-history"),
    _row("paywall", r"purchase|\bbuy\b|\brent\b|subscribe|request (?:a )?(?:copy|pdf|full)|\blog ?in\b|sign in"
         r"|institutional access|get access"),
)
# fmt: on

# What links to the article say beside "PDF", in the languages of the large national platforms.
_SPOKEN_WORDS = """
a accepted access afficher als and anzeigen apri archivo arquivo article articolo articulo artigo artikel
artykuł artículo as au author authors baca baixar bytes celý cijeli click completo consulter de descarcă
descargar deutsch document documento dokument download downloaden el en eng english es esp español file final
for format fr français free full fulltekst fulltext get görüntüle here herunterladen in indir inglês integral
intégral it italiano kb kib koko la ladda last lataa le lengkap letöltés lire makale manuscript mb metin mib
muat ned ner new o of online only open openen opens or original otwórz p page pages paper pełny pl plik plný
pobierz por português pp preprint preuzmi print pt publication published read ru s save scarica stáhnout
submitted szöveg tab tam teks tekst teksti teljes testo text texte texto the this to toàn tr turun télécharger
türkçe tải unduh ver version view volledige volltext văn về window xuống öffnen κατέβασμα κείμενο πλήρες в
завантажити открыть повний полный рус русский скачать статті статьи статью статья текст файл формате читать
להורדה מאמר الكامل المقال النص تحميل تنزيل دانلود متن مقاله کامل
article's paper's complete entire version's copy pdfs hal bản toàn bài báo naskah berkas dokumen selengkapnya lihat
makaleyi metni dosyası pdf'i indirin görüntüleyin článek článku celého stiahnuť súbor plného zobrazit stažení letöltése cikk
descărcați articol articolul изтегли статия преузми рад пуни цео переглянути жүктеу толық мәтін мақала koko näytä
hent hele vis åpne bekijk bekijken volledig tekstfil λήψη πλήρους κειμένου άρθρου טקסט מלא הורדה डाउनलोड लेख
البحث كاملا كامل للبحث الملف ملف بصيغة عرض فتح نسخة اصل دریافت فایل مقاله‌ مشاهده نمایش نص
chapter capítulo chapitre kapitel thesis tesis thèse dissertation report informe rapport
het een den die das der des dem ein eine un une una uno las los les du des el lo il gli i os as um uma do da no na
artikkeli artikkelin artikkelit teksten artikeln artikelen artiklen dokumentet पूरा करें teljes egy az da za u na z w do od i
texts gratis kostenlos gratuit accès libre livre acesso acceso abierto aberto volledige weergeven
pełnego pobieranie wersja wyświetl zobacz visualizza visualizar ver consultar leer ler lire consulta obrir descarrega baixe
main author's postprint eprint vor am icon icons image logo img small btn button downloads external link links browser viewer
fichier datei brasil españa bahasa indonesia українська uk us العربية
eng rus ukr pol deu ger fra ita spa jpn kor kaz magyar čeština hrvatski srpski română ελληνικά فارسی galego català
"""
_SPOKEN = frozenset(_SPOKEN_WORDS.split())
# Languages without spaces: their words are taken out wherever they stand.
_SPOKEN_PIECE = re.compile(
    r"下载|下載|全文|阅读|浏览|查看|在线|免费|原文|文件|本文|点击|点此|预览|文章|论文|論文|获取|打开|檔案|電子檔|를|을|논문|파일|ダウンロード|フルテキスト|を|表示|閲覧|形式|日本語|英語|다운로드|원문|전문|보기|ดาวน์โหลด|บทความ"
    r"|ฉบับเต็ม|中文|英文|版"
)
_MEANS_FULL_TEXT = re.compile(
    r"(?i)full[ -]?text|download|télécharger|texte intégral|descargar|texto completo|baixar|texto integral|volltext"
    r"|herunterladen|scarica|testo completo|скачать|полный текст|indir|tam metin|pobierz|pełny tekst|fulltext|unduh"
    r"|下载|下載|全文|原文|本文|ダウンロード|다운로드|원문|view/open|تحميل|دانلود|تنزيل|دریافت|letölt|stáhnout|preuzmi|ladda ner"
    r"|last ned|hent|lataa|downloaden|descarcă|завантажити|изтегли|преузми|λήψη|tải về|tải xuống|toàn văn|ดาวน์โหลด|הורדה|डाउनलोड"
)
_OTHER_FILE = re.compile(r"(?i)\.(?:docx?|xlsx?|pptx?|zip|csv|txt|epub|jpe?g|png)\b")
_SUPPLEMENT_FOLDER = re.compile(r"(?i)/suppl_file/|/doi/suppl/|/MediaObjects/|/supplementary/|/suppl_data/")
_FILE_NAME = re.compile(
    r"[^\s/]{1,150}\.pdf\b[^a-z]{0,30}(?:[kmg]i?b|bytes)?\W{0,5}", re.IGNORECASE
)  # a label, with the size
_LETTERS = re.compile(r"[^\W\d_]+")
_PDF_ADDRESS = re.compile(
    r"(?i)/e?pdf(?:s|ft|direct|download)?(?:[/?;]|$)"
    r"|[?&=/_-](?:type|format|pdf|tipo|mime)?=?(?:application/)?pdf(?:[&=;/]|$)"
)
_FILE_ADDRESS = re.compile(r"(?i)download|getfile|viewfile|attachment|bitstream|retrieve|/files?/")
_SLUG = re.compile(r"(?!(?:19|20)[0-9]{2}$)[\w.()-]{4,120}")  # a year is none
_GENERIC_SLUGS = ("index", "article", "articles", "abstract", "fulltext", "landing", "detail", "details", "summary")


def unusable_reason(link: str) -> str | None:
    """Why a URL cannot be the file, whatever the page declares; None when it can."""
    parts = urlsplit(link)
    if _OTHER_FORMATS.search(unquote(parts.path)):
        return "other-format"
    return "no-file" if host_of(link) in _NO_FILES or (parts.path in ("", "/") and not parts.query) else None


def names_other_document(file: str) -> bool:
    """Whether a file name is that of a supplement, a licence, a cover or another document than the article."""
    return any(row.file.search(file) for row in NOT_THE_ARTICLE)


def rejection_reason(page: Page, anchor: Anchor | None, link: str) -> str | None:
    """Why a link is not the article, or None when nothing speaks against it."""
    for kind, names in identities(link).items():
        if (known := page.identities.get(kind)) and not any(_same(name, own) for name in names for own in known):
            return "another-work"
    offers_file = anchor is None or _label_score(anchor) >= 3 or any("pdf" in name for name in anchor.names)
    if not offers_file and anchor and anchor.element.tag == "a" and _site(host_of(link)) != _site(page.host):
        return "elsewhere"
    parts = urlsplit(link)
    if _SUPPLEMENT_FOLDER.search(parts.path):
        return "supplement"
    file = unquote(parts.path.rstrip("/").rpartition("/")[2])
    shown = _FILE_NAME.match(anchor.words) if anchor else None
    files = (file, shown[0].strip()) if shown else (file,)
    spoken = (anchor.words, anchor.hints) if anchor else ()
    if any(map(_OTHER_FILE.search, spoken)):
        return "other-format"
    heading, around = (_heading(anchor.element), _names_around(anchor.element)) if anchor else ("", "")
    # A link that offers the PDF of this very work may be inside elements of any name; supplements share its identifier.
    own = anchor is not None and _label_score(anchor) == ENOUGH and _names_this_work(page, link)
    for row in NOT_THE_ARTICLE:
        named = any(map(row.said.search, spoken)) or any(map(row.file.search, files))
        inside = row.around.search(around) and not (own and row.why != "supplement")
        if named or inside or (row.by_heading and row.said.search(heading)):
            return row.why
    return None


def score_link(page: Page, anchor: Anchor, link: str) -> int:
    """The score of a link that no rule knows; ENOUGH makes it the article."""
    path = urlsplit(link).path.lower()
    said = _label_score(anchor)
    named = 2 * any("pdf" in name for name in anchor.names)
    file = 3 if path.endswith(".pdf") else 2 if _PDF_ADDRESS.search(link) else bool(_FILE_ADDRESS.search(link))
    offers_pdf = file or named or "pdf" in f"{anchor.words} {anchor.hints}".lower()
    if not offers_pdf or (path.endswith((".html", ".htm")) and said < ENOUGH):
        return 0  # a link to some other form of the text
    own = 3 * _names_this_work(page, link)
    titled = 2 * (file == 3 and len(anchor.words) > 15 and anchor.words.lower() in page.titles)
    same_site = 1 if _site(host_of(link)) == _site(page.host) else -2
    return said + named + file + own + titled + same_site - _position_penalty(anchor.element)


def _label_score(anchor: Anchor) -> int:
    """The score of a label. Icons and titles count only together with the text: an icon does not make a policy an article."""
    return max(_text_score(anchor.words), _text_score(f"{anchor.words} {anchor.hints}"))


def _text_score(words: str) -> int:
    """5 when a label names the PDF and nothing else, 3 when it offers the full text, less when it mentions a PDF."""
    lowered = words.lower()
    rest = _SPOKEN_PIECE.sub(" ", lowered.replace("epdf", " ").replace("pdf", " "))
    others = sum(word not in _SPOKEN for word in _LETTERS.findall(rest))
    if "pdf" in lowered:
        if name := _FILE_NAME.match(lowered):
            beside = _LETTERS.findall(lowered[name.end() :])
            return 2 if any(word not in _SPOKEN for word in beside) else 4 if beside else 3
        return 5 if not others else 2 if others <= 2 else 1
    return 3 if not others and _MEANS_FULL_TEXT.search(lowered) else 0


def closeness(page: Page, link: str) -> int:
    """0 when a link has an identifier of the page, 1 when it resembles one or the page's URL, else 2."""
    pairs = ((name, page.identities.get(kind, ())) for kind, names in identities(link).items() for name in names)
    if any(name in known for name, known in pairs):
        return 0
    return 1 if _names_this_work(page, link) else 2


def _names_this_work(page: Page, link: str) -> bool:
    """Whether the link contains an identifier of the page, or the last part of the page's URL."""
    pairs = ((name, page.identities.get(kind, ())) for kind, names in identities(link).items() for name in names)
    if any(_same(name, own) for name, known in pairs for own in known):
        return True
    slug = urlsplit(page.url).path.rstrip("/").rpartition("/")[2].partition(".htm")[0].lower()
    return bool(_SLUG.fullmatch(slug)) and slug not in _GENERIC_SLUGS and slug in unquote(link).lower()


def _same(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def _site(host: str) -> str:
    return ".".join(host.split(".")[-2:])


def _names_around(element: html.HtmlElement) -> str:
    """The classes and ids of an element and those around it."""
    nodes = takewhile(
        lambda node: node.tag not in ("body", "html"), (element, *islice(element.iterancestors(), _DEPTH - 1))
    )
    return " ".join(f"{node.get('class', '')} {node.get('id', '')}"[:200] for node in nodes)


def _heading(element: html.HtmlElement) -> str:
    """The nearest heading above an element, within a few steps."""
    node = element
    for _ in range(5):
        for before in islice(node.itersiblings(preceding=True), 12):
            if before.tag in _HEADINGS:
                return words_of(before, 80)
        node = node.getparent()
        if node is None or node.tag == "body":
            break
    return ""


def _position_penalty(element: html.HtmlElement) -> int:
    """Points against a link's position: inside a sentence, the footer or the navigation."""
    for depth, ancestor in enumerate(islice(element.iterancestors(), _DEPTH)):
        if ancestor.tag == "footer" or "footer" in ancestor.get("class", "").lower():
            return 4
        near = depth < 4 and ancestor.tag in ("p", "li", "td", "dd", "span")
        if near and len(words_of(ancestor, 400)) > len(words_of(element)) + _PROSE:
            return 3
        if ancestor.tag == "nav":
            return 1
    return 0
