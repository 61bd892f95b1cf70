"""Claims, starts and completions of leases (L0, L1, O4)."""

from __future__ import annotations

import datetime as dt
import uuid

import pytest
from django.db import connection

from renderqueue.models import FleetPolicy, Lease, RenderSchedule, Site
from renderqueue.scheduling import leases, rows
from renderqueue.scheduling.leases import ClaimAnswer
from tests.factories import NODE, OTHER_NODE, database_now, make_page, make_site

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]

LEASE_S = 60.0


def claim(*pages: RenderSchedule, node: uuid.UUID = NODE) -> list[leases.Claimed]:
    return leases.claim(node, [page.pk for page in pages], LEASE_S)


def expire(token: uuid.UUID) -> None:
    Lease.objects.filter(token=token).update(expires_at=database_now() - dt.timedelta(seconds=1))


def test_a_due_free_page_is_granted_with_a_token_that_the_row_carries() -> None:
    page = make_page(make_site())
    [answer] = claim(page)
    assert answer.answer is ClaimAnswer.GRANTED
    lease = Lease.objects.get(page=page)
    assert (lease.token, lease.node_id, lease.started_at) == (answer.token, NODE, None)
    length_s = (lease.expires_at - lease.claimed_at).total_seconds()
    assert length_s == pytest.approx(LEASE_S, abs=1)


def test_every_candidate_gets_its_own_answer_in_the_order_given() -> None:
    site = make_site()
    now = database_now()
    leased, due, future, backing, gone = (make_page(site) for _ in range(5))
    claim(leased, node=OTHER_NODE)
    future_due = (now + dt.timedelta(hours=1)).replace(second=0, microsecond=0)
    RenderSchedule.objects.filter(pk=future.pk).update(due_at=future_due)
    RenderSchedule.objects.filter(pk=backing.pk).update(retry_at=now + dt.timedelta(minutes=5))
    gone_id = gone.pk
    gone.delete()
    answers = leases.claim(NODE, [gone_id, backing.pk, future.pk, due.pk, leased.pk], LEASE_S)
    assert [answer.answer for answer in answers] == [
        ClaimAnswer.GONE,
        ClaimAnswer.BACKING_OFF,
        ClaimAnswer.NOT_DUE,
        ClaimAnswer.GRANTED,
        ClaimAnswer.LEASED,
    ]
    assert answers[2].until == future_due
    assert answers[4].until == Lease.objects.get(page=leased).expires_at


def test_a_page_without_a_deadline_is_not_due() -> None:
    page = make_page(make_site(), due_at=None)
    [answer] = claim(page)
    assert (answer.answer, answer.until) == (ClaimAnswer.NOT_DUE, None)


def test_a_site_has_at_most_its_cap_of_leases_over_all_nodes() -> None:
    site = make_site(concurrency_cap=2)
    first, second, third = (make_page(site) for _ in range(3))
    claim(first, node=OTHER_NODE)
    assert [answer.answer for answer in claim(second, third)] == [ClaimAnswer.GRANTED, ClaimAnswer.AT_CAP]


def test_two_candidates_that_are_one_page_get_one_lease() -> None:
    page = make_page(make_site())
    assert [answer.answer for answer in claim(page, page)] == [ClaimAnswer.GRANTED, ClaimAnswer.LEASED]


@pytest.mark.parametrize("scope", ["site", "fleet"])
def test_nothing_of_a_paused_site_or_fleet_is_granted(scope: str) -> None:
    page = make_page(make_site())
    if scope == "site":
        Site.objects.filter(pk=page.site_id).update(paused=True)
    else:
        FleetPolicy.objects.update_or_create(id=1, defaults={"paused": True})
    assert [answer.answer for answer in claim(page)] == [ClaimAnswer.PAUSED]


def test_starting_needs_the_token_and_happens_once() -> None:
    page = make_page(make_site(devices=["desktop", "mobile"], allowed_private_hosts=["localhost:8080"]))
    [answer] = claim(page)
    assert answer.token
    assert leases.start(page.pk, uuid.uuid4()) is None
    started = leases.start(page.pk, answer.token)
    assert started is not None
    assert (started.url, started.devices) == (page.url, ("desktop", "mobile"))
    assert started.allowed_private_hosts == ("localhost:8080",)
    assert leases.start(page.pk, answer.token) is None


def test_an_expired_lease_does_not_start() -> None:
    page = make_page(make_site())
    [answer] = claim(page)
    assert answer.token
    expire(answer.token)
    assert leases.start(page.pk, answer.token) is None


def test_starting_a_page_of_a_paused_site_gives_its_lease_back() -> None:
    page = make_page(make_site())
    [answer] = claim(page)
    assert answer.token
    Site.objects.filter(pk=page.site_id).update(paused=True)
    assert leases.start(page.pk, answer.token) is None
    assert not Lease.objects.exists()


def test_renewing_extends_own_leases_only() -> None:
    site = make_site()
    mine, other = claim(make_page(site))[0], claim(make_page(site), node=OTHER_NODE)[0]
    assert mine.token
    assert other.token
    before = Lease.objects.get(token=mine.token).expires_at
    assert leases.renew(NODE, [mine.token, other.token, uuid.uuid4()], LEASE_S * 10) == {mine.token}
    assert Lease.objects.get(token=mine.token).expires_at > before


def test_a_claimed_lease_that_did_not_start_within_two_lease_times_is_not_renewed() -> None:
    page = make_page(make_site())
    [answer] = claim(page)
    assert answer.token
    Lease.objects.update(claimed_at=database_now() - dt.timedelta(seconds=2 * LEASE_S + 1))
    assert leases.renew(NODE, [answer.token], LEASE_S) == set()


def test_release_gives_back_what_has_not_started_and_leaves_the_rest() -> None:
    site = make_site()
    started, waiting = make_page(site), make_page(site)
    tokens = [answer.token for answer in claim(started, waiting) if answer.token]
    assert leases.start(started.pk, tokens[0])
    assert leases.release(tokens) == [waiting.pk]
    assert list(Lease.objects.values_list("page_id", flat=True)) == [started.pk]


def test_recovery_takes_back_expired_leases_and_only_those() -> None:
    site = make_site()
    alive, dead = make_page(site), make_page(site)
    claim(alive)
    [answer] = claim(dead)
    assert answer.token
    expire(answer.token)
    assert [(lease.page_id, lease.node_id, lease.started) for lease in leases.recover()] == [(dead.pk, NODE, False)]
    assert [answer.answer for answer in claim(dead, alive)] == [ClaimAnswer.GRANTED, ClaimAnswer.LEASED]


def test_a_token_that_still_exists_completes_though_it_has_expired() -> None:
    page = make_page(make_site())
    [answer] = claim(page)
    assert answer.token
    assert leases.start(page.pk, answer.token)
    expire(answer.token)
    with leases.completing(page.pk, answer.token) as completing:
        assert completing is not None
        leases.finish(completing)
    assert not Lease.objects.exists()


def test_a_wrong_or_recovered_token_completes_nothing() -> None:
    page = make_page(make_site())
    [answer] = claim(page)
    assert answer.token
    assert leases.start(page.pk, answer.token)
    with leases.completing(page.pk, uuid.uuid4()) as completing:
        assert completing is None
    expire(answer.token)
    leases.recover()
    claim(page, node=OTHER_NODE)
    with leases.completing(page.pk, answer.token) as completing:
        assert completing is None
    assert Lease.objects.get().node_id == OTHER_NODE


def test_the_completing_page_carries_the_cadence_that_applies_now() -> None:
    site = make_site(default_interval_s=7200)
    page = make_page(site, declared_interval_s=3600)
    site.routes.update(interval_s=600)
    [answer] = claim(page)
    assert answer.token
    leases.start(page.pk, answer.token)
    with leases.completing(page.pk, answer.token) as completing:
        assert completing is not None
        assert (completing.interval_s, completing.url, completing.cold_after) == (600, page.url, 3)


def test_a_success_sets_the_next_whole_minute_deadline_and_answers_the_request() -> None:
    page = make_page(make_site())
    rows.request_pages([page.pk], render_now=False)
    started_at = database_now()
    completed_at = dt.datetime(2026, 5, 1, 12, 0, 59, tzinfo=dt.UTC)
    rows.reschedule_success(page.pk, started_at=started_at, completed_at=completed_at, interval_s=3600, outcome="ok")
    page.refresh_from_db()
    assert page.due_at == dt.datetime(2026, 5, 1, 13, 0, tzinfo=dt.UTC)
    assert page.requested_at is None


def test_a_success_that_started_before_the_request_does_not_answer_it() -> None:
    page = make_page(make_site())
    started_at = database_now() - dt.timedelta(seconds=5)
    rows.request_pages([page.pk], render_now=False)
    rows.reschedule_success(page.pk, started_at=started_at, completed_at=database_now(), interval_s=3600, outcome="ok")
    page.refresh_from_db()
    assert page.requested_at is not None


def test_a_failure_moves_the_retry_and_never_the_deadline() -> None:
    page = make_page(make_site())
    now = database_now()
    for retries, wait_s in [(0, 120), (1, 240), (2, 480)]:
        retry_at = rows.reschedule_failure(
            page.pk, now=now, retries=retries, interval_s=86400, cold_after=3, page_level=False, outcome="503"
        )
        assert retry_at == now + dt.timedelta(seconds=wait_s)
    due_before = page.due_at
    page.refresh_from_db()
    assert (page.due_at, page.failures, page.retries) == (due_before, 0, 3)


def test_the_failure_that_makes_a_page_cold_ends_its_request() -> None:
    page = make_page(make_site())
    rows.request_pages([page.pk], render_now=False)
    for retries in range(3):
        page.refresh_from_db()
        assert page.requested_at is not None
        rows.reschedule_failure(
            page.pk, now=database_now(), retries=retries, interval_s=3600, cold_after=3, page_level=True, outcome="x"
        )
    page.refresh_from_db()
    assert (page.requested_at, page.failures) == (None, 3)


def test_render_now_makes_the_page_due_and_prioritize_does_not() -> None:
    site = make_site()
    future = (database_now() + dt.timedelta(days=1)).replace(second=0, microsecond=0)
    asked, rushed = make_page(site, due_at=future), make_page(site, due_at=future)
    assert rows.request_pages([asked.pk], render_now=False) == 1
    assert rows.request_pages([rushed.pk], render_now=True) == 1
    asked.refresh_from_db()
    rushed.refresh_from_db()
    assert asked.due_at == future
    assert rushed.due_at is not None
    assert rushed.due_at <= database_now()
    assert (rushed.due_at.second, rushed.due_at.microsecond) == (0, 0)


def test_leases_do_not_notify_keepers() -> None:
    """Only what changes the schedule notifies (F3)."""
    page = make_page(make_site())
    with connection.cursor() as cursor:
        cursor.execute("SELECT last_value FROM rq_feed_number")
        before = cursor.fetchone()
        [answer] = claim(page)
        assert answer.token
        leases.start(page.pk, answer.token)
        leases.renew(NODE, [answer.token], LEASE_S)
        cursor.execute("SELECT last_value FROM rq_feed_number")
        assert cursor.fetchone() == before
