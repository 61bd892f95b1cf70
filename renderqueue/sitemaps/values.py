"""The small values of a sitemap entry, read leniently: what cannot be read is absent, and the URL stays."""

from __future__ import annotations

import datetime as dt
import re
from email.utils import parsedate_to_datetime

HOUR_S = 3600
DAY_S = 24 * HOUR_S

MINIMUM_DECLARED_S = HOUR_S
"""A sitemap cannot ask for more than one render an hour; a route of the site can."""

DECLARED_INTERVALS_S = {
    "always": HOUR_S,
    "hourly": HOUR_S,
    "daily": DAY_S,
    "weekly": 7 * DAY_S,
    "monthly": 30 * DAY_S,
    "yearly": 365 * DAY_S,
    "never": 365 * DAY_S,
}

_W3C_DATE = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[Tt ]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,]\d+)?)?\s*([Zz]|[+\- ]?\d{2}:?\d{2})?)?)?)?",
    re.ASCII,
)


def declared_interval_s(changefreq: str | None, minimum_s: int = MINIMUM_DECLARED_S) -> int | None:
    """Seconds between refreshes that a changefreq declares, at least `minimum_s`; None for None."""
    return None if changefreq is None else max(DECLARED_INTERVALS_S[changefreq], minimum_s)


def read_changefreq(text: str) -> str | None:
    """One of the protocol's words, or None."""
    word = text.strip().casefold()
    return word if word in DECLARED_INTERVALS_S else None


def read_priority(text: str) -> float | None:
    """0.0 to 1.0, or None."""
    try:
        value = float(text.strip().replace(",", "."))
    except ValueError:
        return None
    return value if 0.0 <= value <= 1.0 else None


def read_lastmod(text: str) -> dt.datetime | None:
    """An aware instant, or None. Takes W3C dates of any precision, a blank for the T, a lost plus sign, and
    mail dates. A time without a zone is UTC (F83)."""
    text = text.strip()
    match = _W3C_DATE.fullmatch(text)
    try:
        if match is None:
            return _aware(parsedate_to_datetime(text)) if "," in text or "GMT" in text else None
        year, month, day, hour, minute, second, zone = match.groups()
        return dt.datetime(
            int(year),
            int(month or 1),
            int(day or 1),
            int(hour or 0),
            int(minute or 0),
            min(int(second or 0), 59),  # a leap second
            tzinfo=_zone(zone),
        )
    except (ValueError, OverflowError):
        return None


def _aware(value: dt.datetime) -> dt.datetime:
    return value if value.tzinfo else value.replace(tzinfo=dt.UTC)


def _zone(text: str | None) -> dt.tzinfo:
    if text is None or text in "Zz":
        return dt.UTC
    digits = text.lstrip("+- ").replace(":", "")
    offset = dt.timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return dt.timezone(-offset if text.startswith("-") else offset)
