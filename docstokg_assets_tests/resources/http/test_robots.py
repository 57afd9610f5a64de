"""robots.txt: read once for all, obeyed on landing pages and artifacts, and read as RFC 9309 says."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from docstokg_assets.sandbox import Sandbox
from resources.catalog.catalog import Catalog
from resources.clock import SystemClock
from resources.http import robots as robots_module
from resources.http.errors import HostClosed, Interrupted, RobotsRefused, RobotsUnavailable
from resources.http.exchange import Pause, Send
from resources.http.messages import Request, Role
from resources.http.robots import MAX_ROBOTS_BYTES, UNAVAILABLE_FOR_S, RobotsCache, RobotsRules
from resources.http.settings import RobotsSettings
from resources.records import Reason, Status

KEEPOUT = "www.keepout.example"  # forbids /private/
MUTE = "www.mute-robots.example"  # answers 503
NONE = "data.octavo.example"  # answers 404
PLAIN = "www.plainpages.example"


def paths(sandbox: Sandbox, host: str) -> list[str]:
    return [arrival["path"] for arrival in sandbox.arrivals(host)]


def page(host: str, path: str = "/", role: Role = Role.LANDING, **fields: Any) -> Request:
    return Request(f"https://{host}{path}", role, **fields)


@pytest.mark.requirement("HTTP-13")
@pytest.mark.parametrize("role", [Role.LANDING, Role.ARTIFACT])
def test_what_robots_forbids_is_not_asked_for(polite: Callable[..., Any], sandbox: Sandbox, role: Role) -> None:
    client = polite(through=sandbox, robots=True)
    with pytest.raises(RobotsRefused):
        client.ask(page(KEEPOUT, "/private/1.pdf", role))
    assert paths(sandbox, KEEPOUT) == ["/robots.txt"]
    assert client.told("verb", "status", "reason") == [
        ("ROBOTS", Status.ROBOTS_FETCH, Reason.OK),
        ("ROBOTS", Status.ROBOTS_DISALLOWED, Reason.ROBOTS),
    ]
    assert client.attempts[-1].url == f"https://{KEEPOUT}/private/1.pdf"
    assert client.ask(page(KEEPOUT)).ok  # the rest of the host is free


@pytest.mark.requirement("HTTP-13")
def test_each_hop_of_a_redirect_is_asked_about(polite: Callable[..., Any], sandbox: Sandbox) -> None:
    sandbox.add_fault(host=PLAIN, path="/go", redirect=f"https://{KEEPOUT}/private/1")
    with pytest.raises(RobotsRefused):
        polite(through=sandbox, robots=True).ask(page(PLAIN, "/go"))
    assert paths(sandbox, KEEPOUT) == ["/robots.txt"]


@pytest.mark.requirement("HTTP-13")
@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_host_without_robots_may_be_asked(polite: Callable[..., Any], sandbox: Sandbox, status: int) -> None:
    sandbox.add_fault(host=NONE, path="/robots.txt", status=status)
    assert polite(through=sandbox, robots=True).ask(page(NONE)).ok


@pytest.mark.requirement("HTTP-13")
def test_robots_that_leads_in_a_circle_counts_as_none(polite: Callable[..., Any], sandbox: Sandbox) -> None:
    sandbox.add_fault(host=PLAIN, path="/robots.txt*", loop=True)
    assert polite(through=sandbox, robots=True).ask(page(PLAIN)).ok


@pytest.mark.requirement("HTTP-13")
@pytest.mark.parametrize("fault", [{"status": 503}, {"delay": 5.0}, {"close": True}])
def test_a_robots_that_cannot_be_read_forbids_for_now(
    polite: Callable[..., Any], sandbox: Sandbox, fault: dict[str, Any]
) -> None:
    sandbox.add_fault(host=PLAIN, path="/robots.txt", **fault)
    client = polite(through=sandbox, robots=True, http={"timeout_read_s": 0.2})
    for _ in range(2):  # the second time from memory
        with pytest.raises(RobotsUnavailable) as caught:
            client.ask(page(PLAIN))
        assert caught.value.until == pytest.approx(time.time() + UNAVAILABLE_FOR_S, abs=10)
    assert set(paths(sandbox, PLAIN)) == {"/robots.txt"}
    assert len(sandbox.arrivals(PLAIN)) == 2  # one try and one retry
    assert client.told("status", "reason")[-1] == (Status.ROBOTS_DISALLOWED, Reason.ROBOTS_UNAVAILABLE)


@pytest.mark.requirement("HTTP-13")
def test_robots_is_read_once_for_many_at_a_time(polite: Callable[..., Any], sandbox: Sandbox) -> None:
    sandbox.add_fault(host=PLAIN, path="/robots.txt", delay=0.2)
    client = polite(through=sandbox, robots=True)
    answered: list[int] = []
    threads = [
        threading.Thread(target=lambda n=n: answered.append(client.ask(page(PLAIN, f"/?{n}")).status))
        for n in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert answered == [200] * 12
    assert paths(sandbox, PLAIN).count("/robots.txt") == 1


@pytest.mark.requirement("HTTP-13")
def test_whoever_waited_while_another_read_it_does_not_read_it_again(
    polite: Callable[..., Any], sandbox: Sandbox
) -> None:
    """One looks, finds nothing, and before it can begin, another one has finished."""
    client = polite(through=sandbox, robots=True)
    cache = client.client.robots
    begin = cache.begin_fetch

    def begin_late(host: str) -> bool:
        if PLAIN not in finished:
            finished.add(PLAIN)
            client.ask(page(PLAIN, "/?other"))
        return bool(begin(host))

    finished: set[str] = set()
    cache.begin_fetch = begin_late
    client.ask(page(PLAIN))
    assert paths(sandbox, PLAIN).count("/robots.txt") == 1


@pytest.mark.requirement("HTTP-13")
def test_robots_is_shared_by_all_clients_of_a_catalog(
    polite: Callable[..., Any], sandbox: Sandbox, catalog: Catalog
) -> None:
    for _ in range(2):
        polite(through=sandbox, robots=True, hosts=catalog).ask(page(PLAIN))
        with pytest.raises(RobotsRefused):
            polite(through=sandbox, robots=True, hosts=catalog).ask(page(KEEPOUT, "/private/"))
    assert paths(sandbox, PLAIN).count("/robots.txt") == 1
    assert paths(sandbox, KEEPOUT) == ["/robots.txt"]


@pytest.mark.requirement("HTTP-13")
def test_robots_counts_for_a_day(
    polite: Callable[..., Any], sandbox: Sandbox, fake_clock: Any, catalog: Catalog
) -> None:
    fake_clock.offset += catalog.now() - fake_clock.wall()
    client = polite(through=sandbox, robots=True, clock=fake_clock, hosts=catalog)
    for passed, fetched in ((0, 1), (86_300, 1), (200, 2)):
        fake_clock.now += passed
        client.ask(page(PLAIN))
        assert paths(sandbox, PLAIN).count("/robots.txt") == fetched


@pytest.mark.requirement("HTTP-13")
def test_every_port_of_a_host_has_its_own(polite: Callable[..., Any], serve: Callable[..., Any], answers: Any) -> None:
    strict = serve(answers.ok(b"User-agent: *\nDisallow: /\n"))
    open_door = serve(answers.ok(b""))
    client = polite(robots=True)
    with pytest.raises(RobotsRefused):
        client.ask(Request(f"{strict.url}/x", Role.LANDING))
    assert client.ask(Request(f"{open_door.url}/x", Role.LANDING)).ok


@pytest.mark.requirement("HTTP-13")
def test_metadata_requests_and_exempted_ones_do_not_ask(polite: Callable[..., Any], sandbox: Sandbox) -> None:
    client = polite(through=sandbox, robots=True)
    client.ask(page(KEEPOUT, "/private/1", Role.METADATA))
    client.ask(page(KEEPOUT, "/private/2", Role.ARTIFACT, obey_robots=False))
    polite(through=sandbox, robots=False).ask(page(KEEPOUT, "/private/3"))
    assert paths(sandbox, KEEPOUT) == ["/private/1", "/private/2", "/private/3"]


@pytest.mark.requirement("HTTP-13")
@pytest.mark.requirement("HTTP-10")
def test_a_crawl_delay_is_the_least_interval(polite: Callable[..., Any], sandbox: Sandbox) -> None:
    sandbox.add_fault(host=PLAIN, path="/robots.txt", status=200, body="User-agent: *\nCrawl-delay: 0.4\n")
    client = polite(through=sandbox, robots=True)
    for n in range(3):
        client.ask(page(PLAIN, f"/?{n}"))
    times = [arrival["time"] for arrival in sandbox.arrivals(PLAIN) if arrival["path"] != "/robots.txt"]
    assert [later - before >= 0.4 for before, later in pairwise(times)] == [True, True]
    waited = [record.extra.get("sleep_ms", 0) for record in client.attempts if record.verb == "GET"]
    assert waited[0] < 100 and min(waited[1:]) >= 300


@pytest.mark.requirement("HTTP-13")
@pytest.mark.parametrize(
    ("written", "delay"), [("10", 10.0), ("0", None), ("-3", None), ("nan", None), ("1e300", 86_400.0)]
)
def test_a_crawl_delay_is_taken_when_it_makes_sense(written: str, delay: float | None) -> None:
    rules = RobotsRules.parse(200, f"User-agent: *\nCrawl-delay: {written}\nDisallow: /x\n", 0.0, 60.0)
    assert rules.crawl_delay("DocsToKG-ContentDownload") == delay


@pytest.mark.requirement("HTTP-13")
def test_our_own_name_has_its_own_rules(polite: Callable[..., Any], sandbox: Sandbox) -> None:
    rules = "\ufeffUser-agent: docstokg-contentdownload\nDisallow: /not-us\n\nUser-agent: *\nDisallow: /\n"
    sandbox.add_fault(host=PLAIN, path="/robots.txt", status=200, body=rules)
    client = polite(through=sandbox, robots=True)
    assert client.ask(page(PLAIN)).ok
    with pytest.raises(RobotsRefused):
        client.ask(page(PLAIN, "/not-us/1"))


@pytest.mark.requirement("HTTP-13")
def test_a_byte_order_mark_hides_no_rule(polite: Callable[..., Any], sandbox: Sandbox) -> None:
    sandbox.add_fault(host=PLAIN, path="/robots.txt", status=200, body="\ufeffUser-agent: *\nDisallow: /x\n")
    with pytest.raises(RobotsRefused):
        polite(through=sandbox, robots=True).ask(page(PLAIN, "/x"))


@pytest.mark.requirement("HTTP-13")
def test_of_a_huge_robots_the_first_500_kib_count(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, catalog: Catalog
) -> None:
    """Fault 23. The cut falls into a rule of which the half that is left would forbid everything."""
    start, end = b"User-agent: *\nDisallow: /early\n", b"\nDisallow: /"
    lines = b"Disallow: /" + b"x" * 52 + b"\n"
    filler = (lines * (MAX_ROBOTS_BYTES // len(lines)))[: MAX_ROBOTS_BYTES - len(start) - len(end)]
    huge = start + filler + end + b"late\n" + lines * 120_000
    assert len(huge) > 8_000_000
    server = serve(lambda request: answers.ok(huge if request.path == "/robots.txt" else b"page"))
    client = polite(robots=True, hosts=catalog)
    with pytest.raises(RobotsRefused):
        client.ask(Request(f"{server.url}/early", Role.LANDING))
    for free in ("/", "/late"):
        assert client.ask(Request(f"{server.url}{free}", Role.LANDING)).body == b"page"
    row = catalog.robots(f"{server.host}:{server.port}")
    assert row is not None and MAX_ROBOTS_BYTES - 100 <= len(row.body) <= MAX_ROBOTS_BYTES


@pytest.mark.requirement("HTTP-13")
@pytest.mark.requirement("HTTP-4")
def test_a_host_that_wants_a_long_pause_is_closed_not_without_robots(
    polite: Callable[..., Any], sandbox: Sandbox, catalog: Catalog
) -> None:
    sandbox.add_fault(host=PLAIN, path="/robots.txt", status=429, headers={"Retry-After": "600"})
    client = polite(through=sandbox, robots=True, hosts=catalog)
    with pytest.raises(HostClosed):
        client.ask(page(PLAIN))
    assert len(sandbox.arrivals(PLAIN)) == 1
    assert client.told("status", "reason")[-1] == (Status.SKIPPED, Reason.RETRY_AFTER)
    assert catalog.robots(PLAIN) is None


@pytest.mark.requirement("HTTP-13")
def test_a_reading_that_is_interrupted_leaves_the_host_as_it_was(
    polite: Callable[..., Any], sandbox: Sandbox, catalog: Catalog
) -> None:
    client = polite(through=sandbox, robots=True, hosts=catalog)
    exchange = client.client.exchange(page(PLAIN), client.log)
    assert isinstance(next(exchange), Send)
    waiting = client.client.exchange(page(PLAIN), client.log)
    assert isinstance(next(waiting), Pause)  # somebody is reading it
    with pytest.raises(Interrupted):
        exchange.throw(Interrupted("the run is being ended"))
    assert catalog.robots(PLAIN) is None
    step = waiting.send(None)  # now it is this one's turn
    assert isinstance(step, Send) and step.url.endswith("/robots.txt")
    waiting.close()
    assert client.ask(page(PLAIN)).ok


@pytest.mark.requirement("HTTP-13")
def test_rules_of_very_many_hosts_are_obeyed_without_being_held_in_memory(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parsed, the largest robots.txt that is read takes eleven megabytes."""
    monkeypatch.setattr(robots_module, "_MAX_CHARACTERS", 5_000)
    cache = RobotsCache(catalog, SystemClock(), RobotsSettings())
    for number in range(20):
        cache.save(f"{number}.example", 200, "User-agent: *\nDisallow: /private\n" + "# a long story\n" * 60)
    read, robots = list[str](), Catalog.robots
    monkeypatch.setattr(Catalog, "robots", lambda self, host: read.append(host) or robots(self, host))
    for number in (0, 19, 0):
        rules = cache.rules(f"{number}.example")
        assert rules is not None and not rules.allows(f"https://{number}.example/private/1", "us")
    assert read == ["0.example"], "from the catalog, when it was not at hand any more"
