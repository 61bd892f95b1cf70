"""Misses do not grow the schedule without bound."""

from __future__ import annotations

import datetime as dt

from renderqueue.serving.discovery import DISCOVERED_A_MINUTE, Budget

NOON = dt.datetime(2026, 1, 1, 12, 0, 30, tzinfo=dt.UTC)


def test_a_site_gains_a_bounded_number_of_pages_a_minute_and_others_their_own() -> None:
    budget = Budget()
    granted = [budget.grants(1, NOON) for _ in range(DISCOVERED_A_MINUTE + 5)]
    assert granted == [True] * DISCOVERED_A_MINUTE + [False] * 5
    assert budget.grants(2, NOON)
    assert budget.grants(1, NOON + dt.timedelta(minutes=1))
