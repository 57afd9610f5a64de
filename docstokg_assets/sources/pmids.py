"""PMIDs as DOIs or PMCIDs, by PubMed Central's id converter, which takes 200 at a time and knows the articles of PMC only."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from urllib.parse import urlencode

from docstokg_assets.domain.identifiers import Identifier, normalize_doi, normalize_pmcid, parse_identifier
from docstokg_assets.domain.json_access import mapping, objects
from resources.http.errors import HttpError, Interrupted
from resources.http.messages import Request, Response, Role

CONVERTER = "https://pmc.ncbi.nlm.nih.gov/tools/idconv/api/v1/articles/"
MAX_IDS = 200
Converted = Mapping[str, Identifier]
Ask = Callable[[Generator[Request, Response, Converted]], Converted]


def convert_pmids(
    ask: Ask, identifiers: Iterable[Identifier], contact: str | None
) -> Iterator[tuple[Identifier, Identifier]]:
    """Each identifier with the one to look it up by. A PMID that the converter does not know stands for itself, and so do all
    where the converter does not answer: OpenAlex is asked for them."""
    given = list(identifiers)
    pmids = [one.value for one in given if one.kind == "pmid"]
    known: dict[str, Identifier] = {}
    for start in range(0, len(pmids), MAX_IDS):
        try:
            known |= ask(_convert(pmids[start : start + MAX_IDS], contact))
        except Interrupted:
            raise
        except HttpError:
            break
    yield from ((one, known.get(one.value, one) if one.kind == "pmid" else one) for one in given)


def _convert(pmids: Sequence[str], contact: str | None) -> Generator[Request, Response, Converted]:
    query = {"ids": ",".join(pmids), "idtype": "pmid", "format": "json", "tool": "DocsToKG"}
    query |= {"email": contact} if contact else {}
    response = yield Request(f"{CONVERTER}?{urlencode(query, safe=',@')}", Role.METADATA, obey_robots=False)
    try:
        records = objects(mapping(response.json()).get("records")) if response.ok else []
    except ValueError:
        records = []
    found: dict[str, Identifier] = {}
    for record in records:
        asked, doi = str(record.get("requested-id") or record.get("pmid")), normalize_doi(record.get("doi"))
        pmcid = normalize_pmcid(record.get("pmcid"))
        if doi is not None and (identifier := parse_identifier(doi)) is not None:
            found[asked] = identifier
        elif pmcid is not None:
            found[asked] = Identifier("pmcid", pmcid)
    return found
