"""Service level indicators, computed in SQL over the lake's views, and their evaluation against the objectives.

docs/telemetry.md defines the indicators. A work that will be retried (it has a `retry_at`) is not finished, and a dry run
finishes no works. `saved` means that a PDF or XML full text is in the store; works with HTML only are counted separately.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import duckdb

from docstokg_assets.lake.connection import fetch_dicts
from docstokg_assets.reporting.manifest import metrics_summary
from resources.records import Reason
from resources.scope import WorkScope

# Reasons of download errors that are raised before a request is sent.
_NOTHING_SENT = (Reason.REDIRECT_LOOP, Reason.BLOCKED_ADDRESS, Reason.BLOCKED_SCHEME, Reason.RETRY_AFTER)
SECOND_RUN_SHARE = 0.5  # the cache is judged if an earlier run sent at least this share of the cacheable requests


@dataclass(frozen=True, slots=True)
class Share:
    """Results of one tier, resolver or host: works tried with it, works saved from it."""

    name: str
    tried: int
    saved: int
    bytes: int

    @property
    def rate(self) -> float | None:
        return _ratio(self.saved, self.tried)


@dataclass(frozen=True, slots=True)
class Slis:
    scope: WorkScope
    finished: int
    saved: int
    html_only: int
    to_retry: int
    corrupt: int
    bytes: int
    ttfp_p50_s: float | None
    ttfp_p95_s: float | None
    requests_per_success: float | None
    works_per_s: float | None
    requests: int
    too_many: int  # answers 429
    cacheable: int
    cache_hits: int | None  # None: there is no cache
    asked_before: int  # cacheable requests whose URL an earlier run had requested
    rate_delay_p95_s: float | None
    breaker_opens: int
    retries: Mapping[int, int]  # try number -> requests
    reasons: Mapping[str, int]  # of finished works
    unknown_copies: int  # finished works without a known copy
    by_tier: Sequence[Share] = field(default=())
    by_resolver: Sequence[Share] = field(default=())
    by_host: Sequence[Share] = field(default=())

    @property
    def yield_(self) -> float | None:
        return _ratio(self.saved, self.finished)

    @property
    def yield_with_html(self) -> float | None:
        return _ratio(self.saved + self.html_only, self.finished)

    @property
    def yield_reachable(self) -> float | None:
        return _ratio(self.saved, self.finished - self.unknown_copies)

    @property
    def cache_hit_ratio(self) -> float | None:
        return None if self.cache_hits is None else _ratio(self.cache_hits, self.cacheable)

    @property
    def ratio_429(self) -> float | None:
        return _ratio(self.too_many, self.requests)

    @property
    def second_run(self) -> bool:
        return self.cacheable > 0 and self.asked_before >= SECOND_RUN_SHARE * self.cacheable

    def values(self) -> dict[str, float | None]:
        """Every indicator that is one number, by its public name."""
        return {name: getattr(self, _ATTRIBUTES.get(name, name)) for name in _INDICATORS.split()}


_ATTRIBUTES = {"yield": "yield_", "corruption": "corrupt"}
_INDICATORS = """yield yield_with_html yield_reachable ttfp_p50_s ttfp_p95_s cache_hit_ratio ratio_429 corruption finished saved
html_only to_retry bytes requests requests_per_success rate_delay_p95_s breaker_opens works_per_s"""


@dataclass(frozen=True, slots=True)
class Slo:
    name: str
    title: str
    comparison: str
    target: float
    unit: str  # share | s | count
    why: str

    @property
    def goal(self) -> str:
        return f"{self.comparison} {format_value(self.target, self.unit)}"

    def met(self, value: float) -> bool:
        return bool(_COMPARISONS[self.comparison](value, self.target))


_COMPARISONS = {"≥": operator.ge, "≤": operator.le, "<": operator.lt, "=": operator.eq}

SLOS: tuple[Slo, ...] = (
    Slo("yield", "Yield of finished works", "≥", 0.85, "share", "too many works have no full text"),
    Slo("ttfp_p50_s", "Time to full text per work, median", "≤", 3.0, "s", "a usual work should not wait for others"),
    Slo("ttfp_p95_s", "Time to full text per work, p95", "≤", 10.0, "s", "slow hosts must not hold up the others"),
    Slo("cache_hit_ratio", "Cache hits on a second run", "≥", 0.40, "share", "what was answered is not asked again"),
    Slo("ratio_429", "Answers 429", "<", 0.01, "share", "more means that we are faster than a host wants"),
    Slo("corruption", "Bad files kept", "=", 0, "count", "a file under its final name is whole"),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    name: str
    value: float | None
    target: float
    ok: bool | None  # None: nothing to compare
    sentence: str


def evaluate(slis: Slis) -> list[Verdict]:
    """Compare the indicators with their objectives."""
    values, verdicts = slis.values(), []
    for slo in SLOS:
        value = values[slo.name]
        judged = value is not None and (slo.name != "cache_hit_ratio" or slis.second_run)
        verdicts.append(_verdict(slo, value, slo.met(value or 0) if judged else None))
    return verdicts


def stored_verdicts(con: duckdb.DuckDBPyConnection, scope: WorkScope) -> list[Verdict]:
    """The verdicts that were last stored in the lake for a scope; empty when there are none."""
    stored = """SELECT name, value, ok FROM metrics WHERE scope = $scope
                QUALIFY computed_at = max(computed_at) OVER ()"""
    rows = {name: (value, ok) for name, value, ok in con.execute(stored, {"scope": str(scope)}).fetchall()}
    return [_verdict(slo, *rows[slo.name]) for slo in SLOS if slo.name in rows]


def _verdict(slo: Slo, value: float | None, ok: bool | None) -> Verdict:
    if value is None:
        sentence = f"{slo.title}: nothing to measure yet (goal {slo.goal})."
    elif ok is None:
        sentence = f"{slo.title}: a first run is not judged (goal {slo.goal})."
    else:
        result = f"{slo.title}: {format_value(value, slo.unit)} {'meets' if ok else 'misses'} the goal {slo.goal}"
        sentence = f"{result}." if ok else f"{result}; {slo.why}."
    return Verdict(slo.name, value, slo.target, ok, sentence)


def format_value(value: float | None, unit: str) -> str:
    """Format a number for people; a dash if there is none."""
    if value is None:
        return "–"
    if unit == "share":
        return f"{100 * value:.1f} %"
    return f"{value:.2f} s" if unit == "s" else f"{value:,.0f}"


def metric_rows(slis: Slis, computed_at: datetime) -> list[dict[str, Any]]:
    """Rows of the lake's table `metrics`: one for each indicator, with its verdict where there is an objective."""
    year = next(iter(slis.scope.years), None)
    same = {"year": year, "scope": str(slis.scope), "target": None, "ok": None, "computed_at": computed_at}
    judged = {verdict.name: {"target": verdict.target, "ok": verdict.ok} for verdict in evaluate(slis)}
    return [{**same, "name": name, "value": value, **judged.get(name, {})} for name, value in slis.values().items()]


def run_summary(con: duckdb.DuckDBPyConnection, scope: WorkScope) -> dict[str, Any]:
    """The counters of `manifest.metrics.json`, from the lake."""
    attempts = f"""SELECT resolver, role, status, reason, http_status, count(*) AS n
                   FROM attempts WHERE {scope.condition} GROUP BY ALL ORDER BY ALL"""
    outcomes = f"""SELECT resolver, classification, reason, retry_at, count(*) AS n
                   FROM outcomes WHERE {scope.condition} GROUP BY ALL ORDER BY ALL"""
    return metrics_summary(fetch_dicts(con, attempts, scope.parameters), fetch_dicts(con, outcomes, scope.parameters))


# `o` has the outcomes in scope, `a` the attempts, `asked` the run that first requested each URL. They are tables with the needed
# columns only, so that each part of the lake is read once.
_HERE = (
    """
CREATE OR REPLACE TEMP TABLE o AS
SELECT work_id, reason, kind, sha256, bytes, ttfp_ms, requests, tier, resolver, retry_at,
       regexp_extract(url, '^[a-z]+://(?:[^/@]*@)?([^/:?#]+)', 1) AS host,
       retry_at IS NULL AND reason <> 'dry-run' AS finished,
       retry_at IS NULL AND reason IN ('ok', 'not-modified') AS saved,
       retry_at IS NULL AND reason = 'html-only' AS html
FROM outcomes WHERE {scope}
""",
    """
CREATE OR REPLACE TEMP TABLE a AS
SELECT run_id, ts, work_id, tier, resolver, host, verb, status, http_status, attempt, cache_hit,
       hash(canonical_url) AS url_key,
       coalesce(TRY_CAST(json_extract_string(extra, '$.sleep_ms') AS DOUBLE), 0) AS sleep_ms,
       (NOT cache_hit OR status = 'http-304')
         AND (http_status IS NOT NULL OR status IN ('retry', 'size-mismatch', 'content-policy-skip')
         OR status = 'download-error' AND reason NOT IN ({nothing_sent})) AS sent,
       role IN ('metadata', 'landing') AND verb = 'GET' AND status IN ('http-get', 'http-304') AS cacheable
FROM attempts WHERE {scope}
""",
    """
CREATE OR REPLACE TEMP TABLE asked AS
SELECT hash(canonical_url) AS url_key, min(ts) AS first_asked, min_by(run_id, ts) AS first_run, bool_or(cache_hit) AS hit
FROM attempts
WHERE status IN ('http-get', 'http-304') AND role IN ('metadata', 'landing') AND {of_years} GROUP BY url_key
""",
)
_WORKS = """
SELECT count(*) FILTER (finished) AS finished, count(*) FILTER (saved) AS saved, count(*) FILTER (html) AS html_only,
       count(*) FILTER (retry_at IS NOT NULL) AS to_retry,
       count(*) FILTER (finished AND reason IN ('ok', 'html-only')
                        AND (kind = 'pdf_corrupt' OR sha256 IS NULL)) AS corrupt,
       coalesce(sum(bytes) FILTER (saved OR html), 0)::BIGINT AS bytes,
       quantile_cont(ttfp_ms, 0.5) FILTER (saved) / 1000 AS ttfp_p50_s,
       quantile_cont(ttfp_ms, 0.95) FILTER (saved) / 1000 AS ttfp_p95_s,
       sum(requests) / nullif(count(*) FILTER (saved), 0) AS requests_per_success,
       count(*) FILTER (finished)
         / nullif((SELECT sum(took) FROM (SELECT epoch(max(ts)) - epoch(min(ts)) AS took FROM a GROUP BY run_id)), 0)
         AS works_per_s,
       count(*) FILTER (finished AND reason = 'no-candidate') AS unknown_copies
FROM o
"""
_REQUESTS = """
SELECT count(*) FILTER (sent) AS requests,
       count(*) FILTER (sent AND http_status = 429) AS too_many,
       count(*) FILTER (cacheable) AS cacheable,
       CASE WHEN (SELECT bool_or(hit) FROM asked) THEN count(*) FILTER (cacheable AND cache_hit) END AS cache_hits,
       count(*) FILTER (cacheable AND ts > asked.first_asked AND run_id <> asked.first_run) AS asked_before,
       quantile_cont(sleep_ms, 0.95) FILTER (sent AND status <> 'retry') / 1000 AS rate_delay_p95_s,
       count(*) FILTER (status = 'breaker-open') AS breaker_opens
FROM a LEFT JOIN asked USING (url_key)
"""
_RETRIES = "SELECT attempt, count(*) AS n FROM a WHERE sent GROUP BY attempt ORDER BY attempt"
_REASONS = "SELECT reason, count(*) AS n FROM o WHERE finished GROUP BY reason ORDER BY n DESC, reason"
_SHARES = """
WITH tried AS (
  SELECT {column} AS name, count(DISTINCT work_id) AS tried FROM a
  WHERE {column} IS NOT NULL AND work_id IS NOT NULL AND (sent OR cache_hit) AND verb <> 'ROBOTS' GROUP BY name
), won AS (
  SELECT {column} AS name, count(*) AS saved, coalesce(sum(bytes), 0)::BIGINT AS bytes FROM o
  WHERE saved AND {column} IS NOT NULL GROUP BY name
)
SELECT name, greatest(coalesce(tried, 0), coalesce(saved, 0)) AS tried,
       coalesce(saved, 0) AS saved, coalesce(bytes, 0) AS bytes
FROM tried FULL JOIN won USING (name) WHERE name <> '' ORDER BY saved DESC, tried DESC, name
"""


def compute_slis(con: duckdb.DuckDBPyConnection, scope: WorkScope) -> Slis:
    """All indicators of a scope. The connection comes from `views.open_lake`."""
    nothing_sent = ", ".join(f"'{reason}'" for reason in _NOTHING_SENT)
    for statement in _HERE:
        words = {"scope": scope.condition, "of_years": WorkScope(scope.year).condition, "nothing_sent": nothing_sent}
        con.execute(statement.format(**words), scope.parameters if "$run_id" in statement.format(**words) else {})
    (works,), (requests,) = (fetch_dicts(con, part) for part in (_WORKS, _REQUESTS))
    return Slis(
        scope=scope,
        **works,
        **requests,
        retries={row["attempt"]: row["n"] for row in fetch_dicts(con, _RETRIES)},
        reasons={row["reason"]: row["n"] for row in fetch_dicts(con, _REASONS)},
        by_tier=_shares(con, "tier"),
        by_resolver=_shares(con, "resolver"),
        by_host=_shares(con, "host"),
    )


def _shares(con: duckdb.DuckDBPyConnection, column: str) -> tuple[Share, ...]:
    return tuple(Share(**row) for row in fetch_dicts(con, _SHARES.format(column=column)))


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
