"""The only writer of schedule rows. Every write goes out in statements of at most 500 rows (F3)."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import batched
from typing import Any

from django.db import connection

from renderqueue.identity import partition_of
from renderqueue.models import Route, Site
from renderqueue.scheduling.intervals import backoff_s, effective_interval_s, first_due, next_due

STATEMENT_ROWS = 500


@dataclass(frozen=True, slots=True)
class NewPage:
    """A page to schedule: its canonical URL, its key, the route that matched, and who listed it."""

    url: str
    key: uuid.UUID
    route_id: int
    sitemap_id: int | None = None
    declared_interval_s: int | None = None


def add_pages(
    site: Site, routes: Mapping[int, Route], pages: Sequence[NewPage], now: dt.datetime
) -> frozenset[uuid.UUID]:
    """Create the pages that do not exist yet and return their keys; existing rows are left as they are
    (trap 31). First deadlines are spread over each page's own interval (trap 35). Idempotent."""
    created: set[uuid.UUID] = set()
    for batch in batched(sorted(pages, key=lambda page: page.key), STATEMENT_ROWS):
        with connection.cursor() as cursor:
            cursor.execute(
                _INSERT_PAGES,
                [
                    site.pk,
                    [page.route_id for page in batch],
                    [page.sitemap_id for page in batch],
                    [page.url for page in batch],
                    [page.key for page in batch],
                    [partition_of(page.key) for page in batch],
                    [first_due(page.key, _interval(site, routes, page), now) for page in batch],
                    [page.declared_interval_s for page in batch],
                ],
            )
            created.update(row[0] for row in cursor.fetchall())
    return frozenset(created)


def attach_to_sitemap(keys: Iterable[uuid.UUID], sitemap_id: int) -> int:
    """Pages without a sitemap become this sitemap's; pages of another keep theirs (trap 32). Returns how many
    were attached. No due time moves."""
    return _each_batch(keys, _ATTACH, sitemap_id)


def unlink_from_sitemap(keys: Iterable[uuid.UUID], sitemap_id: int) -> int:
    """Pages that this sitemap no longer lists lose it, and nothing else (trap 34). Returns how many."""
    return _each_batch(keys, _UNLINK, sitemap_id)


def declare_intervals(declared: Mapping[uuid.UUID, int | None], sitemap_id: int) -> int:
    """Record what a sitemap declares for its own pages. Returns how many rows changed. The page's deadline
    follows at its next render."""
    changed = 0
    for batch in batched(sorted(declared.items()), STATEMENT_ROWS):
        with connection.cursor() as cursor:
            keys, intervals = [key for key, _ in batch], [interval for _, interval in batch]
            cursor.execute(_DECLARE, [keys, intervals, sitemap_id])
            changed += cursor.rowcount
    return changed


def move_to_routes(routes: Mapping[uuid.UUID, int]) -> int:
    """Record that pages match another route than they did (K2). Returns how many rows changed."""
    changed = 0
    for batch in batched(sorted(routes.items()), STATEMENT_ROWS):
        with connection.cursor() as cursor:
            cursor.execute(_REROUTE, [[key for key, _ in batch], [route for _, route in batch]])
            changed += cursor.rowcount
    return changed


def request_pages(page_ids: Iterable[int], *, render_now: bool) -> int:
    """Make pages urgent (D9): the newest request wins, page failures start again at nothing (O1), and a
    backoff is over. With `render_now` the content counts as stale too: the deadline is now, never later than
    it was. Returns how many pages were found."""
    statement = _RENDER_NOW if render_now else _REQUEST
    return sum(_execute(statement, [list(batch)]) for batch in batched(sorted(page_ids), STATEMENT_ROWS))


def reschedule_success(
    page_id: int, *, started_at: dt.datetime, completed_at: dt.datetime, interval_s: int, outcome: str
) -> dt.datetime:
    """After a successful render: the next deadline (returned), no failures, and the request answered if the
    render started at or after it (O1). A request that came after the start stays, with the deadline it may have
    set: this content is older than what was asked for (C2). Call it inside `leases.completing`."""
    with connection.cursor() as cursor:
        due_at = next_due(completed_at, interval_s)
        cursor.execute(_SUCCESS, [started_at, due_at, completed_at, started_at, outcome, page_id])
        kept: dt.datetime = cursor.fetchone()[0]
        return kept


def reschedule_failure(
    page_id: int,
    *,
    now: dt.datetime,
    retries: int,
    interval_s: int,
    cold_after: int,
    page_level: bool,
    outcome: str,
    retry_after_s: float | None = None,
) -> dt.datetime:
    """After a failed render: the earliest next try (returned). The deadline stays (O2). Page-level failures
    count towards cold, origin-level ones do not (trap 26); the `cold_after`-th ends a request (O1).

    `retries` is the number of failures in a row before this one. Call it inside `leases.completing`."""
    retry_at = now + dt.timedelta(seconds=backoff_s(retries + 1, interval_s, retry_after_s))
    _execute(_FAILURE, [retry_at, int(page_level), cold_after, int(page_level), outcome[:40], page_id])
    return retry_at


def delete_page(page_id: int) -> bool:
    """Remove a page's row. Its lease and copies must be gone already. Returns whether it was there."""
    return _execute("DELETE FROM renderqueue_renderschedule WHERE id = %s", [page_id]) == 1


def _interval(site: Site, routes: Mapping[int, Route], page: NewPage) -> int:
    return effective_interval_s(routes[page.route_id].interval_s, page.declared_interval_s, site.default_interval_s)


def _each_batch(keys: Iterable[uuid.UUID], statement: str, sitemap_id: int) -> int:
    return sum(_execute(statement, [sitemap_id, list(batch)]) for batch in batched(sorted(keys), STATEMENT_ROWS))


def _execute(statement: str, parameters: list[Any]) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.rowcount


# Sorted by key, so that two imports of the same pages lock in one order.
_INSERT_PAGES = """
    INSERT INTO renderqueue_renderschedule
        (site_id, route_id, sitemap_id, url, key, partition, due_at, declared_interval_s,
         failures, retries, last_outcome, created_at)
    SELECT %s, route_id, sitemap_id, url, key, partition, due_at, declared, 0, 0, '', now()
    FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::uuid[], %s::smallint[], %s::timestamptz[], %s::int[])
         AS page(route_id, sitemap_id, url, key, partition, due_at, declared)
    ON CONFLICT (key) DO NOTHING
    RETURNING key
"""

_ATTACH = """
    UPDATE renderqueue_renderschedule SET sitemap_id = %s WHERE key = ANY(%s) AND sitemap_id IS NULL
"""

_UNLINK = """
    UPDATE renderqueue_renderschedule SET sitemap_id = NULL, declared_interval_s = NULL
    WHERE sitemap_id = %s AND key = ANY(%s)
"""

_DECLARE = """
    UPDATE renderqueue_renderschedule AS page SET declared_interval_s = declared.interval_s
    FROM unnest(%s::uuid[], %s::int[]) AS declared(key, interval_s)
    WHERE page.key = declared.key AND page.sitemap_id = %s
      AND page.declared_interval_s IS DISTINCT FROM declared.interval_s
"""

_REROUTE = """
    UPDATE renderqueue_renderschedule AS page SET route_id = matched.route_id
    FROM unnest(%s::uuid[], %s::bigint[]) AS matched(key, route_id)
    WHERE page.key = matched.key AND page.route_id <> matched.route_id
"""

_REQUEST = """
    UPDATE renderqueue_renderschedule
    SET requested_at = clock_timestamp(), failures = 0, retries = 0, retry_at = NULL
    WHERE id = ANY(%s)
"""

_RENDER_NOW = """
    UPDATE renderqueue_renderschedule
    SET requested_at = clock_timestamp(), failures = 0, retries = 0, retry_at = NULL,
        due_at = LEAST(due_at, date_trunc('minute', clock_timestamp()))
    WHERE id = ANY(%s)
"""

_SUCCESS = """
    UPDATE renderqueue_renderschedule
    SET due_at = CASE WHEN requested_at > %s THEN due_at ELSE %s END, rendered_at = %s,
        failures = 0, retries = 0, retry_at = NULL,
        requested_at = CASE WHEN requested_at > %s THEN requested_at END, last_outcome = %s
    WHERE id = %s
    RETURNING due_at
"""

_FAILURE = """
    UPDATE renderqueue_renderschedule
    SET retry_at = %s, retries = LEAST(retries + 1, 32000), failures = LEAST(failures + %s, 32000),
        requested_at = CASE WHEN failures + 1 >= %s AND %s = 1 THEN NULL ELSE requested_at END, last_outcome = %s
    WHERE id = %s
"""
