"""Which rung of the ladder a request gets: pure (C1)."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum


class Rung(StrEnum):
    """What a crawler got, best first; the value is what the header X-Renderqueue says."""

    FRESH = "fresh"
    STALE = "stale"
    LAST_GOOD = "last-good"
    ORIGIN = "origin"
    UNAVAILABLE = "unavailable"


def rung_of(expires_at: dt.datetime | None, now: dt.datetime, *, swr_ttl_s: int, serve_last_good: bool) -> Rung:
    """The rung for a page whose copy expires at `expires_at`; None when it has no copy.

    Fresh before the deadline; stale for `swr_ttl_s` after it, which covers late renders, so the deadline itself
    never moves; then the last good copy if the site allows it; then the origin. Only the origin's failure, known
    later, leads to UNAVAILABLE."""
    if expires_at is None:
        return Rung.ORIGIN
    if now < expires_at:
        return Rung.FRESH
    if now < expires_at + dt.timedelta(seconds=swr_ttl_s):
        return Rung.STALE
    return Rung.LAST_GOOD if serve_last_good else Rung.ORIGIN
