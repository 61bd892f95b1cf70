"""Counts over the held rows. What is due comes from the due set, what is coming from one pass over the deadlines.
Pure: no Django, no clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from keeper.columns import DEAD, Rows
from keeper.due_set import CLASS_BITS, IS_BACKING_OFF, IS_PARKED, IS_PAUSED, NOT_DUE, DueSet
from renderqueue.scheduling.priority import PriorityClass

HOURS_AHEAD = 24
MINUTES_AHEAD = HOURS_AHEAD * 60


@dataclass(slots=True)
class Counts:
    """Rows held and due, by what they are and by what keeps them from being claimed.

    `due_by_class` covers every due row. `claimable` + `parked` + `backing_off` + `paused` = `due`; of several
    reasons the first in that order counts. `coming` has the rows not yet due per hour ahead: element 0 is the next
    60 minutes.
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


def count(segments: Iterable[Rows], due_set: DueSet, now_s: float) -> Counts:
    """`due_set` must have been refreshed for this moment."""
    counts = Counts(oldest_due_minute=due_set.oldest_due())
    _count_due(due_set.tally(), counts)
    _count_coming(segments, int(now_s // 60), counts)
    return counts


def _count_due(tally: NDArray[np.int64], counts: Counts) -> None:
    for kind, rows in enumerate(tally[:NOT_DUE].tolist()):
        if not rows:
            continue
        counts.due += rows
        counts.due_by_class[PriorityClass(kind & CLASS_BITS).label] += rows
        if kind & IS_PARKED:
            counts.parked += rows
        elif kind & IS_BACKING_OFF:
            counts.backing_off += rows
        elif kind & IS_PAUSED:
            counts.paused += rows
        else:
            counts.claimable += rows


def _count_coming(segments: Iterable[Rows], now_minute: int, counts: Counts) -> None:
    """By minute for a day, then summed by hour: rows further ahead fall out of one unsigned comparison."""
    by_minute = np.zeros(MINUTES_AHEAD, dtype=np.int64)
    later: int | None = None
    for rows in segments:
        dead = (rows.flags & DEAD) != 0
        some_dead = bool(dead.any())
        counts.held += len(rows) - (int(np.count_nonzero(dead)) if some_dead else 0)
        ahead = (rows.due - np.int32(now_minute + 1)).view(np.uint32)
        if some_dead:
            ahead[dead] = np.uint32(2**31)
        within = ahead[ahead < MINUTES_AHEAD]
        by_minute += np.bincount(within, minlength=MINUTES_AHEAD)
        if not len(within):
            beyond = int(ahead.min(initial=2**31)) if len(ahead) else 2**31
            if beyond < 2**31:
                later = beyond if later is None else min(later, beyond)
    counts.coming = by_minute.reshape(HOURS_AHEAD, 60).sum(axis=1).tolist()
    soonest = np.flatnonzero(by_minute)
    offset = int(soonest[0]) if len(soonest) else later
    counts.next_due_minute = None if offset is None else now_minute + 1 + offset
