"""Decide whether a PDF is the wanted article: compare its text and metadata with the work. Pure: the file is read elsewhere.

Storing a wrong paper is the worst error, discarding the right one the second worst. So only clear evidence rejects: another
paper's identifier together with another title, pages without any word of a long title, or a supplement that is marked as one
at its beginning. Weaker evidence becomes a flag on the manifest row.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from docstokg_assets.domain.identifiers import arxiv_without_version, normalize_doi
from docstokg_assets.domain.works import Work
from resources.pdf import PdfFacts
from resources.records import Reason


class Flag(StrEnum):
    SUSPECT_MISMATCH = "suspect-mismatch"
    SUPPLEMENT = "supplement"
    ABSTRACT_ONLY = "abstract-only"
    FRONT_MATTER = "front-matter"
    PREVIEW = "preview"
    ENCRYPTED = "encrypted"
    UNREADABLE = "unreadable"
    VALIDATOR_LIMIT = "validator-limit"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`reason` is set when the file should not be taken for the article; `evidence` says why, in words."""

    flags: tuple[Flag, ...] = ()
    evidence: str = ""
    reason: Reason | None = None


PdfValidator = Callable[[Work, str, Path], Verdict]

# Share of the title's words that occur close together in the text: at least SAME for the same title, at most OTHER for another.
SAME, OTHER = 0.7, 0.4
_ENOUGH_TEXT = 400  # letters that a text must have before a missing title counts
_PLENTY_OF_TEXT = 2000  # letters that a text must have before it counts that none of the title's words occurs
_LONG_TITLE = 5  # words, each of at least _STEM letters
_STEM = 5  # first letters in which words agree that are taken for the same
_SHORT_TITLE = 8  # letters; a shorter title cannot be compared
_MAIN_TITLE = 15  # letters; a shorter main title is not looked for without its subtitle

_ENGLISH = frozenset({"the", "of", "and", "in", "to", "for", "with", "on", "by", "from", "is", "are", "that"})
_DOI = re.compile(r"\b10\.[0-9]{4,9}(?:\.[0-9]+)*/[^\s\"<>]+")
_ARXIV_STAMP = re.compile(r"(?i)\barxiv:\s?([0-9]{4}\.[0-9]{4,5}|[a-z-]+(?:\.[A-Z]{2})?/[0-9]{7})")
_HYPHENATED = re.compile(r"(?<=\w)[-\u00ad\u2010]\s*\n\s*(?=\w)")
_WORD = re.compile(r"\w+")
# scripts written without spaces: their words are compared in pairs of letters
_DENSE = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]")

_SUPPLEMENT = re.compile(
    r"(?im)^\W*(?:electronic |online |supplement \w+ )?(?:supporting|supplement(?:ary|al)) "
    r"(?:information|materials?|data|appendix|appendices|figures?|tables?|notes?|methods|text|files?)\b"
    r"(?![^\n]{0,60}\b(?:is|are|can|available|at)\b)"
)
_PREVIEW_URL = re.compile(r"https://api\.elsevier\.com/content/article/")
_SUPPLEMENT_URL = re.compile(r"(?i)(?:_si_[0-9]{3}|moesm[0-9]+_esm|[-_]mmc[0-9]+|-sup-[0-9]{4}-[\w-]+)\.pdf$")
_BODY = re.compile(
    r"(?i)\b(?:introduction|references|bibliography|acknowledge?ments?|conclusions?|literatur|referencias)\b"
)
_ABSTRACT = re.compile(r"(?i)\babstracts?\b")
_FRONT = re.compile(
    r"(?i)\b(?:table of contents|editorial board|front matter|issue information|masthead|in this issue)\b"
)


def strict(validator: PdfValidator) -> PdfValidator:
    """Reject on any flag, as for guessed URLs."""

    def validate(work: Work, url: str, path: Path) -> Verdict:
        verdict = validator(work, url, path)
        return replace(verdict, reason=verdict.reason or Reason.WRONG_PAPER) if verdict.flags else verdict

    return validate


def validate_pdf(work: Work, url: str, facts: PdfFacts) -> Verdict:
    """The verdict on a file that was downloaded for `work` from `url`."""
    if facts.limit is not None:
        evidence = f"reading it went past the limit of {facts.limit}"
        return Verdict((Flag.VALIDATOR_LIMIT,), evidence, Reason.VALIDATOR_LIMIT)
    if facts.fault is not None:
        return Verdict((Flag.UNREADABLE,), facts.fault)
    if facts.pages is None:
        return Verdict((Flag.ENCRYPTED,), "a password is needed to open it")
    if facts.pages == 1 and _PREVIEW_URL.match(url):
        return Verdict((Flag.PREVIEW,), "one page, as the previews of this interface have", Reason.NOT_ENTITLED)
    supplement, certain = _supplement(work, url, facts)
    if certain:
        return Verdict((Flag.SUPPLEMENT,), supplement, Reason.WRONG_PAPER)
    mismatch, certain = _mismatch(work, facts)
    has_body = _BODY.search(facts.text)
    front = _FRONT.search(facts.text[:600]) and not _FRONT.search(work.title or "")
    seen = {
        Flag.ENCRYPTED: facts.encrypted,
        Flag.SUPPLEMENT: supplement,
        Flag.SUSPECT_MISMATCH: mismatch,
        Flag.ABSTRACT_ONLY: facts.pages == 1 and _ABSTRACT.search(facts.text) and not has_body,
        Flag.FRONT_MATTER: front and not has_body,
    }
    evidence = "; ".join(filter(None, (mismatch, supplement)))
    flags = tuple(flag for flag, is_seen in seen.items() if is_seen)
    return Verdict(flags, evidence, Reason.WRONG_PAPER if certain else None)


def _supplement(work: Work, url: str, facts: PdfFacts) -> tuple[str, bool]:
    """Evidence that the file is a supplement, and whether it is certain. In the margin of an article the words only say that
    there is one; a text with the work's title and the parts of an article is the article, whatever precedes them."""
    if work.type == "supplementary-materials" or _SUPPLEMENT.search(work.title or ""):
        return "", False
    if _SUPPLEMENT_URL.search(url.partition("?")[0]):
        return "its address is that of a supplement", True
    named = _SUPPLEMENT.search(facts.metadata.get("title", ""))
    begins = named or _SUPPLEMENT.match(facts.text.lstrip())
    if begins:
        ours = _title_likeness(work.title, facts) or 0.0
        article = _BODY.search(facts.text) and (ours >= SAME or _names_our_work(work, facts.text))
        return f"it begins as a supplement does: {' '.join(begins[0].split())!r}", named is not None or not article
    said = _SUPPLEMENT.search(facts.text[:250])
    return (f"its first lines say {' '.join(said[0].split())!r}", False) if said else ("", False)


def _mismatch(work: Work, facts: PdfFacts) -> tuple[str, bool]:
    """Evidence that the file is another paper, and whether it is certain: another identifier and another title, and those of
    the work nowhere."""
    said = "\n".join([facts.text, *facts.metadata.values()])
    alike = _title_likeness(work.title, facts)
    if (alike is not None and alike >= SAME) or _names_our_work(work, said):
        return "", False
    other = _identifier_of_another(work, facts)
    another_title = alike is not None and alike <= OTHER
    if other and alike is None and _another_script(work.title or "", facts.text):
        # a translation has the publisher of its original
        another_title = _registrant(other) not in (None, _registrant(f"DOI {work.doi}"))
    if other and (work.doi or work.arxiv_id):
        return f"it calls itself {other}{', and has another title' if another_title else ''}", another_title
    nothing_of_it = another_title and _another_subject(work.title or "", facts)
    if other and another_title:  # the DOI may be that of the work, which no source named
        return f"it calls itself {other}, and has another title", nothing_of_it
    if nothing_of_it:
        return "its first pages have not one of the words of the title", True
    if another_title and len(_squashed(facts.text)) >= _ENOUGH_TEXT:
        return "its first pages do not show the title", False
    return "", False


def _another_subject(title: str, facts: PdfFacts) -> bool:
    """Whether none of the longer words of a long title occurs on pages full of text. Only if both are English: titles of papers
    in other languages are often translated into English, so their words do not occur in the paper."""
    words = {word[:_STEM] for word in _tokens(title, _STEM)}
    if len(words) < _LONG_TITLE or not _is_english(title) or not _is_english(facts.text):
        return False
    squashed = _squashed("\n".join([facts.text, *facts.metadata.values()]))
    return len(squashed) >= _PLENTY_OF_TEXT and not any(word in squashed for word in words)


def _is_english(text: str) -> bool:
    words = list(_tokens(text, 1))
    return 10 * sum(word in _ENGLISH for word in words) >= len(words) > 0


def _names_our_work(work: Work, said: str) -> bool:
    squashed = "".join(said.split()).casefold()
    names = [work.doi, arxiv_without_version(work.arxiv_id) if work.arxiv_id else None, work.pmcid]
    return any(name is not None and name.casefold() in squashed for name in names)


def _identifier_of_another(work: Work, facts: PdfFacts) -> str | None:
    """The DOI of the metadata, else the only one on the first pages (of several, the others are references); or arXiv's stamp."""
    named = _dois("\n".join(facts.metadata.values())) or _dois(facts.text)
    ours = work.doi.casefold() if work.doi else "?"
    # a DOI that begins with the other is a version, a part, or cut by a line break
    others = {doi for doi in named if not (doi.startswith(ours) or ours.startswith(doi))}
    if len(others) == 1:
        return f"DOI {others.pop()}"
    stamp = _ARXIV_STAMP.search(facts.text)
    if work.arxiv_id and stamp and arxiv_without_version(work.arxiv_id).casefold() != stamp[1].casefold():
        return f"arXiv:{stamp[1]}"
    return None


def _dois(text: str) -> set[str]:
    found = (normalize_doi(match) for match in _DOI.findall(text))
    return {doi.casefold() for doi in found if doi is not None}


def _title_likeness(title: str | None, facts: PdfFacts) -> float | None:
    """The share of the title's words that occur close together in the file's title or on its first pages, 0 to 1; None when they
    cannot be compared: a title of a word or two, or a text in another script."""
    squashed = _squashed(title or "")
    if len(squashed) < _SHORT_TITLE:
        return None
    shown = [facts.metadata.get("title", ""), facts.metadata.get("dc:title", ""), facts.text]
    main = _squashed(re.split(r"[:?.–—]", title or "", maxsplit=1)[0])
    wanted = [squashed, main] if len(main) >= _MAIN_TITLE else [squashed]
    if any(form in _squashed(text) for text in shown for form in wanted):
        return 1.0
    long_words = set(_tokens(title or "", 4))
    words = long_words if len(long_words) > 2 else set(_tokens(title or "", 2))
    if len(words) < 3 or _another_script(title or "", facts.text):
        return None
    shortest = min(map(len, words))
    return max(_best_window(words, list(_tokens(text, shortest))) for text in shown)


def _best_window(words: set[str], text: list[str]) -> float:
    """The largest share of `words` that occurs within a stretch of the text a little longer than the title."""
    window: deque[str] = deque()
    inside: Counter[str] = Counter()
    best = 0
    for token in text:
        window.append(token)
        inside[token] += token in words
        if len(window) > len(words) * 2 + 2:
            gone = window.popleft()
            inside[gone] -= gone in words
        best = max(best, sum(1 for word in words if inside[word] > 0)) if token in words else best
    return best / len(words)


def _plain(text: str) -> str:
    """Without ligatures, accents, hyphenation and case."""
    decomposed = unicodedata.normalize("NFKD", _HYPHENATED.sub("", text))
    return "".join(c for c in decomposed if not unicodedata.combining(c)).casefold()


def _squashed(text: str) -> str:
    return "".join(_WORD.findall(_plain(text))).replace("_", "")


def _tokens(text: str, shortest: int) -> Iterator[str]:
    for word in _WORD.findall(unicodedata.normalize("NFKC", _plain(text))):
        if _DENSE.search(word):
            yield from (word[at : at + 2] for at in range(max(1, len(word) - 1)))
        elif len(word) >= shortest:
            yield word


def _another_script(title: str, text: str) -> bool:
    """Whether less than a fifth of the text is written in the script of the title."""
    letters = [c for c in text if c.isalpha()]
    script = _script(next((c for c in title if c.isalpha()), "?"))
    return len(title) >= _SHORT_TITLE and sum(_script(c) == script for c in letters) < len(letters) / 5


def _registrant(identifier: str) -> str | None:
    """The prefix of a DOI."""
    return identifier.partition("/")[0] if identifier.startswith("DOI ") else None


def _script(letter: str) -> str:
    """LATIN, CYRILLIC, CJK …: the first word of the letter's Unicode name."""
    return unicodedata.name(letter, "?").partition(" ")[0]
