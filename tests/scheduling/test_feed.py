"""The change feed: what a write of any kind says to a listener (D4, F0-F4)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import numpy as np
import psycopg
import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from renderqueue.identity import GROUPS, group_of
from renderqueue.models import FleetPolicy, RenderSchedule
from renderqueue.scheduling import feed
from renderqueue.scheduling.feed import FeedListener, RowsChanged, SettingsChanged, WalkAgain
from tests.factories import LONG_AGO, make_page, make_pages, make_site

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]

MINUTE = int(LONG_AGO.timestamp() // 60)


@pytest.fixture
def listener(url: str) -> Iterator[FeedListener]:
    with FeedListener(url, "rq_node_test") as opened:
        opened.listen(range(GROUPS))
        yield opened


def drain(listener: FeedListener, raw: psycopg.Connection[Any]) -> list[feed.FeedEvent]:
    """Everything committed so far: a marker sent now comes behind it."""
    feed.send_marker(raw, "rq_node_test", "end")
    events: list[feed.FeedEvent] = []
    while True:
        for event in listener.receive(timeout_s=10):
            if isinstance(event, feed.Marked):
                return events
            events.append(event)


def states(events: list[feed.FeedEvent]) -> list[list[int]]:
    return [row for event in events if isinstance(event, RowsChanged) for row in event.rows.tolist()]


def test_an_insert_sends_the_whole_state_to_the_group_of_the_page(listener: FeedListener, raw: Any) -> None:
    site = make_site()
    drain(listener, raw)
    page = make_page(
        site,
        declared_interval_s=7200,
        requested_at=dt.datetime(2026, 3, 1, 0, 0, 0, 250_000, tzinfo=dt.UTC),
        retry_at=dt.datetime(2026, 3, 1, 0, 0, 0, 1, tzinfo=dt.UTC),
        rendered_at=LONG_AGO,
        failures=2,
    )
    [event] = drain(listener, raw)
    assert isinstance(event, RowsChanged)
    assert event.group == group_of(page.partition)
    march = int(dt.datetime(2026, 3, 1, tzinfo=dt.UTC).timestamp())
    assert event.rows.tolist() == [
        [page.pk, page.partition, MINUTE, 7200, feed.RENDERED, 2, march * 1000 + 250, march + 1, page.route_id]
    ]


@pytest.mark.parametrize("due_sql", ["NULL", "'infinity'"])
def test_a_page_without_a_finite_deadline_says_so(listener: FeedListener, raw: Any, due_sql: str) -> None:
    page = make_page(make_site())
    drain(listener, raw)
    raw.execute(f"UPDATE renderqueue_renderschedule SET due_at = {due_sql} WHERE id = {page.pk}")
    assert [row[feed.DUE] for row in states(drain(listener, raw))] == [feed.NO_DUE]


def test_a_row_updated_to_and_fro_in_one_transaction_ends_in_its_last_state(listener: FeedListener, raw: Any) -> None:
    """NOTIFY drops a payload that repeats in a transaction; the number in front prevents it (F0)."""
    page = make_page(make_site())
    drain(listener, raw)
    with raw.transaction():
        for failures in (2, 3, 2):
            raw.execute("UPDATE renderqueue_renderschedule SET failures = %s WHERE id = %s", [failures, page.pk])
    assert [row[feed.FAILURES] for row in states(drain(listener, raw))] == [2, 3, 2]


def test_an_update_that_does_not_change_the_schedule_is_not_sent(listener: FeedListener, raw: Any) -> None:
    page = make_page(make_site())
    drain(listener, raw)
    raw.execute("UPDATE renderqueue_renderschedule SET last_outcome = 'x', retries = 4 WHERE id = %s", [page.pk])
    raw.execute("UPDATE renderqueue_renderschedule SET due_at = due_at WHERE id = %s", [page.pk])
    raw.execute("UPDATE renderqueue_renderschedule SET failures = 9 WHERE false")
    assert drain(listener, raw) == []


def test_only_the_changed_rows_of_a_statement_are_sent(listener: FeedListener, raw: Any) -> None:
    site = make_site()
    same, other = make_page(site, failures=1), make_page(site)
    drain(listener, raw)
    raw.execute("UPDATE renderqueue_renderschedule SET failures = 1")
    assert [row[feed.ID] for row in states(drain(listener, raw))] == [other.pk]
    assert same.pk != other.pk


def test_an_upsert_sends_what_it_inserted_and_what_it_updated(listener: FeedListener, raw: Any) -> None:
    site = make_site()
    old = make_page(site)
    drain(listener, raw)
    raw.execute(
        "INSERT INTO renderqueue_renderschedule"
        " (site_id, route_id, url, key, partition, due_at, failures, retries, last_outcome, created_at)"
        " SELECT site_id, route_id, url || suffix, CASE suffix WHEN '' THEN key ELSE gen_random_uuid() END,"
        "        partition, due_at, 5, 0, '', now()"
        " FROM renderqueue_renderschedule, unnest(ARRAY['', '/new']) AS suffix"
        " ON CONFLICT (key) DO UPDATE SET failures = excluded.failures"
    )
    rows = states(drain(listener, raw))
    assert sorted((row[feed.ID] == old.pk, row[feed.FAILURES]) for row in rows) == [(False, 5), (True, 5)]


def test_a_delete_and_a_cascade_send_deletions_once(listener: FeedListener, raw: Any) -> None:
    site = make_site()
    page, other = make_page(site), make_page(site)
    drain(listener, raw)
    raw.execute("DELETE FROM renderqueue_renderschedule WHERE id = %s", [page.pk])
    assert [(row[feed.ID], row[feed.FLAGS]) for row in states(drain(listener, raw))] == [(page.pk, feed.DELETED)]
    raw.execute(
        "CREATE TABLE cascade_parent (id bigint PRIMARY KEY);"
        "INSERT INTO cascade_parent SELECT id FROM renderqueue_renderschedule;"
        "ALTER TABLE renderqueue_renderschedule ADD CONSTRAINT cascade_test"
        " FOREIGN KEY (id) REFERENCES cascade_parent ON DELETE CASCADE"
    )
    try:
        raw.execute("DELETE FROM cascade_parent")
        assert [row[feed.ID] for row in states(drain(listener, raw))] == [other.pk]
    finally:
        raw.execute("DROP TABLE cascade_parent CASCADE")


def test_copy_sends_like_an_insert(listener: FeedListener, raw: Any) -> None:
    site = make_site()
    route = site.routes.get()
    drain(listener, raw)
    with (
        raw.cursor() as cursor,
        cursor.copy(
            "COPY renderqueue_renderschedule"
            " (site_id, route_id, url, key, partition, due_at, failures, retries, last_outcome, created_at) FROM STDIN"
        ) as copy,
    ):
        for number in range(3):
            key = f"00000000-0000-0000-0000-00000000000{number}"
            copy.write_row([site.pk, route.pk, f"u{number}", key, 8, LONG_AGO, 0, 0, "", LONG_AGO])
    [event] = drain(listener, raw)
    assert isinstance(event, RowsChanged)
    assert (event.group, len(event.rows)) == (2, 3)


def test_a_changed_partition_leaves_the_old_group_and_enters_the_new(listener: FeedListener, raw: Any) -> None:
    page = make_page(make_site(), "/moving")
    target = (page.partition + 512) % 1024
    drain(listener, raw)
    raw.execute("UPDATE renderqueue_renderschedule SET partition = %s WHERE id = %s", [target, page.pk])
    gone, came = drain(listener, raw)
    assert isinstance(gone, RowsChanged)
    assert isinstance(came, RowsChanged)
    assert (gone.group, gone.rows[0, feed.FLAGS] & feed.DELETED) == (group_of(page.partition), feed.DELETED)
    assert (came.group, came.rows[0, feed.FLAGS] & feed.DELETED) == (group_of(target), 0)


def test_payloads_stay_below_the_limit_of_notify_whatever_the_row_lengths(listener: FeedListener, raw: Any) -> None:
    """A payload of 8,000 bytes raises and aborts the writer (F1): rows of the greatest length, all in one
    group, in a statement of 500."""
    site = make_site()
    make_pages(site, 500)
    raw.execute("ALTER SEQUENCE rq_feed_number RESTART WITH 9000000000000000000")
    drain(listener, raw)
    raw.execute(
        "UPDATE renderqueue_renderschedule SET id = 9000000000000000000 + id, partition = 1023,"
        " due_at = '294000-01-01', declared_interval_s = 2147483647, failures = 32767,"
        " requested_at = '294000-01-01', retry_at = '294000-01-01'"
    )
    rows = states(drain(listener, raw))
    assert sum(1 for row in rows if not row[feed.FLAGS] & feed.DELETED) == 500
    raw.execute("ALTER SEQUENCE rq_feed_number RESTART WITH 1")


def test_a_statement_over_fifty_thousand_rows_names_the_groups_and_one_below_does_not(
    listener: FeedListener, raw: Any
) -> None:
    site = make_site()
    raw.execute(
        "INSERT INTO renderqueue_renderschedule"
        " (site_id, route_id, url, key, partition, due_at, failures, retries, last_outcome, created_at)"
        " SELECT %s, %s, 'https://bulk.test/' || n, md5(n::text)::uuid, n %% 1024, %s, 0, 0, '', now()"
        " FROM generate_series(1, 50001) AS n",
        [site.pk, site.routes.get().pk, LONG_AGO],
    )
    events = drain(listener, raw)
    assert states(events) == []
    assert sorted(event.group for event in events if isinstance(event, WalkAgain)) == list(range(GROUPS))
    raw.execute("UPDATE renderqueue_renderschedule SET failures = 1 WHERE url <> 'https://bulk.test/1'")
    assert len(states(drain(listener, raw))) == 50_000
    raw.execute("DELETE FROM renderqueue_renderschedule")
    assert {type(event) for event in drain(listener, raw)} == {WalkAgain}


def test_truncate_names_every_group(listener: FeedListener, raw: Any) -> None:
    make_page(make_site())
    drain(listener, raw)
    raw.execute("TRUNCATE renderqueue_renderschedule CASCADE")
    assert sorted(event.group for event in drain(listener, raw) if isinstance(event, WalkAgain)) == list(range(GROUPS))


def test_what_arrives_while_the_listener_runs_a_statement_is_not_lost(listener: FeedListener, raw: Any) -> None:
    page = make_page(make_site())
    drain(listener, raw)
    RenderSchedule.objects.filter(pk=page.pk).update(failures=1)
    listener.listen([0])
    assert [row[feed.FAILURES] for row in states(drain(listener, raw))] == [1]


def test_a_rolled_back_write_sends_nothing(listener: FeedListener, raw: Any) -> None:
    page = make_page(make_site())
    drain(listener, raw)
    with raw.transaction(force_rollback=True):
        raw.execute("UPDATE renderqueue_renderschedule SET failures = 7 WHERE id = %s", [page.pk])
    assert drain(listener, raw) == []


def test_a_change_of_site_route_or_policy_says_so(listener: FeedListener, raw: Any) -> None:
    site = make_site()
    drain(listener, raw)
    site.routes.update(interval_s=600)
    FleetPolicy.objects.update_or_create(id=1, defaults={"window_s": 3600})
    assert {type(event) for event in drain(listener, raw)} == {SettingsChanged}


def test_our_own_writers_stay_below_what_is_sent_row_by_row() -> None:
    from renderqueue.scheduling import rows

    assert rows.STATEMENT_ROWS == 500


def test_no_index_of_the_schedule_holds_what_a_render_changes() -> None:
    """F5: due_at, retry_at, failures, requested_at, rendered_at in an index would end HOT updates."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT indexdef FROM pg_indexes WHERE tablename = 'renderqueue_renderschedule'")
        indexed = " ".join(row[0] for row in cursor.fetchall())
    assert "USING btree (key)" in indexed
    for column in ("due_at", "retry_at", "failures", "retries", "requested_at", "rendered_at", "last_outcome"):
        assert column not in indexed


def hot_and_all_updates() -> tuple[int, int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute(
            "SELECT n_tup_hot_upd, n_tup_upd FROM pg_stat_user_tables WHERE relname = 'renderqueue_renderschedule'"
        )
        hot, updated = cursor.fetchone()
        return int(hot), int(updated)


def hot_ratio_of_reschedules() -> float:
    """A tenth of the table at a time, as renders do."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM FULL renderqueue_renderschedule")  # what was there before is not measured
    hot_before, updated_before = hot_and_all_updates()
    for round_number in range(50):
        pages = RenderSchedule.objects.extra(where=["id %% 10 = %s"], params=[round_number % 10])
        pages.update(due_at=LONG_AGO + dt.timedelta(minutes=round_number + 1), rendered_at=LONG_AGO)
    hot, updated = hot_and_all_updates()
    assert updated - updated_before == 10_000
    return (hot - hot_before) / (updated - updated_before)


def test_reschedules_stay_on_their_heap_page() -> None:
    """D2: with the fillfactor and no index on what changes, updates are HOT. A transaction in another database of
    the test server may hold up pruning for a moment, hence the best of a few."""
    make_pages(make_site(), 2000)
    assert max(hot_ratio_of_reschedules() for _ in range(4)) > 0.95


def test_a_row_can_be_written_after_the_migrations_and_is_sent(listener: FeedListener, raw: Any) -> None:
    """F4b: a trigger function that names a column which a migration removed fails at the first write."""
    page = make_page(make_site())
    RenderSchedule.objects.filter(pk=page.pk).update(failures=1)
    page.delete()
    assert len(states(drain(listener, raw))) == 3


@given(st.lists(st.lists(st.integers(-(2**62), 2**62), min_size=9, max_size=9), min_size=1, max_size=20))
def test_what_a_trigger_could_write_decodes_to_itself(rows: list[list[int]]) -> None:
    text = ";".join(",".join(map(str, row)) for row in rows).encode()
    assert np.array_equal(feed.decode_rows(text), np.array(rows))


@pytest.mark.parametrize("payload", [b"1:R:1,2,3", b"1:R:1,2,3,4,5,6,7,8,x", b"nonsense", b"1:R:"])
def test_an_unreadable_payload_asks_for_a_walk_of_its_group(payload: bytes) -> None:
    event = feed.decode("rq_feed_7", payload)
    assert isinstance(event, WalkAgain)
    assert event.group == 7
    assert event.reason
