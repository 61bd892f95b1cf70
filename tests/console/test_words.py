"""Numbers and spans in words."""

from __future__ import annotations

import pytest

from console import words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (90, "1 min 30 s"),
        (5400, "1 h 30 min"),
        (345_600, "4 d"),
        (93_600, "1 d 2 h"),
    ],
)
def test_durations_have_at_most_two_units(seconds: float, text: str) -> None:
    assert words.duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "now"), (-75, "1 min 15 s ago"), (-200, "3 min ago"), (240, "in 4 min"), (-70_000, "19 h ago")],
)
def test_instants_are_placed_roughly(seconds: float, text: str) -> None:
    assert words.relative(seconds) == text


@pytest.mark.parametrize(
    ("cadences", "text"),
    [(-1, "not due yet"), (0.01, "just due"), (2.41, "2.4 cadences late"), (1234.5, "1,234 cadences late")],
)
def test_lateness_is_in_cadences(cadences: float, text: str) -> None:
    assert words.lateness(cadences) == text


@pytest.mark.parametrize(("count", "text"), [(12, "12 B"), (1500, "1.5 kB"), (23_000_000, "23 MB")])
def test_sizes(count: int, text: str) -> None:
    assert words.size(count) == text
