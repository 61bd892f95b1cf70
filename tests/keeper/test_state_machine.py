"""Writes, late events, cuts, walks, clock, membership and window in any order: memory is never silently wrong."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bench.keeper_soak import Soak
from bench.simulated_feed import GROUPS_USED, START_S, Row, SimulatedFeed
from keeper.index import WalkCounts
from renderqueue.scheduling import feed

NOW_MINUTE = int(START_S // 60)
ids = st.integers(1, 24)
dues = st.one_of(st.just(feed.NO_DUE), st.integers(NOW_MINUTE - 200, NOW_MINUTE + 400))
rows = st.builds(
    Row,
    id=ids,
    due=dues,
    failures=st.integers(0, 4),
    listed=st.booleans(),
    asked_ms=st.sampled_from([0, 0, int(START_S * 1000), int(START_S * 1000) + 5]),
    retry_s=st.sampled_from([0, 0, int(START_S) + 600, int(START_S) + 7200]),
)
groups = st.sets(st.integers(0, GROUPS_USED - 1), min_size=1)


class KeeperMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.node = SimulatedFeed()

    @rule(written=st.lists(rows, min_size=1, max_size=6, unique_by=lambda row: row.id))
    def write(self, written: list[Row]) -> None:
        self.node.put(written)

    @precondition(lambda self: self.node.table)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self.node.delete(data.draw(st.sampled_from(sorted(self.node.table))))

    @rule(most=st.integers(1, 5))
    def deliver(self, most: int) -> None:
        self.node.deliver(most)

    @precondition(lambda self: self.node.connected)
    @rule()
    def cut(self) -> None:
        self.node.cut()

    @precondition(lambda self: not self.node.connected)
    @rule()
    def connect(self) -> None:
        self.node.connect()

    @rule(gained=groups)
    def gain(self, gained: set[int]) -> None:
        self.node.gain(gained)

    @rule(lost=groups)
    def lose(self, lost: set[int]) -> None:
        self.node.lose(lost)

    @rule(window_s=st.sampled_from([0, 600, 3600, 10_800]))
    def set_window(self, window_s: int) -> None:
        self.node.set_window(window_s)

    @rule(seconds=st.sampled_from([1, 59, 60, 600, 4000]))
    def advance(self, seconds: int) -> None:
        self.node.advance(seconds)

    @precondition(lambda self: self.node.walk is None and self.node.connected)
    @rule()
    def begin_walk(self) -> None:
        self.node.begin_walk()

    @precondition(lambda self: self.node.walk is not None and not self.node.all_read())
    @rule()
    def read_range(self) -> None:
        self.node.read_range()

    @precondition(lambda self: self.node.walk is not None)
    @rule()
    def merge(self) -> None:
        self.node.merge_arrived()
        if self.node.all_read() and self.node.walk is not None and not self.node.walk.pending:
            self.node.finish_walk()

    @rule()
    def fail_walk(self) -> None:
        self.node.fail_walk()

    @precondition(lambda self: self.node.connected)
    @rule()
    def a_clean_walk_makes_memory_equal_to_the_table(self) -> None:
        node = self.node
        node.deliver(len(node.waiting))
        node.whole_walk()
        limit_s = node.now_s + node.window_s if node.window_s else float("inf")
        held = set(node.index.held_ids().tolist())
        mine = node.mine()
        assert held <= set(mine)
        assert {page_id for page_id, row in mine.items() if row.due * 60 < limit_s} <= held
        again = node.whole_walk()
        assert again == WalkCounts(unschedulable=again.unschedulable)

    @invariant()
    def what_claims_to_be_exact_is(self) -> None:
        self.node.check()


TestKeeper = KeeperMachine.TestCase
TestKeeper.settings = settings(max_examples=40, stateful_step_count=50, deadline=None)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_random_walk_weighted_towards_walks_finds_nothing(seed: int) -> None:
    """Its weights make walks that interleave with writes common; `bin/bench keeper_soak` goes on for longer."""
    Soak(seed).run(4000)


def test_the_model_would_notice_a_lost_event() -> None:
    """The same checks, with an event that vanishes without a cut: they must fail."""
    node = SimulatedFeed()
    node.put([Row(1, NOW_MINUTE - 5)])
    node.deliver(9)
    node.whole_walk()
    node.put([Row(2, NOW_MINUTE - 5)])
    node.waiting.clear()
    assert node.complete()
    try:
        node.check()
    except AssertionError:
        return
    raise AssertionError(f"not noticed: {np.array(node.index.held_ids())}")
