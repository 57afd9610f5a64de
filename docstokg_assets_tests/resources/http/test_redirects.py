"""Following redirects: how far, with which cookies, and never with a key or onto ground that the guard forbids."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from docstokg_assets.sandbox import Sandbox
from resources.http.errors import AddressRefused, RedirectLoop, SchemeRefused
from resources.http.messages import Request, Role
from resources.records import Reason, Status

HOST = "www.plainpages.example"
PAGE = Request(f"https://{HOST}/", Role.LANDING)
CANARY = "CANARY-4711-key"


def numbered(answers: Any, last: int) -> Callable[[Any], bytes]:
    """/0 leads to /1, that to /2, and so on, until `last`."""

    def answer(request: Any) -> bytes:
        number = int(request.path.lstrip("/"))
        return answers.moved(f"/{number + 1}") if number < last else answers.ok()  # type: ignore[no-any-return]

    return answer


def test_ten_hops_are_followed_and_all_are_told(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any
) -> None:
    server = serve(numbered(answers, 10))
    client = polite()
    response = client.ask(Request(f"{server.url}/0", Role.LANDING))
    assert response.ok and response.url == f"{server.url}/10"
    assert response.hops == tuple(f"{server.url}/{n}" for n in range(10))
    assert [record.url for record in client.attempts] == [*response.hops, response.url]


def test_an_eleventh_hop_is_a_loop(polite: Callable[..., Any], serve: Callable[..., Any], answers: Any) -> None:
    server = serve(numbered(answers, 30))
    client = polite()
    with pytest.raises(RedirectLoop):
        client.ask(Request(f"{server.url}/0", Role.LANDING))
    assert len(server.requests) == 11
    assert client.told("status", "reason")[-1] == (Status.DOWNLOAD_ERROR, Reason.REDIRECT_LOOP)


def test_a_circle_is_noticed_at_its_first_return(polite: Callable[..., Any], sandbox: Sandbox) -> None:
    sandbox.add_fault(host=HOST, loop=True)
    with pytest.raises(RedirectLoop):
        polite(through=sandbox).ask(PAGE)
    # "/", then "?turn=1" and "?turn=0"; the next would be "?turn=1" again
    assert [arrival["path"] for arrival in sandbox.arrivals(HOST)] == ["/", "/?turn=1", "/?turn=0"]


def test_redirects_need_not_be_followed(polite: Callable[..., Any], serve: Callable[..., Any], answers: Any) -> None:
    server = serve(answers.moved("/elsewhere"))
    response = polite().ask(Request(server.url, Role.LANDING, follow_redirects=False))
    assert (response.status, response.headers["location"], len(server.requests)) == (302, "/elsewhere", 1)


@pytest.mark.requirement("HTTP-6")
@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "ftp://a.org/x", "data:text/plain,x", "https://[broken", "https://a.org:x/"]
)
def test_a_redirect_to_another_kind_of_thing_is_refused(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, target: str
) -> None:
    server = serve(answers.moved(target))
    client = polite()
    with pytest.raises(SchemeRefused):
        client.ask(Request(server.url, Role.ARTIFACT))
    assert len(server.requests) == 1
    assert client.told("reason")[-1] == (Reason.BLOCKED_SCHEME,)


@pytest.mark.requirement("HTTP-6")
@pytest.mark.parametrize("spelling", ["127.0.0.2", "127.2", "0x7f.2", "[::ffff:127.0.0.2]", "①②⑦.0.0.2"])
def test_a_redirect_to_a_private_address_is_refused(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, spelling: str
) -> None:
    inner = serve(answers.ok(), "127.0.0.2")
    target = f"http://{spelling}:{inner.port}/".encode().decode("latin-1")
    outer = serve(answers.moved(target))
    with pytest.raises(AddressRefused):
        polite(http={"allow_private_hosts": ("127.0.0.1",)}).ask(Request(outer.url, Role.ARTIFACT))
    assert inner.connections == 0


@pytest.mark.requirement("HTTP-6")
def test_a_redirect_from_https_to_http_is_asked_over_https(polite: Callable[..., Any], sandbox: Sandbox) -> None:
    other = "www.gatehouse.example"
    sandbox.add_fault(host=HOST, redirect=f"http://{other}/")
    response = polite(through=sandbox).ask(PAGE)
    assert (response.status, response.url) == (200, f"https://{other}/")
    assert len(sandbox.arrivals(other)) == 1  # over http the sandbox would have sent it on
    sandbox.clear_faults()
    sandbox.add_fault(host=HOST, redirect=f"http://{HOST}/")  # a site that wants http goes round in a circle
    with pytest.raises(RedirectLoop):
        polite(through=sandbox).ask(PAGE)


def test_a_location_in_utf8_is_understood(polite: Callable[..., Any], serve: Callable[..., Any], answers: Any) -> None:
    to = "/é".encode().decode("latin-1")  # these bytes, as servers send them
    server = serve(lambda request: answers.moved(to) if request.path == "/" else answers.ok())
    polite().ask(Request(server.url, Role.LANDING))
    assert server.requests[1].path == "/%C3%A9"


# -- cookies ----------------------------------------------------------------------------------------------------------


def door(request: Any, answers: Any) -> Any:
    """Lets in whoever shows its cookie, and hands it to all others."""
    passed = "pass=1" in request.headers.get("cookie", "")
    return answers.ok() if passed else answers.moved("/", Set_Cookie="pass=1; Path=/")


def test_a_site_that_sets_a_cookie_and_sends_the_visitor_back_is_passed(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any
) -> None:
    server = serve(lambda request: door(request, answers))
    client = polite()
    for expected in (2, 3):  # the door is open the second time
        assert client.ask(Request(server.url, Role.LANDING)).ok
        assert len(server.requests) == expected
    keyed = Request(server.url, Role.LANDING, secret_headers={"X-Api-Key": CANARY})
    assert client.ask(keyed).ok and client.ask(Request(server.url, Role.LANDING)).ok
    assert len(server.requests) == 6  # what was said to the bearer of a key is not remembered


def test_the_cookies_of_a_host_that_turns_us_away_are_dropped(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any
) -> None:
    def answer(request: Any) -> Any:
        if request.path == "/worn":
            return answers.ok(b"", "403 Forbidden")
        return answers.ok(b"x", Set_Cookie="pass=1; Path=/")

    server = serve(answer)
    client = polite()
    for path in ("/", "/worn", "/"):
        client.ask(Request(f"{server.url}{path}", Role.LANDING))
    assert ["cookie" in request.headers for request in server.requests] == [False, True, False]


def test_cookies_are_remembered_for_a_while_and_not_for_ever(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, fake_clock: Any
) -> None:
    server = serve(answers.ok(b"x", Set_Cookie="pass=1; Path=/"))
    client = polite(clock=fake_clock, http={"remember_cookies_s": 600})
    for _ in range(4):  # each visit is handed the cookie again, which does not prolong it
        client.ask(Request(server.url, Role.LANDING))
        fake_clock.now += 250.0
    assert ["cookie" in request.headers for request in server.requests] == [False, True, True, False]


def test_cookies_are_kept_within_the_chain_of_redirects_where_that_is_wanted(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any
) -> None:
    server = serve(lambda request: door(request, answers))
    client = polite(http={"remember_cookies_s": 0})
    assert all(client.ask(Request(server.url, Role.LANDING)).ok for _ in range(2))
    assert ["cookie" in request.headers for request in server.requests] == [False, True, False, True]


@pytest.mark.parametrize("size", [10, 1000])
def test_a_host_that_hands_out_cookies_without_end_cannot_fill_our_memory(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, size: int
) -> None:
    server = serve(lambda request: answers.ok(b"x", Set_Cookie=f"c{request.number}={'y' * size}; Path=/"))
    client = polite()
    for _ in range(120):
        assert client.ask(Request(server.url, Role.LANDING)).ok
    longest = max(len(request.headers.get("cookie", "")) for request in server.requests)
    assert 1000 < longest < 10_000 if size == 1000 else 100 < longest < 1000


def test_cookies_are_not_shown_to_others(polite: Callable[..., Any], serve: Callable[..., Any], answers: Any) -> None:
    elsewhere = serve(answers.ok(), "127.0.0.2")
    other_door = serve(answers.moved(elsewhere.url))
    first = serve(answers.moved(other_door.url, Set_Cookie="session=CANARY"))
    assert polite().ask(Request(first.url, Role.LANDING)).ok
    for server in (other_door, elsewhere):
        assert "cookie" not in server.requests[0].headers


# -- keys -------------------------------------------------------------------------------------------------------------


def with_keys(url: str) -> Request:
    return Request(
        url,
        Role.METADATA,
        secret_headers={"X-Api-Key": CANARY, "Authorization": CANARY},
        secret_params={"pass": CANARY},
    )


def shown_keys(request: Any) -> bool:
    return CANARY in f"{request.line} {request.headers}"


@pytest.mark.requirement("HTTP-14")
def test_keys_go_to_their_own_origin_only(polite: Callable[..., Any], serve: Callable[..., Any], answers: Any) -> None:
    """Over a redirect of the host itself, then to another port, another host, and back: each sees what is its own."""
    known: dict[str, Any] = {}
    back = serve(lambda request: answers.moved(f"{known['first'].url}/end"), "127.0.0.2")
    other_port = serve(lambda request: answers.moved(back.url))

    def own(request: Any) -> Any:
        steps = {"/": answers.moved("/next"), "/next": answers.moved(other_port.url)}
        return steps.get(request.path.partition("?")[0], answers.ok())

    first = known["first"] = serve(own)
    client = polite()
    assert client.ask(with_keys(f"{first.url}/")).ok
    assert [shown_keys(request) for request in first.requests] == [True, True, False]
    assert [r.headers["x-api-key"] for r in first.requests[:2]] == [CANARY] * 2
    assert first.requests[0].path == f"/?pass={CANARY}"
    assert not any(shown_keys(request) for server in (other_port, back) for request in server.requests)
    assert len(other_port.requests) == len(back.requests) == 1


@pytest.mark.requirement("HTTP-14")
def test_no_attempt_shows_a_key(polite: Callable[..., Any], serve: Callable[..., Any], answers: Any) -> None:
    """Not even when the server repeats it in a Location, under any name, fails, hangs up, or leads nowhere."""

    def answer(request: Any) -> Any:
        if request.number == 1:
            return answers.ok(b"", "503 Busy")
        if request.number == 2:
            return None
        return answers.moved(
            f"/again?odd={CANARY}&api_key={CANARY}" if request.number == 3 else f"https://me:{CANARY}@[x"
        )

    server = serve(answer)
    client = polite()
    with pytest.raises(SchemeRefused) as caught:
        client.ask(with_keys(f"http://me:{CANARY}@{server.host}:{server.port}/?api_key={CANARY}"))
    assert len(client.attempts) == 5
    written = json.dumps([asdict(record) for record in client.attempts], default=str)
    assert CANARY not in written
    assert CANARY not in str(caught.value)


@pytest.mark.requirement("HTTP-14")
def test_keys_pass_over_tls_and_stay_with_their_host(polite: Callable[..., Any], sandbox: Sandbox) -> None:
    other = "www.gatehouse.example"
    sandbox.add_fault(host=HOST, redirect=f"https://{other}/")
    polite(through=sandbox).ask(with_keys(f"https://{HOST}/"))
    assert [arrival["path"] for arrival in sandbox.arrivals(HOST)] == [f"/?pass={CANARY}"]
    assert [arrival["path"] for arrival in sandbox.arrivals(other)] == ["/"]
