"""How many origin fetches of one site run at once in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class OriginBusy(Exception):
    """All of a site's slots are taken: answer at once, never queue behind a slow origin (F37)."""


class OriginSlots:
    """A counter per site; whoever gets no slot is refused at once. Safe from any thread or event loop."""

    def __init__(self, per_site: int) -> None:
        self.per_site = per_site
        self._taken: Counter[int] = Counter()
        self._lock = Lock()

    @contextmanager
    def slot(self, site_id: int) -> Iterator[None]:
        """Hold one slot of the site while the block runs. Raises OriginBusy."""
        with self._lock:
            if self._taken[site_id] >= self.per_site:
                raise OriginBusy
            self._taken[site_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[site_id] -= 1
                if not self._taken[site_id]:
                    del self._taken[site_id]
