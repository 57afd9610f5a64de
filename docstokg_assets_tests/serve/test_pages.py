"""The page "Save a paper" in a real browser, with script and without, on a phone and on a desk."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.serve.conftest import Start
from docstokg_assets_tests.support.dagster_ui import FLAGS, chromium

URL = "https://journal.press.org/article/1.pdf"
TOKEN = "a-token-of-thirty-two-characters"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = chromium()
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield running
        running.close()


@pytest.fixture(params=[360, 1280])
def context(browser: Browser, request: pytest.FixtureRequest) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": request.param, "height": 800})
    made.set_default_timeout(20_000)
    expect.set_options(timeout=20_000)
    yield made
    made.close()


def errors_of(page: Page) -> list[str]:
    """What the console says; a violation of the content-security policy is said there."""
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    return said


def fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


@pytest.mark.requirement("ING-8")
def test_a_paper_is_saved_and_what_is_asked_is_shown(
    context: BrowserContext, start: Start, small_sandbox: Sandbox
) -> None:
    small_sandbox.place({"url": URL, "pdf": 1})
    running, page = start(), context.new_page()
    errors = errors_of(page)
    page.goto(running.url)
    assert fits(page)
    page.get_by_label("DOIs or URLs").fill(f"{URL}\nhttps://journal.press.org/nothing-here\n")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("article")).to_have_count(2)
    expect(page.locator("article.hit .state")).to_contain_text("Saved: application/pdf")
    expect(page.locator("article.miss .state")).to_contain_text("No file")
    expect(page.locator("article.hit .host").last).to_have_text("journal.press.org")
    assert fits(page)
    with page.expect_download() as download:
        page.get_by_role("link", name="Get the file").click()
    assert download.value.path().read_bytes().startswith(b"%PDF")
    page.get_by_role("link", name="Full history").first.click()
    expect(page.get_by_role("heading", name="What was asked")).to_be_visible()
    assert fits(page)
    page.get_by_role("link", name="API").click()
    expect(page.get_by_text("POST /ingest", exact=True)).to_be_visible()
    assert fits(page)
    assert errors == []


@pytest.mark.requirement("ING-8")
def test_it_works_without_script(browser: Browser, start: Start, small_sandbox: Sandbox) -> None:
    small_sandbox.place({"url": URL, "pdf": 1})
    running = start()
    context = browser.new_context(java_script_enabled=False, viewport={"width": 360, "height": 700})
    page = context.new_page()
    page.set_default_timeout(20_000)
    page.goto(running.url)
    page.get_by_label("DOIs or URLs").fill(URL)
    page.get_by_role("button", name="Save").click()
    expect(page.locator("article.hit .state")).to_contain_text("Saved", timeout=20_000)  # the page reloads itself
    context.close()


def test_wrong_lines_are_named_and_nothing_is_sent(context: BrowserContext, start: Start) -> None:
    running, page = start(work=False), context.new_page()
    page.goto(running.url)
    page.get_by_label("DOIs or URLs").fill(f"{URL}\n<script>alert(1)</script>\nhttp://10.0.0.1/x")
    page.get_by_role("button", name="Save").click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("<script>alert(1)</script>")
    expect(alert).to_contain_text("http://10.0.0.1/x")
    expect(page.get_by_label("DOIs or URLs")).to_have_value(f"{URL}\n<script>alert(1)</script>\nhttp://10.0.0.1/x")
    assert running.parts.service.catalog.open_ingest_items(10) == 0
    assert fits(page)


@pytest.mark.requirement("ING-8")
def test_with_tokens_a_person_logs_in(context: BrowserContext, start: Start) -> None:
    running, page = start(work=False, serve__tokens=[TOKEN]), context.new_page()
    page.goto(f"{running.url}/docs")
    page.get_by_label("Token").fill("a-wrong-token-of-some-length")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("The token is wrong")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_url(f"{running.url}/docs")
    (session,) = [each for each in context.cookies() if each["name"] == "content_session"]
    assert session["httpOnly"]
    assert session["sameSite"] == "Strict"
    assert TOKEN not in session["value"]


@pytest.mark.requirement("ING-8")
def test_a_form_of_another_site_or_without_its_secret_is_refused(start: Start) -> None:
    running = start(work=False)
    with httpx.Client(base_url=running.url, trust_env=False) as http:
        page = http.get("/").text
        csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
        good = {"wanted": URL, "csrf": csrf, "type": "pdf"}
        assert http.post("/", data={**good, "csrf": "wrong"}).status_code == 403
        assert http.post("/", data=good, headers={"origin": "https://evil.example.org"}).status_code == 403
        assert httpx.post(f"{running.url}/", data=good, trust_env=False).status_code == 403  # without the cookie
        answer = http.post("/", data=good)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/saved?id=ingest-")
        assert http.get("/login", params={"next": "https://evil.example.org"}).text.count("evil") == 0
        assert http.post("/", data={**good, "wanted": "x\n" * 60_000}).status_code == 413
