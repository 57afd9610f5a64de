"""The declaration of every table that leaves the catalog: works, plans, attempts, outcomes, artifacts, metrics, ingest requests
and results.

Each column is declared once: name, type, meaning, and where it goes. Everything else derives from it: the SQLAlchemy tables
(`resources.catalog.schema`), the rows of the catalog (`resources.catalog.rows`), the Arrow schemas and DuckDB views
(`docstokg_assets.lake`), the rows of the manifest and the CSV files (`docstokg_assets.reporting`), and the column texts and
lineage in Dagster's UI (`docstokg_assets.defs.metadata`).

To add a column to the outcomes, add a `Column` at the end of `OUTCOMES` and put its value into `DownloadOutcome.meta` under
the same name. A column of the catalog also needs a migration. Columns of the lake are a public contract: they are added at
the end, never renamed or retyped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, Flag, StrEnum, auto

from resources.records import Classification, Kind, Reason, Status

Tokens = type[StrEnum]


class Type(Enum):
    """How a value is stored: in SQL | in Arrow."""

    TEXT = auto()  # text | string
    INT = auto()  # integer | int64
    BIG = auto()  # 64-bit integer | int64
    REAL = auto()  # float | double
    FLAG = auto()  # integer, 0 or 1 | bool
    TIME = auto()  # float, epoch seconds by the clock of the database | timestamp in UTC
    TEXTS = auto()  # JSON as text | list of strings
    JSON = auto()  # JSON as text | string
    LOCATIONS = auto()  # of works, which the catalog keeps in their record | list of structs


class Into(Flag):
    """Where a column goes."""

    CATALOG = auto()  # the table of the catalog
    LAKE = auto()  # the Parquet parts, the DuckDB view of the same name, and Dagster's UI
    MANIFEST = auto()  # the lines of manifest.jsonl and the OTLP records
    CSV = auto()  # the CSV file of a run: attempts.csv, and manifest.last.csv for outcomes
    FILES = auto()  # the DuckDB view `artifacts`: the outcomes that have a file


@dataclass(frozen=True, slots=True)
class Column:
    """`meaning` is shown in Dagster's UI. `origins` are columns of other tables (`table.column`) whose values are copied or
    computed into this one; what is learnt from the network comes from no column."""

    name: str
    type: Type
    into: Into
    meaning: str
    required: bool = False  # NOT NULL in the catalog
    key: bool = False  # primary key in the catalog
    unique: bool = False
    empty_for_none: bool = False  # the catalog stores an empty text, because NULLs would not be unique
    tokens: Tokens | None = None  # the closed list that its values are from
    names: Mapping[Into, str] = field(default_factory=dict)  # where it is called otherwise
    origins: tuple[str, ...] = ()

    def name_in(self, into: Into) -> str:
        return self.names.get(into, self.name)


@dataclass(frozen=True, slots=True)
class Table:
    """`order`: the columns that come first where the order is not that of the declaration."""

    name: str
    columns: tuple[Column, ...]
    order: Mapping[Into, tuple[str, ...]] = field(default_factory=dict)

    def columns_in(self, into: Into) -> tuple[Column, ...]:
        there = {column.name: column for column in self.columns if column.into & into}
        first = self.order.get(into, ())
        return (*(there[name] for name in first), *(c for name, c in there.items() if name not in first))

    def names_in(self, into: Into) -> tuple[str, ...]:
        return tuple(column.name_in(into) for column in self.columns_in(into))


TEXT, INT, BIG, REAL, FLAG, TIME, TEXTS, JSON, LOCATIONS = Type
CATALOG, LAKE, MANIFEST, CSV, FILES = Into
YEAR = "the year of publication; the name of the folder, empty where it is not known"

WORKS = Table(
    "works",
    (
        Column("work_id", TEXT, LAKE, "the OpenAlex id (W…), else a name made from the identifier that was given"),
        Column("title", TEXT, LAKE, "the title, without markup"),
        Column("authors", TEXTS, LAKE, "the names of the first authors, at most 20"),
        Column("publication_date", TEXT, LAKE, "the day of publication, as OpenAlex says"),
        Column("doi", TEXT, LAKE, "in small letters, without https://doi.org/"),
        Column("arxiv_id", TEXT, LAKE, "the id of the paper, without its version"),
        Column("pmid", TEXT, LAKE, "the number in PubMed"),
        Column("pmcid", TEXT, LAKE, "the id in PubMed Central (PMC…)"),
        Column("type", TEXT, LAKE, "article, preprint, book-chapter …, as OpenAlex says"),
        Column("language", TEXT, LAKE, "two letters, as OpenAlex says"),
        Column("is_oa", FLAG, LAKE, "whether OpenAlex knows an open copy"),
        Column("oa_status", TEXT, LAKE, "diamond, gold, hybrid, green, bronze or closed"),
        Column("locations", LOCATIONS, LAKE, "the copies that OpenAlex lists, or pages about them, the best first"),
        Column("urls", TEXTS, LAKE, "the URLs that were given, where the source is a list of URLs"),
        Column("updated_date", TEXT, LAKE, "when OpenAlex last changed the record"),
        Column("fetched_at", TIME, LAKE, "when the record was fetched"),
        Column("agency", TEXT, LAKE, "who registered the DOI: crossref or datacite"),
        Column("has_content", FLAG, LAKE, "whether OpenAlex itself keeps a copy"),
    ),
)

_COPIES = ("works.locations", "works.urls", "works.doi", "works.arxiv_id", "works.pmcid")
# These decide which resolvers are queried.
# works without identifiers are looked up by title
_CHOICE = (*_COPIES, "works.pmid", "works.oa_status", "works.agency", "works.has_content", "works.title")
_VERSION = "publishedVersion, acceptedVersion or submittedVersion, where known"

PLANS = Table(
    "plans",
    (
        Column("work_id", TEXT, LAKE, "the work", origins=("works.work_id",)),
        Column("position", INT, LAKE, "the place in the order of trying, from 0"),
        Column(
            "tier", TEXT, LAKE, "direct_oa, doi_redirect, landing_scrape, publisher_key or wayback", origins=_CHOICE
        ),
        Column("resolver", TEXT, LAKE, "the resolver that names the copy, or must be queried", origins=_CHOICE),
        Column("deferred", FLAG, LAKE, "whether the resolver must be queried first", origins=_CHOICE),
        Column("url", TEXT, LAKE, "the copy; empty where the resolver must be queried", origins=_COPIES),
        Column("host", TEXT, LAKE, "the host of the copy, or of the resolver's API", origins=_CHOICE),
        Column("target", TEXT, LAKE, "what is expected there: pdf, xml, html or landing", origins=_COPIES),
        Column("version", TEXT, LAKE, _VERSION, origins=("works.locations",)),
        Column("license", TEXT, LAKE, "the licence of the copy, where known", origins=("works.locations",)),
        Column("plan_hash", TEXT, LAKE, "changes when there is something new to try", origins=_CHOICE),
        Column("planned_at", TIME, LAKE, "when the plan was made"),
    ),
)

_STORED = CATALOG | LAKE
_ATTEMPT = _STORED | CSV
_ATTEMPT_ROW = _ATTEMPT | MANIFEST
_ATTEMPT_ORDER = (
    *("run_id", "worker_id", "seq", "ts", "work_id", "resolver", "tier", "role", "host", "url", "canonical_url"),
    *("verb", "status", "reason", "http_status", "content_type", "elapsed_ms", "bytes_written"),
    *("content_length_hdr", "attempt", "retry_after_s", "cache_hit", "extra"),
)

ATTEMPTS = Table(
    "attempts",
    (
        Column("id", BIG, CATALOG, "the position in the order of recording", key=True),
        Column("ts", TIME, _ATTEMPT_ROW, "when it ended", required=True, names={MANIFEST: "created_at"}),
        Column("run_id", TEXT, _ATTEMPT_ROW, "the run", required=True, empty_for_none=True),
        Column("resolver", TEXT, _ATTEMPT_ROW, "the resolver that it was made for", origins=("plans.resolver",)),
        Column("url", TEXT, _ATTEMPT_ROW, "the URL, without credentials", required=True, origins=("plans.url",)),
        Column("verb", TEXT, _ATTEMPT_ROW, "GET, HEAD, POST, or ROBOTS for a request for robots.txt", required=True),
        Column("status", TEXT, _ATTEMPT_ROW, "what happened, a token (docs/reasons.md)", required=True, tokens=Status),
        Column("http_status", INT, _ATTEMPT_ROW, "the status of the response"),
        Column("content_type", TEXT, _ATTEMPT_ROW, "the type that the response claimed", names={MANIFEST: "mime"}),
        Column("elapsed_ms", INT, _ATTEMPT_ROW, "from the request to the end", names={MANIFEST: "duration_ms"}),
        Column("bytes_written", BIG, _ATTEMPT_ROW, "bytes that arrived", names={MANIFEST: "size_bytes"}),
        Column("content_length_hdr", BIG, _ATTEMPT, "bytes that the response announced"),
        Column("reason", TEXT, _ATTEMPT_ROW, "why it brought no file, as a token (docs/reasons.md)", tokens=Reason),
        Column("extra", JSON, _ATTEMPT_ROW, "more, as JSON (docs/telemetry.md)", required=True),
        Column("work_id", TEXT, _ATTEMPT, "the work; empty for robots.txt", origins=("plans.work_id",)),
        Column("year", INT, CATALOG | CSV, YEAR),
        Column("tier", TEXT, _ATTEMPT_ROW, "the tier of the plan", origins=("plans.tier",)),
        Column("role", TEXT, _ATTEMPT_ROW, "metadata, landing or artifact"),
        Column("host", TEXT, _ATTEMPT_ROW, "the host of the URL", origins=("plans.host",)),
        Column("canonical_url", TEXT, _ATTEMPT_ROW, "the URL in the form in which URLs are compared"),
        Column("attempt", INT, _ATTEMPT_ROW, "the number of the try", required=True),
        Column("retry_after_s", REAL, _ATTEMPT_ROW, "the pause that the host asked for"),
        Column("cache_hit", FLAG, _ATTEMPT_ROW, "whether the response came from the cache", required=True),
        Column("worker_id", TEXT, _ATTEMPT_ROW, "the process of the run that made it", required=True),
        Column("seq", BIG, _ATTEMPT_ROW, "its number in that process", required=True),
    ),
    order={LAKE: _ATTEMPT_ORDER},
)

_OUTCOME = _STORED | MANIFEST
_FILE = _OUTCOME | FILES

OUTCOMES = Table(
    "outcomes",
    (
        Column("work_id", TEXT, _FILE | CSV, "the work", key=True, origins=("plans.work_id",)),
        Column("year", INT, CATALOG | MANIFEST | FILES, YEAR),
        Column("title", TEXT, _FILE, "its title", origins=("works.title",)),
        Column("doi", TEXT, _STORED | FILES, "its DOI", origins=("works.doi",)),
        Column("classification", TEXT, _OUTCOME, "success, skip or error", required=True, tokens=Classification),
        Column("reason", TEXT, _OUTCOME, "how it ended, as a token (docs/reasons.md)", required=True, tokens=Reason),
        Column("kind", TEXT, _FILE, "what was stored: pdf, xml, html …", tokens=Kind),
        Column("url", TEXT, _FILE | CSV, "the URL of the file, or the best that failed", origins=("plans.url",)),
        Column("resolver", TEXT, _FILE, "the resolver that named it", origins=("plans.resolver",)),
        Column("tier", TEXT, _FILE, "the tier of the plan", origins=("plans.tier",)),
        Column("http_status", INT, _OUTCOME, "the status of the last response"),
        Column("path", TEXT, _FILE | CSV, "the file, below the root of the artifacts"),
        Column("sha256", TEXT, _FILE | CSV, "the SHA-256 of the stored bytes"),
        Column("bytes", BIG, _FILE | CSV, "the size of the file", names={MANIFEST: "size_bytes", CSV: "size"}),
        Column("content_type", TEXT, _FILE, "the type that the server claimed"),
        Column("license", TEXT, _FILE, "the licence of the copy, where known", origins=("plans.license",)),
        Column("version", TEXT, _FILE, _VERSION, origins=("plans.version",)),
        Column("html_paths", TEXTS, _FILE, "pages that were kept beside the file", required=True),
        Column("fallback_chain", TEXTS, _OUTCOME, "the resolvers that were tried, in order", required=True),
        Column("retry_at", TIME, _OUTCOME, "from when the work is tried again; empty when it is finished"),
        Column("run_id", TEXT, _FILE, "the run that ended it so", required=True),
        Column("config_hash", TEXT, _OUTCOME, "the hash of the configuration that was used", required=True),
        Column("ttfp_ms", INT, _STORED, "from its first request to its stored file"),
        Column("requests", INT, _STORED, "the number of requests made for it", required=True),
        Column("finished_at", TIME, _FILE | CSV, "when it ended so", required=True, names={MANIFEST: "created_at"}),
        Column("meta", JSON, CATALOG, "more: the other failures, the URL after redirects, the flags", required=True),
        Column("revision", BIG, _STORED, "grows with every change; the highest counts", required=True, unique=True),
        Column("flags", TEXTS, LAKE | MANIFEST | FILES, "what was noticed about the PDF, such as suspect-mismatch"),
    ),
    order={
        CSV: ("work_id", "path", "sha256", "bytes"),
        FILES: (
            *("work_id", "year", "title", "doi", "kind", "path", "sha256", "bytes", "content_type"),
            *("license", "version", "html_paths"),
        ),
    },
)

ARTIFACTS = Table(
    "artifacts",
    (
        Column("id", BIG, CATALOG, "the position in the order of recording", key=True),
        Column("work_id", TEXT, CATALOG, "the work", required=True),
        Column("url", TEXT, CATALOG, "the URL, canonical and without credentials", required=True),
        Column("sha256", TEXT, CATALOG, "the SHA-256 of the bytes", required=True),
        Column("path", TEXT, CATALOG, "the file, below the root of the artifacts", required=True),
        Column("kind", TEXT, CATALOG, "pdf, xml, html …", tokens=Kind),
        Column("bytes", BIG, CATALOG, "the size of the file"),
        Column("content_type", TEXT, CATALOG, "the type that the server claimed"),
        Column("etag", TEXT, CATALOG, "the ETag of the response"),
        Column("last_modified", TEXT, CATALOG, "the Last-Modified of the response"),
        Column("license", TEXT, CATALOG, "the licence of the copy, where known"),
        Column("version", TEXT, CATALOG, _VERSION),
        Column("resolver", TEXT, CATALOG, "the resolver that named it"),
        Column("tier", TEXT, CATALOG, "the tier of the plan"),
        Column("run_id", TEXT, CATALOG, "the run that stored it", required=True),
        Column("stored_at", TIME, CATALOG, "when it was recorded", required=True),
        Column("final_url", TEXT, CATALOG, "the URL after redirects, where it is another"),
        Column("derivation", TEXT, CATALOG, "how it was made from `derived_from`, e.g. archive-capture"),
        Column("derived_from", TEXT, CATALOG, "the URL of what it was made from"),
    ),
)

_MEASURED = (
    *(f"outcomes.{name}" for name in ("retry_at", "reason", "kind", "sha256", "bytes", "ttfp_ms", "requests")),
    *(f"attempts.{name}" for name in ("ts", "run_id", "role", "verb", "status", "reason", "http_status")),
    *(f"attempts.{name}" for name in ("canonical_url", "cache_hit", "extra")),
)

METRICS = Table(
    "metrics",
    (
        Column("scope", TEXT, LAKE, "which works were measured"),
        Column("name", TEXT, LAKE, "the indicator (docs/telemetry.md)"),
        Column("value", REAL, LAKE, "what was measured", origins=_MEASURED),
        Column("target", REAL, LAKE, "the objective, where there is one"),
        Column("ok", FLAG, LAKE, "whether it was met; empty where there was nothing to measure", origins=_MEASURED),
        Column("computed_at", TIME, LAKE, "when it was measured"),
    ),
)

_KEPT_AS_GIVEN = "the URL where the search begins, as it was given"
_INGEST_TYPE = "pdf, xml or html; others are kept and get the status not-implemented"

INGEST_REQUESTS = Table(
    "ingest_request",
    (
        Column("ingest_type", TEXT, CATALOG, _INGEST_TYPE, key=True),
        Column("base_url", TEXT, CATALOG, _KEPT_AS_GIVEN, key=True),
        Column("link_source", TEXT, CATALOG, "who says that the URL has the file: doi, pmc, unpaywall …", key=True),
        Column("link_source_id", TEXT, CATALOG, "the identifier there", key=True),
        Column("created", TIME, CATALOG, "when it was stored", required=True),
        Column("ingest_request_source", TEXT, CATALOG, "the service or person that made it"),
        Column("release_stage", TEXT, CATALOG, "the version that is expected there"),
        Column("request", JSON, CATALOG, "the whole request, as it was given", required=True),
    ),
)

INGEST_RESULTS = Table(
    "ingest_file_result",
    (
        Column("ingest_type", TEXT, CATALOG, _INGEST_TYPE, key=True),
        Column("base_url", TEXT, CATALOG, _KEPT_AS_GIVEN, key=True),
        Column("updated", TIME, CATALOG, "when the result was recorded", required=True),
        Column("hit", FLAG, CATALOG, "whether a file of the wanted type was got", required=True),
        Column("status", TEXT, CATALOG, "how it ended, one of a closed list (docs/ingest.md)", required=True),
        Column("terminal_url", TEXT, CATALOG, "the last URL; with terminal_dt it makes the archive link"),
        Column("terminal_dt", TEXT, CATALOG, "the time of the capture, 14 digits; empty for a live download"),
        Column("terminal_status_code", INT, CATALOG, "the HTTP status there"),
        Column("terminal_sha1hex", TEXT, CATALOG, "the SHA-1 of the file"),
        Column("error_message", TEXT, CATALOG, "why there is no file, in words"),
        Column(
            "hops", TEXTS, CATALOG, "the URLs that were fetched, in order, with the ends of redirects", required=True
        ),
        Column("route", TEXT, CATALOG, "archive, live or save: how the last URL was fetched"),
        Column("reason", TEXT, CATALOG, "the reason token of the search (docs/reasons.md)", tokens=Reason),
        Column("tries", INT, CATALOG, "how often it was tried", required=True),
        Column("next_try", TIME, CATALOG, "when it is tried again; empty when it is not"),
        Column("flags", TEXTS, CATALOG, "what was noticed about the file, such as abstract-only", required=True),
        Column("file_meta", JSON, CATALOG, "size, hashes and type of the file"),
        Column("cdx", JSON, CATALOG, "the row of the archive's index for the last URL, may be a revisit"),
        Column("revisit_cdx", JSON, CATALOG, "for a revisit, the row of the capture that has the bytes"),
        Column("path", TEXT, CATALOG, "the stored file, below the root of the artifacts"),
        Column("item_id", TEXT, CATALOG, "the item of the queue, under which its attempts are recorded", required=True),
        Column("run_id", TEXT, CATALOG, "the run that recorded it"),
        Column("revision", BIG, CATALOG, "grows with every change of any result", required=True, unique=True),
    ),
)

LAKE_TABLES: Mapping[str, Table] = {table.name: table for table in (WORKS, PLANS, ATTEMPTS, OUTCOMES, METRICS)}
