"""Events and walks into memory: admission, the touched protocol, the edge, the six counters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from keeper.index import ScheduleIndex, WalkCounts
from renderqueue.identity import GROUPS, group_of
from renderqueue.scheduling import feed
from renderqueue.scheduling.rules import RouteRules, Rules, SiteRules
from renderqueue.scheduling.walk import WalkedRange

NOW_S = 1_800_000_000.0
MINUTE = int(NOW_S // 60)
HOUR_M = 60
ROUTE = 5


def rules(window_s: int = 0) -> Rules:
    return Rules(
        window_s=window_s,
        routes={ROUTE: RouteRules(ROUTE, 1, 0, False)},
        sites={1: SiteRules(1, 3600, 4, False)},
    )


def ready_index(window_s: int = 0) -> ScheduleIndex:
    index = ScheduleIndex(rules(window_s))
    index.gain(range(GROUPS))
    index.edges.feed_opened(range(GROUPS))
    return index


def event(page_id: int, due: int = MINUTE, *, flags: int = 0, asked_ms: int = 0, retry_s: int = 0) -> NDArray[np.int64]:
    row = [page_id, page_id % 1024, due, 0, flags, 0, asked_ms, retry_s, ROUTE]
    return np.array([row], dtype=np.int64)


def walked(table: dict[int, int], lower: int = -(2**63), upper: int = 2**63 - 1) -> WalkedRange:
    """A range as the reader gives it: id -> due minute."""
    ids = np.array(sorted(table), dtype=np.int64)
    size = len(ids)
    none = (np.empty(0, np.int64), np.empty(0, np.int64))
    return WalkedRange(
        lower=lower,
        upper=upper,
        ids=ids,
        due_minute=np.array([table[page_id] for page_id in sorted(table)], dtype=np.int32),
        declared_s=np.zeros(size, np.int32),
        flags=np.zeros(size, np.uint8),
        failures=np.zeros(size, np.uint8),
        partition=(ids % 1024).astype(np.int16),
        route_id=np.full(size, ROUTE, np.int32),
        requested=none,
        retry=none,
    )


def walk(index: ScheduleIndex, table: dict[int, int], now_s: float = NOW_S) -> WalkCounts:
    counts = WalkCounts()
    began = index.begin_walk(now_s)
    index.merge(walked(table), began, now_s, counts)
    index.finish_walk(began)
    return counts


def held(index: ScheduleIndex) -> list[int]:
    ids: list[int] = index.held_ids().tolist()
    return ids


def test_a_window_admits_what_is_due_within_it_and_counts_the_rest_as_deferred() -> None:
    index = ready_index(window_s=3600)
    index.apply(event(1, MINUTE + HOUR_M - 1), NOW_S)
    index.apply(event(2, MINUTE + HOUR_M), NOW_S)
    assert held(index) == [1]
    assert (index.flow.added, index.flow.deferred) == (1, 1)


def test_an_event_that_leaves_the_window_drops_a_held_row_and_counts_it_removed() -> None:
    index = ready_index(window_s=3600)
    index.apply(event(1), NOW_S)
    index.apply(event(1, MINUTE + 10 * HOUR_M), NOW_S)
    assert held(index) == []
    assert (index.flow.removed, index.flow.deferred) == (1, 0)
    index.apply(event(1, MINUTE + 5), NOW_S)
    assert held(index) == [1]


def test_without_a_window_everything_is_held() -> None:
    index = ready_index(window_s=0)
    index.apply(event(1, MINUTE + 10**7), NOW_S)
    assert held(index) == [1]
    assert walk(index, {1: MINUTE + 10**7, 2: MINUTE + 10**8}).admitted == 0
    assert held(index) == [1, 2]
    assert index.edges.node_edge_s() == math.inf


def test_a_finished_walk_moves_the_edge_to_its_start_plus_the_window() -> None:
    index = ready_index(window_s=3600)
    assert index.edges.node_edge_s() == -math.inf
    walk(index, {})
    assert index.edges.node_edge_s() == NOW_S + 3600


def test_an_abandoned_walk_moves_no_edge() -> None:
    index = ready_index(window_s=3600)
    walk(index, {})
    index.begin_walk(NOW_S + 600)
    index.abandon_walk()
    assert index.edges.node_edge_s() == NOW_S + 3600


def test_the_first_walk_of_a_group_counts_as_gained() -> None:
    assert walk(ready_index(), {1: MINUTE, 2: MINUTE}) == WalkCounts(gained=2)


def test_admissions_are_not_missing_and_what_was_due_before_the_edge_is() -> None:
    index = ready_index(window_s=3600)
    walk(index, {})
    later = NOW_S + 1200
    table = {1: MINUTE + 59, 2: MINUTE + 60, 3: MINUTE + 79, 4: MINUTE + 80}
    assert walk(index, table, later) == WalkCounts(missing=1, admitted=2)
    assert held(index) == [1, 2, 3]


def test_a_row_that_differs_is_mismatched_and_a_vanished_one_a_phantom() -> None:
    index = ready_index()
    walk(index, {1: MINUTE, 2: MINUTE, 3: MINUTE})
    assert walk(index, {1: MINUTE + 5, 3: MINUTE}) == WalkCounts(mismatched=1, phantom=1)
    assert held(index) == [1, 3]
    assert walk(index, {1: MINUTE + 5, 3: MINUTE}) == WalkCounts()


def test_a_row_without_a_deadline_is_unschedulable_and_never_repaired() -> None:
    index = ready_index()
    for _ in range(2):
        assert walk(index, {1: feed.NO_DUE, 2: MINUTE}).unschedulable == 1
    assert walk(index, {1: feed.NO_DUE, 2: MINUTE}) == WalkCounts(unschedulable=1)
    assert held(index) == [2]


def test_an_event_during_a_walk_wins_over_what_the_walk_read() -> None:
    """F2: the walk's snapshot is older than the event, or as old."""
    index = ready_index()
    walk(index, {1: MINUTE, 2: MINUTE, 3: MINUTE})
    counts = WalkCounts()
    began = index.begin_walk(NOW_S)
    snapshot = walked({1: MINUTE, 2: MINUTE, 3: MINUTE})
    index.apply(event(1, MINUTE + 7), NOW_S)
    index.apply(event(2, flags=feed.DELETED), NOW_S)
    index.apply(event(4, MINUTE), NOW_S)
    index.merge(snapshot, began, NOW_S, counts)
    index.finish_walk(began)
    assert counts == WalkCounts()
    assert held(index) == [1, 3, 4]
    assert [entry.page_id for entry in index.best(9, NOW_S)] == [3, 4]


def test_touched_rows_close_with_their_range() -> None:
    index = ready_index()
    walk(index, {1: MINUTE, 10: MINUTE})
    counts = WalkCounts()
    began = index.begin_walk(NOW_S)
    index.apply(event(1, MINUTE + 7), NOW_S)
    index.merge(walked({1: MINUTE}, upper=5), began, NOW_S, counts)
    index.merge(walked({10: MINUTE}, lower=5), began, NOW_S, counts)
    index.apply(event(1, MINUTE + 9), NOW_S)
    assert counts == WalkCounts()


def test_a_group_named_for_a_rewalk_during_a_walk_keeps_no_edge() -> None:
    index = ready_index(window_s=3600)
    counts = WalkCounts()
    began = index.begin_walk(NOW_S)
    index.edges.named_for_rewalk([7])
    index.merge(walked({}), began, NOW_S, counts)
    index.finish_walk(began)
    assert index.edges.node_edge_s() == -math.inf
    assert index.edges.edge_s[8] == NOW_S + 3600


def test_a_group_lost_and_regained_during_a_walk_keeps_no_edge() -> None:
    index = ready_index(window_s=3600)
    began = index.begin_walk(NOW_S)
    index.lose([7])
    index.gain([7])
    index.edges.feed_opened([7])
    index.finish_walk(began)
    assert index.edges.edge_s[7] == -math.inf


def test_a_group_without_a_feed_gets_no_edge() -> None:
    index = ScheduleIndex(rules(3600))
    index.gain(range(GROUPS))
    walk(index, {})
    assert index.edges.node_edge_s() == -math.inf


def test_losing_groups_drops_their_rows_and_no_others() -> None:
    index = ready_index()
    walk(index, {1: MINUTE, 4: MINUTE, 9: MINUTE})
    assert index.lose([group_of(4)]) == 1
    assert held(index) == [1, 9]
    index.apply(event(5), NOW_S)
    assert held(index) == [1, 9]


def test_a_narrower_window_moves_the_edge_back_at_once_and_drops_nothing() -> None:
    index = ready_index(window_s=7200)
    walk(index, {1: MINUTE + 100})
    assert index.set_rules(rules(window_s=1800), NOW_S + 60) is False
    assert index.edges.node_edge_s() == NOW_S + 60 + 1800
    assert held(index) == [1]


def test_a_window_where_there_was_none_moves_the_edge_from_infinity() -> None:
    index = ready_index(window_s=0)
    walk(index, {})
    index.set_rules(rules(window_s=1800), NOW_S)
    assert index.edges.node_edge_s() == NOW_S + 1800


@pytest.mark.parametrize("wider", [7200, 0])
def test_a_wider_window_asks_for_a_walk(wider: int) -> None:
    index = ready_index(window_s=3600)
    walk(index, {})
    assert index.set_rules(rules(window_s=wider), NOW_S) is True
    assert index.edges.node_edge_s() == NOW_S + 3600


def test_a_window_that_was_narrower_for_a_while_during_a_walk_holds_the_edge_back() -> None:
    """Rows beyond it were turned away while it was in force."""
    index = ready_index(window_s=0)
    began = index.begin_walk(NOW_S)
    index.set_rules(rules(window_s=600), NOW_S)
    index.apply(event(1, MINUTE + 30), NOW_S)
    index.set_rules(rules(window_s=0), NOW_S)
    index.finish_walk(began)
    assert index.edges.node_edge_s() == NOW_S + 600


def test_rows_beyond_a_narrowed_window_are_neither_repaired_nor_dropped_by_the_next_walk() -> None:
    index = ready_index(window_s=7200)
    walk(index, {1: MINUTE + 100})
    index.set_rules(rules(window_s=600), NOW_S)
    assert walk(index, {1: MINUTE + 100}) == WalkCounts()
    assert held(index) == [1]


def test_the_last_of_several_states_of_a_page_in_one_payload_wins() -> None:
    index = ready_index()
    index.apply(np.concatenate([event(2), event(1), event(2, MINUTE + 9), event(1, flags=feed.DELETED)]), NOW_S)
    assert held(index) == [2]
    assert index.best(9, NOW_S) == []
    assert [entry.page_id for entry in index.best(9, NOW_S + 600)] == [2]


def test_a_backoff_ends_by_the_clock_and_a_later_event_replaces_it() -> None:
    index = ready_index()
    index.apply(event(1, retry_s=int(NOW_S) + 100), NOW_S)
    assert index.best(1, NOW_S + 99) == []
    index.apply(event(1, retry_s=int(NOW_S) + 500), NOW_S + 99)
    assert index.best(1, NOW_S + 101) == []
    assert [entry.page_id for entry in index.best(1, NOW_S + 500)] == [1]


def test_a_parked_page_comes_back_by_the_clock_or_by_its_event() -> None:
    index = ready_index()
    index.apply(np.concatenate([event(1), event(2)]), NOW_S)
    index.park([1, 2], NOW_S + 50)
    assert index.best(9, NOW_S + 49) == []
    assert index.counts(NOW_S + 49).parked == 2
    index.apply(event(2), NOW_S + 49)
    assert [entry.page_id for entry in index.best(9, NOW_S + 49)] == [2]
    assert [entry.page_id for entry in index.best(9, NOW_S + 50)] == [1, 2]


def test_a_walk_leaves_parked_pages_parked() -> None:
    index = ready_index()
    index.apply(event(1), NOW_S)
    index.park([1], math.inf)
    assert walk(index, {1: MINUTE, 2: MINUTE}).mismatched == 0
    assert [entry.page_id for entry in index.best(9, NOW_S)] == [2]


def test_a_change_of_a_routes_interval_reorders_at_once_and_moves_no_deadline() -> None:
    index = ready_index()
    two = np.concatenate([event(1, MINUTE - 100), event(2, MINUTE - 50)])
    two[1, feed.ROUTE] = 6
    both = dict(rules().routes) | {6: RouteRules(6, 1, 0, False)}
    index.set_rules(Rules(routes=both, sites=rules().sites), NOW_S)
    index.apply(two, NOW_S)
    assert [entry.page_id for entry in index.best(9, NOW_S)] == [1, 2]
    both[6] = RouteRules(6, 1, 600, False)
    index.set_rules(Rules(routes=both, sites=rules().sites), NOW_S)
    after = index.best(9, NOW_S)
    assert [entry.page_id for entry in after] == [2, 1]
    assert {entry.page_id: entry.due_minute for entry in after} == {1: MINUTE - 100, 2: MINUTE - 50}


def test_pages_of_a_closed_site_are_passed_over() -> None:
    index = ready_index()
    index.apply(event(1), NOW_S)
    assert index.best(9, NOW_S, closed_sites=frozenset({1})) == []
    assert [entry.page_id for entry in index.best(9, NOW_S, closed_sites=frozenset({2}))] == [1]


def test_requests_are_remembered_from_walks_and_ended_by_events() -> None:
    index = ready_index()
    snapshot = walked({1: MINUTE, 2: MINUTE})
    asked = (np.array([2], np.int64), np.array([int(NOW_S * 1000)], np.int64))
    began = index.begin_walk(NOW_S)
    index.merge(_with_requests(snapshot, asked), began, NOW_S, WalkCounts())
    index.finish_walk(began)
    assert [entry.priority_class.label for entry in index.best(9, NOW_S)] == ["urgent", "discovered"]
    index.apply(event(2), NOW_S)
    assert [entry.priority_class.label for entry in index.best(9, NOW_S)] == ["discovered", "discovered"]


def test_a_walk_repairs_a_request_that_memory_missed() -> None:
    index = ready_index()
    walk(index, {1: MINUTE})
    asked = (np.array([1], np.int64), np.array([int(NOW_S * 1000)], np.int64))
    counts = WalkCounts()
    for expected in (1, 1):
        began = index.begin_walk(NOW_S)
        index.merge(_with_requests(walked({1: MINUTE}), asked), began, NOW_S, counts)
        index.finish_walk(began)
        assert counts.mismatched == expected
    assert walk(index, {1: MINUTE}).mismatched == 1
    assert index.best(1, NOW_S)[0].priority_class.label == "discovered"


def _with_requests(given: WalkedRange, requested: Any) -> WalkedRange:
    from dataclasses import replace

    return replace(given, requested=requested)
