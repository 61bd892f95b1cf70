"""Walks against a table that changes under them, each interleaving forced (F2, F4, W2b).

The feed is pumped by the test, not by a thread: an event reaches memory exactly when the walk waits for a
marker, or when the test says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from keeper.clock import KeeperClock
from keeper.index import ScheduleIndex, WalkCounts
from keeper.walker import Markers, WalkResult, walk
from renderqueue.identity import GROUPS
from renderqueue.models import RenderSchedule, Site
from renderqueue.scheduling import feed
from renderqueue.scheduling.feed import FeedListener
from renderqueue.scheduling.rules import load_rules
from renderqueue.scheduling.walk import WalkedRange, WalkFailed
from tests.factories import LONG_AGO, make_page, make_pages, make_site

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]

CHANNEL = "rq_node_test"


class Bench(Markers):
    """An index with a feed that moves only when it is pumped; as `Markers`, waiting pumps."""

    def __init__(self, url: str, walking: psycopg.Connection[Any]) -> None:
        super().__init__()
        self.walking = walking
        self.clock = KeeperClock()
        self.listener = FeedListener(url, CHANNEL)
        self.index = ScheduleIndex(load_rules(walking))
        self.index.gain(range(GROUPS))
        self.listener.listen(range(GROUPS))
        self.index.edges.feed_opened(range(GROUPS))

    def pump(self, until: str | None = None) -> None:
        if until is None:
            until = "pumped"
            feed.send_marker(self.walking, CHANNEL, until)
        while not self.has(until):
            for event in self.listener.receive(timeout_s=10):
                if isinstance(event, feed.RowsChanged):
                    self.index.apply(event.rows, self.clock.now_s())
                elif isinstance(event, feed.Marked):
                    self.arrived(event.marker)

    def wait(self, marker: str, timeout_s: float) -> None:
        self.pump(marker)
        super().wait(marker, timeout_s)

    def walk(self, after_read: Any = lambda walked: None, range_rows: int = 50_000) -> WalkResult:
        return walk(self.index, self.walking, self.clock, self, CHANNEL, range_rows=range_rows, after_read=after_read)

    def held(self) -> dict[int, int]:
        rows = self.index._columns.range(-(2**63), 2**63 - 1)
        return {int(i): int(due) for i, due, flags in zip(rows.id, rows.due, rows.flags, strict=True) if not flags & 4}


@pytest.fixture
def bench(url: str, raw: Any) -> Iterator[Bench]:
    made = Bench(url, raw)
    yield made
    made.listener.close()


@pytest.fixture
def site(transactional_db: None) -> Site:
    return make_site()


def in_table() -> dict[int, int]:
    return {
        page.pk: int(page.due_at.timestamp() // 60) for page in RenderSchedule.objects.all() if page.due_at is not None
    }


def test_a_change_that_the_snapshot_has_and_memory_not_yet_is_no_mismatch(
    site: Site, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F2: the event is committed, but not applied, when the range is read. The marker comes behind it."""
    page = make_page(site)
    bench.walk()
    RenderSchedule.objects.update(failures=1)
    assert bench.walk().counts == WalkCounts()

    monkeypatch.setattr(Bench, "wait", lambda *_: None)  # the same without the fence
    RenderSchedule.objects.update(failures=2)
    assert bench.walk().counts == WalkCounts(mismatched=1)
    assert page.pk in bench.held()


def test_a_change_after_the_snapshot_is_not_undone_by_the_walk(site: Site, bench: Bench) -> None:
    make_page(site)
    bench.walk()

    def change(walked: WalkedRange) -> None:
        RenderSchedule.objects.update(due_at=LONG_AGO.replace(year=2027))

    assert bench.walk(change).counts == WalkCounts()
    assert bench.held() == in_table()


def test_an_id_allocated_earlier_and_committed_behind_the_walk_comes_as_an_event(
    site: Site, bench: Bench, url: str
) -> None:
    """F4: the walk has passed the id before its row was committed."""
    route = site.routes.get()
    with psycopg.connect(url) as slow:
        slow.execute(
            "INSERT INTO renderqueue_renderschedule"
            " (site_id, route_id, url, key, partition, due_at, failures, retries, last_outcome, created_at)"
            " VALUES (%s, %s, 'https://slow.test/', gen_random_uuid(), 9, '2026-01-01', 0, 0, '', now())",
            [site.pk, route.pk],
        )
        make_pages(site, 10)

        def commit_behind(walked: WalkedRange) -> None:
            if walked.upper == 2**63 - 1:
                slow.commit()

        bench.walk(commit_behind, range_rows=3)
    bench.pump()
    assert len(bench.held()) == 11
    assert bench.held() == in_table()


def test_a_row_updated_behind_the_walk_comes_as_an_event(site: Site, bench: Bench) -> None:
    make_pages(site, 10)
    first = RenderSchedule.objects.order_by("id")[0]

    def update_behind(walked: WalkedRange) -> None:
        if walked.upper == 2**63 - 1:
            RenderSchedule.objects.filter(pk=first.pk).update(due_at=LONG_AGO.replace(year=2027))

    bench.walk(update_behind, range_rows=3)
    bench.pump()
    assert bench.held() == in_table()


def test_a_page_deleted_between_two_ranges_is_gone(site: Site, bench: Bench) -> None:
    make_pages(site, 10)
    bench.walk()

    def delete_last(walked: WalkedRange) -> None:
        last = RenderSchedule.objects.order_by("-id").first()
        if last is not None:
            last.delete()

    assert bench.walk(delete_last, range_rows=3).counts == WalkCounts()
    assert bench.held() == in_table()


def test_what_a_lost_event_changed_is_repaired_and_counted(site: Site, bench: Bench, raw: Any) -> None:
    make_pages(site, 4)
    bench.walk()
    ids = sorted(in_table())
    raw.execute("SET session_replication_role = replica")
    raw.execute("UPDATE renderqueue_renderschedule SET failures = 3 WHERE id = %s", [ids[0]])
    raw.execute("DELETE FROM renderqueue_renderschedule WHERE id = %s", [ids[1]])
    raw.execute(
        "INSERT INTO renderqueue_renderschedule"
        " (site_id, route_id, url, key, partition, due_at, failures, retries, last_outcome, created_at)"
        " SELECT site_id, route_id, 'https://lost.test/', gen_random_uuid(), 3, due_at, 0, 0, '', now()"
        " FROM renderqueue_renderschedule LIMIT 1"
    )
    assert bench.walk().counts == WalkCounts(mismatched=1, phantom=1, missing=1)
    assert bench.held() == in_table()
    assert bench.walk().counts == WalkCounts()


def test_a_walk_whose_marker_never_comes_fails_and_moves_no_edge(
    site: Site, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_page(site)
    monkeypatch.setattr(Bench, "wait", lambda self, marker, timeout_s: Markers.wait(self, marker, 0.05))
    with pytest.raises(WalkFailed, match="did not come back"):
        bench.walk()
    assert not bench.index.edges.walked_once()


def test_a_feed_lost_during_the_walk_fails_it(site: Site, bench: Bench) -> None:
    make_page(site)
    with pytest.raises(WalkFailed, match="feed connection was lost"):
        bench.walk(lambda walked: bench.feed_lost())
    assert not bench.index.edges.walked_once()


def test_only_owned_groups_are_read(site: Site, bench: Bench) -> None:
    make_pages(site, 100)
    bench.index.lose(range(0, GROUPS, 2))
    bench.walk()
    odd = {page.pk for page in RenderSchedule.objects.all() if (page.partition // 4) % 2}
    assert set(bench.held()) == odd
    assert 0 < len(odd) < 100


def test_a_poisoned_row_makes_the_walk_partial_and_moves_the_edge(site: Site, bench: Bench, raw: Any) -> None:
    make_pages(site, 5)
    bench.walk()
    ids = sorted(in_table())
    raw.execute("SET session_replication_role = replica")
    raw.execute("UPDATE renderqueue_renderschedule SET route_id = 3000000000 WHERE id = %s", [ids[2]])
    raw.execute("DELETE FROM renderqueue_renderschedule WHERE id = %s", [ids[3]])
    result = bench.walk()
    assert result.unreadable == [ids[2]]
    assert result.counts == WalkCounts(phantom=1)
    assert bench.index.edges.node_edge_s() == float("inf")
    assert set(bench.held()) == set(ids) - {ids[3]}
