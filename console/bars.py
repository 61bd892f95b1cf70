"""Bars as plain numbers for inline SVG: no chart library, no inline style. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from console.fleet import ComingHour

FULL = 100
"""Length of the longest bar, in units of the drawing."""


@dataclass(frozen=True, slots=True)
class Share:
    name: str
    pages: int
    length: float


@dataclass(frozen=True, slots=True)
class HourBar:
    """`x` counts from the left, `top` from the top; an hour with pages is never drawn as nothing."""

    hour: ComingHour
    x: int
    top: float
    height: float


def shares(counts: Sequence[tuple[str, int]], total: int) -> list[Share]:
    return [Share(name, pages, part(pages, total)) for name, pages in counts]


def part(amount: int, whole: int) -> float:
    """Length of a part of a whole, never longer than the whole."""
    return round(min(FULL * amount / whole, FULL), 2) if whole else 0


def hours(coming: Sequence[ComingHour], width: int = 10) -> list[HourBar]:
    most = max((hour.pages for hour in coming), default=0)
    bars = []
    for hour in coming:
        height = max(round(FULL * hour.pages / most, 2), 2) if hour.pages else 0
        bars.append(HourBar(hour, hour.hour * width, FULL - height, height))
    return bars
