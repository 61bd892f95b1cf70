"""The schedule in memory, with its lock: events and walks go in, the order and the counts come out.

One writer at a time; every public method takes the lock for one bounded pass. Times are keeper time in
seconds since 1970, passed in.
"""

from __future__ import annotations

import heapq
import math
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from keeper import columns as col
from keeper import counts, order
from keeper.codes import CodeBook
from keeper.columns import Columns, Rows
from keeper.due_set import Choice, DueSet, OrderInputs
from keeper.edge import GroupEdges
from keeper.merge import RangeMerge, merge_range
from renderqueue.identity import GROUPS, PARTITIONS
from renderqueue.scheduling import feed
from renderqueue.scheduling.priority import PriorityClass
from renderqueue.scheduling.rules import Rules
from renderqueue.scheduling.walk import WalkedRange

UNKNOWN_ROUTE_INTERVAL_S = 3600
MAX_SECONDS = np.iinfo(np.int32).max


@dataclass(slots=True)
class Flow:
    """What events did to the held rows, since the start (D13). Counters only go up."""

    added: int = 0
    rescheduled: int = 0
    removed: int = 0
    deferred: int = 0


@dataclass(slots=True)
class WalkCounts:
    """What walks found, since the start: six counters, first match (W6)."""

    unschedulable: int = 0
    gained: int = 0
    missing: int = 0
    admitted: int = 0
    mismatched: int = 0
    phantom: int = 0

    @property
    def repaired(self) -> int:
        return self.missing + self.mismatched + self.phantom


class ScheduleIndex:
    """The held rows of one node."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.lock = threading.RLock()
        self.edges = GroupEdges()
        self.flow = Flow()
        self._columns = Columns()
        self._due_set = DueSet()
        self._inputs: OrderInputs | None = None
        self._route_book = CodeBook()
        self._declared_book = CodeBook(0)
        self._requests: dict[int, int] = {}
        self._retries: dict[int, int] = {}
        self._parked: dict[int, float] = {}
        self._timers: list[tuple[float, int]] = []
        self._touched: set[int] | None = None
        self._limit_s = -math.inf
        self._promise_s = math.inf
        self._owned = np.zeros(PARTITIONS, dtype=np.bool_)
        self._rules = rules or Rules()
        self._routes = self._route_table()
        self._routes_looked_up = 0

    # Settings and ownership

    @property
    def rules(self) -> Rules:
        return self._rules

    def set_rules(self, rules: Rules, now_s: float) -> bool:
        """Settings changed: everything derived follows at once (D7, K2). A narrower window moves the edge back
        in the same instant (W3). Returns whether a walk is needed, because the window became wider."""
        with self.lock:
            before, self._rules = self._rules.window_s, rules
            self._routes = self._route_table()
            if rules.window_s == before:
                return False
            narrower = rules.window_s != 0 and (before == 0 or rules.window_s < before)
            if narrower:
                self.edges.narrow(now_s + rules.window_s)
                self._limit_s = now_s + rules.window_s
                self._promise_s = min(self._promise_s, self._limit_s)
            return not narrower

    def gain(self, groups: Iterable[int]) -> None:
        with self.lock:
            groups = list(groups)
            self.edges.gain(groups)
            self._owned = np.repeat(self.edges.owned, PARTITIONS // GROUPS)

    def lose(self, groups: Iterable[int]) -> int:
        """Groups that another node owns now: their rows go. Returns how many."""
        with self.lock:
            groups = list(groups)
            self.edges.lose(groups)
            self._owned = np.repeat(self.edges.owned, PARTITIONS // GROUPS)
            dropped = self._columns.drop(~self._owned)
            for remembered in (self._requests, self._retries, self._parked):
                for page_id in [page_id for page_id in remembered if self._columns.locate(page_id) is None]:
                    del remembered[page_id]
            return dropped

    # Events

    def apply(self, events: NDArray[np.int64], now_s: float) -> None:
        """New states of rows from the feed, shape (rows, feed.FIELDS), in commit order. The last state of a
        page wins. What is due beyond the window is not held (D13)."""
        with self.lock:
            if self._touched is not None:
                self._touched.update(events[:, feed.ID].tolist())
            if len(events) == 1 and self._apply_one(events[0].tolist(), now_s):
                return
            events = _last_of_each(events)
            rows, alive, admitted = self._rows_of_events(events, now_s)
            self._remember(events, now_s)
            inserted = admitted.copy()
            was_held = np.zeros(len(rows), dtype=np.bool_)
            for at in self._columns.find(rows.id):
                inserted[at.span] &= ~at.found
                where = at.positions[at.found]
                was_held[at.span][at.found] = (at.rows.flags[where] & col.DEAD) == 0
                _overwrite(at.rows, where, rows.take(at.span).take(at.found))
                self._due_set.touch(at.places())
            self.flow.added += int(np.count_nonzero(admitted & ~was_held))
            self.flow.rescheduled += int(np.count_nonzero(admitted & was_held))
            self.flow.removed += int(np.count_nonzero(~admitted & was_held))
            self.flow.deferred += int(np.count_nonzero(alive & ~admitted & ~was_held))
            self._columns.insert(rows.take(inserted))

    def _apply_one(self, event: list[int], now_s: float) -> bool:
        """The common case without vectors: a held row that stays held. Returns False for any other."""
        page_id, partition, due, declared, flags, failures, asked_ms, retry_s, route = event
        at = self._columns.locate(page_id)
        if at is None or flags & feed.DELETED or due == feed.NO_DUE or not self._owned[partition]:
            return False
        rows, position, place = at
        if rows.flags[position] & col.DEAD or due * 60 >= self._admission_limit(now_s):
            return False
        flags &= col.EVENT_FLAGS
        flags |= col.REQUESTED if asked_ms else 0
        flags |= col.BACKING_OFF if retry_s > now_s else 0
        rows.due[position] = due
        rows.route[position] = self._route_code(route)
        rows.declared[position] = self._declared_book.code(declared)
        rows.flags[position] = flags
        rows.failures[position] = min(failures, 255)
        rows.partition[position] = partition
        self._set_sparse(page_id, asked_ms, retry_s, now_s)
        self._parked.pop(page_id, None)
        self._due_set.touch([place])
        self.flow.rescheduled += 1
        return True

    def _rows_of_events(
        self, events: NDArray[np.int64], now_s: float
    ) -> tuple[Rows, NDArray[np.bool_], NDArray[np.bool_]]:
        """The events as rows (DEAD where not to be held), which pages exist schedulably, which are to be
        held."""
        partition = events[:, feed.PARTITION].astype(np.int16)
        flags = (events[:, feed.FLAGS] & col.EVENT_FLAGS).astype(np.uint8)
        alive = ((events[:, feed.FLAGS] & feed.DELETED) == 0) & (events[:, feed.DUE] != feed.NO_DUE)
        admitted = alive & self._owned[partition] & (events[:, feed.DUE] * 60 < self._admission_limit(now_s))
        flags[events[:, feed.REQUESTED] > 0] |= col.REQUESTED
        flags[events[:, feed.RETRY] > now_s] |= col.BACKING_OFF
        flags[~admitted] |= col.DEAD
        rows = Rows(
            id=events[:, feed.ID].copy(),
            due=events[:, feed.DUE].astype(np.int32),
            route=self._route_codes(events[:, feed.ROUTE]),
            declared=self._declared_book.encode(events[:, feed.DECLARED]).astype(np.int16),
            flags=flags,
            failures=np.minimum(events[:, feed.FAILURES], 255).astype(np.uint8),
            partition=partition,
        )
        return rows, alive, admitted

    def _remember(self, events: NDArray[np.int64], now_s: float) -> None:
        """Keep the sparse columns: requests and retries, and forget what an event ended."""
        some = (events[:, feed.REQUESTED] != 0) | (events[:, feed.RETRY] != 0)
        for page_id, asked, retry in events[some][:, [feed.ID, feed.REQUESTED, feed.RETRY]].tolist():
            self._set_sparse(page_id, asked, retry, now_s)
        for remembered in (self._requests, self._retries):
            if remembered:
                for page_id in events[~some, feed.ID].tolist():
                    remembered.pop(page_id, None)
        if self._parked:
            for page_id in events[:, feed.ID].tolist():
                self._parked.pop(page_id, None)

    def _set_sparse(self, page_id: int, asked_ms: int, retry_s: int, now_s: float) -> None:
        if asked_ms:
            self._requests[page_id] = asked_ms
        else:
            self._requests.pop(page_id, None)
        if retry_s > now_s:
            self._retries[page_id] = retry_s
            heapq.heappush(self._timers, (float(retry_s), page_id))
        else:
            self._retries.pop(page_id, None)

    # Walks

    def begin_walk(self, t0_s: float) -> NDArray[np.int64]:
        """Open the touched set (F2) and fix what this walk may cover; see `GroupEdges.begin_walk`."""
        with self.lock:
            self._touched = set()
            self._admission_limit(t0_s)
            window = self._rules.window_s
            self._promise_s = t0_s + window if window else math.inf
            return self.edges.begin_walk()

    def merge(self, walked: WalkedRange, began: NDArray[np.int64], now_s: float, counted: WalkCounts) -> None:
        """Compare one range, whose marker has come back, with memory and mend memory. Rows that events touched
        since the walk began are left as the events made them."""
        with self.lock:
            assert self._touched is not None
            groups = began >= 0
            found = RangeMerge(
                walked=walked,
                rows=self._rows_of_walk(walked, now_s),
                asked_ms=_scatter(walked.ids, walked.requested),
                retry_s=_future(_scatter(walked.ids, walked.retry), now_s),
                held=self._columns.range(walked.lower, walked.upper),
                left_alone=_within({*self._touched, *walked.unreadable}, walked.lower, walked.upper),
                walked_partition=np.repeat(groups, PARTITIONS // GROUPS) & self._owned,
                edge_s=self.edges.edge_s,
                limit_s=self._admission_limit(now_s),
            )
            outcome = merge_range(found, self._requests, self._retries)
            for name in asdict(counted):
                setattr(counted, name, getattr(counted, name) + getattr(outcome, name))
            if outcome.rows is not None:
                self._columns.replace_range(walked.lower, walked.upper, outcome.rows)
            for page_id, asked, retry in outcome.sparse:
                self._set_sparse(page_id, asked, retry, now_s)
            self._touched.difference_update(found.left_alone.tolist())

    def finish_walk(self, began: NDArray[np.int64]) -> None:
        """All ranges are merged: close the touched set and move the edges to t0 + window. Of several windows in
        force during the walk the narrowest counts: while it held, rows beyond it were turned away."""
        with self.lock:
            self._touched = None
            self.edges.finish_walk(began, self._promise_s)

    def abandon_walk(self) -> None:
        with self.lock:
            self._touched = None

    def _rows_of_walk(self, walked: WalkedRange, now_s: float) -> Rows:
        flags = walked.flags & np.uint8(col.EVENT_FLAGS)
        rows = Rows(
            id=walked.ids,
            due=walked.due_minute,
            route=self._route_codes(walked.route_id.astype(np.int64)),
            declared=self._declared_book.encode(walked.declared_s.astype(np.int64)).astype(np.int16),
            flags=flags,
            failures=walked.failures,
            partition=walked.partition,
        )
        flags[np.searchsorted(walked.ids, walked.requested[0])] |= col.REQUESTED
        backing_off = walked.retry[0][walked.retry[1] > now_s]
        flags[np.searchsorted(walked.ids, backing_off)] |= col.BACKING_OFF
        return rows

    # Parking: pages that are leased, or were refused at a claim

    def park(self, page_ids: Iterable[int], until_s: float) -> None:
        """Do not offer these pages before `until_s`, or before their next event."""
        with self.lock:
            ids = sorted(page_ids)
            for page_id in ids:
                self._parked[page_id] = until_s
                if until_s < math.inf:
                    heapq.heappush(self._timers, (until_s, page_id))
            self._set_flag(ids, col.PARKED, True)

    def unpark(self, page_ids: Iterable[int]) -> None:
        with self.lock:
            ids = [page_id for page_id in sorted(page_ids) if self._parked.pop(page_id, None) is not None]
            self._set_flag(ids, col.PARKED, False)

    def correct(self, page_id: int, due_minute: int | None) -> None:
        """A claim found the page gone (None) or with another deadline: take that over. The caller counts the
        repair."""
        with self.lock:
            if due_minute is None:
                self._set_flag([page_id], col.DEAD, True)
                return
            for at in self._columns.find(np.array([page_id], dtype=np.int64)):
                at.rows.due[at.positions[at.found]] = due_minute
                self._due_set.touch(at.places())

    def tick(self, now_s: float) -> None:
        """End the parkings and backoffs whose time has come."""
        with self.lock:
            unparked, retried = set(), set()
            while self._timers and self._timers[0][0] <= now_s:
                _, page_id = heapq.heappop(self._timers)
                if self._parked.get(page_id, math.inf) <= now_s:
                    del self._parked[page_id]
                    unparked.add(page_id)
                if self._retries.get(page_id, math.inf) <= now_s:
                    del self._retries[page_id]
                    retried.add(page_id)
            self._set_flag(sorted(unparked), col.PARKED, False)
            self._set_flag(sorted(retried), col.BACKING_OFF, False)

    def next_timer_s(self) -> float:
        """When `tick` next has something to do; +inf if never."""
        with self.lock:
            return self._timers[0][0] if self._timers else math.inf

    def _set_flag(self, ids: list[int], flag: int, on: bool) -> None:
        if not ids:
            return
        for at in self._columns.find(np.array(ids, dtype=np.int64)):
            flags, where = at.rows.flags, at.positions[at.found]
            flags[where] = flags[where] | flag if on else flags[where] & ~np.uint8(flag)
            self._due_set.touch(at.places())

    # Questions

    def choose(self, size: int, now_s: float, closed_sites: frozenset[int] = frozenset()) -> Choice:
        """The first `size` claimable pages in order, without those of sites that have no room now."""
        with self.lock:
            self.tick(now_s)
            return self._due_set.best(self._columns, self._order_inputs(), now_s, size, closed_sites)

    def best(self, size: int, now_s: float, closed_sites: frozenset[int] = frozenset()) -> list[order.Entry]:
        """`choose`, one object a page: for small sizes."""
        with self.lock:
            choice, routes = self.choose(size, now_s, closed_sites), self._routes
            asked = {page_id: self._requests[page_id] for page_id in choice.ids.tolist() if page_id in self._requests}
        return [
            order.Entry(
                page_id=page_id,
                priority_class=PriorityClass(kind),
                lateness=lateness,
                due_minute=due_minute,
                interval_s=interval_s,
                route_id=int(routes.route_id[code]),
                site_id=int(routes.site_id[code]),
                requested_ms=asked.get(page_id, 0),
            )
            for page_id, kind, lateness, due_minute, interval_s, code in zip(
                choice.ids.tolist(),
                choice.kinds.tolist(),
                choice.lateness.tolist(),
                choice.due.tolist(),
                choice.interval_s.tolist(),
                choice.route.tolist(),
                strict=True,
            )
        ]

    def counts(self, now_s: float) -> counts.Counts:
        with self.lock:
            self.tick(now_s)
            self._due_set.refresh(self._columns, self._order_inputs(), now_s)
            return counts.count(self._columns.segments(), self._due_set, now_s)

    def held_ids(self) -> NDArray[np.int64]:
        """The ids of all held rows, ascending."""
        with self.lock:
            parts = [rows.id[(rows.flags & col.DEAD) == 0] for rows in self._columns.segments()]
            return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def memory_bytes(self) -> tuple[int, int]:
        """Bytes of the columns of all rows in memory, and of the due set (W9), by their sizes."""
        with self.lock:
            return len(self._columns) * col.BYTES_A_ROW, self._due_set.bytes

    # Derived

    def _admission_limit(self, now_s: float) -> float:
        """Rows due before this are taken in: max(previous limit, now + window), never lowered here (W2c)."""
        window = self._rules.window_s
        self._limit_s = max(self._limit_s, now_s + window) if window else math.inf
        return self._limit_s

    def _route_codes(self, route_ids: NDArray[np.int64]) -> NDArray[np.int32]:
        known = len(self._route_book)
        codes = self._route_book.encode(route_ids)
        if len(self._route_book) != known:
            self._routes = self._route_table()
        return codes

    def _route_code(self, route_id: int) -> int:
        known = len(self._route_book)
        code = self._route_book.code(route_id)
        if len(self._route_book) != known:
            self._routes = self._route_table()
        return code

    def unknown_routes(self) -> bool:
        """Whether rows name routes that the rules did not have when they were last read for want of a route: read
        the rules again. A route that is gone for good is asked for once."""
        with self.lock:
            if len(self._route_book) == self._routes_looked_up:
                return False
            new = self._route_book.values[self._routes_looked_up :].tolist()
            self._routes_looked_up = len(self._route_book)
            return any(route_id not in self._rules.routes for route_id in new)

    def _order_inputs(self) -> OrderInputs:
        """The same object until a rule or a code table changes: the due set builds anew for a new one."""
        inputs = self._inputs
        if (
            inputs is None
            or inputs.routes is not self._routes
            or len(inputs.declared_s) != len(self._declared_book)
            or inputs.cold_after != self._rules.cold_after
        ):
            declared_s = np.minimum(self._declared_book.values, MAX_SECONDS).astype(np.int32)
            inputs = OrderInputs(self._routes, declared_s, self._requests, self._rules.cold_after)
            self._inputs = inputs
        return inputs

    def _route_table(self) -> order.RouteTable:
        """The rules by route code. Rows of a route that the rules lack are shown as paused until they are read
        again."""
        ids = self._route_book.values.tolist()
        size = len(ids)
        table = order.RouteTable(
            route_id=self._route_book.values.copy(),
            site_id=np.zeros(size, dtype=np.int64),
            interval_s=np.zeros(size, dtype=np.int32),
            default_s=np.full(size, UNKNOWN_ROUTE_INTERVAL_S, dtype=np.int32),
            submitted=np.zeros(size, dtype=np.bool_),
            paused=np.ones(size, dtype=np.bool_),
        )
        for code, route_id in enumerate(ids):
            route = self._rules.routes.get(route_id)
            site = self._rules.sites.get(route.site_id) if route else None
            if route is None or site is None:
                continue
            table.site_id[code] = site.site_id
            table.interval_s[code] = min(route.interval_s, MAX_SECONDS)
            table.default_s[code] = min(site.default_interval_s, MAX_SECONDS)
            table.submitted[code] = route.treat_as_submitted
            table.paused[code] = site.paused or self._rules.paused
        return table


def _overwrite(held: Rows, positions: NDArray[np.intp], rows: Rows) -> None:
    for name in col.COLUMN_TYPES:
        if name != "id":
            getattr(held, name)[positions] = getattr(rows, name)


def _last_of_each(events: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sorted by id; of several states of one page the last."""
    if len(events) == 1:
        return events
    by_id = np.argsort(events[:, feed.ID], kind="stable")
    events = events[by_id]
    last = np.ones(len(events), dtype=np.bool_)
    last[:-1] = events[1:, feed.ID] != events[:-1, feed.ID]
    return events[last]


def _scatter(ids: NDArray[np.int64], sparse: tuple[NDArray[np.int64], NDArray[np.int64]]) -> NDArray[np.int64]:
    dense = np.zeros(len(ids), dtype=np.int64)
    dense[np.searchsorted(ids, sparse[0])] = sparse[1]
    return dense


def _future(retry_s: NDArray[np.int64], now_s: float) -> NDArray[np.int64]:
    return np.where(retry_s > now_s, retry_s, 0)


def _within(ids: set[int], lower: int, upper: int) -> NDArray[np.int64]:
    return np.array(sorted(page_id for page_id in ids if lower < page_id <= upper), dtype=np.int64)
