"""api.openalex.org: single works and lists, keys, budgets, and the errors for edge, plan and query.

`listing.py` selects the works of a query; `records.py` builds the records.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from dataclasses import dataclass, field
from typing import Any

from .. import records
from ..listing import Listing, PlanRequired, Query, QueryError, RawComma
from ..state import SandboxState
from ..universe import Work
from ..wire import Handler, Headers, Request, Response, json_response

_CREDIT = 0.0001  # dollars
_PRICING = "https://openalex.org/pricing"
_COSTS = {"singleton": 0, "list": 1, "search": 10, "content": 100, "semantic": 10, "text": 100}
_EDGE = ("limit",)  # parameters refused at the edge
_PARAMS = frozenset({"filter", "search", "select", "per_page", "per-page", "page", "cursor", "sort", "mailto",
                     "api_key", "corpus",
                     "data_version", "include_xpac", "group_by", "group-by", "sample", "seed"})  # fmt: skip


@dataclass
class _Account:
    name: str  # the key, or "" for callers without one
    tier: str  # anonymous | free | paid
    used: int = 0  # credits

    @property
    def limit(self) -> int:
        return {"anonymous": 1_000, "free": 10_000, "paid": 1_000_000}[self.tier]

    @property
    def per_second(self) -> int:
        return {"anonymous": 10, "free": 30, "paid": 50}[self.tier]

    @property
    def left(self) -> int:
        return max(0, self.limit - self.used)


@dataclass
class _Page:
    size: int
    number: int | None
    position: int  # of the first result
    cursor: bool


@dataclass
class _OpenAlex:
    state: SandboxState
    accounts: dict[str, _Account] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._listing = Listing(self.state.universe)

    # -- request handling

    def answer(self, request: Request) -> Response:
        edge = self._edge(request)
        if edge:
            return edge
        account = self._account(request)
        if account is None:
            return json_response({"error": "Invalid or missing API key", "message": "API key not found"}, 401)
        if request.path.rstrip("/") == "/rate-limit":
            return json_response(_usage(account))
        cost = self._cost(request)
        refusal = self._refuse(request, account, cost)
        if refusal:
            return refusal
        response = self._route(request, account)
        if response.status != 429:
            account.used += cost
        response.headers += _rate_headers(account, cost)
        return response

    def _edge(self, request: Request) -> Response | None:
        bad = next((name for name, _ in request.params if name in _EDGE), None)
        return _edge_reject(f"f2:{bad}_param", f"The parameter '{bad}' does not exist; use per_page.") if bad else None

    def _account(self, request: Request) -> _Account | None:
        bearer = request.headers.get("authorization", "")
        given = [v for k, v in request.params if k == "api_key"] + (
            [bearer[7:]] if bearer.lower().startswith("bearer ") else []
        )
        key = given[0].strip() if given else ""
        if given and not key.startswith("sandbox-"):
            return None
        tier = "anonymous" if not given else "paid" if key.startswith("sandbox-paid-") else "free"
        return self.accounts.setdefault(key, _Account(key, tier))

    def _cost(self, request: Request) -> int:
        ident = request.path.removeprefix("/works").strip("/")
        if ident and not ident.startswith("http"):
            return _COSTS["singleton"]
        return _COSTS["search" if request.param("search") or ".search:" in request.param("filter") else "list"]

    def _refuse(self, request: Request, account: _Account, cost: int) -> Response | None:
        rate = account.per_second
        if not self.state.windows.check(f"openalex-{account.name or 'anonymous'}", rate, 1.0, request):
            body = {"error": "Rate limit exceeded", "message": f"Rate limit exceeded: {rate} requests per second. "
                                                               f"Please slow down.",
                    "retryAfter": 1, "creditsRequired": cost, "creditsRemaining": account.left}  # fmt: skip
            return json_response(body, 429, [("Retry-After", "1")])
        if cost > account.left and self.state.windows.enforce:
            return _budget_spent(account, cost)
        return None

    def _route(self, request: Request, account: _Account) -> Response:
        parts = request.path.strip("/").split("/", 1)
        if parts[0] != "works":
            return _missing()
        try:
            return self._single(request, parts[1]) if len(parts) > 1 else self._list(request, account)
        except QueryError as error:
            return json_response({"error": "Invalid query parameters error.", "message": str(error)}, 400)
        except RawComma:
            return _edge_reject("f1:raw_comma_filter", "A filter value contains a raw comma; encode it or remove it.")
        except PlanRequired as error:
            message = (
                f'The "{error}" filter requires a Premium, Institutional, or Partner plan. See {_PRICING} for details.'
            )
            return json_response({"error": "Plan upgrade required", "message": message}, 429)

    # -- single works

    def _single(self, request: Request, ident: str) -> Response:
        work = self._find(ident)
        if work is None:
            return _missing()
        return json_response(self._selected(work, _select(request.param("select"))))

    def _find(self, ident: str) -> Work | None:
        universe = self.state.universe
        lowered = ident.lower()
        for prefix in ("https://doi.org/", "http://doi.org/", "https:/doi.org/", "doi.org/", "doi:"):
            if lowered.startswith(prefix):
                return universe.by_doi(ident[len(prefix) :])
        if lowered.startswith(("pmcid:", "pmid:")):
            return universe.by_pmcid(ident.partition(":")[2])
        return universe.by_openalex(ident)

    def _selected(self, work: Work, names: list[str] | None) -> dict[str, Any]:
        record = records.openalex(work, self.state.scenario_for(work))
        return {name: record[name] for name in names if name in record} if names else record

    # -- lists

    def _list(self, request: Request, account: _Account) -> Response:
        unknown = [name for name, _ in request.params if name not in _PARAMS]
        if unknown:
            raise QueryError(f"{unknown[0]} is not a valid parameter.")
        select = _select(request.param("select"))
        filters = request.param("filter")
        query = self._listing.parse(filters, request.param("search"), request.param("sort"), account.tier == "paid")
        group = request.param("group_by") or request.param("group-by")
        if group:
            return self._grouped(request, query, group)
        page = _page(request)
        count, works = self._listing.page(query, page.position, page.size)
        meta: dict[str, Any] = {
            "count": count, "db_response_time_ms": 12, "page": page.number, "per_page": page.size, "groups_count": None,
            "cost_usd": self._cost(request) * _CREDIT,
            "x_query": {"oql": "works where ...", "url": f"/works?filter={filters}"},
        }  # fmt: skip
        if page.cursor:
            meta["next_cursor"] = _cursor(query, page.position + len(works)) if works else None
        return json_response({"meta": meta, "results": [self._selected(w, select) for w in works], "group_by": []})

    def _grouped(self, request: Request, query: Query, group: str) -> Response:
        if group != "publication_year":
            raise QueryError(f"Group by {group} is not supported.")
        years = self._listing.years(query)
        meta = {
            "count": sum(years.values()), "db_response_time_ms": 12, "page": 1, "per_page": 200,
            "groups_count": len(years), "cost_usd": self._cost(request) * _CREDIT,
        }  # fmt: skip
        groups = [
            {"key": str(year), "key_display_name": str(year), "count": count}
            for year, count in sorted(years.items(), key=lambda item: -item[1])
        ]
        return json_response({"meta": meta, "results": [], "group_by": groups})


def _select(value: str) -> list[str] | None:
    if not value:
        return None
    names = [name.strip() for name in value.split(",")]
    bad = next((name for name in names if name not in records.ROOT_FIELDS), None)
    if bad is not None:
        raise QueryError(
            f"{bad} is not a valid select field. Valid fields for select are: {', '.join(sorted(records.ROOT_FIELDS))}."
        )
    return names


def _page(request: Request) -> _Page:
    size_text = request.param("per_page") or request.param("per-page") or "25"
    if not size_text.isdigit() or not 1 <= int(size_text) <= 200:
        raise QueryError("per-page parameter must be between 1 and 100")
    size, cursor, page = int(size_text), request.param("cursor"), request.param("page")
    if cursor and page:
        raise QueryError("Cannot use page and cursor parameters together.")
    if cursor:
        return _Page(size, None, 0 if cursor == "*" else _position(cursor), True)
    if page and (not page.isdigit() or int(page) < 1):
        raise QueryError("Page parameter must be a positive integer.")
    number = int(page or 1)
    if number * size > 10_000:
        raise QueryError(
            "Maximum results size of 10,000 records is exceeded. Cursor pagination is required for records beyond "
            "10,000."
        )
    return _Page(size, number, (number - 1) * size, False)


def _cursor(query: Query, position: int) -> str:
    return base64.b64encode(json.dumps([position, query.by]).encode()).decode()


def _position(cursor: str) -> int:
    try:
        position = json.loads(base64.b64decode(cursor.replace(" ", "+"), validate=True))[0]
        if isinstance(position, int) and position >= 0:
            return position
    except (ValueError, LookupError, TypeError):
        pass
    raise QueryError("Cursor value is invalid. The cursor value must be * or the next_cursor of an earlier answer.")


def _missing() -> Response:
    body = "<!doctype html>\n<html lang=en>\n<title>404 Not Found</title>\n<h1>Not Found</h1>\n"
    return Response(404, body.encode(), "text/html; charset=utf-8")


def _edge_reject(code: str, message: str) -> Response:
    return json_response({"error": "Invalid request rejected at the API edge", "error_source": "openalex-api-proxy",
                          "message": message},
                         400, [("x-openalex-edge-reject", code)])  # fmt: skip


def _until_midnight() -> int:
    now = dt.datetime.now(dt.UTC)
    return 86_400 - (now.hour * 3600 + now.minute * 60 + now.second)


def _budget_spent(account: _Account, cost: int) -> Response:
    wait, price, left = _until_midnight(), cost * _CREDIT, account.left * _CREDIT
    body = {
        "error": "Rate limit exceeded",
        "message": f"Insufficient budget. This request costs ${price:g} but you only have ${left:g} remaining. "
                   f"Resets at midnight "
                   f"UTC. Need more? Add funds at {_PRICING}",
        "retryAfter": wait, "costUsd": price, "dailyRemainingUsd": left, "prepaidRemainingUsd": 0,
        "creditsRequired": cost,
        "creditsRemaining": account.left, "onetimeCreditsRemaining": 0,
    }  # fmt: skip
    return json_response(body, 429, [("Retry-After", str(wait)), ("X-RateLimit-Remaining", str(account.left)),
                                     ("X-RateLimit-Credits-Required", str(cost)), ("X-RateLimit-Reset",
                                                                                   str(wait))])  # fmt: skip


def _rate_headers(account: _Account, cost: int) -> Headers:
    return [
        ("X-RateLimit-Limit", str(account.limit)), ("X-RateLimit-Remaining", str(account.left)),
        ("X-RateLimit-Credits-Used", str(cost)), ("X-RateLimit-Reset", str(_until_midnight())),
        ("X-RateLimit-Limit-USD", f"{account.limit * _CREDIT:g}"), ("X-RateLimit-Remaining-USD",
                                                                    f"{account.left * _CREDIT:.6g}"),
        ("X-RateLimit-Cost-USD", f"{cost * _CREDIT:g}"), ("X-RateLimit-Onetime-Remaining", "0"),
        ("X-RateLimit-Prepaid-Remaining-USD", "0"),
    ]  # fmt: skip


def _usage(account: _Account) -> dict[str, Any]:
    wait = _until_midnight()
    midnight = (dt.datetime.now(dt.UTC) + dt.timedelta(seconds=wait)).strftime("%Y-%m-%dT00:00:00.000Z")
    shown = f"{account.name[:4]}...{account.name[-4:]}" if account.name else None
    return {
        "api_key": shown, "is_grandfathered": False,
        "rate_limit": {
            "daily_budget_usd": account.limit * _CREDIT, "daily_used_usd": round(account.used * _CREDIT, 6),
            "daily_remaining_usd": round(account.left * _CREDIT, 6), "prepaid_balance_usd": 0,
            "prepaid_remaining_usd": 0,
            "prepaid_expires_at": None, "resets_at": midnight, "resets_in_seconds": wait,
            "endpoint_costs_usd": {k: round(v * _CREDIT, 6) for k, v in _COSTS.items()},
            "credits_limit": account.limit, "credits_used": account.used, "credits_remaining": account.left,
            "credit_costs": dict(_COSTS),
        },
    }  # fmt: skip


def hosts(state: SandboxState) -> dict[str, Handler]:
    return {"api.openalex.org": _OpenAlex(state).answer}
