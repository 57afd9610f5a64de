"""What the columns of the lake mean, in a sentence each, and which of them come from which. Names and types are `lake`'s.

`COMES_FROM` names real dependencies only: a column is in it when its values are copied or computed from those of another table.
What is learnt on the way from the network comes from no column.
"""

from __future__ import annotations

from collections.abc import Mapping

YEAR = "the year of publication; the name of the folder, empty where it is not known"

MEANING: Mapping[str, Mapping[str, str]] = {
    "works": {
        "work_id": "the OpenAlex id (W…), else a name made from the identifier that was given",
        "title": "the title, without markup",
        "publication_date": "the day of publication, as OpenAlex says",
        "doi": "in small letters, without https://doi.org/",
        "arxiv_id": "the id of the paper, without its version",
        "pmid": "the number in PubMed",
        "pmcid": "the id in PubMed Central (PMC…)",
        "type": "article, preprint, book-chapter …, as OpenAlex says",
        "language": "two letters, as OpenAlex says",
        "is_oa": "whether OpenAlex knows an open copy",
        "oa_status": "diamond, gold, hybrid, green, bronze or closed",
        "locations": "the places where OpenAlex knows a copy or a page about one, the best first",
        "urls": "addresses that were given, where the source is a list of URLs",
        "updated_date": "when OpenAlex last changed the record",
        "fetched_at": "when the record was taken in",
        "agency": "who registered the DOI: crossref or datacite",
        "has_content": "whether OpenAlex itself keeps a copy",
    },
    "plans": {
        "work_id": "whose plan",
        "position": "the place in the order of trying, from 0",
        "tier": "direct_oa, doi_redirect, landing_scrape or wayback",
        "resolver": "who names the copy, or must be asked for one",
        "deferred": "whether the resolver must be asked first",
        "url": "the copy; empty where the resolver must be asked",
        "host": "whose turn it is: the copy's host, or the resolver's",
        "target": "what is expected there: pdf, xml, html or landing",
        "version": "publishedVersion, acceptedVersion or submittedVersion, where known",
        "license": "the licence of the copy, where known",
        "plan_hash": "changes when there is something new to try",
        "planned_at": "when the plan was made",
    },
    "attempts": {
        "run_id": "the run",
        "worker_id": "the process of the run that made it",
        "seq": "its number in that process",
        "ts": "when it ended",
        "work_id": "for which work; empty where it was for none, such as robots.txt",
        "resolver": "on whose account",
        "tier": "in which tier of the plan",
        "role": "metadata, landing or artifact",
        "host": "who was asked",
        "url": "what was asked for, without credentials",
        "canonical_url": "the same in the form in which addresses are compared",
        "verb": "GET, HEAD, POST, or ROBOTS where robots.txt was asked for",
        "status": "what happened, as a token (docs/reasons.md)",
        "reason": "why it did not bring a file, as a token (docs/reasons.md)",
        "http_status": "the status of the answer",
        "content_type": "the type that the answer claimed",
        "elapsed_ms": "from the request to the end of its answer",
        "bytes_written": "bytes that arrived",
        "content_length_hdr": "bytes that the answer announced",
        "attempt": "the number of the try",
        "retry_after_s": "the pause that the host asked for",
        "cache_hit": "whether the answer came from the cache",
        "extra": "more, as JSON (docs/telemetry.md)",
    },
    "outcomes": {
        "work_id": "the work",
        "title": "its title",
        "doi": "its DOI",
        "classification": "success, skip or error",
        "reason": "how it ended, as a token (docs/reasons.md)",
        "kind": "what was stored: pdf, xml, html …",
        "url": "where the file came from, or the most promising address that failed",
        "resolver": "who named it",
        "tier": "in which tier of the plan",
        "http_status": "the status of the last answer",
        "path": "the file, below the root of the artifacts",
        "sha256": "of the stored bytes",
        "bytes": "their number",
        "content_type": "the type that the server claimed",
        "license": "the licence of the copy, where known",
        "version": "publishedVersion, acceptedVersion or submittedVersion, where known",
        "html_paths": "pages that were kept beside the file",
        "fallback_chain": "the resolvers that were tried, in order",
        "retry_at": "from when the work is tried again; empty when it is finished",
        "run_id": "the run that ended it so",
        "config_hash": "of the configuration with which it was done",
        "ttfp_ms": "from its first request to its stored file",
        "requests": "requests made for it",
        "finished_at": "when it ended so",
        "revision": "grows with every change; the highest of a work counts",
        "flags": "what was noticed about the PDF, such as suspect-mismatch",
    },
    "metrics": {
        "scope": "whose works were measured",
        "name": "the indicator (docs/telemetry.md)",
        "value": "what was measured",
        "target": "the objective, where there is one",
        "ok": "whether it was met; empty where there was nothing to judge",
        "computed_at": "when it was measured",
    },
}

_NAMES_COPIES = ("works.locations", "works.urls", "works.doi", "works.arxiv_id", "works.pmcid")
_DECIDES_WHO_IS_ASKED = (*_NAMES_COPIES, "works.pmid", "works.oa_status", "works.agency", "works.has_content")
_MEASURED = (
    *(f"outcomes.{name}" for name in ("retry_at", "reason", "kind", "sha256", "bytes", "ttfp_ms", "requests")),
    *(f"attempts.{name}" for name in ("ts", "run_id", "role", "verb", "status", "reason", "http_status")),
    *(f"attempts.{name}" for name in ("canonical_url", "cache_hit", "extra")),
)

COMES_FROM: Mapping[str, tuple[str, ...]] = {
    "plans.work_id": ("works.work_id",),
    "plans.tier": _DECIDES_WHO_IS_ASKED,
    "plans.resolver": _DECIDES_WHO_IS_ASKED,
    "plans.deferred": _DECIDES_WHO_IS_ASKED,
    "plans.plan_hash": _DECIDES_WHO_IS_ASKED,
    "plans.host": _DECIDES_WHO_IS_ASKED,
    "plans.url": _NAMES_COPIES,
    "plans.target": _NAMES_COPIES,
    "plans.version": ("works.locations",),
    "plans.license": ("works.locations",),
    "attempts.work_id": ("plans.work_id",),
    **{f"attempts.{name}": (f"plans.{name}",) for name in ("resolver", "tier", "host", "url")},
    "outcomes.work_id": ("plans.work_id",),
    "outcomes.title": ("works.title",),
    "outcomes.doi": ("works.doi",),
    **{f"outcomes.{name}": (f"plans.{name}",) for name in ("url", "resolver", "tier", "license", "version")},
    "metrics.value": _MEASURED,
    "metrics.ok": _MEASURED,
}
