"""The pattern of publishers: what is learnt from files that were found, when it is worth a guess, and what a wrong one costs."""

from __future__ import annotations

import pytest

from docstokg_assets.domain.url_patterns import UrlPatternCache


def taught(
    times: int, doi: str = "10.5555/peer.{}", url: str = "https://peer.example/articles/{}.pdf"
) -> UrlPatternCache:
    pattern = UrlPatternCache()
    for number in range(times):
        pattern.learn(doi.format(1000 + number), url.replace("{}", str(1000 + number)))
    return pattern


@pytest.mark.requirement("RES-2")
@pytest.mark.parametrize(
    ("doi", "url"),
    [
        ("10.5555/peer.{}", "https://peer.example/articles/{}.pdf"),
        ("10.5555/s41586-024-0{}-x", "https://press.example/content/pdf/10.5555/s41586-024-0{}-x.pdf"),
        ("10.5555/(SICI)1097-0142(2024)12:3<{}::AID>3.0.CO;2-M", "https://a.example/doi/pdf/(SICI)12:3%3C{}::AID"),
        ("10.5555/j.hop.{}", "https://hop.example/science/{}/files/{}.pdf"),
    ],
)
def test_files_that_were_found_tell_where_the_next_one_is(doi: str, url: str) -> None:
    pattern = taught(3, doi, url)
    assert pattern.guess(doi.format(7654)) == url.replace("{}", "7654")
    assert pattern.guess(doi.format(7654).upper()) == url.replace("{}", "7654")


@pytest.mark.requirement("RES-2")
def test_two_files_are_no_habit_and_another_journal_has_its_own() -> None:
    assert taught(2).guess("10.5555/peer.7654") is None
    assert taught(9).guess("10.5555/other.7654") is None
    assert taught(9).guess("10.5555/peer.") is None


@pytest.mark.requirement("RES-2")
def test_where_files_lie_in_many_places_nothing_is_guessed() -> None:
    pattern = taught(3)
    for number in range(2):
        pattern.learn(f"10.5555/peer.{2000 + number}", f"https://repository.example/{2000 + number}.pdf")
    assert pattern.guess("10.5555/peer.7654") is None
    for number in range(3, 6):
        pattern.learn(f"10.5555/peer.{1000 + number}", f"https://peer.example/articles/{1000 + number}.pdf")
    assert pattern.guess("10.5555/peer.7654") == "https://peer.example/articles/7654.pdf"


@pytest.mark.requirement("RES-2")
def test_a_guess_that_fails_is_paid_for_with_files_that_were_found() -> None:
    pattern = taught(3)
    for _ in range(2):
        pattern.record_failure("10.5555/peer.7654", "https://peer.example/articles/7654.pdf")
    assert pattern.guess("10.5555/peer.7655") is None
    for number in range(3):
        pattern.learn(f"10.5555/peer.{3000 + number}", f"https://peer.example/articles/{3000 + number}.pdf")
    assert pattern.guess("10.5555/peer.7655") is not None


@pytest.mark.requirement("RES-2")
def test_addresses_with_a_key_or_without_anything_of_the_doi_teach_nothing() -> None:
    assert taught(5, url="https://peer.example/{}.pdf?token=secret").guess("10.5555/peer.7654") is None
    assert taught(5, url="https://peer.example/latest.pdf").guess("10.5555/peer.7654") is None
