"""Counts over the held rows, as vector passes. Pure: no Django, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from keeper.columns import BACKING_OFF, DEAD, PARKED, Rows
from keeper.order import RouteTable, classes, due, requested
from renderqueue.scheduling.priority import PriorityClass

HOURS_AHEAD = 24


@dataclass(slots=True)
class Counts:
    """Rows held and due, by what they are and by what keeps them from being claimed.

    `due_by_class` covers every due row. `claimable` + `parked` + `backing_off` + `paused` = `due`. `coming` has
    the rows not yet due per hour ahead: element 0 is the next 60 minutes.
    """

    held: int = 0
    due: int = 0
    claimable: int = 0
    parked: int = 0
    backing_off: int = 0
    paused: int = 0
    due_by_class: dict[str, int] = field(default_factory=lambda: {kind.label: 0 for kind in PriorityClass})
    coming: list[int] = field(default_factory=lambda: [0] * HOURS_AHEAD)
    oldest_due_minute: int | None = None
    next_due_minute: int | None = None


def count(
    segments: Iterable[Rows],
    routes: RouteTable,
    requests: Mapping[int, int],
    *,
    now_s: float,
    cold_after: int,
) -> Counts:
    """One pass over all held rows; what is due is looked at more closely."""
    counts = Counts()
    now_minute = int(now_s // 60)
    by_class = np.zeros(len(PriorityClass), dtype=np.int64)
    coming = np.zeros(HOURS_AHEAD, dtype=np.int64)
    for rows in segments:
        alive = (rows.flags & DEAD) == 0
        counts.held += int(np.count_nonzero(alive))
        _count_coming(rows, alive, now_minute, coming, counts)
        late = rows.take(np.flatnonzero(due(rows, now_minute)))
        if not len(late):
            continue
        kinds = classes(late, routes, requested(late, requests), now_s, cold_after)
        by_class += np.bincount(kinds, minlength=len(PriorityClass))
        _count_due(late, routes, counts)
    counts.due_by_class = {kind.label: int(by_class[kind]) for kind in PriorityClass}
    counts.coming = coming.tolist()
    return counts


def _count_due(late: Rows, routes: RouteTable, counts: Counts) -> None:
    parked = (late.flags & PARKED) != 0
    backing_off = ~parked & ((late.flags & BACKING_OFF) != 0)
    paused = ~parked & ~backing_off & routes.paused[late.route]
    counts.due += len(late)
    counts.parked += int(np.count_nonzero(parked))
    counts.backing_off += int(np.count_nonzero(backing_off))
    counts.paused += int(np.count_nonzero(paused))
    counts.claimable = counts.due - counts.parked - counts.backing_off - counts.paused
    oldest = int(late.due.min())
    if counts.oldest_due_minute is None or oldest < counts.oldest_due_minute:
        counts.oldest_due_minute = oldest


def _count_coming(
    rows: Rows, alive: NDArray[np.bool_], now_minute: int, coming: NDArray[np.int64], counts: Counts
) -> None:
    minutes = rows.due[alive & (rows.due > now_minute)]
    if not len(minutes):
        return
    soonest = int(minutes.min())
    if counts.next_due_minute is None or soonest < counts.next_due_minute:
        counts.next_due_minute = soonest
    hours = (minutes - now_minute - 1) // 60
    coming += np.bincount(hours[hours < HOURS_AHEAD], minlength=HOURS_AHEAD)
