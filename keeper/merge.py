"""Verification: one walked range against the same range in memory, as a comparison of two sorted tables.

Pure: reads its inputs, returns what memory should become and what was found. The six counters of W6 are
decided here and nowhere else, first match: unschedulable, gained, missing, admitted, mismatched, phantom.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from keeper import columns as col
from keeper.columns import Rows, concatenate
from renderqueue.identity import GROUPS, PARTITIONS
from renderqueue.scheduling.feed import NO_DUE
from renderqueue.scheduling.walk import WalkedRange

PARTITIONS_A_GROUP = PARTITIONS // GROUPS
COMPARED = ("due", "route", "declared", "failures", "partition")


@dataclass(frozen=True, slots=True)
class RangeMerge:
    """What is compared. `rows` are the walked rows in the keeper's codes; `asked_ms` and `retry_s` their sparse
    columns made dense (retries that have passed are 0); `held` a copy of memory in the same id range;
    `left_alone` the sorted ids that events touched or that could not be read; `edge_s` each group's edge before
    this walk."""

    walked: WalkedRange
    rows: Rows
    asked_ms: NDArray[np.int64]
    retry_s: NDArray[np.int64]
    held: Rows
    left_alone: NDArray[np.int64]
    walked_partition: NDArray[np.bool_]
    edge_s: NDArray[np.float64]
    limit_s: float


@dataclass(slots=True)
class RangeOutcome:
    """`rows` is what the range should hold, None if it is right already; `sparse` the (id, asked, retry) to
    remember for the rows taken from the walk."""

    rows: Rows | None = None
    sparse: list[tuple[int, int, int]] = field(default_factory=list)
    unschedulable: int = 0
    gained: int = 0
    missing: int = 0
    admitted: int = 0
    mismatched: int = 0
    phantom: int = 0


def merge_range(given: RangeMerge, requests: Mapping[int, int], retries: Mapping[int, int]) -> RangeOutcome:
    """Compare and mend. Rows to be left alone, and rows of partitions that this walk does not cover, stay as they
    are."""
    rows, held = given.rows, given.held
    outcome = RangeOutcome()
    ours = given.walked_partition[rows.partition] & ~_contains(given.left_alone, rows.id)
    schedulable = rows.due != NO_DUE
    outcome.unschedulable = int(np.count_nonzero(ours & ~schedulable))

    place, present = _match(held.id, rows.id)
    held_alive = np.zeros(len(rows), dtype=np.bool_)
    held_alive[present] = (held.flags[place[present]] & col.DEAD) == 0
    inside = rows.due.astype(np.int64) * 60 < given.limit_s

    new = ours & schedulable & inside & ~held_alive
    _count_new(new, given, outcome)
    same = _same(given, place, present, requests, retries)
    differing = ours & schedulable & held_alive & ~same
    outcome.mismatched = int(np.count_nonzero(differing))
    refused = ours & held_alive & ~schedulable

    stays = _stays(given, outcome, place, differing | refused)
    taken = new | (differing & inside)
    if not taken.any() and stays.all():
        return outcome
    outcome.rows = _together(held.take(stays), rows.take(taken))
    outcome.sparse = _sparse_of(given, taken, differing)
    return outcome


def _count_new(new: NDArray[np.bool_], given: RangeMerge, outcome: RangeOutcome) -> None:
    """Rows that memory lacks: gained with their group, missed, or admitted because the window moved."""
    edges = given.edge_s[given.rows.partition[new] // PARTITIONS_A_GROUP]
    first_walk = np.isneginf(edges)
    due_before_edge = given.rows.due[new].astype(np.int64) * 60 < edges
    outcome.gained = int(np.count_nonzero(first_walk))
    outcome.missing = int(np.count_nonzero(~first_walk & due_before_edge))
    outcome.admitted = int(np.count_nonzero(~first_walk & ~due_before_edge))


def _same(
    given: RangeMerge,
    place: NDArray[np.intp],
    present: NDArray[np.bool_],
    requests: Mapping[int, int],
    retries: Mapping[int, int],
) -> NDArray[np.bool_]:
    """Which walked rows memory has exactly so."""
    rows, held = given.rows, given.held
    same = present.copy()
    at = place[present]
    equal = np.ones(len(at), dtype=np.bool_)
    for name in COMPARED:
        equal &= getattr(rows, name)[present] == getattr(held, name)[at]
    equal &= ((rows.flags[present] ^ held.flags[at]) & col.EVENT_FLAGS) == 0
    same[present] = equal
    for flag, walked, remembered in (
        (col.REQUESTED, given.asked_ms, requests),
        (col.BACKING_OFF, given.retry_s, retries),
    ):
        either = same.copy()
        either[present] &= (walked[present] != 0) | ((held.flags[at] & flag) != 0)
        for position in np.flatnonzero(either).tolist():
            if remembered.get(int(rows.id[position]), 0) != int(walked[position]):
                same[position] = False
    return same


def _stays(
    given: RangeMerge, outcome: RangeOutcome, place: NDArray[np.intp], replaced: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which held rows stay as they are: not dead, not replaced, and still in the table; counts phantoms."""
    held = given.held
    alive = (held.flags & col.DEAD) == 0
    covered = given.walked_partition[held.partition] & ~_contains(given.left_alone, held.id)
    phantom = alive & covered & ~_contains(given.rows.id, held.id)
    outcome.phantom = int(np.count_nonzero(phantom))
    stays = alive & ~phantom
    stays[place[replaced]] = False
    return stays


def _together(stays: Rows, taken: Rows) -> Rows:
    if not len(stays):
        return taken
    both = concatenate([stays, taken])
    return both.take(np.argsort(both.id, kind="stable"))


def _sparse_of(given: RangeMerge, taken: NDArray[np.bool_], differing: NDArray[np.bool_]) -> list[tuple[int, int, int]]:
    ids, asked, retry = given.rows.id[taken], given.asked_ms[taken], given.retry_s[taken]
    some = (asked != 0) | (retry != 0) | differing[taken]
    return list(zip(ids[some].tolist(), asked[some].tolist(), retry[some].tolist(), strict=True))


def _match(haystack: NDArray[np.int64], needles: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Where sorted needles are in a sorted haystack, and which are there at all."""
    if not len(haystack):
        return np.zeros(len(needles), dtype=np.intp), np.zeros(len(needles), dtype=np.bool_)
    place = np.minimum(np.searchsorted(haystack, needles), len(haystack) - 1)
    return place, haystack[place] == needles


def _contains(haystack: NDArray[np.int64], needles: NDArray[np.int64]) -> NDArray[np.bool_]:
    return _match(haystack, needles)[1]
