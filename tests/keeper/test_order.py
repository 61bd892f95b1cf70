"""The vector passes against the scalar rules, and the order's own promises."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeper import columns as col
from keeper import counts, due_set
from keeper.columns import Columns, Rows
from keeper.due_set import Choice, DueSet, OrderInputs
from keeper.order import RouteTable
from renderqueue.scheduling.intervals import effective_interval_s
from renderqueue.scheduling.priority import PriorityClass, classify, relative_lateness

NOW_MINUTE = 30_000_000
NOW_S = NOW_MINUTE * 60.0 + 17
ROUTE_INTERVALS = (0, 600, 86400)
DECLARED = (0, 3600, 7 * 86400)
DEFAULT_S = 96 * 3600
COLD_AFTER = 3


@dataclass(frozen=True)
class Page:
    id: int
    due: int
    route: int
    declared: int
    flags: int
    failures: int
    asked_ms: int


pages = st.builds(
    Page,
    id=st.integers(1, 10**9),
    due=st.integers(NOW_MINUTE - 5000, NOW_MINUTE + 100),
    route=st.integers(0, 3),
    declared=st.integers(0, 2),
    flags=st.sampled_from([0, col.LISTED, col.DEAD, col.PARKED, col.BACKING_OFF, col.LISTED | col.RENDERED]),
    failures=st.integers(0, 5),
    asked_ms=st.sampled_from([0, 0, int(NOW_S * 1000) - 10, int(NOW_S * 1000) - 5 * 86400_000]),
)
corpora = st.lists(pages, max_size=60, unique_by=lambda page: page.id)


def routes() -> RouteTable:
    """Three open routes and a paused one."""
    return RouteTable(
        route_id=np.array([10, 11, 12, 13]),
        site_id=np.array([1, 1, 2, 3]),
        interval_s=np.array([*ROUTE_INTERVALS, 0], dtype=np.int32),
        default_s=np.full(4, DEFAULT_S, dtype=np.int32),
        submitted=np.array([False, True, False, False]),
        paused=np.array([False, False, False, True]),
    )


def as_rows(corpus: list[Page]) -> Rows:
    ordered = sorted(corpus, key=lambda page: page.id)
    return Rows(
        np.array([page.id for page in ordered], dtype=np.int64),
        np.array([page.due for page in ordered], dtype=np.int32),
        np.array([page.route for page in ordered], dtype=np.int32),
        np.array([page.declared for page in ordered], dtype=np.int16),
        np.array([page.flags | (col.REQUESTED if page.asked_ms else 0) for page in ordered], dtype=np.uint8),
        np.array([page.failures for page in ordered], dtype=np.uint8),
        np.array([page.id % 1024 for page in ordered], dtype=np.int16),
    )


def class_of(page: Page) -> PriorityClass:
    return classify(
        listed=bool(page.flags & col.LISTED),
        treat_as_submitted=page.route == 1,
        failures=page.failures,
        requested_at_s=page.asked_ms / 1000 if page.asked_ms else None,
        now_s=NOW_S,
        cold_after=COLD_AFTER,
    )


def rank(page: Page) -> tuple[float, ...]:
    interval = effective_interval_s(
        (*ROUTE_INTERVALS, 0)[page.route] or None, DECLARED[page.declared] or None, DEFAULT_S
    )
    kind = class_of(page)
    lateness = relative_lateness(page.due * 60, interval, NOW_S)
    return (kind, -page.asked_ms if kind is PriorityClass.URGENT else -lateness, page.id)


def claimable(page: Page) -> bool:
    withheld = page.flags & (col.DEAD | col.PARKED | col.BACKING_OFF)
    return page.due <= NOW_MINUTE and not withheld and page.route != 3


def columns_of(corpus: list[Page]) -> Columns:
    columns = Columns()
    columns.insert(as_rows(corpus))
    return columns


def inputs_of(corpus: list[Page]) -> OrderInputs:
    asked = {page.id: page.asked_ms for page in corpus if page.asked_ms}
    return OrderInputs(routes(), np.array(DECLARED, dtype=np.int32), asked, COLD_AFTER)


def best(corpus: list[Page], size: int) -> Choice:
    return DueSet().best(columns_of(corpus), inputs_of(corpus), NOW_S, size, frozenset())


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the rows lie in several segments."""
    monkeypatch.setattr(col, "SEGMENT_ROWS", 16)
    monkeypatch.setattr(due_set, "SEGMENT_ROWS", 16)


@given(corpora, st.integers(1, 70))
def test_the_best_are_what_sorting_everything_by_the_scalar_rules_gives(corpus: list[Page], size: int) -> None:
    expected = sorted(filter(claimable, corpus), key=rank)[:size]
    choice = best(corpus, size)
    assert choice.ids.tolist() == [page.id for page in expected]
    assert choice.kinds.tolist() == [class_of(page) for page in expected]


@given(corpora, st.lists(st.tuples(st.lists(pages, max_size=8), st.integers(0, 3)), max_size=6))
def test_a_due_set_that_is_kept_while_rows_change_chooses_what_a_new_one_would(
    corpus: list[Page], rounds: list[tuple[list[Page], int]]
) -> None:
    columns, inputs, kept = columns_of(corpus), inputs_of(corpus), DueSet()
    for changes, minutes in rounds:
        now_s = NOW_S + 60 * minutes
        assert kept.best(columns, inputs, now_s, 50, frozenset()).ids.tolist() == (
            DueSet().best(columns, inputs, now_s, 50, frozenset()).ids.tolist()
        )
        changed = as_rows(list({page.id: page for page in changes}.values()))
        new = np.ones(len(changed), dtype=np.bool_)
        for at in columns.find(changed.id):
            new[at.span] &= ~at.found
            for name in ("due", "route", "declared", "flags", "failures"):
                getattr(at.rows, name)[at.positions[at.found]] = getattr(changed, name)[at.span][at.found]
            kept.touch(at.places())
        columns.insert(changed.take(new))
    assert kept.best(columns, inputs, NOW_S, 50, frozenset()).ids.tolist() == (
        DueSet().best(columns, inputs, NOW_S, 50, frozenset()).ids.tolist()
    )


@given(corpora)
def test_closed_sites_are_passed_over_before_the_cut(corpus: list[Page]) -> None:
    open_pages = [page for page in corpus if claimable(page) and page.route != 2]
    choice = DueSet().best(columns_of(corpus), inputs_of(corpus), NOW_S, 5, frozenset({2}))
    assert choice.ids.tolist() == [page.id for page in sorted(open_pages, key=rank)[:5]]


def page(page_id: int, **changes: int) -> Page:
    values = {"due": NOW_MINUTE - 60, "route": 0, "declared": 0, "flags": 0, "failures": 0, "asked_ms": 0} | changes
    return Page(id=page_id, **values)


def test_an_hourly_page_two_hours_late_goes_before_a_weekly_one_three_hours_late() -> None:
    hourly, weekly = page(1, due=NOW_MINUTE - 120, declared=1), page(2, due=NOW_MINUTE - 180, declared=2)
    assert best([weekly, hourly], 2).ids.tolist() == [1, 2]


def test_lateness_divides_by_the_cadence_of_the_route_where_it_sets_one() -> None:
    """Trap 3: not by the declared cadence, which the route overrides."""
    choice = best([page(1, route=1, declared=2)], 1)
    assert choice.interval_s.tolist() == [600]
    assert choice.lateness.tolist() == [(60 * 60 + 17) / 600]


def test_a_single_request_after_a_bulk_one_goes_next() -> None:
    bulk = [page(number, asked_ms=int(NOW_S * 1000) - 60_000) for number in range(1, 50)]
    single = page(99, due=NOW_MINUTE, asked_ms=int(NOW_S * 1000) - 1000)
    assert best([*bulk, single], 1).ids.tolist() == [99]


def test_a_thousand_ties_all_get_their_turn() -> None:
    """Trap 4: with batches of one, each page once."""
    corpus = [page(number) for number in range(1, 1001)]
    columns, inputs, kept = columns_of(corpus), inputs_of(corpus), DueSet()
    turns = []
    for _ in corpus:
        choice = kept.best(columns, inputs, NOW_S, 1, frozenset())
        turns.extend(choice.ids.tolist())
        for at in columns.find(choice.ids):
            at.rows.flags[at.positions] |= col.PARKED
            kept.touch(at.places())
    assert turns == list(range(1, 1001))


@given(corpora)
def test_counts_are_what_counting_one_by_one_gives(corpus: list[Page]) -> None:
    columns, kept = columns_of(corpus), DueSet()
    kept.refresh(columns, inputs_of(corpus), NOW_S)
    counted = counts.count(columns.segments(), kept, NOW_S)
    alive = [page for page in corpus if not page.flags & col.DEAD]
    due = [page for page in alive if page.due <= NOW_MINUTE]
    assert (counted.held, counted.due) == (len(alive), len(due))
    assert counted.claimable == sum(map(claimable, corpus))
    assert counted.claimable + counted.parked + counted.backing_off + counted.paused == counted.due
    for kind in PriorityClass:
        assert counted.due_by_class[kind.label] == sum(class_of(page) is kind for page in due)
    ahead = [page.due for page in alive if page.due > NOW_MINUTE]
    assert counted.coming[0] == sum(minute <= NOW_MINUTE + 60 for minute in ahead)
    assert sum(counted.coming) == len(ahead)
    assert counted.oldest_due_minute == min((page.due for page in due), default=None)
    assert counted.next_due_minute == min(ahead, default=None)
