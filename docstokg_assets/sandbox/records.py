"""Records of a work as OpenAlex, Unpaywall and Crossref send them.

Each function turns a work and its scenario into the JSON object of the service. Filters, paging, errors and headers
are in `hosts/`.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from .deposits import DEPOSITS
from .scenario import Location, Scenario
from .universe import Work
from .venues import ALL

Json = dict[str, Any]

TOPICS: tuple[tuple[str, str, str, str], ...] = (
    ("T10102", "scientometrics and bibliometrics research", "fields/18", "Decision Sciences"),
    ("T10036", "Advanced Neural Network Applications", "fields/17", "Computer Science"),
    ("T10181", "Natural Language Processing Techniques", "fields/17", "Computer Science"),
    ("T10028", "Topic Modeling", "fields/17", "Computer Science"),
    ("T11948", "Machine Learning in Materials Science", "fields/25", "Materials Science"),
    ("T10322", "Coral and Marine Ecosystems Studies", "fields/23", "Environmental Science"),
    ("T10555", "Urban Heat and Rainfall", "fields/23", "Environmental Science"),
    ("T10261", "Genetic Associations and Epidemiology", "fields/13", "Biochemistry"),
    ("T10118", "SARS-CoV-2 and COVID-19 Research", "fields/27", "Medicine"),
    ("T10020", "Quantum Information and Cryptography", "fields/31", "Physics and Astronomy"),
)
INSTITUTIONS: tuple[tuple[str, str, str, str], ...] = (
    ("I136199984", "Northlake University", "US", "I136199900"),
    ("I97018004", "University of Meridian", "GB", "I97018004"),
    ("I63966007", "Harbor Institute of Technology", "CA", "I63966007"),
    ("I19820366", "Academia Septentrionalis", "SE", "I19820300"),
    ("I40120149", "Universidade Lusitana", "PT", "I40120149"),
    ("I1299303238", "Polytechnic of the Eastern Isles", "JP", "I1299303238"),
)
TYPES = ("article",) * 14 + ("preprint", "review", "book-chapter", "dissertation")
_GENRES = {"article": "journal-article", "review": "journal-article", "preprint": "posted-content",
           "book-chapter": "book-chapter", "dissertation": "dissertation"}  # fmt: skip
_SOURCES = {v.name: f"S{4_210_000_000 + n}" for n, v in enumerate(ALL)}
_SOURCES |= {deposit.source: f"S{4_220_000_000 + n}" for n, deposit in enumerate(DEPOSITS.values())}
_SOURCES |= {"arXiv": "S4306400194", "PubMed Central": "S2764455111"}
LICENSE_URLS = {"cc-by": "by/4.0", "cc-by-nc": "by-nc/4.0", "cc-by-nc-nd": "by-nc-nd/4.0"}


def topic(work: Work) -> tuple[str, str, str, str]:
    return TOPICS[work.rolls[4] % len(TOPICS)]


def second_topic(work: Work) -> tuple[str, str, str, str]:
    return TOPICS[(work.rolls[4] // 97) % len(TOPICS)]


def institution(work: Work) -> tuple[str, str, str, str]:
    return INSTITUTIONS[work.rolls[5] % len(INSTITUTIONS)]


def work_type(work: Work) -> str:
    return "preprint" if work.archetype == "arxiv_only" else TYPES[work.rolls[7] % len(TYPES)]


def source_id(name: str) -> str:
    return _SOURCES[name]


def cited_by(work: Work) -> int:
    return work.rolls[12] % 997 // 7


def created(work: Work) -> dt.datetime:
    return dt.datetime.combine(work.date, dt.time()) + dt.timedelta(days=2)


def updated(work: Work) -> dt.datetime:
    return created(work) + dt.timedelta(days=work.rolls[13] % 120, hours=4, minutes=11, microseconds=123456)


def author(work: Work) -> str:
    first = ("Ada", "Björn", "Chloë", "Dmitri", "Eun-ji", "Fátima", "Γιώργος", "Hana")[work.rolls[14] % 8]
    return f"{first} {('Example', 'Muster', 'Örnek', 'Tanaka', 'García-López', 'O’Neill')[work.rolls[14] // 8 % 6]}"


# -- OpenAlex ----------------------------------------------------------------------------------------------------------


def _url(kind: str) -> str:
    return f"https://openalex.org/{kind}"


def _source(location: Location) -> Json:
    venue = location.venue
    repository = venue is None or venue.kind == "repository"
    organisation = _url(f"P{4_310_000_000 + len(location.source)}")
    owner = (
        venue.publisher
        if venue
        else ("Cornell University" if location.source == "arXiv" else "National Institutes of Health")
    )
    issn = None if repository else f"2{sum(map(ord, location.source)) % 1000:03d}-835X"
    return {
        "id": _url(source_id(location.source)), "display_name": location.source,
        "issn_l": issn, "issn": [issn] if issn else None,
        "is_oa": location.is_oa, "is_in_doaj": location.is_oa and not repository, "is_core": not repository,
        "host_organization": organisation, "host_organization_name": owner,
        "host_organization_lineage": [organisation], "host_organization_lineage_names": [owner],
        "type": "repository" if repository else "journal",
    }  # fmt: skip


def openalex_location(location: Location) -> Json:
    published = location.version == "publishedVersion"
    return {
        "id": location.id or None, "is_oa": location.is_oa, "landing_page_url": location.landing,
        "pdf_url": location.pdf, "source": _source(location), "license": location.license,
        "license_id": _url(f"licenses/{location.license}") if location.license else None,
        "version": location.version, "is_accepted": location.version != "submittedVersion", "is_published": published,
        "raw_source_name": location.source,
        "raw_type": "journal-article" if location.venue and location.venue.kind == "journal" else "Text",
    }  # fmt: skip


def oa_status(scenario: Scenario, best: Location | None) -> str:
    if best is None:
        return "closed"
    if best.venue is None or best.venue.kind == "repository":
        return "green"
    return "gold" if best.license else "bronze"


def best_location(locations: list[Location]) -> Location | None:
    open_ones = [loc for loc in locations if loc.is_oa]
    return next((loc for loc in open_ones if loc.pdf), open_ones[0] if open_ones else None)


def _ids(work: Work) -> Json:
    ids: Json = {"openalex": _url(work.id)}
    if work.doi:
        ids["doi"] = f"https://doi.org/{work.doi.lower()}"
    if work.pmcid:
        ids["pmid"] = f"https://pubmed.ncbi.nlm.nih.gov/{work.pmid}"
        ids["pmcid"] = f"https://www.ncbi.nlm.nih.gov/pmc/articles/{work.pmid}"
    return ids


def _topic(row: tuple[str, str, str, str], score: float) -> Json:
    return {
        "id": _url(row[0]), "display_name": row[1], "score": score,
        "subfield": {"id": _url(f"sub{row[2]}04"), "display_name": row[3]},
        "field": {"id": _url(row[2]), "display_name": row[3]},
        "domain": {"id": _url("domains/2"), "display_name": "Sciences"},
    }  # fmt: skip


def _authorship(work: Work) -> Json:
    ident, name, country, parent = institution(work)
    return {
        "author_position": "first",
        "author": {"id": _url(f"A{5_099_000_000 + work.rolls[14] % 48}"), "display_name": author(work), "orcid": None},
        "institutions": [{"id": _url(ident), "display_name": name, "ror": f"https://ror.org/0{ident[1:6]}x00",
                          "country_code": country, "type": "education",
                          "lineage": list(dict.fromkeys([_url(ident), _url(parent)]))}],
        "countries": [country], "is_corresponding": True, "raw_author_name": author(work),
        "raw_affiliation_strings": [name],
    }  # fmt: skip


def openalex(work: Work, scenario: Scenario) -> Json:
    """Return the full OpenAlex record, with malformed fields if the work is a strange one."""
    locations = [openalex_location(loc) for loc in scenario.locations]
    best = best_location(scenario.locations)
    best_json = openalex_location(best) if best else None
    topics = [_topic(topic(work), 0.99)]
    if second_topic(work) != topic(work):
        topics.append(_topic(second_topic(work), 0.71))
    record: Json = {
        "id": _url(work.id), "doi": f"https://doi.org/{work.doi.lower()}" if work.doi else None,
        "title": work.title, "display_name": work.title, "publication_year": work.year,
        "publication_date": work.date.isoformat(), "ids": _ids(work), "language": work.language,
        "type": work_type(work),
        "indexed_in": (["datacite"] if work.is_datacite else ["crossref"] if work.doi else [])
        + (["arxiv"] if work.arxiv else []) + (["pubmed"] if work.pmcid else []),
        "primary_location": locations[0], "best_oa_location": best_json,
        "locations_count": len(locations), "locations": locations,
        "open_access": {
            "is_oa": best is not None, "oa_status": oa_status(scenario, best),
            "oa_url": (best.pdf or best.landing) if best else None,
            "any_repository_has_fulltext": any(loc.is_oa and (loc.venue is None or loc.venue.kind == "repository")
                                               for loc in scenario.locations)},
        "has_fulltext": False, "has_content": {"pdf": work.archetype == "sold", "grobid_xml": False},
        "content_urls": None,
        "is_retracted": False, "is_paratext": False, "is_xpac": False, "cited_by_count": cited_by(work),
        "authorships": [_authorship(work)], "primary_topic": topics[0], "topics": topics,
        "updated_date": updated(work).isoformat(), "created_date": created(work).isoformat(),
    }  # fmt: skip
    return _make_strange(record, work) if work.strange else record


def _make_strange(record: Json, work: Work) -> Json:
    """Return malformed field values as they occur in real records."""
    kind = work.strange
    if kind == "null_title":
        record["title"] = record["display_name"] = None
    elif kind == "no_publication_date":
        del record["publication_date"]
    elif kind == "null_year":
        record["publication_year"] = record["publication_date"] = None
    elif kind == "malformed_doi":
        record["doi"] = record["ids"]["doi"] = (
            "https://doi.org/",
            "doi:n/a",
            "https://doi.org/10.55550 /a b",
            "10..//",
        )[work.index % 4]
    elif kind == "many_locations":
        record["locations"] = (record["locations"] * work.huge)[: work.huge]
        record["locations_count"] = work.huge
    elif kind == "null_ids":
        record["ids"] = record["authorships"] = record["topics"] = None
    elif kind == "null_source":
        record["locations"] = [{**loc, "source": None} for loc in record["locations"]]
        record["primary_location"] = {**record["primary_location"], "source": None}
    elif kind == "non_string":
        record["title"] = 12345
        record["language"] = ["en"]
        record["locations"] = [
            {**record["locations"][0], "pdf_url": {"href": True}, "landing_page_url": 17},
            None,
            "text",
        ]
    return record


ROOT_FIELDS = frozenset({
    "id", "doi", "title", "display_name", "publication_year", "publication_date", "ids", "language", "type",
    "indexed_in",
    "primary_location", "best_oa_location", "locations_count", "locations", "open_access", "has_fulltext",
    "has_content",
    "content_urls", "is_retracted", "is_paratext", "is_xpac", "cited_by_count", "authorships", "primary_topic",
    "topics",
    "updated_date", "created_date", "abstract_inverted_index", "keywords", "biblio", "referenced_works", "awards",
    "funders",
})  # fmt: skip


# -- Unpaywall ---------------------------------------------------------------------------------------------------------


def _unpaywall_location(location: Location, best: bool, work: Work) -> Json:
    repository = location.venue is None or location.venue.kind == "repository"
    return {
        "endpoint_id": f"{abs(hash_name(location.source)):019x}" if repository else None, "evidence": "deprecated",
        "host_type": "repository" if repository else "publisher", "is_best": best, "license": location.license,
        "oa_date": work.date.isoformat(), "pmh_id": location.id.removeprefix("pmh:") if repository else None,
        "repository_institution": location.source if repository else None, "updated": "deprecated",
        "url": location.pdf or location.landing, "url_for_landing_page": location.landing, "url_for_pdf": location.pdf,
        "version": location.version,
    }  # fmt: skip


def hash_name(name: str) -> int:
    """Return a small stable number for a name (the built-in hash differs between processes)."""
    return sum((n + 1) * ord(c) ** 3 for n, c in enumerate(name))


def unpaywall(work: Work, scenario: Scenario) -> Json:
    known = [loc for loc in (*scenario.locations, *scenario.unpaywall) if loc.is_oa]
    best = best_location(known)
    ordered = sorted(known, key=lambda loc: loc is not best)
    locations = [_unpaywall_location(loc, loc is best, work) for loc in ordered]
    venue = work.publisher
    issn = f"2{sum(map(ord, venue.name)) % 1000:03d}-835X"
    return {
        "doi": (work.doi or "").lower(), "doi_url": f"https://doi.org/{(work.doi or '').lower()}", "title": work.title,
        "genre": _GENRES[work_type(work)], "is_paratext": False, "published_date": work.date.isoformat(),
        "year": work.year, "journal_name": venue.name, "journal_issns": issn, "journal_issn_l": issn,
        "journal_is_oa": work.archetype == "gold", "journal_is_in_doaj": work.archetype == "gold",
        "publisher": venue.publisher, "is_oa": bool(known), "oa_status": oa_status(scenario, best),
        "has_repository_copy": any(loc["host_type"] == "repository" for loc in locations),
        "best_oa_location": locations[0] if locations else None,
        "first_oa_location": locations[0] if locations else None, "oa_locations": locations,
        "oa_locations_embargoed": [], "updated": f"{updated(work):%Y-%m-%dT%H:%M:%SZ}", "data_standard": 2,
        "z_authors": [{"author_position": "first", "raw_author_name": author(work), "is_corresponding": True,
                       "raw_affiliation_strings": [institution(work)[1]]}],
    }  # fmt: skip


# -- Crossref ----------------------------------------------------------------------------------------------------------


def crossref(work: Work, scenario: Scenario) -> Json:
    """Return the message of /works/{doi}; keys without a value (license, link) are absent, as in the real service."""
    date, venue = work.date, work.publisher
    message: Json = {
        "DOI": work.doi, "prefix": venue.prefix, "type": _GENRES[work_type(work)], "title": [work.title],
        "container-title": [venue.name], "ISSN": [f"2{sum(map(ord, venue.name)) % 1000:03d}-835X"],
        "publisher": venue.publisher, "issued": {"date-parts": [[date.year, date.month]]},
        "published": {"date-parts": [[date.year, date.month, date.day]]}, "URL": f"https://doi.org/{work.doi}",
        "resource": {"primary": {"URL": scenario.doi_url}}, "relation": {}, "update-to": [],
    }  # fmt: skip
    licenses = [loc.license for loc in scenario.locations if loc.license in LICENSE_URLS]
    if licenses:
        stamp = int(dt.datetime(date.year, date.month, date.day, tzinfo=dt.UTC).timestamp() * 1000)
        start = {
            "date-parts": [[date.year, date.month, date.day]],
            "date-time": f"{date}T00:00:00Z",
            "timestamp": stamp,
        }
        message["license"] = [{"URL": f"https://creativecommons.org/licenses/{LICENSE_URLS[licenses[0] or '']}/",
                               "start": start, "delay-in-days": 0, "content-version": "vor"}]  # fmt: skip
    if scenario.links:
        message["link"] = [
            {"URL": url, "content-type": ctype, "content-version": "vor", "intended-application": "text-mining"}
            for url, ctype in scenario.links
        ] + [{"URL": scenario.links[0][0], "content-type": "unspecified", "content-version": "vor",
              "intended-application": "similarity-checking"}]  # fmt: skip
    return message
