"""What a queue says of itself (D10, S1, W1)."""

from __future__ import annotations

import math

import pytest

from keeper.status import QueueStatus, is_complete, queue_status, walk_interval_s


def test_held_work_is_queued_whatever_the_node_does_not_know() -> None:
    assert queue_status(due=1, leased=0, complete=False) is QueueStatus.QUEUED
    assert queue_status(due=0, leased=1, complete=False) is QueueStatus.QUEUED


def test_nothing_held_is_empty_only_when_complete() -> None:
    assert queue_status(0, 0, complete=True) is QueueStatus.EMPTY
    assert queue_status(0, 0, complete=False) is QueueStatus.UNREADY


def test_complete_means_loaded_and_before_the_edge() -> None:
    assert is_complete(loaded=True, now_s=99, edge_s=100)
    assert not is_complete(loaded=True, now_s=100, edge_s=100)
    assert not is_complete(loaded=False, now_s=0, edge_s=math.inf)
    assert is_complete(loaded=True, now_s=1e12, edge_s=math.inf)


@pytest.mark.parametrize(
    ("window", "verify", "expected"),
    [(0, 3600, 3600), (0, 0, None), (6000, 3600, 2000), (6000, 0, 2000), (86400, 60, 60)],
)
def test_the_walk_interval_is_clamped_to_a_third_of_the_window(
    window: int, verify: int, expected: float | None
) -> None:
    assert walk_interval_s(window, verify) == expected
