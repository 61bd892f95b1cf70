"""Which cadence applies to a page, and when its next deadline is: pure (K2, C1, O2)."""

from __future__ import annotations

import datetime as dt
import uuid

MINUTE_S = 60
BACKOFF_FIRST_S = 120
BACKOFF_CAP_S = 7 * 24 * 3600
RETRY_AFTER_FLOOR_S = 60


def effective_interval_s(route_interval_s: int | None, declared_interval_s: int | None, site_default_s: int) -> int:
    """Seconds between refreshes: route > sitemap-declared > site default (K2)."""
    return route_interval_s or declared_interval_s or site_default_s


def floor_minute(at: dt.datetime) -> dt.datetime:
    """Due times are whole minutes (D15)."""
    return at.replace(second=0, microsecond=0)


def first_due(key: uuid.UUID, interval_s: int, now: dt.datetime) -> dt.datetime:
    """The first deadline of a new page: spread over the interval by a hash of the page, so that an import of
    any size is a flat stream (trap 35)."""
    spread_s = (key.int >> 64) % max(interval_s, 1)
    return floor_minute(now + dt.timedelta(seconds=spread_s))


def next_due(completed_at: dt.datetime, interval_s: int) -> dt.datetime:
    """The deadline that a successful render sets (C1)."""
    return floor_minute(completed_at + dt.timedelta(seconds=interval_s))


def backoff_s(retries: int, interval_s: int, retry_after_s: float | None = None) -> int:
    """Seconds until the next try after `retries` failures in a row (1 = the first).

    Doubles from two minutes, capped by the page's own cadence (never under two minutes) and by seven days;
    the same whatever the page's provenance (O2). An origin's Retry-After counts when it asks for longer, held
    between a minute and the cap (trap 30).
    """
    cap = min(max(interval_s, BACKOFF_FIRST_S), BACKOFF_CAP_S)
    wait: float = min(BACKOFF_FIRST_S << min(max(retries - 1, 0), 20), cap)
    if retry_after_s is not None:
        wait = max(wait, min(max(retry_after_s, RETRY_AFTER_FLOOR_S), BACKOFF_CAP_S))
    return int(wait)
