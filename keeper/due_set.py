"""The due rows, kept apart from all others, so that choosing never passes over the whole base (K3).

13 bytes a due row: place, deadline, inverse cadence, kind. It is built once a minute (rows come due on whole
minutes) and whenever places moved; in between, rows that events touched are looked at one by one. Pure: no
Django, no clock, no lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keeper.columns import SEGMENT_ROWS, Columns, Rows, concatenate
from keeper.order import WITHHELD, RouteTable, classes, due, intervals, requested
from renderqueue.scheduling.priority import PriorityClass

HELD_BACK = len(PriorityClass)
"""The kind of a row that is due but withheld: parked, backing off, or of a paused route."""
NOT_DUE = HELD_BACK + 1
TOUCHED_LIMIT = 20_000
"""More touched rows than this, and building anew is cheaper."""


@dataclass(frozen=True, slots=True)
class OrderInputs:
    """Everything the order depends on besides the rows. A new one whenever any of it changes, except
    `requests`, which lives."""

    routes: RouteTable
    declared_s: NDArray[np.int32]
    requests: Mapping[int, int]
    cold_after: int


@dataclass(frozen=True, slots=True)
class Choice:
    """Claimable rows in order, as parallel arrays; `rows` are copies."""

    rows: Rows
    kinds: NDArray[np.uint8]
    lateness: NDArray[np.float64]
    interval_s: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.kinds)


class DueSet:
    """Due rows sorted by place."""

    def __init__(self) -> None:
        self._place: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self._due: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self._inverse: NDArray[np.float32] = np.empty(0, dtype=np.float32)
        self._kind: NDArray[np.uint8] = np.empty(0, dtype=np.uint8)
        self._touched: list[NDArray[np.int64]] = []
        self._touched_count = 0
        self._built_for: tuple[int, int, OrderInputs] | None = None
        self._end = 0

    def __len__(self) -> int:
        return len(self._place)

    @property
    def bytes(self) -> int:
        return sum(column.nbytes for column in (self._place, self._due, self._inverse, self._kind))

    def touch(self, places: NDArray[np.int64]) -> None:
        """The rows at these places changed."""
        if len(places):
            self._touched.append(places)
            self._touched_count += len(places)

    def refresh(self, columns: Columns, inputs: OrderInputs, now_s: float) -> None:
        """Make it true for this moment."""
        wanted = (int(now_s // 60), columns.moves, inputs)
        built = self._built_for
        same = built is not None and built[:2] == wanted[:2] and built[2] is inputs
        if not same or self._touched_count > TOUCHED_LIMIT:
            self._build(columns, inputs, now_s)
            self._built_for = wanted
        else:
            if columns.end() > self._end:
                self.touch(_places_between(columns, self._end))
            self._look_again(columns, inputs, now_s)
        self._end = columns.end()
        self._touched = []
        self._touched_count = 0

    def best(self, columns: Columns, inputs: OrderInputs, now_s: float, size: int, closed: frozenset[int]) -> Choice:
        """The first `size` claimable rows in order (D7): class, then newest request or relative lateness, then
        id. Rows of closed sites are passed over before the cut."""
        self.refresh(columns, inputs, now_s)
        kinds = self._kind
        if closed:
            kinds = self._without_closed(columns, inputs.routes, closed)
        age = (int(now_s // 60) - self._due).astype(np.float32)
        age += np.float32(now_s % 60 / 60)
        lateness = age * self._inverse
        chosen: list[NDArray[np.intp]] = []
        left = size
        for kind in PriorityClass:
            members = np.flatnonzero(kinds == kind)
            if kind is PriorityClass.URGENT:
                members = self._newest_first(columns, inputs, members)[:left]
            else:
                members = self._latest_first(columns, inputs, members, lateness, now_s, left)
            chosen.append(members)
            left -= len(members)
            if left <= 0:
                break
        return self._choice(columns, inputs, np.concatenate(chosen), now_s)

    def _build(self, columns: Columns, inputs: OrderInputs, now_s: float) -> None:
        now_minute = int(now_s // 60)
        places, parts = [], []
        for number, rows in enumerate(columns.segments()):
            here = np.flatnonzero(due(rows, now_minute))
            if len(here):
                places.append(here + number * SEGMENT_ROWS)
                parts.append(rows.take(here))
        rows = concatenate(parts)
        self._place = (np.concatenate(places) if places else np.empty(0)).astype(np.int32)
        self._due = rows.due
        self._inverse, self._kind = _measure(rows, inputs, now_s)

    def _look_again(self, columns: Columns, inputs: OrderInputs, now_s: float) -> None:
        if not self._touched:
            return
        places = np.concatenate(self._touched)
        if len(places) > 1:
            places = np.unique(places)
        rows = columns.at(places)
        inverse, kind = _measure(rows, inputs, now_s)
        kind[~due(rows, int(now_s // 60))] = NOT_DUE
        at = np.searchsorted(self._place, places)
        known = np.zeros(len(places), dtype=np.bool_)
        inside = at < len(self._place)
        known[inside] = self._place[at[inside]] == places[inside]
        self._due[at[known]], self._inverse[at[known]] = rows.due[known], inverse[known]
        self._kind[at[known]] = kind[known]
        new = ~known & (kind != NOT_DUE)
        if new.any():
            self._place = np.insert(self._place, at[new], places[new])
            self._due = np.insert(self._due, at[new], rows.due[new])
            self._inverse = np.insert(self._inverse, at[new], inverse[new])
            self._kind = np.insert(self._kind, at[new], kind[new])

    def _without_closed(self, columns: Columns, routes: RouteTable, closed: frozenset[int]) -> NDArray[np.uint8]:
        shut = np.isin(routes.site_id, list(closed))
        codes = columns.at(self._place.astype(np.int64)).route
        return np.where(shut[codes], np.uint8(HELD_BACK), self._kind)

    def _newest_first(self, columns: Columns, inputs: OrderInputs, members: NDArray[np.intp]) -> NDArray[np.intp]:
        if len(members) < 2:
            return members
        ids = columns.at(self._place[members].astype(np.int64)).id
        asked = np.array([inputs.requests.get(page_id, 0) for page_id in ids.tolist()], dtype=np.int64)
        return members[np.argsort(-asked, kind="stable")]

    def _latest_first(
        self,
        columns: Columns,
        inputs: OrderInputs,
        members: NDArray[np.intp],
        lateness: NDArray[np.float32],
        now_s: float,
        size: int,
    ) -> NDArray[np.intp]:
        """Cut by single precision, keeping all that tie with the last, then sort exactly. Members ascend by
        place, so a stable sort breaks ties by id."""
        if len(members) > size:
            scores = lateness[members]
            cut = len(members) - size
            members = members[scores >= np.partition(scores, cut)[cut]]
        exact = _lateness(columns.at(self._place[members].astype(np.int64)), inputs, now_s)[0]
        return members[np.argsort(-exact, kind="stable")[:size]]

    def _choice(self, columns: Columns, inputs: OrderInputs, chosen: NDArray[np.intp], now_s: float) -> Choice:
        places = self._place[chosen].astype(np.int64)
        ascending = np.argsort(places)
        back = np.empty_like(ascending)
        back[ascending] = np.arange(len(ascending))
        rows = columns.at(places[ascending]).take(back)
        lateness, seconds = _lateness(rows, inputs, now_s)
        return Choice(rows, self._kind[chosen], lateness, seconds)


def _measure(rows: Rows, inputs: OrderInputs, now_s: float) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """The inverse cadence, per minute, and the kind of each row."""
    seconds = intervals(rows, inputs.routes, inputs.declared_s)
    kind = classes(rows, inputs.routes, requested(rows, inputs.requests), now_s, inputs.cold_after)
    kind[((rows.flags & WITHHELD) != 0) | inputs.routes.paused[rows.route]] = HELD_BACK
    return (60 / seconds).astype(np.float32), kind


def _lateness(rows: Rows, inputs: OrderInputs, now_s: float) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    seconds = intervals(rows, inputs.routes, inputs.declared_s)
    return (now_s - rows.due.astype(np.float64) * 60) / seconds, seconds


def _places_between(columns: Columns, start: int) -> NDArray[np.int64]:
    """Places of rows appended since `start`."""
    parts = []
    for number, rows in enumerate(columns.segments()):
        base = number * SEGMENT_ROWS
        if base + len(rows) > start:
            parts.append(np.arange(max(start, base), base + len(rows), dtype=np.int64))
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
