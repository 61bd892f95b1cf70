"""Classes and lateness, pure (D7, O1): plain values in, plain values out, no clock."""

from __future__ import annotations

from enum import IntEnum

REQUEST_LIFETIME_S = 4 * 24 * 3600
"""A request for a page that nothing answered for four days is no longer urgent (O1)."""


class PriorityClass(IntEnum):
    """How much it matters to meet the deadline when capacity is short; the smaller goes first."""

    URGENT = 0
    SUBMITTED = 1
    DISCOVERED = 2
    COLD = 3

    @property
    def label(self) -> str:
        return self.name.lower()


def classify(
    *,
    listed: bool,
    treat_as_submitted: bool,
    failures: int,
    requested_at_s: float | None,
    now_s: float,
    cold_after: int,
) -> PriorityClass:
    """The class of a page, first match (O1).

    `requested_at_s` and `now_s` are seconds since 1970. `failures` counts page-level failures in a row.
    A page that was never tried is not cold.
    """
    if requested_at_s is not None and now_s - requested_at_s < REQUEST_LIFETIME_S:
        return PriorityClass.URGENT
    if failures >= cold_after:
        return PriorityClass.COLD
    if listed or treat_as_submitted:
        return PriorityClass.SUBMITTED
    return PriorityClass.DISCOVERED


def relative_lateness(due_at_s: float, interval_s: float, now_s: float) -> float:
    """How late a page is, in cadences: 0.5 is half an interval past its deadline; negative is not yet due."""
    return (now_s - due_at_s) / interval_s
