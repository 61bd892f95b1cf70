"""A schedule table, its change feed and its walks as plain values, around a real keeper index: every interleaving can
be chosen step by step. Used by the keeper's state machine test and by `bin/bench keeper_soak`.

The simulated table commits in order; events wait in one queue until they are delivered; markers wait in it too. Losing
the feed drops what waits, as a lost connection does.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from keeper.index import ScheduleIndex, WalkCounts
from renderqueue.identity import group_of
from renderqueue.scheduling import feed
from renderqueue.scheduling.rules import RouteRules, Rules, SiteRules
from renderqueue.scheduling.walk import FIRST_ID, LAST_ID, WalkedRange

START_S = 1_800_000_000.0
PARTITIONS_USED = 16
GROUPS_USED = PARTITIONS_USED // 4
RANGE_ROWS = 3
INTERVAL_S = 3600


@dataclass(frozen=True)
class Row:
    """One page; `due` in minutes, feed.NO_DUE for none."""

    id: int
    due: int
    failures: int = 0
    listed: bool = False
    asked_ms: int = 0
    retry_s: int = 0

    @property
    def partition(self) -> int:
        return self.id % PARTITIONS_USED

    @property
    def group(self) -> int:
        return group_of(self.partition)

    def event(self, *, deleted: bool = False) -> list[int]:
        flags = (feed.LISTED if self.listed else 0) | (feed.DELETED if deleted else 0)
        return [self.id, self.partition, self.due, 0, flags, self.failures, self.asked_ms, self.retry_s, 1]


@dataclass
class RunningWalk:
    t0_s: float
    began: NDArray[np.int64]
    next_lower: int = FIRST_ID
    pending: deque[tuple[int, WalkedRange]] = field(default_factory=deque)
    counts: WalkCounts = field(default_factory=WalkCounts)
    first: bool = False


class SimulatedFeed:
    """The table, what waits on the feed, and one node's index."""

    def __init__(self) -> None:
        self.table: dict[int, Row] = {}
        self.now_s = START_S
        self.window_s = 0
        self.index = ScheduleIndex(self._rules())
        self.waiting: deque[list[int] | int] = deque()
        self.owned: set[int] = set()
        self.connected = True
        self.walk: RunningWalk | None = None
        self.unreadable: set[int] = set()
        self._marker = 0
        self._arrived: set[int] = set()
        self.gain(set(range(GROUPS_USED)))

    # Writes

    def put(self, rows: list[Row]) -> None:
        """Insert or update, one statement."""
        for row in rows:
            self.table[row.id] = row
            self._send(row.event(), row.group)

    def delete(self, page_id: int) -> None:
        row = self.table.pop(page_id)
        self.unreadable.discard(page_id)
        self._send(row.event(deleted=True), row.group)

    def _send(self, event: list[int], group: int) -> None:
        if self.connected and group in self.owned:
            self.waiting.append(event)

    # The feed

    def deliver(self, most: int) -> None:
        batch: list[list[int]] = []
        while self.waiting and most > 0:
            item = self.waiting.popleft()
            most -= 1
            if isinstance(item, int):
                self._apply(batch)
                batch = []
                self._arrived.add(item)
            else:
                batch.append(item)
        self._apply(batch)

    def _apply(self, batch: list[list[int]]) -> None:
        if batch:
            self.index.apply(np.array(batch, dtype=np.int64), self.now_s)

    def cut(self) -> None:
        """The connection is lost: what waited is lost, and a running walk with it."""
        self.connected = False
        self.waiting.clear()
        self.index.edges.feed_lost()
        self.fail_walk()

    def connect(self) -> None:
        self.connected = True
        self.index.edges.feed_opened(self.owned)

    # Membership, settings, time

    def gain(self, groups: set[int]) -> None:
        new = groups - self.owned
        self.owned |= new
        self.index.gain(new)
        if self.connected:
            self.index.edges.feed_opened(new)

    def lose(self, groups: set[int]) -> None:
        gone = groups & self.owned
        self.owned -= gone
        self.index.lose(gone)
        self.waiting = deque(
            item for item in self.waiting if isinstance(item, int) or group_of(item[feed.PARTITION]) in self.owned
        )

    def set_window(self, window_s: int) -> None:
        self.window_s = window_s
        self.index.set_rules(self._rules(), self.now_s)

    def advance(self, seconds: float) -> None:
        self.now_s += seconds

    def _rules(self) -> Rules:
        return Rules(
            window_s=self.window_s,
            routes={1: RouteRules(1, 1, 0, False)},
            sites={1: SiteRules(1, INTERVAL_S, 4, False)},
        )

    # Walks

    def begin_walk(self) -> None:
        self._arrived.clear()
        self.waiting = deque(item for item in self.waiting if not isinstance(item, int))
        first = not self.index.edges.walked_once()
        self.walk = RunningWalk(self.now_s, self.index.begin_walk(self.now_s), first=first)

    def read_range(self) -> None:
        """A snapshot of the next rows; its marker joins the queue."""
        walk = self.walk
        assert walk is not None
        ids = sorted(
            page_id for page_id, row in self.table.items() if page_id > walk.next_lower and walk.began[row.group] >= 0
        )[:RANGE_ROWS]
        upper = LAST_ID if len(ids) < RANGE_ROWS else ids[-1]
        bad = tuple(page_id for page_id in ids if page_id in self.unreadable)
        rows = [self.table[page_id] for page_id in ids if page_id not in self.unreadable]
        self._marker += 1
        walk.pending.append((self._marker, _walked(rows, walk.next_lower, upper, bad)))
        self.waiting.append(self._marker)
        walk.next_lower = upper

    def merge_arrived(self) -> None:
        walk = self.walk
        assert walk is not None
        while walk.pending and walk.pending[0][0] in self._arrived:
            self.index.merge(walk.pending.popleft()[1], walk.began, self.now_s, walk.counts)

    def all_read(self) -> bool:
        return self.walk is not None and self.walk.next_lower == LAST_ID

    def finish_walk(self) -> WalkCounts:
        """Everything is read and merged."""
        walk = self.walk
        assert walk is not None
        assert not walk.pending
        self.index.finish_walk(walk.began)
        self.walk = None
        return walk.counts

    def fail_walk(self) -> None:
        if self.walk is not None:
            self.index.abandon_walk()
            self.walk = None
            self.waiting = deque(item for item in self.waiting if not isinstance(item, int))

    def whole_walk(self) -> WalkCounts:
        self.fail_walk()
        self.begin_walk()
        while not self.all_read():
            self.read_range()
            self.deliver(len(self.waiting))
            self.merge_arrived()
        return self.finish_walk()

    # What must be true

    def complete(self) -> bool:
        return self.index.edges.walked_once() and self.now_s < self.index.edges.node_edge_s()

    def mine(self) -> dict[int, Row]:
        return {
            page_id: row
            for page_id, row in self.table.items()
            if row.group in self.owned and row.due != feed.NO_DUE and page_id not in self.unreadable
        }

    def check(self) -> None:
        """With nothing on its way: what claims to be complete is exact, and what is held is true."""
        if self.waiting or not self.connected:
            return
        held = set(self.index.held_ids().tolist()) - self.unreadable
        mine = self.mine()
        edge_s = self.index.edges.edge_s
        for page_id, row in mine.items():
            if row.due * 60 < edge_s[row.group]:
                assert page_id in held, f"page {page_id} is due before the edge and not held"
        if self.complete() and not self.unreadable:
            due = {page_id for page_id, row in mine.items() if row.due * 60 <= self.now_s}
            counted = self.index.counts(self.now_s)
            assert counted.due == len(due)
            claimable = [row for row in mine.values() if row.due * 60 <= self.now_s and row.retry_s <= self.now_s]
            expected = [row.id for row in sorted(claimable, key=self._rank)]
            assert [entry.page_id for entry in self.index.best(1000, self.now_s)] == expected
        if self.index.edges.walked_once():
            phantoms = {page_id for page_id in held if page_id not in mine}
            assert not phantoms, f"held, but not in the table: {phantoms}"

    def _rank(self, row: Row) -> tuple[float, ...]:
        urgent = bool(row.asked_ms) and self.now_s * 1000 - row.asked_ms < 4 * 86400_000
        if urgent:
            return (0, -row.asked_ms, row.id)
        kind = 3 if row.failures >= 3 else 1 if row.listed else 2
        return (kind, -(self.now_s - row.due * 60) / INTERVAL_S, row.id)


def _walked(rows: list[Row], lower: int, upper: int, unreadable: tuple[int, ...]) -> WalkedRange:
    def sparse(values: dict[int, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        some = {page_id: value for page_id, value in values.items() if value}
        return np.array(list(some), dtype=np.int64), np.array(list(some.values()), dtype=np.int64)

    return WalkedRange(
        lower=lower,
        upper=upper,
        ids=np.array([row.id for row in rows], dtype=np.int64),
        due_minute=np.array([row.due for row in rows], dtype=np.int32),
        declared_s=np.zeros(len(rows), dtype=np.int32),
        flags=np.array([feed.LISTED if row.listed else 0 for row in rows], dtype=np.uint8),
        failures=np.array([row.failures for row in rows], dtype=np.uint8),
        partition=np.array([row.partition for row in rows], dtype=np.int16),
        route_id=np.ones(len(rows), dtype=np.int32),
        requested=sparse({row.id: row.asked_ms for row in rows}),
        retry=sparse({row.id: row.retry_s for row in rows}),
        unreadable=unreadable,
    )
