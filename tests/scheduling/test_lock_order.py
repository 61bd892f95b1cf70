"""L0: who waits for whom, and that guards are read after the locks. Each race is forced with a second
connection that holds the lock; nothing here depends on timing."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from django.db import connection

from renderqueue.models import Lease, RenderSchedule
from renderqueue.scheduling import leases
from renderqueue.scheduling.leases import ClaimAnswer
from tests.factories import NODE, OTHER_NODE, make_page, make_site

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]


def in_thread[T](work: Callable[[], T]) -> Future[T]:
    def run() -> T:
        try:
            return work()
        finally:
            connection.close()

    executor = ThreadPoolExecutor(1)
    future = executor.submit(run)
    executor.shutdown(wait=False)
    return future


def wait_until_blocked(raw: psycopg.Connection[Any]) -> None:
    """Until some backend of this database waits for a lock."""
    deadline = time.monotonic() + 10
    while True:
        row = raw.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        ).fetchone()
        if row and row[0]:
            return
        assert time.monotonic() < deadline, "nobody waits for a lock"


def can_lock(raw: psycopg.Connection[Any], table: str, column: str, value: object) -> bool:
    try:
        with raw.transaction(force_rollback=True):
            raw.execute(f"SELECT 1 FROM renderqueue_{table} WHERE {column} = %s FOR NO KEY UPDATE NOWAIT", [value])
    except psycopg.errors.LockNotAvailable:
        return False
    return True


def claim(*pages: RenderSchedule) -> list[ClaimAnswer]:
    return [answer.answer for answer in leases.claim(NODE, [page.pk for page in pages], 60)]


def test_a_candidate_that_another_transaction_holds_is_answered_locked_without_waiting(url: str) -> None:
    site = make_site()
    busy, free = make_page(site), make_page(site)
    with psycopg.connect(url) as holder:
        holder.execute("SELECT 1 FROM renderqueue_renderschedule WHERE id = %s FOR NO KEY UPDATE", [busy.pk])
        assert claim(busy, free) == [ClaimAnswer.LOCKED, ClaimAnswer.GRANTED]


def test_a_claim_that_waited_for_its_site_counts_the_leases_made_meanwhile(url: str, raw: Any) -> None:
    """O4: counted in the statement that waited, the other's lease would be invisible and the cap overshot."""
    site = make_site(concurrency_cap=1)
    mine, theirs = make_page(site), make_page(site)
    with psycopg.connect(url) as holder:
        holder.execute("SELECT 1 FROM renderqueue_site WHERE id = %s FOR NO KEY UPDATE", [site.pk])
        claiming = in_thread(lambda: claim(mine))
        wait_until_blocked(raw)
        holder.execute(
            "INSERT INTO renderqueue_lease (page_id, token, node_id, site_id, claimed_at, expires_at)"
            " VALUES (%s, %s, %s, %s, now(), now() + interval '1 minute')",
            [theirs.pk, uuid.uuid4(), OTHER_NODE, site.pk],
        )
    assert claiming.result(10) == [ClaimAnswer.AT_CAP]
    assert Lease.objects.count() == 1


def test_a_claim_that_waited_sees_that_the_site_was_paused_meanwhile(url: str, raw: Any) -> None:
    page = make_page(make_site())
    with psycopg.connect(url) as holder:
        holder.execute("UPDATE renderqueue_site SET paused = true WHERE id = %s", [page.site_id])
        claiming = in_thread(lambda: claim(page))
        wait_until_blocked(raw)
    assert claiming.result(10) == [ClaimAnswer.PAUSED]


def test_sites_are_locked_in_id_order_whatever_the_order_of_the_candidates(url: str, raw: Any) -> None:
    low, high = make_page(make_site()), make_page(make_site())
    assert low.site_id < high.site_id
    with psycopg.connect(url) as holder:
        holder.execute("SELECT 1 FROM renderqueue_site WHERE id = %s FOR NO KEY UPDATE", [low.site_id])
        claiming = in_thread(lambda: claim(high, low))
        wait_until_blocked(raw)
        assert can_lock(raw, "site", "id", high.site_id)
        assert can_lock(raw, "renderschedule", "id", high.pk)
    assert claiming.result(10) == [ClaimAnswer.GRANTED, ClaimAnswer.GRANTED]


def started_lease(page: RenderSchedule) -> uuid.UUID:
    [answer] = leases.claim(NODE, [page.pk], 60)
    assert answer.token
    assert leases.start(page.pk, answer.token)
    return answer.token


def complete(page: RenderSchedule, token: uuid.UUID) -> bool:
    with leases.completing(page.pk, token) as completing:
        if completing is None:
            return False
        leases.finish(completing)
        return True


def test_a_completion_locks_the_schedule_row_before_the_lease(url: str, raw: Any) -> None:
    page = make_page(make_site())
    token = started_lease(page)
    with psycopg.connect(url) as holder:
        holder.execute("SELECT 1 FROM renderqueue_renderschedule WHERE id = %s FOR NO KEY UPDATE", [page.pk])
        completing = in_thread(lambda: complete(page, token))
        wait_until_blocked(raw)
        assert can_lock(raw, "lease", "page_id", page.pk)
    assert completing.result(10) is True
    token = started_lease(page)
    with psycopg.connect(url) as holder:
        holder.execute("SELECT 1 FROM renderqueue_lease WHERE page_id = %s FOR NO KEY UPDATE", [page.pk])
        completing = in_thread(lambda: complete(page, token))
        wait_until_blocked(raw)
        assert not can_lock(raw, "renderschedule", "id", page.pk)
    assert completing.result(10) is True


def test_a_completion_that_waited_for_a_recovered_lease_changes_nothing(url: str, raw: Any) -> None:
    page = make_page(make_site())
    token = started_lease(page)
    with psycopg.connect(url) as holder:
        holder.execute("DELETE FROM renderqueue_lease WHERE page_id = %s", [page.pk])
        completing = in_thread(lambda: complete(page, token))
        wait_until_blocked(raw)
    assert completing.result(10) is False


def test_recovery_passes_over_a_lease_that_is_being_completed() -> None:
    page = make_page(make_site())
    token = started_lease(page)
    Lease.objects.update(expires_at="2026-01-01T00:00:00Z")
    locked, go_on = threading.Event(), threading.Event()

    def complete_slowly() -> bool:
        with leases.completing(page.pk, token) as completing:
            locked.set()
            assert go_on.wait(10)
            assert completing is not None
            leases.finish(completing)
        return True

    completing = in_thread(complete_slowly)
    assert locked.wait(10)
    assert leases.recover() == []
    go_on.set()
    assert completing.result(10) is True


def test_two_claims_of_one_page_grant_it_once(url: str) -> None:
    page = make_page(make_site())
    barrier = threading.Barrier(2)

    def race() -> ClaimAnswer:
        barrier.wait(10)
        return claim(page)[0]

    for _ in range(20):
        Lease.objects.all().delete()
        answers = [future.result(10) for future in [in_thread(race), in_thread(race)]]
        assert answers.count(ClaimAnswer.GRANTED) == 1
        assert set(answers) <= {ClaimAnswer.GRANTED, ClaimAnswer.LEASED, ClaimAnswer.LOCKED}
