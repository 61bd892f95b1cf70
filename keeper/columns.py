"""The rows in memory: flat numpy columns sorted by id (D5, K0). Pure: no Django, no clock, no lock.

22 bytes a row. The columns lie in segments of a fixed capacity, so that taking a row in moves one segment and
never the whole base; a pass over ten million rows is 39 segments. A segment's unused tail is never touched, so
it costs no memory. A row that left is marked DEAD in place and swept out when its range is next rewritten.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

SEGMENT_ROWS = 1 << 18

LISTED, RENDERED, DEAD = 1, 2, 4
PARKED = 8
"""Leased here or elsewhere, or refused at a claim: not offered until it is unparked."""
BACKING_OFF = 16
REQUESTED = 32
EVENT_FLAGS = LISTED | RENDERED
"""The bits that come from the schedule row itself."""


@dataclass(slots=True)
class Rows:
    """Rows as parallel columns, sorted by id without repetition. `due` is minutes since 1970; `route` and
    `declared` are codes of the keeper's route and interval tables."""

    id: NDArray[np.int64]
    due: NDArray[np.int32]
    route: NDArray[np.int32]
    declared: NDArray[np.int16]
    flags: NDArray[np.uint8]
    failures: NDArray[np.uint8]
    partition: NDArray[np.int16]

    @classmethod
    def empty(cls, capacity: int = 0) -> Self:
        return cls(*(np.empty(capacity, dtype=kind) for kind in COLUMN_TYPES.values()))

    def __len__(self) -> int:
        return len(self.id)

    def take(self, which: NDArray[np.bool_] | NDArray[np.intp] | slice) -> Rows:
        return Rows(*(getattr(self, name)[which] for name in COLUMN_TYPES))


COLUMN_TYPES: dict[str, type] = {
    "id": np.int64,
    "due": np.int32,
    "route": np.int32,
    "declared": np.int16,
    "flags": np.uint8,
    "failures": np.uint8,
    "partition": np.int16,
}
BYTES_A_ROW = sum(np.dtype(kind).itemsize for kind in COLUMN_TYPES.values())
assert [field.name for field in fields(Rows)] == list(COLUMN_TYPES)


def concatenate(parts: list[Rows]) -> Rows:
    if not parts:
        return Rows.empty()
    return Rows(*(np.concatenate([getattr(part, name) for part in parts]) for name in COLUMN_TYPES))


class Segment:
    """Up to SEGMENT_ROWS rows, sorted by id."""

    __slots__ = ("_store", "count", "rows")

    def __init__(self) -> None:
        self._store = Rows.empty(SEGMENT_ROWS)
        self.count = 0
        self.rows = self._store.take(slice(0, 0))

    def fill(self, rows: Rows) -> None:
        """Make these its rows (at most SEGMENT_ROWS)."""
        count = len(rows)
        for name in COLUMN_TYPES:
            getattr(self._store, name)[:count] = getattr(rows, name)
        self._set_count(count)

    def append(self, rows: Rows) -> None:
        """Add rows behind its last id; there must be room."""
        end = self.count + len(rows)
        for name in COLUMN_TYPES:
            getattr(self._store, name)[self.count : end] = getattr(rows, name)
        self._set_count(end)

    def room(self) -> int:
        return SEGMENT_ROWS - self.count

    def _set_count(self, count: int) -> None:
        self.count = count
        self.rows = self._store.take(slice(0, count))


@dataclass(frozen=True, slots=True)
class Located:
    """Where some of the ids asked for are: a segment's rows, which of the ids fall in it (`span`), their
    positions there, and whether each is really there (`found`), dead or not. `base` + position is its place."""

    rows: Rows
    span: slice
    positions: NDArray[np.intp]
    found: NDArray[np.bool_]
    base: int

    def places(self) -> NDArray[np.int64]:
        """The places of those found."""
        return self.positions[self.found] + self.base


class Columns:
    """All rows, as a list of segments whose id ranges ascend.

    A row's *place* is its segment's number times SEGMENT_ROWS plus its position. Places ascend with ids and stay
    while `moves` stays."""

    def __init__(self) -> None:
        self.moves = 0
        self._segments: list[Segment] = []
        self._first_ids: list[int] = []
        self._firsts: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        """Rows in memory, dead ones included."""
        return sum(segment.count for segment in self._segments)

    def segments(self) -> Iterator[Rows]:
        """Every segment's rows; writing into their columns (not `id`) changes the store."""
        for segment in self._segments:
            yield segment.rows

    def find(self, ids: NDArray[np.int64]) -> Iterator[Located]:
        """Where sorted ids are, segment by segment."""
        for segment, start, stop in self._spans(ids):
            wanted = ids[start:stop]
            positions = np.searchsorted(segment.rows.id, wanted)
            inside = positions < segment.count
            found = inside.copy()
            found[inside] = segment.rows.id[positions[inside]] == wanted[inside]
            base = self._segments.index(segment) * SEGMENT_ROWS
            yield Located(segment.rows, slice(start, stop), positions, found, base)

    def at(self, places: NDArray[np.int64]) -> Rows:
        """Copies of the rows at ascending places."""
        numbers = places // SEGMENT_ROWS
        parts = []
        for number in range(int(numbers[0]), int(numbers[-1]) + 1) if len(places) else ():
            start, stop = np.searchsorted(numbers, [number, number + 1])
            if stop > start:
                parts.append(self._segments[number].rows.take(places[start:stop] - number * SEGMENT_ROWS))
        return concatenate(parts)

    def values(self, column: str, places: NDArray[np.int32]) -> NDArray[Any]:
        """One column's values at places in any order."""
        if len(self._segments) == 1:
            return getattr(self._segments[0].rows, column)[places]
        numbers = places // SEGMENT_ROWS
        values: NDArray[Any] = np.empty(len(places), dtype=COLUMN_TYPES[column])
        for number, segment in enumerate(self._segments):
            here = numbers == number
            if here.any():
                values[here] = getattr(segment.rows, column)[places[here] - number * SEGMENT_ROWS]
        return values

    def locate(self, page_id: int) -> tuple[Rows, int, int] | None:
        """A row's segment, its position there and its place; None if it is not there, dead or not."""
        if not self._segments:
            return None
        number = max(bisect_right(self._first_ids, page_id) - 1, 0)
        rows = self._segments[number].rows
        position = int(rows.id.searchsorted(page_id))
        if position == len(rows.id) or rows.id[position] != page_id:
            return None
        return rows, position, number * SEGMENT_ROWS + position

    def end(self) -> int:
        """The place behind the last row."""
        return (len(self._segments) - 1) * SEGMENT_ROWS + self._segments[-1].count if self._segments else 0

    def insert(self, rows: Rows) -> None:
        """Take in rows whose ids are not there yet."""
        if not len(rows):
            return
        if not self._segments:
            self._append(rows)
            return
        behind_all = rows.id > self._last_id()
        inner = rows.take(~behind_all)
        if len(inner):
            self.moves += 1
        for segment, start, stop in list(self._spans(inner.id)):
            self._merge_into(segment, inner.take(slice(start, stop)))
        self._append(rows.take(behind_all))
        self._index()

    def range(self, lower: int, upper: int) -> Rows:
        """A copy of the rows with lower < id <= upper."""
        parts = []
        for segment in self._segments:
            start, stop = np.searchsorted(segment.rows.id, [lower, upper], side="right")
            if stop > start:
                parts.append(segment.rows.take(slice(int(start), int(stop))))
        return concatenate(parts)

    def replace_range(self, lower: int, upper: int, rows: Rows) -> None:
        """Make `rows` what is held with lower < id <= upper."""
        if self._segments and lower >= self._last_id():
            self._append(rows)
            self._index()
            return
        self.moves += 1
        before: list[Segment] = []
        after: list[Segment] = []
        affected: list[Segment] = []
        for segment in self._segments:
            ids = segment.rows.id
            if ids[-1] <= lower:
                before.append(segment)
            elif ids[0] > upper:
                after.append(segment)
            else:
                affected.append(segment)
        kept_low = [s.rows.take(slice(0, int(np.searchsorted(s.rows.id, lower, "right")))) for s in affected]
        kept_high = [s.rows.take(slice(int(np.searchsorted(s.rows.id, upper, "right")), s.count)) for s in affected]
        merged = concatenate([*kept_low, rows, *kept_high])
        self._segments = [*before, *_as_segments(merged, reuse=affected), *after]
        self._index()

    def drop(self, unwanted_partition: NDArray[np.bool_]) -> int:
        """Forget every row whose partition is marked in a mask of all partitions. Returns how many live rows
        went."""
        self.moves += 1
        gone = 0
        segments: list[Segment] = []
        for segment in self._segments:
            lost = unwanted_partition[segment.rows.partition]
            if lost.any():
                gone += int(np.count_nonzero(lost & ((segment.rows.flags & DEAD) == 0)))
                segment.fill(segment.rows.take(~lost))
            if segment.count:
                segments.append(segment)
        self._segments = segments
        self._index()
        return gone

    def _last_id(self) -> int:
        return int(self._segments[-1].rows.id[-1])

    def _spans(self, ids: NDArray[np.int64]) -> Iterator[tuple[Segment, int, int]]:
        """Split sorted ids by the segment that holds, or would hold, them."""
        if not len(ids) or not self._segments:
            return
        if len(self._segments) == 1:
            yield self._segments[0], 0, len(ids)
            return
        bounds = np.searchsorted(ids, self._firsts[1:]).tolist()
        for segment, start, stop in zip(self._segments, [0, *bounds], [*bounds, len(ids)], strict=True):
            if stop > start:
                yield segment, start, stop

    def _append(self, rows: Rows) -> None:
        if self._segments and len(rows) and self._segments[-1].room():
            fitting = self._segments[-1].room()
            self._segments[-1].append(rows.take(slice(0, fitting)))
            rows = rows.take(slice(fitting, len(rows)))
        self._segments.extend(_as_segments(rows))
        self._index()

    def _merge_into(self, segment: Segment, rows: Rows) -> None:
        places = np.searchsorted(segment.rows.id, rows.id)
        merged = Rows(*(np.insert(getattr(segment.rows, name), places, getattr(rows, name)) for name in COLUMN_TYPES))
        if len(merged) <= SEGMENT_ROWS:
            segment.fill(merged)
            return
        where = self._segments.index(segment)
        self._segments[where : where + 1] = _as_segments(merged, fill=SEGMENT_ROWS * 2 // 3)
        self._index()

    def _index(self) -> None:
        self._first_ids = [int(segment.rows.id[0]) for segment in self._segments]
        self._firsts = np.array(self._first_ids, dtype=np.int64)


def _as_segments(rows: Rows, reuse: list[Segment] | None = None, fill: int | None = None) -> list[Segment]:
    """Rows cut into segments of `fill` rows (default: full ones), the last one with what is left."""
    made = []
    spare = list(reuse or [])
    step = fill or SEGMENT_ROWS
    for start in range(0, len(rows), step):
        segment = spare.pop() if spare else Segment()
        segment.fill(rows.take(slice(start, start + step)))
        made.append(segment)
    return made
