"""PubMed Central: files of its open-access subset from the cloud bucket, one of the ways that PMC leaves to programs.

A known PMCID is tried as it stands; which versions there are, and under which licence, is asked when that failed, and the
PMCID itself where only a PMID is known (many works in one request). The article pages, which answer only people, are never asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from docstokg_assets.domain.identifiers import normalize_pmcid
from docstokg_assets.domain.json_access import items, mapping
from docstokg_assets.domain.plans import Candidate, Target, Tier
from docstokg_assets.domain.works import Work
from docstokg_assets.resolvers.answers import (
    answer,
    api_request,
    bad_answer,
    batchable_request,
    failure,
    json_of,
    license_name,
    named,
    nothing,
)
from docstokg_assets.resolvers.registry import Example, Resolution, Resolver, ResolverContext, ResolverResult, register
from resources.http.messages import Request
from resources.records import Reason

_BUCKET = "pmc-oa-opendata.s3.amazonaws.com"
_CONVERTER = "pmc.ncbi.nlm.nih.gov"
_MOST = {"pmid": 200, "doi": 100}  # DOIs are long, and so would be the URL
_MOST_VERSIONS = 3
_VERSION = re.compile(rb"<Prefix>PMC[0-9]+\.([0-9]{1,3})/</Prefix>")
_FILES = (("pdf_url", Target.PDF), ("xml_url", Target.XML))
_STORED = re.compile(r"s3://pmc-oa-opendata/([^\s?#]+)(?:[?#].*)?")

_KNOWN, _BY_PMID = Work("W1", pmid="41990001", pmcid="PMC9900001"), Work("W2", pmid="41990001")
_GUESS = f"https://{_BUCKET}/PMC9900001.1/PMC9900001.1.pdf"
_CONVERTED = answer(
    {"status": "ok", "records": [{"pmcid": "PMC9900001", "pmid": 41990001, "requested-id": "41990001"}]}
)
_LISTED = answer(
    b'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Prefix>PMC9900001.</Prefix><CommonPrefixes>'
    b"<Prefix>PMC9900001.1/</Prefix></CommonPrefixes><CommonPrefixes><Prefix>PMC9900001.2/</Prefix></CommonPrefixes>"
    b"</ListBucketResult>"
)
_EMPTY = answer(b'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>')
_MANUSCRIPT = answer(
    {
        "is_manuscript": True,
        "license_code": "TDM",
        "pdf_url": "s3://pmc-oa-opendata/PMC9900001.2/PMC9900001.2.pdf?md5=0",
    }
)
_ARTICLE = answer(
    {
        "is_manuscript": False,
        "license_code": "CC BY",
        "pdf_url": "s3://pmc-oa-opendata/PMC9900001.1/PMC9900001.1.pdf?md5=0123",
        "xml_url": "s3://pmc-oa-opendata/PMC9900001.1/PMC9900001.1.xml?md5=1123",
    }
)


@register("pmc")
class PmcResolver(Resolver):
    tier = Tier.DIRECT_OA
    default_rank = 15
    api_host = _BUCKET
    other_hosts = (_CONVERTER,)
    head_precheck = False
    EXAMPLES = (
        Example(
            _KNOWN,
            [_LISTED, _MANUSCRIPT, _ARTICLE],
            [
                _GUESS,
                f"https://{_BUCKET}/PMC9900001.1/PMC9900001.1.pdf",
                f"https://{_BUCKET}/PMC9900001.1/PMC9900001.1.xml",
            ],
        ),
        Example(
            _KNOWN,
            [_LISTED, _MANUSCRIPT, answer(b"<Error/>", 404)],
            [_GUESS, f"https://{_BUCKET}/PMC9900001.2/PMC9900001.2.pdf"],
        ),
        Example(_KNOWN, [_EMPTY], [_GUESS], reason=Reason.NO_CANDIDATE),
        Example(
            _KNOWN, [_LISTED, answer(b"<Error/>", 404), answer(b"<Error/>", 404)], [_GUESS], reason=Reason.NO_CANDIDATE
        ),
        Example(_KNOWN, [answer(b"<Error><Code>SlowDown</Code></Error>", 503)], [_GUESS], reason=Reason.HTTP_5XX),
        Example(_KNOWN, [answer(b"<html>")], [_GUESS], reason=Reason.BAD_ANSWER),
        Example(
            _BY_PMID,
            [_CONVERTED],
            [_GUESS, _GUESS.replace(".pdf", ".xml")],
        ),
        Example(
            Work("W3", doi="10.5555/closed.2"),
            [
                answer(
                    {
                        "status": "ok",
                        "records": [
                            {
                                "doi": "10.5555/closed.2",
                                "requested-id": "10.5555/closed.2",
                                "status": "error",
                                "errmsg": "Identifier not found in PMC",
                            }
                        ],
                    }
                )
            ],
            reason=Reason.NO_CANDIDATE,
        ),
        Example(_BY_PMID, [answer({"error": "API rate limit exceeded"}, 429)], reason=Reason.RATE_LIMITED),
        Example(_BY_PMID, [answer({"status": "error", "errors": []}, 400)], reason=Reason.HTTP_4XX),
        Example(_BY_PMID, [answer(b"<html>")], reason=Reason.BAD_ANSWER),
        Example(Work("W4", doi="10.5555/1", oa_status="closed")),
    )

    def applies(self, work: Work) -> bool:
        return bool(work.pmcid) or _item(work) is not None

    def ask_tier(self, work: Work) -> Tier:
        """What to ask for is known with the PMCID; other versions of it are the last thing to look for."""
        return Tier.LANDING_SCRAPE if work.pmcid else self.tier

    def candidates(self, work: Work) -> Sequence[Candidate]:
        if work.pmcid is None:
            return ()
        usual = next(self._usual(work.pmcid))
        place = next((p for p in work.locations if normalize_pmcid(p.landing_url) == work.pmcid), None)
        return (replace(usual, version=place.version, license=place.license) if place else usual,)

    def resolve(self, work: Work, context: ResolverContext) -> Resolution:
        if work.pmcid:
            return (yield from self._versions(work.pmcid))
        kind, value = _item(work) or ("doi", "")
        response = yield batchable_request(value, _MOST[kind], _Conversion(kind, context.contact_email or ""))
        if failed := failure(response):
            return failed
        records = mapping(json_of(response)).get("records")
        if not isinstance(records, list):
            return bad_answer("the id converter's answer has no records")
        pmcid = _pmcid_of(records, value)
        return ResolverResult(tuple(self._usual(pmcid))) if pmcid else nothing("not in PMC")

    def _usual(self, pmcid: str) -> Iterator[Candidate]:
        """The names that the files of nearly all articles have."""
        for rank, (ending, target) in enumerate((("pdf", Target.PDF), ("xml", Target.XML)), self.rank):
            url = f"https://{_BUCKET}/{pmcid}.1/{pmcid}.1.{ending}"
            yield Candidate(url, self.name, self.tier, target, rank)

    def _versions(self, pmcid: str) -> Resolution:
        response = yield api_request(f"https://{_BUCKET}/?list-type=2&prefix={pmcid}.&delimiter=/")
        if failed := failure(response):
            return failed
        if b"<ListBucketResult" not in response.body:
            return bad_answer("the bucket's answer is no list")
        found: list[Mapping[str, Any]] = []
        for version in sorted(map(int, _VERSION.findall(response.body)), reverse=True)[:_MOST_VERSIONS]:
            response = yield api_request(f"https://{_BUCKET}/metadata/{pmcid}.{version}.json")
            record = mapping(json_of(response)) if response.ok else {}
            found.append(record)
            if record.get("is_manuscript") is False:
                break  # the newest version that is the publisher's
        found.sort(key=lambda record: record.get("is_manuscript") is not False)
        return named(self._candidates(found), "not in the open-access subset")

    def _candidates(self, records: Sequence[Mapping[str, Any]]) -> Iterator[Candidate]:
        """The files of the best version that has any."""
        for record in records:
            version = "acceptedVersion" if record.get("is_manuscript") else "publishedVersion"
            license_ = license_name(record.get("license_code"))
            files = [(_STORED.fullmatch(str(record.get(name))), target) for name, target in _FILES]
            for rank, (stored, target) in enumerate(files, self.rank):
                if stored:
                    url = f"https://{_BUCKET}/{stored[1]}"
                    yield Candidate(url, self.name, self.tier, target, rank, version=version, license=license_)
            if any(stored for stored, _ in files):
                return


@dataclass(frozen=True, slots=True)
class _Conversion:
    """One request to the id converter, which takes many ids, but of one kind."""

    kind: str
    contact: str

    def __call__(self, ids: Sequence[str]) -> Request:
        asked = {"ids": ",".join(ids), "idtype": self.kind, "format": "json", "tool": "DocsToKG", "email": self.contact}
        return api_request(f"https://{_CONVERTER}/tools/idconv/api/v1/articles/?{urlencode(asked)}")


def _item(work: Work) -> tuple[str, str] | None:
    """What the converter can be asked with. A DOI only where nobody said that the work is not in PubMed; no comma, for it ends an
    id."""
    if work.pmid:
        return "pmid", work.pmid
    return ("doi", work.doi) if work.doi and "," not in work.doi and work.oa_status is None else None


def _pmcid_of(records: Sequence[Any], asked: str) -> str | None:
    for record in map(mapping, items(records)):
        if str(record.get("requested-id")).lower() == asked.lower():
            return normalize_pmcid(record.get("pmcid"))
    return None
