"""Walks: the full read of the owned rows, first the load, then each verification after it (D5, W2-W7)."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray

from keeper.clock import KeeperClock
from keeper.index import ScheduleIndex, WalkCounts
from renderqueue.identity import GROUPS, PARTITIONS
from renderqueue.scheduling.feed import send_marker
from renderqueue.scheduling.walk import RANGE_ROWS, WalkedRange, WalkFailed, database_time_s, read_ranges

logger = logging.getLogger(__name__)

MARKER_WAIT_S = 10.0
RANGES_AHEAD = 4
"""Ranges read and waiting for their marker: enough to hide its round trip, few enough to stay small."""


class Markers:
    """Which markers have come back on the feed."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._arrived: set[str] = set()
        self._broken = False

    def arrived(self, marker: str) -> None:
        with self._condition:
            self._arrived.add(marker)
            self._condition.notify_all()

    def feed_lost(self) -> None:
        with self._condition:
            self._broken = True
            self._condition.notify_all()

    def reset(self) -> None:
        with self._condition:
            self._arrived.clear()
            self._broken = False

    def wait(self, marker: str, timeout_s: float) -> None:
        """Raises WalkFailed if the feed breaks or the marker does not come in time."""
        with self._condition:
            came = self._condition.wait_for(lambda: self._broken or marker in self._arrived, timeout_s)
            if self._broken:
                raise WalkFailed("the feed connection was lost during the walk")
            if not came:
                raise WalkFailed(f"a marker did not come back within {timeout_s:.0f} s")
            self._arrived.discard(marker)

    def has(self, marker: str) -> bool:
        with self._condition:
            return marker in self._arrived


@dataclass(slots=True)
class WalkResult:
    """One finished walk. `rows` were read; `seconds` is its whole duration. With `unreadable` ids it is partial:
    the edges move all the same, because those rows are known, not unseen (W4)."""

    t0_s: float
    rows: int = 0
    seconds: float = 0.0
    first_load: bool = False
    counts: WalkCounts = field(default_factory=WalkCounts)
    unreadable: list[int] = field(default_factory=list)


def walk(
    index: ScheduleIndex,
    connection: psycopg.Connection[Any],
    clock: KeeperClock,
    markers: Markers,
    marker_channel: str,
    *,
    range_rows: int = RANGE_ROWS,
    after_read: Callable[[WalkedRange], None] = lambda walked: None,
) -> WalkResult:
    """Read the owned and listened groups once, and mend memory by what was read.

    1. t0 is database time before the first snapshot (T1); the touched set opens.
    2. Each range is read in a snapshot of its own; then a marker is sent on the feed.
    3. When the marker is back, every event the snapshot could contain has been applied: compare and merge
       that range (F2). Markers are pipelined.
    4. After the last range the edges move to t0 + window, for the groups whose coverage did not break (W2b).

    `after_read` sees each range before its marker is sent. Raises WalkFailed, or psycopg.Error when the
    connection fails; the edges then stay where they are (W4).
    """
    began_at = time.monotonic()
    t0_s = database_time_s(connection)
    clock.set(t0_s)
    markers.reset()
    first_load = not index.edges.walked_once()
    began = index.begin_walk(t0_s)
    result = WalkResult(t0_s=t0_s, first_load=first_load)
    pending: deque[tuple[str, WalkedRange]] = deque()

    def merge_next() -> None:
        marker, walked = pending.popleft()
        markers.wait(marker, MARKER_WAIT_S)
        index.merge(walked, began, clock.now_s(), result.counts)

    try:
        for number, walked in enumerate(read_ranges(connection, _partitions(began), range_rows)):
            after_read(walked)
            marker = f"{t0_s}:{number}"
            send_marker(connection, marker_channel, marker)
            pending.append((marker, walked))
            result.rows += len(walked.ids)
            result.unreadable.extend(walked.unreadable)
            while len(pending) > RANGES_AHEAD or (pending and markers.has(pending[0][0])):
                merge_next()
        while pending:
            merge_next()
    except BaseException:
        index.abandon_walk()
        raise
    index.finish_walk(began)
    if first_load:
        result.counts = WalkCounts(unschedulable=result.counts.unschedulable)
    result.seconds = time.monotonic() - began_at
    return result


def _partitions(began: NDArray[np.int64]) -> list[int] | None:
    """The partitions to read, None for all."""
    groups = began >= 0
    if groups.all():
        return None
    each: list[int] = np.flatnonzero(np.repeat(groups, PARTITIONS // GROUPS)).tolist()
    return each
