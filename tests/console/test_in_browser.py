"""The overview in a real Chromium: it follows the reports by itself, and breaks no rule of its policy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect, sync_playwright
from pytest_django.live_server_helper import LiveServer

from tests.console.conftest import PASSWORD, Reporting, head_of, make_person
from tests.factories import make_page, make_site

pytestmark = [pytest.mark.postgres, pytest.mark.chromium, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def tab(chromium_path: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    # Playwright's synchronous API runs a loop in this thread, and this thread also writes reports.
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=options)
        yield browser.new_page()
        browser.close()


def sign_in(tab: Page, live_server: LiveServer, then: str = "/") -> None:
    make_person("operator", is_staff=True, is_superuser=True)
    tab.goto(f"{live_server.url}/sign-in/?next={then}")
    tab.get_by_label("Username").fill("operator")
    tab.get_by_label("Password").fill(PASSWORD)
    tab.get_by_role("button", name="Sign in").click()


def complaints_of(tab: Page) -> list[str]:
    said: list[str] = []
    tab.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: said.append(str(error)))
    return said


def test_the_overview_follows_the_reports_without_a_complaint(
    tab: Page, live_server: LiveServer, reporting: Reporting
) -> None:
    complaints = complaints_of(tab)
    site = make_site(host="books.test")
    rows = [make_page(site, f"/{number}") for number in range(3)]
    reporting(due=1, claimable=1, head=head_of(rows[0]), coming=[5] * 24)
    sign_in(tab, live_server)
    expect(tab.locator("#status-sentence")).to_contain_text("Queued: 1 page is due")
    tab.get_by_text("As a table").click()

    reporting(due=3, claimable=3, head=head_of(*reversed(rows), kind="urgent"), coming=[7] * 24)

    expect(tab.locator("#status-sentence")).to_contain_text("Queued: 3 pages are due", timeout=10_000)
    assert tab.locator("tr[id^=page-] th span").all_text_contents() == [
        "https://books.test/2", "https://books.test/1", "https://books.test/0",
    ]  # fmt: skip
    assert tab.locator("details").first.get_attribute("open") is not None, "what a person opened stays open"
    assert complaints == []


def test_a_hidden_tab_asks_nothing_and_catches_up_when_it_is_seen(
    tab: Page, live_server: LiveServer, reporting: Reporting
) -> None:
    reporting()
    sign_in(tab, live_server)
    expect(tab.locator("#status-sentence")).to_contain_text("Empty")
    _pretend_hidden(tab, True)
    asked: list[Any] = []
    tab.on("request", lambda request: asked.append(request) if request.url.endswith("/live/") else None)
    reporting(due=3, claimable=3)
    tab.wait_for_timeout(4_500)  # two turns of the clock that must not ask
    assert asked == []
    _pretend_hidden(tab, False)
    expect(tab.locator("#status-sentence")).to_contain_text("Queued: 3 pages", timeout=1_500)


def test_a_page_that_is_cut_off_says_so_and_recovers(tab: Page, live_server: LiveServer, reporting: Reporting) -> None:
    reporting()
    sign_in(tab, live_server)
    tab.route("**/live/", lambda route: route.abort())
    expect(tab.locator("#connection")).to_contain_text("Not updated since", timeout=10_000)
    tab.unroute("**/live/")
    expect(tab.locator("#connection")).to_be_hidden(timeout=10_000)


@pytest.mark.parametrize(
    "path", ["/sites/", "/sites/new/", "/sites/{site}/", "/admin/", "/admin/renderqueue/renderschedule/"]
)
def test_no_page_breaks_its_policy(tab: Page, live_server: LiveServer, path: str) -> None:
    site = make_site()
    make_page(site)
    complaints = complaints_of(tab)
    sign_in(tab, live_server, then="/sites/")
    tab.goto(live_server.url + path.format(site=site.pk), wait_until="networkidle")
    # Unfold's pages name no icon, and a browser then asks for one.
    assert [text for text in complaints if "404" not in text] == []


def _pretend_hidden(tab: Page, hidden: bool) -> None:
    tab.evaluate(
        """hidden => {
            Object.defineProperty(document, "hidden", {configurable: true, get: () => hidden});
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )
