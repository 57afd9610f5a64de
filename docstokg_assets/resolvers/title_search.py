"""Title search: works without identifiers, looked up in Crossref by title, first author and year.

A record is taken only when it is the same work beyond doubt (`domain/title_match.py`). Asked when the known copies have failed.
"""

from __future__ import annotations

import docstokg_assets.resolvers as kit

_FIELDS = "DOI,title,subtitle,author,issued,published,type,update-to,link,license,resource"
_ROWS = 10

_WORK = kit.Work("W1", "On the growth of ice in cold seas", year=2024)
_DOI, _PDF = "10.5555/ice", "https://press.example/ice.pdf"
_LINK = {"URL": _PDF, "content-type": "application/pdf", "intended-application": "text-mining"}
_RECORD = {
    "DOI": _DOI,
    "title": ["On the Growth of Ice in Cold Seas"],
    "author": [{"family": "Doe", "given": "J."}],
    "issued": {"date-parts": [[2024, 3]]},
    "type": "journal-article",
    "link": [_LINK],
}
_ERRATUM = {**_RECORD, "DOI": "10.5555/ice.e", "title": ["Erratum: On the growth of ice in cold seas"]}
_AUTHORS = {"authorships": [{"author": {"display_name": "Jane Doe"}}]}


def _found(*records: kit.JsonObject) -> kit.JsonObject:
    return {"message": {"items": list(records)}}


@kit.register("title_search")
class TitleSearchResolver(kit.Resolver):
    tier = kit.Tier.DIRECT_OA
    asked_in = kit.Tier.LANDING_SCRAPE
    default_rank = 70
    api_host = "api.crossref.org"
    other_hosts = ("api.openalex.org",)
    head_precheck = False
    EXAMPLES = (
        kit.Example(_WORK, [_AUTHORS, _found(_ERRATUM, _RECORD)], [_PDF, f"https://doi.org/{_DOI}"]),
        kit.Example(_WORK, [_AUTHORS, _found(_ERRATUM)]),
        kit.Example(_WORK, [_AUTHORS, _found(_RECORD, {**_RECORD, "DOI": "10.5555/other"})]),
        kit.Example(_WORK, [_AUTHORS, _found({**_RECORD, "update-to": [{"DOI": "10.5555/x"}]})]),
        kit.Example(_WORK, [{"authorships": []}]),
        kit.Example(_WORK, [_AUTHORS, {"status": "ok"}], reason=kit.Reason.BAD_ANSWER),
        kit.Example(kit.Work("W2", "Editorial", year=2024)),
        kit.Example(kit.Work("W3", _WORK.title, year=2024, doi="10.5555/1")),
    )

    def applies(self, work: kit.Work) -> bool:
        named = work.doi or work.arxiv_id or work.pmcid or not kit.normalize_openalex_id(work.work_id)
        return not named and kit.is_searchable(kit.Citation(work.title, None, work.year))

    def resolve(self, work: kit.Work, context: kit.ResolverContext) -> kit.Resolution:
        if work.year is None:
            return kit.nothing("no year is known, and the title alone leaves doubt")
        # a single record costs nothing, and lists of works do not carry authors
        url = f"https://api.openalex.org/works/{work.work_id}"
        response = yield kit.api_request(url, {"select": "authorships"})
        if failed := kit.failure(response):
            return failed
        record = kit.json_of(response)
        if not isinstance(record, dict):
            return kit.bad_answer("unexpected answer of api.openalex.org")
        author = next(map(kit.text, kit.values_at(record, "authorships.author.display_name")), None)
        if author is None:
            return kit.nothing("no author is known, and the title alone leaves doubt")
        wanted = kit.Citation(work.title, author, work.year, work.type)
        sender = {"mailto": context.contact_email} if context.contact_email else {}
        query = {"query.bibliographic": f"{work.title} {author} {work.year}", "rows": _ROWS, "select": _FIELDS}
        response = yield kit.api_request("https://api.crossref.org/works", query | sender)
        if failed := kit.failure(response):
            return failed
        records = kit.dig(kit.json_of(response), "message", "items")
        if not isinstance(records, list):
            return kit.bad_answer("unexpected answer of api.crossref.org")
        named = {str(one.get("DOI")): one for one in map(kit.mapping, records) if kit.normalize_doi(one.get("DOI"))}
        doi = kit.only_match(
            wanted, ((name, _citation(one)) for name, one in named.items() if not one.get("update-to"))
        )
        return kit.result_of(self._copies(doi, named[doi]) if doi else (), "no record is this work beyond doubt")

    def _copies(self, doi: str, record: kit.JsonObject) -> kit.Candidates:
        license_ = next((one.get("URL") for one in kit.objects(record.get("license"))), None)
        for link in kit.objects(record.get("link")):
            usable = str(link.get("intended-application")) != "similarity-checking"
            if usable and link.get("content-type") == "application/pdf" and (url := kit.file_url(link.get("URL"))):
                yield self.candidate(url, license=kit.license_name(license_))
        yield self.candidate(kit.doi_url(doi), kit.Target.LANDING, tier=kit.Tier.LANDING_SCRAPE)


def _citation(record: kit.JsonObject) -> kit.Citation:
    """The description of a Crossref record. A subtitle belongs to the title."""
    parts = [kit.text(one, 1000) for key in ("title", "subtitle") for one in kit.items(record.get(key))[:1]]
    first = next(iter(kit.objects(record.get("author"))), {})
    family, given = kit.text(first.get("family")), kit.text(first.get("given"))
    author = f"{family}, {given or ''}" if family else kit.text(first.get("name"))
    dates = (kit.dig(record, key, "date-parts") for key in ("published", "issued"))
    years = [row[0] for date in dates for row in kit.items(date)[:1] if kit.items(row)]
    year = years[0] if years and isinstance(years[0], int) else None
    return kit.Citation(" ".join(filter(None, parts)) or None, author, year, kit.text(record.get("type"), 64))
