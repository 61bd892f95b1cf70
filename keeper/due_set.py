"""The due rows, kept apart from all others, so that choosing never passes over the whole base (K3).

13 bytes a due row: place, deadline, cadence, kind. It is built once a minute (rows come due on whole minutes) and
whenever places moved; in between, rows that events touched are looked at one by one. Pure: no Django, no clock,
no lock.

A kind is a class plus what withholds the row from being claimed, so that the claimable rows of a class are those
whose kind is the class itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keeper.columns import BACKING_OFF, PARKED, SEGMENT_ROWS, Columns, Rows, concatenate
from keeper.order import RouteTable, classes, due, intervals, requested
from renderqueue.scheduling.priority import PriorityClass

IS_PARKED, IS_BACKING_OFF, IS_PAUSED = 4, 8, 16
NOT_DUE = 255
CLASS_BITS = 3
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
    """Claimable rows in order, as parallel arrays. `route` is a code; `kinds` are classes."""

    ids: NDArray[np.int64]
    kinds: NDArray[np.uint8]
    lateness: NDArray[np.float64]
    due: NDArray[np.int32]
    interval_s: NDArray[np.int32]
    route: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.ids)


class DueSet:
    """Due rows sorted by place."""

    def __init__(self) -> None:
        self._place: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self._due: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self._interval: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self._kind: NDArray[np.uint8] = np.empty(0, dtype=np.uint8)
        self._touched: list[NDArray[np.int64] | list[int]] = []
        self._touched_count = 0
        self._built_for: tuple[int, int, OrderInputs] | None = None
        self._end = 0

    def __len__(self) -> int:
        return len(self._place)

    @property
    def bytes(self) -> int:
        return sum(column.nbytes for column in (self._place, self._due, self._interval, self._kind))

    def touch(self, places: NDArray[np.int64] | list[int]) -> None:
        """The rows at these places changed."""
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
        kinds = self._without_closed(columns, inputs.routes, closed) if closed else self._kind
        chosen: list[NDArray[np.intp]] = []
        left = size
        for kind in PriorityClass:
            members = np.flatnonzero(kinds == kind)
            if kind is PriorityClass.URGENT:
                members = self._newest_first(columns, inputs, members)[:left]
            else:
                members = self._latest_first(members, now_s, left)
            chosen.append(members)
            left -= len(members)
            if left <= 0:
                break
        return self._choice(columns, np.concatenate(chosen), now_s)

    def tally(self) -> NDArray[np.int64]:
        """How many rows there are of each kind; the last element, NOT_DUE, means nothing."""
        return np.bincount(self._kind, minlength=NOT_DUE + 1)

    def oldest_due(self) -> int | None:
        """The earliest deadline of a due row, minutes since 1970."""
        minutes = self._due[self._kind != NOT_DUE]
        return int(minutes.min()) if len(minutes) else None

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
        self._interval, self._kind = _measure(rows, inputs, now_s)

    def _look_again(self, columns: Columns, inputs: OrderInputs, now_s: float) -> None:
        if not self._touched:
            return
        places = np.unique(np.concatenate(self._touched).astype(np.int64))
        rows = columns.at(places)
        interval, kind = _measure(rows, inputs, now_s)
        kind[~due(rows, int(now_s // 60))] = NOT_DUE
        at = np.searchsorted(self._place, places)
        known = np.zeros(len(places), dtype=np.bool_)
        inside = at < len(self._place)
        known[inside] = self._place[at[inside]] == places[inside]
        self._due[at[known]], self._interval[at[known]] = rows.due[known], interval[known]
        self._kind[at[known]] = kind[known]
        new = ~known & (kind != NOT_DUE)
        if new.any():
            self._place = np.insert(self._place, at[new], places[new])
            self._due = np.insert(self._due, at[new], rows.due[new])
            self._interval = np.insert(self._interval, at[new], interval[new])
            self._kind = np.insert(self._kind, at[new], kind[new])

    def _without_closed(self, columns: Columns, routes: RouteTable, closed: frozenset[int]) -> NDArray[np.uint8]:
        shut = np.isin(routes.site_id, list(closed))
        return np.where(shut[columns.values("route", self._place)], np.uint8(NOT_DUE), self._kind)

    def _newest_first(self, columns: Columns, inputs: OrderInputs, members: NDArray[np.intp]) -> NDArray[np.intp]:
        if len(members) < 2:
            return members
        ids = columns.values("id", self._place[members]).tolist()
        asked = np.array([inputs.requests.get(page_id, 0) for page_id in ids], dtype=np.int64)
        return members[np.argsort(-asked, kind="stable")]

    def _latest_first(self, members: NDArray[np.intp], now_s: float, size: int) -> NDArray[np.intp]:
        """Cut in single precision, keeping all that tie with the last, then sort exactly. Members ascend by
        place, so a stable sort breaks ties by id."""
        if len(members) > size:
            age = (int(now_s // 60) - self._due[members]).astype(np.float32)
            age += np.float32(now_s % 60 / 60)
            age /= self._interval[members].astype(np.float32)
            cut = len(members) - size
            members = members[age >= np.partition(age, cut)[cut]]
        return members[np.argsort(-self._lateness(members, now_s), kind="stable")[:size]]

    def _lateness(self, members: NDArray[np.intp], now_s: float) -> NDArray[np.float64]:
        return (now_s - self._due[members].astype(np.float64) * 60) / self._interval[members]

    def _choice(self, columns: Columns, chosen: NDArray[np.intp], now_s: float) -> Choice:
        places = self._place[chosen]
        return Choice(
            ids=columns.values("id", places),
            kinds=self._kind[chosen],
            lateness=self._lateness(chosen, now_s),
            due=self._due[chosen],
            interval_s=self._interval[chosen],
            route=columns.values("route", places),
        )


def _measure(rows: Rows, inputs: OrderInputs, now_s: float) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """The cadence, seconds, and the kind of each row."""
    kind = classes(rows, inputs.routes, requested(rows, inputs.requests), now_s, inputs.cold_after)
    kind[(rows.flags & PARKED) != 0] += IS_PARKED
    kind[(rows.flags & BACKING_OFF) != 0] += IS_BACKING_OFF
    kind[inputs.routes.paused[rows.route]] += IS_PAUSED
    return intervals(rows, inputs.routes, inputs.declared_s), kind


def _places_between(columns: Columns, start: int) -> NDArray[np.int64]:
    """Places of rows appended since `start`."""
    parts = []
    for number, rows in enumerate(columns.segments()):
        base = number * SEGMENT_ROWS
        if base + len(rows) > start:
            parts.append(np.arange(max(start, base), base + len(rows), dtype=np.int64))
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
