"""The order of the due rows, as vector passes (D7, O1, O2). Pure: no Django, no clock.

The scalar rules are `renderqueue.scheduling.priority` and `.intervals`; a test holds these passes against them.
Class first; inside urgent the newest request, inside the others relative lateness; ties by id, so the order is
total. `keeper.due_set` keeps the rows that these rules choose from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keeper.columns import DEAD, LISTED, REQUESTED, Rows
from renderqueue.scheduling.priority import REQUEST_LIFETIME_S, PriorityClass


@dataclass(frozen=True, slots=True)
class RouteTable:
    """What the order needs of every route, by route code. `interval_s` 0 means that the route sets none."""

    route_id: NDArray[np.int64]
    site_id: NDArray[np.int64]
    interval_s: NDArray[np.int32]
    default_s: NDArray[np.int32]
    submitted: NDArray[np.bool_]
    paused: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Entry:
    """One place in the order, with what put it there. `requested_ms` is 0 where nobody asked."""

    page_id: int
    priority_class: PriorityClass
    lateness: float
    due_minute: int
    interval_s: int
    route_id: int
    site_id: int
    requested_ms: int


def intervals(rows: Rows, routes: RouteTable, declared_s: NDArray[np.int32]) -> NDArray[np.int32]:
    """The cadence that applies to each row now: route > declared > site default (K2)."""
    by_route = routes.interval_s[rows.route]
    declared = declared_s[rows.declared]
    fallback = np.where(declared > 0, declared, routes.default_s[rows.route])
    return np.where(by_route > 0, by_route, fallback)


def classes(
    rows: Rows, routes: RouteTable, requested_ms: NDArray[np.int64], now_s: float, cold_after: int
) -> NDArray[np.uint8]:
    """The class of each row (O1). `requested_ms` is 0 where nobody asked."""
    answer = np.full(len(rows), PriorityClass.DISCOVERED, dtype=np.uint8)
    listed = ((rows.flags & LISTED) != 0) | routes.submitted[rows.route]
    answer[listed] = PriorityClass.SUBMITTED
    answer[rows.failures >= cold_after] = PriorityClass.COLD
    urgent = (requested_ms > 0) & (now_s * 1000 - requested_ms < REQUEST_LIFETIME_S * 1000)
    answer[urgent] = PriorityClass.URGENT
    return answer


def requested(rows: Rows, requests: Mapping[int, int]) -> NDArray[np.int64]:
    """When each row was asked for, milliseconds since 1970, from the sparse map (K1)."""
    values = np.zeros(len(rows), dtype=np.int64)
    asked = np.flatnonzero(rows.flags & REQUESTED)
    if len(asked):
        values[asked] = [requests.get(page_id, 0) for page_id in rows.id[asked].tolist()]
    return values


def due(rows: Rows, now_minute: int) -> NDArray[np.bool_]:
    """Which rows are due, claimable or not."""
    return (rows.due <= now_minute) & ((rows.flags & DEAD) == 0)
