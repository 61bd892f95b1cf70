"""Classes, cadences, backoff: the pure rules (D7, O1, O2, K2, C1)."""

from __future__ import annotations

import datetime as dt
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from renderqueue.scheduling.intervals import backoff_s, effective_interval_s, first_due, next_due
from renderqueue.scheduling.priority import PriorityClass, classify, relative_lateness

NOW_S = 1_800_000_000.0
HOUR = 3600
DAY = 24 * HOUR


def class_of(**given: object) -> PriorityClass:
    values: dict[str, object] = {
        "listed": False,
        "treat_as_submitted": False,
        "failures": 0,
        "requested_at_s": None,
        "now_s": NOW_S,
        "cold_after": 3,
        **given,
    }
    return classify(**values)  # type: ignore[arg-type]


def test_a_listed_page_is_submitted_and_an_unlisted_one_discovered() -> None:
    assert class_of(listed=True) is PriorityClass.SUBMITTED
    assert class_of(treat_as_submitted=True) is PriorityClass.SUBMITTED
    assert class_of() is PriorityClass.DISCOVERED


def test_three_page_failures_make_a_page_cold_whatever_lists_it() -> None:
    assert class_of(listed=True, failures=2) is PriorityClass.SUBMITTED
    assert class_of(listed=True, failures=3) is PriorityClass.COLD


def test_a_request_is_urgent_for_four_days_even_when_cold() -> None:
    assert class_of(failures=9, requested_at_s=NOW_S - 4 * DAY + 1) is PriorityClass.URGENT
    assert class_of(failures=9, requested_at_s=NOW_S - 4 * DAY) is PriorityClass.COLD


def test_a_short_cadence_two_hours_late_goes_before_a_long_one_three_hours_late() -> None:
    short = relative_lateness(NOW_S - 2 * HOUR, 1 * HOUR, NOW_S)
    long = relative_lateness(NOW_S - 3 * HOUR, 48 * HOUR, NOW_S)
    assert short == 2.0
    assert long == 0.0625


@pytest.mark.parametrize(
    ("route", "declared", "expected"), [(600, 3600, 600), (None, 3600, 3600), (None, None, 86400), (600, None, 600)]
)
def test_the_route_wins_over_the_sitemap_and_the_sitemap_over_the_site(
    route: int | None, declared: int | None, expected: int
) -> None:
    assert effective_interval_s(route, declared, 86400) == expected


def test_first_renders_of_an_import_are_a_flat_stream() -> None:
    now = dt.datetime(2026, 1, 1, 0, 0, 30, tzinfo=dt.UTC)
    per_hour = [0] * 24
    for number in range(24_000):
        due = first_due(uuid.uuid5(uuid.NAMESPACE_URL, str(number)), DAY, now)
        assert due.second == due.microsecond == 0
        per_hour[int((due - now).total_seconds() // HOUR) if due >= now else 0] += 1
    assert max(per_hour) < 1200
    assert min(per_hour) > 800


def test_the_next_deadline_is_a_whole_minute_one_cadence_after_completion() -> None:
    completed = dt.datetime(2026, 1, 1, 10, 0, 59, 999, tzinfo=dt.UTC)
    assert next_due(completed, HOUR) == dt.datetime(2026, 1, 1, 11, 0, tzinfo=dt.UTC)


def test_backoff_doubles_from_two_minutes_up_to_the_cadence() -> None:
    assert [backoff_s(retries, HOUR) for retries in range(1, 8)] == [120, 240, 480, 960, 1920, 3600, 3600]
    assert backoff_s(1, 60) == 120
    assert backoff_s(100, 365 * DAY) == 7 * DAY


@pytest.mark.parametrize(("asked", "expected"), [(0, 120), (-5, 120), (1800, 1800), (10**9, 7 * DAY)])
def test_retry_after_zero_does_not_spin_and_a_huge_one_is_capped(asked: float, expected: int) -> None:
    assert backoff_s(1, HOUR, retry_after_s=asked) == expected


@given(st.integers(1, 10**6), st.integers(1, 10**9), st.none() | st.floats(-1e9, 1e12))
def test_backoff_is_never_shorter_than_two_minutes_nor_longer_than_seven_days(
    retries: int, interval: int, retry_after: float | None
) -> None:
    assert 120 <= backoff_s(retries, interval, retry_after) <= 7 * DAY
