"""Works in repositories with record numbers of their own: DOI, page and file of each, and the work for each of these.

The simulated repositories in `hosts/` answer from here; `scenario.py` gives OpenAlex the page, never the file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .universe import Work

_BASE = 36
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
GUID = re.compile(r"osf\.io/(?:[a-z]+/)*([0-9a-z]{5})(?:_v\d+)?(?![0-9a-z])|/preprints/([0-9a-z]{5})(?:_v\d+)?/")
POSTED = re.compile(r"10\.(?:1101|64898)/(\d{4})\.\d\d\.\d\d\.(\d{7})")


@dataclass(frozen=True, slots=True)
class Deposit:
    """Templates use `{code}` (the work), `{guid}` (the same in five letters), `{number}` (within its year) and `{date}`."""

    source: str
    doi: str
    page: str
    file: str

    def fill(self, template: str, year: int, index: int, date: str) -> str:
        return template.format(code=f"{year}{index:07d}", guid=guid(year, index), date=date, number=f"{index:07d}")


DEPOSITS = {
    "zenodo": Deposit(
        "Zenodo",
        "10.5281/zenodo.{code}",
        "https://zenodo.org/records/{code}",
        "https://zenodo.org/api/records/{code}/files/paper.pdf/content",
    ),
    "figshare": Deposit(
        "figshare",
        "10.6084/m9.figshare.{code}.v2",
        "https://figshare.com/articles/preprint/A_title/{code}/2",
        "https://ndownloader.figshare.com/files/{code}",
    ),
    "osf": Deposit(
        "PsyArXiv (OSF Preprints)",
        "10.31234/osf.io/{guid}_v2",
        "https://osf.io/preprints/psyarxiv/{guid}_v2",
        "https://osf.io/download/aaaaaaaaaaaaa{code}/",
    ),
    "biorxiv": Deposit(
        "bioRxiv",
        "10.64898/{date}.{number}",
        "https://www.biorxiv.org/content/10.64898/{date}.{number}",
        "https://www.biorxiv.org/content/10.64898/{date}.{number}v2.full.pdf",
    ),
    "medrxiv": Deposit(
        "medRxiv",
        "10.1101/{date}.{number}",
        "https://www.medrxiv.org/content/10.1101/{date}.{number}",
        "https://www.medrxiv.org/content/10.1101/{date}.{number}v2.full.pdf",
    ),
    "datacite": Deposit(
        "Northlake Theses",
        "10.18154/nl-{code}",
        "https://theses.northlake-university.example/record/{code}",
        "https://theses.northlake-university.example/record/{code}/files/{code}.pdf",
    ),
    "sold": Deposit(
        "Subscription Letters",
        "10.555590/sold.{code}",
        "https://closed.subscription-press.example/doi/abs/10.555590/sold.{code}",
        "https://sandbox.r2.cloudflarestorage.com/openalex-pdfs/{code}.pdf",
    ),
}
_ITEM = "00000000-0000-4000-8000"
# Repositories whose pages are empty, and publishers' interfaces for those with a key.
QUIETLAKE, STILLWATER = "repository.quietlake.example", "repository.stillwater.example"
STILLWATER_REST = "api.stillwater.example"
DEPOSITS |= {
    "dspace": Deposit(
        "Quietlake Repository",
        "10.555590/dspace.{code}",
        f"https://{QUIETLAKE}/items/{_ITEM}-a{{code}}",
        f"https://{QUIETLAKE}/server/api/core/bitstreams/{_ITEM}-b{{code}}/content",
    ),
    "dspace_elsewhere": Deposit(
        "Stillwater Repository",
        "10.555590/dspace-elsewhere.{code}",
        f"https://{STILLWATER}/handle/2027/{{code}}",
        f"https://{STILLWATER_REST}/rest/api/core/bitstreams/{_ITEM}-b{{code}}/content",
    ),
    "embargoed": Deposit(
        "Quietlake Repository",
        "10.555590/embargoed.{code}",
        f"https://{QUIETLAKE}/items/{_ITEM}-e{{code}}",
        f"https://{QUIETLAKE}/server/api/core/bitstreams/{_ITEM}-b{{code}}/content",
    ),
    "preserved": Deposit(
        "Defunct Letters",
        "10.555590/preserved.{code}",
        "https://closed.subscription-press.example/doi/abs/10.555590/preserved.{code}",
        "https://web.archive.org/web/20190101000000id_/https://www.defunct-letters.example/letters/{code}.pdf",
    ),
    "elsevier": Deposit(
        "Subscription Letters",
        "10.1016/j.sandbox.{code}",
        "https://closed.subscription-press.example/doi/abs/10.1016/j.sandbox.{code}",
        "https://api.elsevier.com/content/article/doi/10.1016/j.sandbox.{code}",
    ),
    "elsevier_preview": Deposit(
        "Subscription Letters",
        "10.1016/j.preview.{code}",
        "https://closed.subscription-press.example/doi/abs/10.1016/j.preview.{code}",
        "https://api.elsevier.com/content/object/eid/1-s2.0-S{code}-main.pdf",
    ),
    "elsevier_closed": Deposit(
        "Subscription Letters",
        "10.1016/j.closed.{code}",
        "https://closed.subscription-press.example/doi/abs/10.1016/j.closed.{code}",
        "",
    ),
    "wiley": Deposit(
        "Subscription Letters",
        "10.1002/sandbox.{code}",
        "https://closed.subscription-press.example/doi/abs/10.1002/sandbox.{code}",
        "https://api.wiley.com/onlinelibrary/tdm/v1/articles/10.1002%2Fsandbox.{code}",
    ),
    "springer": Deposit(
        "Subscription Letters",
        "10.1007/s{code}",
        "https://closed.subscription-press.example/doi/abs/10.1007/s{code}",
        "https://api.springernature.com/openaccess/jats?q=doi%3A10.1007%2Fs{code}",
    ),
}
BEHIND_KEYS = ("sold", "elsevier", "elsevier_preview", "elsevier_closed", "wiley", "springer", "preserved")
DATACITE = ("10.48550/", "10.5281/", "10.6084/", "10.18154/")


def guid(year: int, index: int) -> str:
    rest, letters = (year - 1990) * 1_000_000 + index, ""
    for _ in range(5):
        rest, digit = divmod(rest, _BASE)
        letters = _DIGITS[digit] + letters
    return letters


def numbers_in(text: str) -> tuple[int, int] | None:
    """Return year and index of the work named by a DOI or path of OSF, bioRxiv or medRxiv."""
    if posted := POSTED.search(text):
        return int(posted[1]), int(posted[2])
    if named := GUID.search(text):
        year, index = divmod(int(named[1] or named[2], _BASE), 1_000_000)
        return year + 1990, index
    return None


def address(work: Work, template: str) -> str:
    deposit = DEPOSITS[work.archetype]
    return deposit.fill(template, work.year, work.index, f"{work.date:%Y.%m.%d}")
