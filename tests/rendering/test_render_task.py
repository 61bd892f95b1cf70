"""The task from lease to copy, with a real browser and database."""

from __future__ import annotations

import threading
import uuid
from typing import cast

import pytest
from django.db import DatabaseError, connection
from django.db.backends.postgresql.base import DatabaseWrapper
from pytest_httpserver import HTTPServer

from renderqueue.models import CachedCopy, Lease, RenderSchedule, Site
from renderqueue.rendering import copies, counts, host
from renderqueue.rendering.browser import BrowserHost
from renderqueue.rendering.chromium import ChromiumMissing
from renderqueue.rendering.tasks import render_page
from renderqueue.scheduling import fence, leases
from tests.factories import LONG_AGO, make_page, make_site
from tests.rendering.conftest import Pages
from tests.rendering.holding import Held
from tests.rendering.leased import claimed

pytestmark = [pytest.mark.chromium, pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def site(origin: HTTPServer) -> Site:
    address = f"{origin.host}:{origin.port}"
    return make_site(
        host=address,
        origin=f"http://{address}",
        allowed_private_hosts=[address],
        devices=["desktop", "mobile"],
    )


@pytest.fixture(autouse=True)
def _one_browser(browser_host: BrowserHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_host", browser_host)


def counted(name: str) -> int:
    return counts.counts().get(name, 0)


def test_a_leased_page_becomes_a_copy_per_device(site: Site, serve: Pages) -> None:
    serve("/p", "<p id=p></p><script>p.textContent = innerWidth > 1000 ? 'wide' : 'narrow'</script>")
    page = make_page(site, "/p")
    token = claimed(page)
    render_page(page.pk, str(token))
    copies = {copy.device: copy for copy in CachedCopy.objects.select_related("body")}
    assert set(copies) == {"desktop", "mobile"}
    assert copies["desktop"].body_id != copies["mobile"].body_id
    assert not Lease.objects.exists()
    row = RenderSchedule.objects.get()
    assert row.due_at is not None
    assert row.due_at > LONG_AGO
    assert row.last_outcome == "stored-200"


def test_a_token_is_good_for_one_render(site: Site, serve: Pages, origin: HTTPServer) -> None:
    serve("/p", "<p>x</p>")
    page = make_page(site, "/p")
    token = claimed(page)
    render_page(page.pk, str(token))
    before, asked = counted(counts.DROPPED), len(origin.log)
    row = RenderSchedule.objects.values().get()
    render_page(page.pk, str(token))
    render_page(page.pk, str(uuid.uuid4()))
    assert counted(counts.DROPPED) == before + 2
    assert len(origin.log) == asked
    assert RenderSchedule.objects.values().get() == row


def test_a_lost_lease_stops_its_render_and_leaves_the_page_as_it_was(site: Site, origin: HTTPServer) -> None:
    held = Held(origin, "/p")
    page = make_page(site, "/p")
    token = claimed(page)
    before = RenderSchedule.objects.values().get()
    task = threading.Thread(target=render_page, args=[page.pk, str(token)])
    task.start()
    held.wait_until_asked()
    fence.stop_renders([token])
    task.join(10)
    assert not task.is_alive()
    held.release()
    assert not Lease.objects.exists()
    assert RenderSchedule.objects.values().get() == before


def test_no_connection_is_held_while_a_page_renders(site: Site, origin: HTTPServer) -> None:
    held = Held(origin, "/p", "<p>x</p>")
    page = make_page(site, "/p")
    token = claimed(page)
    pool = cast(DatabaseWrapper, connection).pool
    assert pool is not None
    connection.close()
    before = pool.get_stats()  # threads of other tests may hold some
    task = threading.Thread(target=render_page, args=[page.pk, str(token)])
    task.start()
    held.wait_until_asked()
    statistics = pool.get_stats()
    in_use = statistics["pool_size"] - statistics["pool_available"]
    assert in_use <= before["pool_size"] - before["pool_available"]
    held.release()
    task.join(20)
    assert CachedCopy.objects.count() == 2


def test_a_result_that_cannot_be_stored_keeps_the_lease(
    site: Site, serve: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve("/p", "<p>x</p>")
    page = make_page(site, "/p")
    token = claimed(page)
    before = RenderSchedule.objects.values().get()

    def full(*_: object) -> None:
        raise DatabaseError("no space left on device")

    monkeypatch.setattr(copies, "store", full)
    render_page(page.pk, str(token))
    assert Lease.objects.get().token == token
    assert RenderSchedule.objects.values().get() == before, "the whole transaction was undone"


def test_a_result_that_comes_after_the_lease_is_refused(site: Site, origin: HTTPServer) -> None:
    held = Held(origin, "/p", "<p>x</p>")
    page = make_page(site, "/p")
    token = claimed(page)
    task = threading.Thread(target=render_page, args=[page.pk, str(token)])
    task.start()
    held.wait_until_asked()
    late = counted(counts.LATE)
    leases.abandon(token)
    held.release()
    task.join(20)
    assert counted(counts.LATE) == late + 1
    assert not CachedCopy.objects.exists()


def test_without_a_browser_a_page_waits_and_counts_nothing_against_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(_: str) -> None:
        raise ChromiumMissing("no Chromium was found")

    monkeypatch.setattr(host, "_host", None)
    monkeypatch.setattr(host, "find_chromium", none)
    page = make_page(site, "/p")
    render_page(page.pk, str(claimed(page)))
    row = RenderSchedule.objects.get()
    assert (row.last_outcome, row.failures, row.retries) == ("browser-lost", 0, 1)
    assert row.retry_at is not None
    assert not Lease.objects.exists()


def test_a_host_that_a_render_may_not_reach_is_named_in_the_outcome(site: Site) -> None:
    Site.objects.update(allowed_private_hosts=[])
    page = make_page(site, "/p")
    render_page(page.pk, str(claimed(page)))
    row = RenderSchedule.objects.get()
    assert (row.last_outcome, row.failures) == (f"egress-refused {site.origin.removeprefix('http://')}", 1)
