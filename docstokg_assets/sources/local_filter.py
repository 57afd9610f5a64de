"""Apply an OpenAlex filter to local records, as of a snapshot. Refuses filters that it cannot evaluate.

A name is a path in the record (`topics.id`, `open_access.is_oa`). Values are compared as the API does: without case, ids
without their URL, `|` between alternatives, `!` for "not". Filters of the API that no record contains are unknown here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from docstokg_assets.domain.identifiers import normalize_doi
from docstokg_assets.domain.json_access import mapping, values_at
from resources.settings import SettingsError

_DATES = ("from_publication_date", "to_publication_date")
# Filters of the API that are short for a path in the record.
_WAYS = {name: f"authorships.{name}" for name in ("author.id", "institutions.id")}
_WAYS |= {"openalex": "id", **{name: f"open_access.{name}" for name in ("is_oa", "oa_status")}}
_LOCATION = (
    *("is_oa", "is_accepted", "is_published", "license", "version"),
    *("source.id", "source.issn", "source.issn_l", "source.type", "source.is_oa", "source.is_in_doaj"),
    "source.host_organization",
)
_TOPIC = ("id", "subfield.id", "field.id", "domain.id")
_INSTITUTION = ("id", "ror", "type", "country_code", "lineage")
_KNOWN = frozenset({
    "id", "doi", "ids.openalex", "ids.doi", "ids.mag", "ids.pmid", "ids.pmcid", "type", "language", "publication_year",
    "publication_date", "is_retracted", "is_paratext", "is_xpac",
    "open_access.is_oa", "open_access.oa_status", "open_access.any_repository_has_fulltext",
    "authorships.author.id", "authorships.author.orcid", "authorships.countries", "authorships.is_corresponding",
    *(f"authorships.institutions.{name}" for name in _INSTITUTION),
    *(f"{root}.{name}" for root in ("best_oa_location", "primary_location", "locations") for name in _LOCATION),
    *(f"{root}.{name}" for root in ("topics", "primary_topic") for name in _TOPIC),
})  # fmt: skip
Test = Callable[[Any], bool]


class LocalFilter:
    """Whether a raw record is selected. `fields` are the root fields that it looks at."""

    def __init__(self, works_filter: str) -> None:
        parts = [part.partition(":") for part in works_filter.split(",") if part]
        named = [(_WAYS.get(name, name), value) for name, _, value in parts]
        self._tests = [_test(name, value) for name, value in named]
        self.fields = frozenset("publication_date" if name in _DATES else name.split(".")[0] for name, _ in named)

    def __call__(self, record: Any) -> bool:
        return all(test(record) for test in self._tests)


def _test(name: str, value: str) -> Test:
    if name == "from_publication_date":
        return lambda record: _date(record) >= value
    if name == "to_publication_date":
        return lambda record: "" < _date(record) <= value
    ranged = value[:1] in "<>" or (name == "publication_year" and "-" in value)
    if name not in _KNOWN or ranged:
        remedy = "leave it out, or set openalex.source to api"
        raise SettingsError([f"openalex.filter: {name}:{value} cannot be applied to a snapshot; {remedy}"])
    negated = value.startswith("!")
    wanted = {_plain(one) for one in value.removeprefix("!").split("|")}
    return lambda record: any(_plain(found) in wanted for found in values_at(record, name)) is not negated


def _date(record: Any) -> str:
    return str(mapping(record).get("publication_date") or "")


def _plain(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = str(value).lower()
    return normalize_doi(text) or text.rsplit("/", 1)[-1]
