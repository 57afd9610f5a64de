"""What files are called."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pathvalidate import is_valid_filename

from docstokg_assets.domain.naming import MAX_NAME_BYTES, artifact_path, extension_of
from resources.records import Kind

any_text = st.text(st.characters(), max_size=300)  # lone surrogates, controls and all
ids = st.one_of(
    st.from_regex(r"[Ww][0-9]{1,10}", fullmatch=True), st.text("aAbB-_.0", min_size=1, max_size=4), any_text
)


@pytest.mark.requirement("DL-9")
@pytest.mark.parametrize(
    ("year", "title", "work_id", "path"),
    [
        (2024, "Attention Is All You Need", "W2741809807", "PDF/2024__attention-is-all-you-need__W2741809807.pdf"),
        (None, None, "W1", "PDF/nd__untitled__W1.pdf"),
        (0, "   ", "W1", "PDF/nd__untitled__W1.pdf"),
        (812, "🎉", "W1", "PDF/0812__untitled__W1.pdf"),
        (2024, "../../etc/passwd\0", "doi-10.1-x", "PDF/2024__etc-passwd__doi-10.1-x.pdf"),
        (2024, "CON", "aux", "PDF/2024__con__aux.pdf"),
        (2024, "Über  naïve <i>E. coli</i> – 東京", "W1", "PDF/2024__uber-naive-i-e-coli-i-dong-jing__W1.pdf"),
        (2024, "&#99999999999;", "W1", "PDF/2024__99999999999__W1.pdf"),
    ],
)
def test_a_name_says_year_title_and_work(year: int | None, title: str | None, work_id: str, path: str) -> None:
    assert artifact_path(year, title, work_id, "PDF", "pdf") == path


@pytest.mark.requirement("DL-9")
def test_a_long_title_is_cut_between_words() -> None:
    path = artifact_path(2024, "word " * 2000, "W1", "HTML", ".html")
    name = path.removeprefix("HTML/")
    assert MAX_NAME_BYTES - 5 < len(name) <= MAX_NAME_BYTES
    assert set(name.split("__")[1].split("-")) == {"word"}


@pytest.mark.requirement("DL-9")
@pytest.mark.parametrize("extension", ["p/df", "", "PDF\0", "tar.gz", "waytoolongforthis"])
def test_an_odd_extension_is_not_taken(extension: str) -> None:
    assert artifact_path(2024, "t", "W1", "PDF", extension) == "PDF/2024__t__W1.bin"


@pytest.mark.requirement("DL-9")
@given(st.one_of(st.none(), st.integers()), any_text, ids, any_text)
def test_every_name_is_valid_everywhere(year: int | None, title: str, work_id: str, extension: str) -> None:
    folder, name = artifact_path(year, title, work_id, "PDF", extension).split("/")
    assert folder == "PDF"
    assert name.isascii() and len(name) <= MAX_NAME_BYTES
    assert is_valid_filename(name, platform="universal")


@pytest.mark.requirement("DL-9")
@given(any_text, ids, any_text, ids)
def test_two_works_never_share_a_name_even_where_case_is_ignored(
    title: str, one: str, other_title: str, other: str
) -> None:
    same = (
        artifact_path(2024, title, one, "PDF", "pdf").lower()
        == artifact_path(2024, other_title, other, "PDF", "pdf").lower()
    )
    assert not same or one == other


@pytest.mark.requirement("DL-9")
@pytest.mark.parametrize(
    ("one", "other"), [("W12", "w12"), ("doi:10.1/A", "doi:10.1/a"), ("a/b", "a-b"), ("a" * 60, "a" * 61)]
)
def test_ids_that_look_alike_are_told_apart(one: str, other: str) -> None:
    assert artifact_path(1, "t", one, "PDF", "pdf").lower() != artifact_path(1, "t", other, "PDF", "pdf").lower()


@pytest.mark.requirement("DL-9")
def test_an_id_cannot_pose_as_a_hashed_one() -> None:
    posing = artifact_path(1, None, "a/b", "PDF", "pdf").removeprefix("PDF/0001__untitled__").removesuffix(".pdf")
    assert artifact_path(1, None, posing, "PDF", "pdf") != artifact_path(1, None, "a/b", "PDF", "pdf")


@pytest.mark.requirement("DL-2")
@pytest.mark.parametrize(
    ("kind", "content_type", "disposition", "url", "extension"),
    [
        (Kind.PDF, "application/pdf", "attachment; filename=x.html", "https://a.example/x.xml", ".pdf"),
        (Kind.PDF_UNKNOWN, "text/plain", "attachment; filename=x.exe", "https://a.example/get", ".pdf"),
        (
            Kind.XML,
            "text/xml",
            "attachment; filename*=utf-8''an%20article.nxml; filename=x.xml",
            "https://a.example/",
            ".nxml",
        ),
        (
            Kind.XML,
            "text/xml",
            "attachment; filename*=UTF-8''..%2F..%2Fetc%2Fx.TEI",
            "https://a.example/x.nxml",
            ".tei",
        ),
        (Kind.XML, "text/xml", "attachment; filename=CON", "https://a.example/x.nxml?y=z.tei", ".nxml"),
        (Kind.XML, None, None, "https://a.example/x.pdf", ".xml"),
        (Kind.HTML, "text/html", "inline", "https://a.example/x.php", ".html"),
        (Kind.HTML, "application/xhtml+xml", 'inline; filename="x.xhtml"', "https://a.example/", ".xhtml"),
        (Kind.HTML, "text/html", "\"\0;=;; filename*=no'such'%ff%zz", "https://a.example/x.htm", ".htm"),
    ],
)
def test_an_extension_is_one_that_fits_the_kind_from_the_first_who_says_it(
    kind: Kind, content_type: str | None, disposition: str | None, url: str, extension: str
) -> None:
    assert extension_of(kind, content_type, disposition, url) == extension


@pytest.mark.requirement("DL-2")
@given(any_text, any_text)
def test_whatever_a_server_says_the_extension_is_one_of_ours(disposition: str, path: str) -> None:
    url = f"https://a.example/{path}"
    assert extension_of(Kind.XML, None, disposition, url) in (".xml", ".nxml", ".tei")
