"""A page that a crawler asked for and nobody had listed becomes a discovered page."""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections import Counter

from django.db import DatabaseError

from renderqueue.scheduling.rows import NewPage, add_pages
from renderqueue.serving.lookup import Found

log = logging.getLogger(__name__)

DISCOVERED_A_MINUTE = 60
"""Most pages a site gains by misses in a minute, in one web process: a crawler lost in an endless calendar, or a
stranger, must not grow the schedule without bound."""


class Budget:
    """At most DISCOVERED_A_MINUTE grants per site and clock minute."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._minute = 0
        self._granted: Counter[int] = Counter()

    def grants(self, site_id: int, now: dt.datetime) -> bool:
        minute = int(now.timestamp() // 60)
        with self._lock:
            if minute != self._minute:
                self._minute = minute
                self._granted.clear()
            self._granted[site_id] += 1
            return self._granted[site_id] <= DISCOVERED_A_MINUTE


_budget = Budget()


def discover(found: Found, now: dt.datetime) -> None:
    """Schedule the page that a request missed. The crawler's answer never depends on it: a database that refuses
    is logged, and the next miss tries again."""
    if found.identity is None or not _budget.grants(found.site.pk, now):
        return
    page = NewPage(found.identity.url, found.identity.key, found.identity.route_id)
    try:
        add_pages(found.site, found.routes, [page], now)
    except DatabaseError:
        log.exception("could not schedule the discovered page %s", found.identity.url)
