"""Judge a year: is it covered, do hosts answer, did the source list what it listed before? The bounds are settings (`checks`)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from docstokg_assets.reporting.settings import CheckSettings
from resources.catalog.checked import HostContact, Listing
from resources.catalog.rows import QueueCounts

_FEW_REQUESTS, _FEW_HOSTS = 10, 3  # fewer of both say nothing about the network


class Level(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Judgement(NamedTuple):
    level: Level
    sentence: str
    share: float | None = None


def judge_coverage(counts: QueueCounts, listings: Sequence[Listing], bounds: CheckSettings) -> Judgement:
    """Compare the finished works with the known ones. A year of which no full listing succeeded is not complete."""
    share = counts.done / counts.total if counts.total else None
    said = f"{counts.done:,} of {counts.total:,} known works are finished" + (
        "" if share is None else f" ({share:.1%})"
    )
    rest = (
        f"{counts.parked + counts.retry:,} waiting, {counts.total - counts.done - counts.parked - counts.retry:,} to do"
    )
    level = Level.OK if share is None else _below(share, bounds.coverage_warn_below, bounds.coverage_fail_below)
    if level is not Level.OK:
        bound = bounds.coverage_fail_below if level is Level.FAIL else bounds.coverage_warn_below
        said += f", less than {bound:.0%}: {rest}. The table `waiting for` of downloaded_artifacts says for what"
    if share == 0 or (share is None and not listings):
        return Judgement(Level.WARN if share is None else level, f"{said}.", share)
    full = [listing for listing in listings if listing.changed_since is None]
    if not any(listing.complete for listing in full):
        why = "its only full listing broke off" if full else "only changes were listed, or an older version listed it"
        said += f". Works are missing: {why}. Materialise openalex_works of this year to list it in full"
        level = Level.WARN if level is Level.OK else level
    return Judgement(level, f"{said}.", share)


def judge_contacts(contacts: Sequence[HostContact], bounds: CheckSettings) -> Judgement:
    """Judge from the requests of a pass whether the network was there."""
    sent, unanswered = sum(each.sent for each in contacts), sum(each.unanswered for each in contacts)
    silent = [each for each in contacts if each.unanswered == each.sent]
    if not sent:
        refused = sum(each.refused for each in contacts)
        held = f"Nothing was sent: the circuit breakers of {len(contacts)} hosts are open after earlier failures."
        return Judgement(Level.WARN, held) if refused else Judgement(Level.OK, "No requests were needed.")
    share = unanswered / sent
    said = f"{unanswered:,} of {sent:,} requests got no answer ({share:.1%}), {len(silent)} of {len(contacts)} hosts gave none"
    if sent < _FEW_REQUESTS and len(contacts) < _FEW_HOSTS:
        return Judgement(Level.OK, f"{said}; too few to judge.", share)
    level = _above(share, bounds.unanswered_warn_above, bounds.unanswered_fail_above)
    if level is Level.OK:
        return Judgement(level, f"{said}.", share)
    cause = "Check the network, DNS and http.proxy" if len(silent) > len(contacts) / 2 else "See the table of hosts"
    return Judgement(level, f"{said}. {cause}; works are kept and tried again by the next pass.", share)


def judge_listing(listings: Sequence[Listing], bounds: CheckSettings) -> Judgement:
    """Compare the newest full listing of a year with the one before. `listings`: newest first."""
    full = [listing for listing in listings if listing.changed_since is None]
    if not full:
        return Judgement(Level.OK, "No full listing of this year is on record.")
    newest, *before = full
    earlier = next((listing for listing in before if listing.complete), None)
    said = f"{newest.works:,} works listed"
    if not newest.complete:
        return Judgement(Level.WARN, f"{said} before the listing broke off; the next run continues it.")
    narrower = earlier is not None and (earlier.filter, earlier.source) != (newest.filter, newest.source)
    told = f" The selection changed from `{earlier.filter or earlier.source}`." if earlier and narrower else ""
    if newest.works == 0 and (earlier is None or earlier.works == 0):
        return Judgement(
            Level.WARN, f"{said}. Check openalex.filter, or ignore this for a year without such works.{told}", 0.0
        )
    if earlier is None or earlier.works == 0:
        return Judgement(Level.OK, f"{said}.{told}")
    share = newest.works / earlier.works
    level = _below(share, bounds.listing_warn_below, bounds.listing_fail_below)
    said += f", {earlier.works:,} before ({share:.1%})"
    if level is Level.OK:
        return Judgement(level, f"{said}.{told}", share)
    remedy = (
        told or f" The selection is the same (`{newest.filter or newest.source}`): check the source, and list again."
    )
    return Judgement(level, f"{said}: far fewer.{remedy} Works that were listed before are kept.", share)


def _below(value: float, warn: float, fail: float) -> Level:
    return Level.FAIL if value < fail else Level.WARN if value < warn else Level.OK


def _above(value: float, warn: float, fail: float) -> Level:
    return Level.FAIL if value > fail else Level.WARN if value > warn else Level.OK
