"""What this process's renders came to, since it started."""

from __future__ import annotations

import threading
from collections import Counter

# Besides the kinds of verdict: a render that was not begun because its lease was not ours any more, one whose result
# came too late to count, one that was cancelled, and one whose result could not be stored (its lease expires).
DROPPED, LATE, CANCELLED, UNSTORED = "dropped", "late", "cancelled", "unstored"

_guard = threading.Lock()
_counts: Counter[str] = Counter()


def count(name: str) -> None:
    with _guard:
        _counts[name] += 1


def counts() -> dict[str, int]:
    """Totals by name; only what happened is named."""
    with _guard:
        return dict(_counts)
