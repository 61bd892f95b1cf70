"""A page that a crawler asked for and nobody had listed becomes a discovered page."""

from __future__ import annotations

import datetime as dt
import logging

from django.db import DatabaseError

from renderqueue.scheduling.rows import NewPage, add_pages
from renderqueue.serving.lookup import Found

log = logging.getLogger(__name__)


def discover(found: Found, now: dt.datetime) -> None:
    """Schedule the page that a request missed. The crawler's answer never depends on it: a database that refuses
    is logged, and the next miss tries again."""
    if found.identity is None:
        return
    page = NewPage(found.identity.url, found.identity.key, found.identity.route_id)
    try:
        add_pages(found.site, found.routes, [page], now)
    except DatabaseError:
        log.exception("could not schedule the discovered page %s", found.identity.url)
