"""Requests are stored once, one URL is one item, and every request finds its answer; on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.ingest.service import IngestService, QueueFull
from resources.catalog.catalog import Catalog
from resources.catalog.database import Location
from resources.catalog.rows import Batch, Finished
from resources.records import Classification, DownloadOutcome, Reason
from resources.scope import ALL_INGEST, Lane, WorkScope

URL = "https://journal.example.org/a.pdf"


@pytest.fixture
def service(location: Location, tmp_path: Path) -> Iterator[IngestService]:
    with Catalog.open(location) as catalog:
        yield IngestService(catalog, ContentDownloadConfig(data_root=tmp_path))


def finish(service: IngestService, *, hit: bool, status: str, lanes: tuple[Lane, ...] = ()) -> list[str]:
    """Claim what is due and end it as an engine would."""
    catalog = service.catalog
    catalog.start_run("r", "ingest", "hash", {})
    scope = WorkScope(lanes=lanes) if lanes else ALL_INGEST
    items = catalog.claim("me", 100, 60, scope).items
    kind = Classification.SUCCESS if hit else Classification.ERROR
    outcome = DownloadOutcome(hit, None, kind, Reason.OK if hit else Reason.NO_PDF_LINK)
    for item in items:
        result = {"ingest_type": item.record["ingest"]["type"], "base_url": item.record["urls"][0]}
        result |= {"item_id": item.work_id, "hit": hit, "status": status, "tries": 1}
        done = Finished(item.work_id, item.year, None, None, outcome, "r", "hash", "me", result=result)
        catalog.commit(Batch(finished=[done]))
    return [item.work_id for item in items]


@pytest.mark.requirement("ING-2")
def test_only_new_requests_are_stored_and_one_url_is_one_item(service: IngestService) -> None:
    first = service.validate({"base_url": URL, "link_source": "unpaywall", "link_source_id": "10.5555/1"})
    second = service.validate({"base_url": URL, "link_source": "mag", "link_source_id": "7"})
    one, same, other = service.submit(first), service.submit(first), service.submit(second)
    assert (one.new, same.new, other.new) == (True, False, True)
    assert one.id == same.id != other.id
    assert one.item_id == other.item_id
    assert service.catalog.ingest_items() == {(Lane.PRIORITY, "queued"): 1}
    assert finish(service, hit=True, status="success") == [one.item_id]
    for request, submitted in ((first, one), (second, other)):
        result = service.result(submitted.id)
        assert result is not None
        assert (result.status, result.hit, result.request) == ("success", True, request.to_json())


@pytest.mark.requirement("ING-2")
def test_a_load_counts_what_is_new_and_answers_later_requests_at_once(service: IngestService) -> None:
    requests = [service.validate({"base_url": f"https://a.example.org/{n}.pdf"}) for n in range(12_000)]
    assert service.submit_many(requests, Lane.BULK) == (12_000, 12_000, 12_000, 0)
    assert service.submit_many(requests, Lane.BULK) == (12_000, 0, 0, 0)
    assert service.catalog.ingest_due(Lane.BULK, 20_000) == 12_000
    assert len(finish(service, hit=True, status="success")) == 100
    answered = [result for _, result in service.results()]
    assert len(answered) == 100
    late = service.validate({**answered[0].request, "link_source": "late", "link_source_id": "1"})
    last = max(revision for revision, _ in service.results())
    submitted = service.submit(late)
    assert [result.status for result in service.watch(submitted.id)] == ["success"]
    followed = [result.id for _, result in service.results(after=last)]  # whoever follows the results hears of it
    assert submitted.id in followed


@pytest.mark.requirement("ING-9")
def test_a_later_failure_never_erases_a_success(service: IngestService) -> None:
    again = service.validate({"base_url": URL, "force_recrawl": True})
    submitted = service.submit(again)
    finish(service, hit=False, status="no-pdf-link")
    assert service.submit(again).reopened
    finish(service, hit=True, status="success")
    assert service.submit(again).reopened
    finish(service, hit=False, status="no-pdf-link")
    result = service.result(submitted.id)
    assert result is not None
    assert (result.status, result.hit) == ("success", True)


@pytest.mark.requirement("ING-3")
def test_a_result_that_is_old_enough_is_not_fetched_again(service: IngestService) -> None:
    submitted = service.submit(service.validate({"base_url": URL}))
    finish(service, hit=True, status="success")
    assert not service.submit(service.validate({"base_url": URL, "max_age_days": 1})).reopened
    with service.catalog._write() as connection:
        connection.exec_driver_sql("UPDATE ingest_file_result SET updated = updated - 200000")
    assert service.submit(service.validate({"base_url": URL, "max_age_days": 1})).reopened
    assert finish(service, hit=True, status="success") == [submitted.item_id]


@pytest.mark.requirement("ING-9")
def test_a_priority_request_raises_a_url_that_waits_in_the_bulk_queue(service: IngestService) -> None:
    service.submit_many([service.validate({"base_url": f"https://a.example.org/{n}.pdf"}) for n in range(5)])
    wanted = service.submit(service.validate({"base_url": "https://a.example.org/3.pdf"}))
    assert not wanted.new
    assert finish(service, hit=True, status="success", lanes=(Lane.PRIORITY,)) == [wanted.item_id]


@pytest.mark.requirement("ING-1")
@pytest.mark.parametrize("kind", ["dataset", "component", "src", "hologram"])
def test_other_types_are_answered_at_once(service: IngestService, kind: str) -> None:
    submitted = service.submit(service.validate({"base_url": URL, "ingest_type": kind}))
    result = service.result(submitted.id)
    assert result is not None
    assert (result.status, result.hit, result.grobid) == ("not-implemented", False, None)
    assert kind in (result.error_message or "")
    assert service.catalog.ingest_items() == {}


@pytest.mark.requirement("ING-8")
def test_an_unknown_id_has_no_result_and_a_full_queue_says_so(service: IngestService, tmp_path: Path) -> None:
    assert service.result("ingest-0") is None
    assert list(service.watch("nonsense")) == []
    service.submit(service.validate({"base_url": URL}))
    small = ContentDownloadConfig.model_validate({"data_root": tmp_path, "ingest": {"max_open": 1}})
    full = IngestService(service.catalog, small)
    with pytest.raises(QueueFull, match=r"ingest\.max_open"):
        full.submit(full.validate({"base_url": "https://a.example.org/2.pdf"}))


@pytest.mark.requirement("ING-6")
def test_counts_are_by_type_source_and_status(service: IngestService) -> None:
    service.submit(service.validate({"base_url": "https://doi.org/10.5555/1"}))
    finish(service, hit=False, status="no-pdf-link")
    service.submit(service.validate({"base_url": "https://doi.org/10.5555/2"}))
    assert {(c.link_source, c.status): c.requests for c in service.counts()} == {
        ("doi", "no-pdf-link"): 1,
        ("doi", None): 1,
    }


@pytest.mark.requirement("ING-9")
def test_ingest_items_are_no_works(service: IngestService) -> None:
    """They count in no year, no sensor, no claim of works, and their outcomes are no outcomes of works."""
    catalog = service.catalog
    service.submit(service.validate({"base_url": URL}))
    assert catalog.claim("me", 10, 60).items == []
    assert catalog.claim("me", 10, 60, WorkScope(0)).items == []
    assert catalog.due_by_year() == []
    assert catalog.queue_counts().total == catalog.queue_counts(0).total == 0
    assert not catalog.has_more_works(0)
    assert catalog.queued_like(["journal"]) == []
    assert list(catalog.records_of_year(0)) == []
    assert not catalog.outlook(WorkScope()).due
    assert catalog.next_due() is None
    assert catalog.outlook(ALL_INGEST).due
    finish(service, hit=True, status="success")
    assert list(catalog.entries()) == []
    assert catalog.outcome_counts() == []
