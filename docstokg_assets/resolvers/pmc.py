"""PubMed Central: files of its open-access subset from the cloud bucket, one of the routes that PMC offers to programs.

With a PMCID, the usual file name is tried first; the bucket is queried for versions and licences when that failed. With a
PMID or DOI only, the id converter is queried for the PMCID (many works in one request). Article pages answer only people and
are never requested.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import docstokg_assets.resolvers as kit

_BUCKET = "pmc-oa-opendata.s3.amazonaws.com"
_CONVERTER = "pmc.ncbi.nlm.nih.gov"
_MOST = {"pmid": 200, "doi": 100}  # DOIs are long, and so would be the URL
_MOST_VERSIONS = 3
_TARGETS = (kit.Target.PDF, kit.Target.XML)
_VERSION = re.compile(rb"<Prefix>PMC[0-9]+\.([0-9]{1,3})/</Prefix>")
_STORED = re.compile(r"s3://pmc-oa-opendata/([^\s?#]+)(?:[?#].*)?")

_KNOWN, _BY_PMID = kit.Work("W1", pmid="41990001", pmcid="PMC9900001"), kit.Work("W2", pmid="41990001")
_GUESS = f"https://{_BUCKET}/PMC9900001.1/PMC9900001.1.pdf"
_CONVERTED = {"status": "ok", "records": [{"pmcid": "PMC9900001", "pmid": 41990001, "requested-id": "41990001"}]}
_LISTED = (
    b'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Prefix>PMC9900001.</Prefix><CommonPrefixes>'
    b"<Prefix>PMC9900001.1/</Prefix></CommonPrefixes><CommonPrefixes><Prefix>PMC9900001.2/</Prefix></CommonPrefixes>"
    b"</ListBucketResult>"
)
_EMPTY = b'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>'
_FIRST, _SECOND = (f"s3://pmc-oa-opendata/PMC9900001.{n}/PMC9900001.{n}" for n in (1, 2))
_MANUSCRIPT = {"is_manuscript": True, "license_code": "TDM", "pdf_url": f"{_SECOND}.pdf?md5=0"}
_FILES = {"pdf_url": f"{_FIRST}.pdf?md5=0", "xml_url": f"{_FIRST}.xml?md5=1"}
_ARTICLE = {"is_manuscript": False, "license_code": "CC BY", **_FILES}
_UNKNOWN = {"requested-id": "10.5555/2", "status": "error", "errmsg": "Identifier not found in PMC"}
_MISSING = kit.answer(b"<Error/>", 404)


@kit.register("pmc")
class PmcResolver(kit.ApiResolver):
    default_rank = 15
    api_host = _BUCKET
    other_hosts = (_CONVERTER,)
    EXAMPLES = (
        kit.Example(_KNOWN, [_LISTED, _MANUSCRIPT, _ARTICLE], [_GUESS, _GUESS, _GUESS.replace(".pdf", ".xml")]),
        kit.Example(_KNOWN, [_LISTED, _MANUSCRIPT, _MISSING], [_GUESS, _GUESS.replace("1.1", "1.2")]),
        kit.Example(_KNOWN, [_EMPTY], [_GUESS], reason=kit.Reason.NO_CANDIDATE),
        kit.Example(_KNOWN, [_LISTED, _MISSING, _MISSING], [_GUESS], reason=kit.Reason.NO_CANDIDATE),
        kit.Example(_KNOWN, [b"<html>"], [_GUESS], reason=kit.Reason.BAD_ANSWER),
        kit.Example(_BY_PMID, [_CONVERTED], [_GUESS, _GUESS.replace(".pdf", ".xml")]),
        kit.Example(kit.Work("W3", doi="10.5555/2"), [{"records": [_UNKNOWN]}]),
        kit.Example(_BY_PMID, [b"<html>"], reason=kit.Reason.BAD_ANSWER),
        kit.Example(kit.Work("W4", doi="10.5555/1", oa_status="closed")),
    )

    def item(self, work: kit.Work) -> str | None:
        """The id that the converter takes. A DOI only when the work may be in PubMed, and without a comma, which would end it."""
        may_be_known = work.doi and "," not in work.doi and work.oa_status is None
        return work.pmid or (work.doi if may_be_known else None)

    def applies(self, work: kit.Work) -> bool:
        return bool(work.pmcid) or super().applies(work)

    def ask_tier(self, work: kit.Work) -> kit.Tier:
        """With a PMCID the usual file is tried first; other versions of it are looked up late."""
        return kit.Tier.LANDING_SCRAPE if work.pmcid else self.tier

    def candidates(self, work: kit.Work) -> kit.Candidates:
        if work.pmcid:
            places = (place for place in work.locations if kit.normalize_pmcid(place.landing_url) == work.pmcid)
            place = next(places, kit.Location())
            yield replace(next(self._usual(work.pmcid)), version=place.version, license=place.license)

    def resolve(self, work: kit.Work, context: kit.ResolverContext) -> kit.Resolution:
        if work.pmcid:
            return (yield from self._versions(work.pmcid))
        return (yield from super().resolve(work, context))

    def request(self, work: kit.Work, context: kit.ResolverContext) -> kit.Request:
        kind = "pmid" if work.pmid else "doi"
        return kit.batchable_request(self.item(work) or "", _MOST[kind], _convert, kind, context.contact_email or "")

    def read(self, data: object, work: kit.Work, response: kit.Response) -> kit.Candidates | None:
        """The files of the PMCID in an answer of the id converter."""
        if not isinstance(records := kit.dig(data, "records"), list):
            return None
        value = (self.item(work) or "").lower()
        own = (record for record in kit.objects(records) if str(record.get("requested-id")).lower() == value)
        pmcid = kit.normalize_pmcid(next(own, {}).get("pmcid"))
        return self._usual(pmcid) if pmcid else iter(())

    def _usual(self, pmcid: str) -> kit.Candidates:
        """The file names that nearly all articles have."""
        for rank, target in enumerate(_TARGETS, self.rank):
            yield self.candidate(f"https://{_BUCKET}/{pmcid}.1/{pmcid}.1.{target}", target, rank=rank)

    def _versions(self, pmcid: str) -> kit.Resolution:
        response = yield kit.api_request(f"https://{_BUCKET}/?list-type=2&prefix={pmcid}.&delimiter=/")
        if failed := kit.failure(response):
            return failed
        if b"<ListBucketResult" not in response.body:
            return kit.bad_answer("the bucket did not answer with a list")
        found: list[kit.JsonObject] = []
        for version in sorted(map(int, _VERSION.findall(response.body)), reverse=True)[:_MOST_VERSIONS]:
            response = yield kit.api_request(f"https://{_BUCKET}/metadata/{pmcid}.{version}.json")
            found.append(kit.mapping(kit.json_of(response)) if response.ok else {})
            if found[-1].get("is_manuscript") is False:
                break  # the publisher's newest version
        found.sort(key=lambda record: record.get("is_manuscript") is not False)
        return kit.result_of(self._candidates(found), "not in the open-access subset")

    def _candidates(self, records: Sequence[kit.JsonObject]) -> kit.Candidates:
        """The files of the best version that has any."""
        for record in records:
            version = "acceptedVersion" if record.get("is_manuscript") else "publishedVersion"
            stored = [(target, _STORED.fullmatch(str(record.get(f"{target}_url")))) for target in _TARGETS]
            for rank, (target, file) in enumerate(stored, self.rank):
                if file:
                    url = f"https://{_BUCKET}/{file[1]}"
                    yield from self.file(url, target, record.get("license_code"), version=version, rank=rank)
            if any(file for _, file in stored):
                return


def _convert(ids: Sequence[str], kind: str, contact: str) -> kit.Request:
    """The request to the id converter, which takes many ids of one kind."""
    query = {"ids": ",".join(ids), "idtype": kind, "format": "json", "tool": "DocsToKG", "email": contact}
    return kit.api_request(f"https://{_CONVERTER}/tools/idconv/api/v1/articles/", query)
