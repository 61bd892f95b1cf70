"""What a queue says of itself (D10, S1): pure."""

from __future__ import annotations

from enum import StrEnum


class QueueStatus(StrEnum):
    QUEUED = "queued"
    EMPTY = "empty"
    UNREADY = "unready"


def is_complete(loaded: bool, now_s: float, edge_s: float) -> bool:
    """Every owned row that is due is held: the load finished and the clock is before the edge."""
    return loaded and now_s < edge_s


def queue_status(due: int, leased: int, complete: bool) -> QueueStatus:
    """`queued` while anything held is due or leased; `empty` only when the node knows that nothing is."""
    if due or leased:
        return QueueStatus.QUEUED
    return QueueStatus.EMPTY if complete else QueueStatus.UNREADY


def walk_interval_s(window_s: int, verify_interval_s: int) -> float | None:
    """Seconds between walks: min(verify_interval, window / 3). Without a window the verification interval
    alone, 0 = none (W1); with one, 0 counts as infinite."""
    if window_s == 0:
        return float(verify_interval_s) if verify_interval_s else None
    third = window_s / 3
    return min(float(verify_interval_s), third) if verify_interval_s else third
