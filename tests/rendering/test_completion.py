"""How a render ends: one transaction, one next time, and a failure that takes nothing away."""

from __future__ import annotations

import datetime as dt
import gzip
import uuid

import brotli
import pytest

from renderqueue.models import Body, CachedCopy, DeletionDebt, Lease, RenderSchedule
from renderqueue.rendering.completion import complete
from renderqueue.rendering.job import DeviceRender, Fault
from renderqueue.rendering.verdict import Kind
from renderqueue.scheduling import rows
from tests.factories import LONG_AGO, make_page, make_site
from tests.rendering.leased import render_ends, shown, started

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]

GONE = DeviceRender("desktop", status=404)
TIMEOUT = DeviceRender("desktop", status=200, fault=Fault.TIMEOUT, detail="too slow")


def now_of(page: RenderSchedule) -> RenderSchedule:
    return RenderSchedule.objects.get(pk=page.pk)


def test_a_good_render_stores_a_copy_and_sets_one_deadline() -> None:
    page = make_page(make_site(default_interval_s=7200))
    verdict = render_ends(page, shown("<p>hello</p>"))
    assert verdict is not None
    assert verdict.kind is Kind.STORED
    row, copy = now_of(page), CachedCopy.objects.get(page=page)
    assert row.due_at is not None
    assert row.due_at.second == 0
    assert copy.expires_at == row.due_at
    assert dt.timedelta(seconds=7200 - 60) <= row.due_at - copy.rendered_at <= dt.timedelta(seconds=7200)
    assert copy.render_started_at < copy.rendered_at == copy.changed_at
    assert (copy.route_id_then, copy.sitemap_id_then) == (page.route_id, None)
    assert (row.last_outcome, row.failures, row.retries, row.retry_at) == ("stored-200", 0, 0, None)
    assert not Lease.objects.exists()


def test_both_forms_of_a_body_give_the_page_back() -> None:
    page = make_page(make_site())
    render_ends(page, shown("<p>Grüße</p>" * 500))
    body = Body.objects.get()
    assert brotli.decompress(bytes(body.br)) == gzip.decompress(bytes(body.gzip)) == ("<p>Grüße</p>" * 500).encode()
    assert body.size == len(("<p>Grüße</p>" * 500).encode())


def test_a_render_that_changed_nothing_writes_no_body() -> None:
    page = make_page(make_site())
    render_ends(page, shown("<p>same</p>"))
    before, body = CachedCopy.objects.get(), Body.objects.get()
    render_ends(page, shown("<p>same</p>"))
    after = CachedCopy.objects.get()
    assert Body.objects.get().created_at == body.created_at
    assert after.changed_at == before.changed_at
    assert after.rendered_at > before.rendered_at
    assert not DeletionDebt.objects.exists()


def test_a_replaced_body_is_owed_and_stays_until_a_clear_can_no_longer_be_undone() -> None:
    page = make_page(make_site())
    render_ends(page, shown("<p>old</p>"))
    old = Body.objects.get()
    render_ends(page, shown("<p>new</p>"))
    copy, debt = CachedCopy.objects.get(), DeletionDebt.objects.get()
    assert copy.body_id != old.pk
    assert debt.body_id == old.pk
    assert debt.collectable_at - copy.rendered_at == dt.timedelta(hours=1)
    assert copy.changed_at == copy.rendered_at


def test_one_body_serves_all_pages_and_devices_of_a_project_and_no_other() -> None:
    site = make_site(devices=["desktop", "mobile"])
    for page in (make_page(site), make_page(site)):
        render_ends(page, shown("<p>x</p>"), shown("<p>x</p>", "mobile"))
    render_ends(make_page(make_site()), shown("<p>x</p>"))
    assert CachedCopy.objects.count() == 5
    assert Body.objects.count() == 2


def test_a_header_that_changed_is_a_change() -> None:
    page = make_page(make_site())
    render_ends(page, shown("<p>x</p>"))
    first = CachedCopy.objects.get()
    headers = {"content-type": "text/html; charset=utf-8", "x-robots-tag": "noindex", "retry-after": "5"}
    render_ends(page, DeviceRender("desktop", status=200, headers=headers, html=b"<p>x</p>"))
    second = CachedCopy.objects.get()
    assert second.changed_at > first.changed_at
    assert second.headers == {"content-type": "text/html; charset=utf-8", "x-robots-tag": "noindex"}


def test_the_copy_of_a_device_that_is_no_longer_asked_for_goes() -> None:
    page = make_page(make_site(devices=["desktop", "mobile"]))
    render_ends(page, shown("<p>d</p>"), shown("<p>m</p>", "mobile"))
    render_ends(page, shown("<p>d</p>"))
    assert [copy.device for copy in CachedCopy.objects.all()] == ["desktop"]
    assert DeletionDebt.objects.count() == 1


def test_a_redirect_is_stored_as_one() -> None:
    page = make_page(make_site())
    render_ends(page, shown("<p>x</p>"))
    verdict = render_ends(page, DeviceRender("desktop", status=301, location="https://other.test/"))
    copy = CachedCopy.objects.get()
    assert verdict is not None
    assert verdict.kind is Kind.REDIRECT
    assert (copy.status, copy.headers, copy.body) == (301, {"location": "https://other.test/"}, None)
    assert DeletionDebt.objects.count() == 1
    due_at = now_of(page).due_at
    assert due_at is not None
    assert due_at > LONG_AGO


def test_a_wrong_token_changes_nothing() -> None:
    page = make_page(make_site())
    render_ends(page, shown("<p>good</p>"))
    before, copy = RenderSchedule.objects.values().get(), CachedCopy.objects.values().get()
    RenderSchedule.objects.update(due_at=LONG_AGO)
    token = started(page)
    assert complete(page.pk, page.site_id, uuid.uuid4(), [shown("<p>late</p>")]) is None
    assert Lease.objects.get().token == token
    assert RenderSchedule.objects.values().get() == {**before, "due_at": LONG_AGO}
    assert CachedCopy.objects.values().get() == copy
    assert Body.objects.count() == 1


@pytest.mark.parametrize(
    ("render", "failures"),
    [
        (TIMEOUT, 1),
        (DeviceRender("desktop", status=404), 1),
        (DeviceRender("desktop", status=503), 0),
        (DeviceRender("desktop", status=401), 0),
        (DeviceRender("desktop", fault=Fault.UNREACHABLE), 0),
        (DeviceRender("desktop", fault=Fault.BROWSER_LOST), 0),
        (DeviceRender("desktop", status=200, fault=Fault.READY_FLAG), 1),
    ],
)
def test_a_failure_leaves_the_copy_and_backs_off(render: DeviceRender, failures: int) -> None:
    page = make_page(make_site())
    render_ends(page, shown("<p>good</p>"))
    copy = CachedCopy.objects.values().get()
    render_ends(page, render)
    row = now_of(page)
    assert CachedCopy.objects.values().get() == copy
    assert (row.failures, row.retries, row.due_at) == (failures, 1, LONG_AGO)
    assert row.retry_at is not None
    assert row.retry_at > copy["rendered_at"]
    assert row.last_outcome
    assert not Lease.objects.exists()


def test_one_failing_device_stores_neither() -> None:
    page = make_page(make_site(devices=["desktop", "mobile"]))
    render_ends(page, shown("<p>d</p>"), DeviceRender("mobile", status=503))
    assert not CachedCopy.objects.exists()
    assert now_of(page).last_outcome == "status-503"


def test_an_origin_that_names_a_wait_gets_it() -> None:
    page = make_page(make_site())
    render_ends(page, DeviceRender("desktop", status=429, headers={"retry-after": "7200"}))
    row = now_of(page)
    assert row.retry_at is not None
    wait = row.retry_at - dt.datetime.now(dt.UTC)
    assert dt.timedelta(minutes=118) < wait < dt.timedelta(minutes=122)


def test_a_page_that_is_gone_is_retired_after_repeated_confirmation() -> None:
    page = make_page(make_site())
    render_ends(page, shown("<p>good</p>"))
    for expected in ("gone-404 x1", "gone-404 x2"):
        render_ends(page, GONE)
        assert now_of(page).last_outcome == expected
        assert CachedCopy.objects.count() == 1
    render_ends(page, DeviceRender("desktop", status=410))
    assert not RenderSchedule.objects.exists()
    assert not CachedCopy.objects.exists()
    assert not Lease.objects.exists()
    assert DeletionDebt.objects.count() == 1


@pytest.mark.parametrize("between", [shown("<p>back</p>"), TIMEOUT, DeviceRender("desktop", status=503)])
def test_only_confirmations_in_a_row_retire_a_page(between: DeviceRender) -> None:
    page = make_page(make_site())
    for render in (GONE, GONE, between, GONE, GONE):
        render_ends(page, render)
    assert now_of(page).last_outcome == "gone-404 x2"


def test_failures_of_another_sort_do_not_count_towards_retiring() -> None:
    page = make_page(make_site())
    for render in (TIMEOUT, TIMEOUT, TIMEOUT, GONE):
        render_ends(page, render)
    assert now_of(page).last_outcome == "gone-404 x1"


def test_a_request_starts_the_count_again() -> None:
    page = make_page(make_site())
    render_ends(page, GONE)
    render_ends(page, GONE)
    rows.request_pages([page.pk], render_now=True)
    render_ends(page, GONE)
    assert now_of(page).last_outcome == "gone-404 x1"
