"""The same 200 references in every format that people bring, with the mess that comes with each."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass

COUNT = 200
_TITLES = (
    ("Growth of ice", "Growth of ice"),
    ("Über Öl und Käse", r"{\"U}ber {\"O}l und K{\"a}se"),
    ("Études à l’été", r"{\'E}tudes {\`a} l’{\'e}t{\'e}"),
    ("Señor Ångström & friends", r"Se{\~n}or {\AA}ngstr{\"o}m \& friends"),
)


@dataclass(frozen=True)
class Reference:
    """A reference by one identifier: `kind` and `value`."""

    number: int
    kind: str
    value: str

    @property
    def key(self) -> str:
        return f"author{self.number // 2}"  # every key twice, as in lists that were put together

    @property
    def title(self) -> str:
        return f"{_TITLES[self.number % 4][0]} {self.number}"

    @property
    def tex_title(self) -> str:
        return f"{_TITLES[self.number % 4][1]} {self.number}"

    @property
    def year(self) -> int:
        return 2000 + self.number % 25


def references() -> list[Reference]:
    made = []
    for number in range(COUNT):
        kind = ("doi", "doi", "doi", "arxiv", "pmid", "pmcid", "doi", "doi")[number % 8]
        value = {
            "doi": f"10.{1000 + number}/J_n(19){number}.{number % 7}",
            "arxiv": f"{(yy := number % 20 + 10):02d}{number % 12 + 1:02d}.{number:0{4 if yy < 15 else 5}d}",
            "pmid": str(20_000_000 + number),
            "pmcid": f"PMC{3_000_000 + number}",
        }[kind]
        made.append(Reference(number, kind, value))
    return made


def bibtex() -> str:
    entries = ['@string{jfoo = "Journal of Foo"}\n\n% exported by hand\n']
    for one in references():
        tex = one.value.replace("_", r"\_") if one.number % 3 else one.value
        field = {
            "doi": f"doi = {{{tex}}}" if one.number % 2 else f"DOI = {{https://doi.org/{tex}}}",
            "arxiv": f"eprint = {{{one.value}}},\n  archivePrefix = {{arXiv}}",
            "pmid": f"pmid = {{{one.value}}}",
            "pmcid": f'pmcid = "{one.value}"',
        }[one.kind]
        entries.append(
            f'@article{{{one.key},\n  author = {{M{{\\"u}}ller, J. and S{{\\o}}rensen, K.}},\n'
            f"  title = {{{{{one.tex_title}}}}},\n  journal = jfoo,\n  month = jan,\n  year = {one.year},\n  {field}\n}}\n"
        )
    return "\n".join(entries)


def ris() -> str:
    entries = []
    for one in references():
        field = {
            "doi": f"DO  - {one.value}",
            "arxiv": f"UR  - https://arxiv.org/abs/{one.value}",
            "pmid": f"AN  - {one.value}\nDB  - PubMed",
            "pmcid": f"C2  - {one.value}",
        }[one.kind]
        entries.append(
            f"TY  - JOUR\nID  - {one.key}\nAU  - Müller, J.\nTI  - {one.title}\nPY  - {one.year}\n{field}\nER  - \n"
        )
    return "\n".join(entries)


def nbib() -> str:
    """PubMed names every article by its PMID; a list of it has no arXiv papers, so these are left out."""
    entries = []
    for one in references():
        if one.kind == "arxiv":
            continue
        field = {
            "doi": f"LID - {one.value} [doi]\nAID - S0-1 [pii]",
            "pmid": "STAT- MEDLINE",
            "pmcid": f"PMC - {one.value}",
        }[one.kind]
        pmid = one.value if one.kind == "pmid" else str(90_000_000 + one.number)
        entries.append(
            f"PMID- {pmid}\nOWN - NLM\nDP  - {one.year} Jan\nTI  - {one.title}\n      of many lines\n{field}\n"
        )
    return "\n".join(entries)


def table(delimiter: str = ",") -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerow(("Key", "Title", "Publication Year", "DOI", "PMID", "PMCID", "arXiv ID", "Notes"))
    for one in references():
        cells = [one.value if one.kind == kind else "" for kind in ("doi", "pmid", "pmcid", "arxiv")]
        writer.writerow((one.key, one.title, one.year, *cells, 'said "no",\nthen yes'))
    return out.getvalue()


def excel() -> bytes:
    import openpyxl

    book = openpyxl.Workbook()
    book.active.append(["notes of mine"])
    sheet = book.create_sheet("papers")
    sheet.append(["Title", "DOI", "PMID", "PMCID", "arXiv"])
    for one in references():
        doi = one.value if one.kind == "doi" else None
        if doi and one.number % 2:
            doi = f'=HYPERLINK("https://doi.org/{doi}","open")'
        arxiv = float(one.value) if one.kind == "arxiv" else None
        pmid = int(one.value) if one.kind == "pmid" else None
        sheet.append([one.title, doi, pmid, one.value if one.kind == "pmcid" else None, arxiv])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def csl() -> str:
    names = {"doi": "DOI", "pmid": "PMID", "pmcid": "PMCID"}
    items = []
    for one in references():
        item = {"id": one.key, "type": "article-journal", "title": one.title, "issued": {"date-parts": [[one.year]]}}
        item |= {names[one.kind]: one.value} if one.kind != "arxiv" else {"note": f"arXiv:{one.value} [cs.DL]"}
        items.append(item)
    return json.dumps(items, indent=2, ensure_ascii=False)


def messy_text() -> str:
    """Lines as they are pasted: quotes, brackets, tabs, addresses, two in one line."""
    shapes = {
        "doi": ('"{}",', "see (https://doi.org/{}).", "[{}]\t2020", "Smith J. et al. Title, doi:{}; retrieved"),
        "arxiv": ("arXiv:{} [cs.DL]", "<https://arxiv.org/abs/{}>", "'{}'", "(arXiv: {})"),
        "pmid": (
            "PMID: {}",
            "https://pubmed.ncbi.nlm.nih.gov/{}/",
            "https://europepmc.org/article/MED/{}",
            "(PMID:{}).",
        ),
        "pmcid": (
            "{}",
            "https://europepmc.org/article/PMC/{}",
            "https://www.ncbi.nlm.nih.gov/pmc/articles/{}/",
            "PMCID: {}.",
        ),
    }
    given = [shapes[one.kind][one.number // 8 % 4].format(one.value) for one in references()]
    lines = ["# my list", ""]
    for first, second in zip(given[::2], given[1::2], strict=True):
        lines += [f"{first}\t{second}"] if len(lines) % 3 else [first, second]
    return "\n".join(lines)
