"""Numbers and spans as people read them. Pure; the templates' filters are in `templatetags/words.py`."""

from __future__ import annotations

import math

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_DECIMALS_BELOW = 10
_JUST_DUE_BELOW = 0.05
_COARSE_FROM = 3


def duration(seconds: float, two_units_below: float = math.inf) -> str:
    """At most two units, the second one only if it says something: 5400 -> "1 h 30 min", 345600 -> "4 d". From
    `two_units_below` of the first unit on, that one alone."""
    if math.isinf(seconds):
        return "without end"
    left = round(abs(seconds))
    for index, (size, unit) in enumerate(_UNITS):
        if left >= size:
            first, rest = divmod(left, size)
            smaller_size, smaller = _UNITS[min(index + 1, len(_UNITS) - 1)]
            second = rest // smaller_size
            both = second and index + 1 < len(_UNITS) and first < two_units_below
            return f"{first} {unit} {second} {smaller}" if both else f"{first} {unit}"
    return "0 s"


def relative(seconds: float) -> str:
    """`seconds` is how far ahead: -180 -> "3 min ago", 240 -> "in 4 min"."""
    if abs(seconds) < 1:
        return "now"
    span = duration(seconds, two_units_below=_COARSE_FROM)
    return f"{span} ago" if seconds < 0 else f"in {span}"


def lateness(cadences: float) -> str:
    """Relative lateness: 2.41 -> "2.4 cadences late"."""
    if cadences < -_JUST_DUE_BELOW:
        return "not due yet"
    if cadences < _JUST_DUE_BELOW:
        return "just due"
    number = f"{cadences:.1f}" if cadences < _DECIMALS_BELOW else f"{cadences:,.0f}"
    return f"{number} cadences late"


def pages(count: int) -> str:
    return "1 page" if count == 1 else f"{count:,} pages"


def size(count: float) -> str:
    """Bytes: 1536000 -> "1.5 MB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" or count >= _DECIMALS_BELOW else f"{count:.1f} {unit}"
