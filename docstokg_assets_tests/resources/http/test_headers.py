"""How we introduce ourselves, as a server sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from docstokg_assets.sandbox import Sandbox
from resources.http.headers import robots_token, user_agent
from resources.http.messages import Request, Role
from resources.http.settings import HttpSettings

ACCEPT = {
    Role.METADATA: "application/json",
    Role.LANDING: "text/html",
    Role.ARTIFACT: "application/pdf, application/xml",
}


class Swallow:
    def write(self, chunk: bytes) -> None: ...

    def finish(self) -> str:
        return "swallowed"

    def abort(self) -> None: ...


@pytest.fixture
def seen(polite: Callable[..., Any], serve: Callable[..., Any], answers: Any) -> Callable[..., dict[str, str]]:
    """The headers that arrive for a role."""

    def ask(role: Role, http: dict[str, Any] | None = None, **fields: Any) -> dict[str, str]:
        server = serve(answers.ok())
        polite(http=http).ask(Request(server.url, role, **fields))
        headers: dict[str, str] = server.requests[0].headers
        return headers

    return ask


@pytest.mark.requirement("HTTP-5")
@pytest.mark.parametrize("role", list(Role))
def test_each_role_asks_for_what_it_wants_and_says_who_we_are(seen: Callable[..., Any], role: Role) -> None:
    headers = seen(role)
    assert headers["accept"] == ACCEPT[role]
    assert "DocsToKG-ContentDownload/" in headers["user-agent"]
    assert "mailto:team@example.org" in headers["user-agent"]
    assert headers["user-agent"].startswith("Mozilla/5.0") == (role is Role.LANDING)


@pytest.mark.requirement("HTTP-5")
def test_the_configured_accept_counts_for_landing_and_artifact(seen: Callable[..., Any]) -> None:
    wanted = {"accept": "application/pdf;q=1"}
    assert [seen(role, wanted)["accept"] for role in Role] == [
        ACCEPT[Role.METADATA],
        wanted["accept"],
        wanted["accept"],
    ]
    assert seen(Role.ARTIFACT, wanted, headers={"Accept": "text/plain"})["accept"] == "text/plain"


@pytest.mark.requirement("HTTP-5")
def test_a_body_that_is_kept_as_it_is_is_asked_for_without_coding(seen: Callable[..., Any]) -> None:
    assert seen(Role.ARTIFACT, sink=lambda head: Swallow())["accept-encoding"] == "identity"
    assert "gzip" in seen(Role.LANDING)["accept-encoding"]


@pytest.mark.requirement("HTTP-5")
def test_robots_is_asked_for_under_the_same_name(polite: Callable[..., Any], sandbox: Sandbox) -> None:
    host = "www.plainpages.example"
    polite(through=sandbox, robots=True).ask(Request(f"https://{host}/", Role.LANDING))
    agents = {arrival["user_agent"] for arrival in sandbox.arrivals(host)}
    assert len(sandbox.arrivals(host)) == 2
    assert len(agents) == 1 and "mailto:team@example.org" in agents.pop()


@pytest.mark.requirement("HTTP-5")
def test_a_product_name_of_ones_own_keeps_the_contact() -> None:
    settings = HttpSettings(user_agent="Finder/2 (mailto:me@example.org)", contact_email="me@example.org")
    assert user_agent(settings, Role.METADATA) == "Finder/2 (mailto:me@example.org)"
    assert user_agent(HttpSettings(), Role.METADATA).startswith("DocsToKG")
    assert robots_token(settings) == "Finder"
