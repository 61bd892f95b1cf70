"""The only writer of leases: claim, start, renew, release, recover, complete (D3, L0, L1).

States: claimed -> started -> done | released | expired. A row exists while a lease is claimed or started; the
three ends delete it. Every move is one guarded statement whose row count decides; losing a race changes
nothing. Database time decides everything (D15).

Lock order everywhere: site, schedule row, lease, copy; within each by id (L0). What guards a decision is read
in a statement after the lock, because a statement that waited keeps its old snapshot of other tables.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from django.db import connection, transaction

from renderqueue.scheduling.intervals import effective_interval_s

_this_node: uuid.UUID | None = None


class ClaimAnswer(StrEnum):
    """What became of one candidate (L0). Only NOT_DUE and GONE mean that the asker's memory was wrong."""

    GRANTED = "granted"
    LEASED = "leased"
    NOT_DUE = "not due"
    BACKING_OFF = "backing off"
    GONE = "gone"
    LOCKED = "locked"
    AT_CAP = "at cap"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class Claimed:
    """The answer for one candidate: `token` when granted; `until` is the lease's end (leased), the deadline
    (not due) or the earliest next try (backing off)."""

    page_id: int
    answer: ClaimAnswer
    token: uuid.UUID | None = None
    until: dt.datetime | None = None


@dataclass(frozen=True, slots=True)
class StartedPage:
    """What a render needs to know, read when its lease is started."""

    page_id: int
    site_id: int
    url: str
    devices: tuple[str, ...]
    allowed_private_hosts: tuple[str, ...]
    started_at: dt.datetime


@dataclass(frozen=True, slots=True)
class CompletingPage:
    """A page whose row and lease are locked until the end of the transaction."""

    page_id: int
    token: uuid.UUID
    site_id: int
    project_id: int
    route_id: int
    sitemap_id: int | None
    url: str
    started_at: dt.datetime
    now: dt.datetime
    failures: int
    retries: int
    interval_s: int
    cold_after: int


@dataclass(frozen=True, slots=True)
class Recovered:
    page_id: int
    node_id: uuid.UUID
    started: bool


def claim(node_id: uuid.UUID, page_ids: Sequence[int], lease_s: float) -> list[Claimed]:
    """Lease the candidates that are still due and free, in one short transaction; one answer each, in the
    order given. Candidates earlier in the list get a site's room first.

    1. Lock the sites concerned, by id: a cap counted without this overshoots (O4).
    2. Lock the candidate rows, by id, skipping what another transaction holds.
    3. In a later statement read the leases of those sites and the time.
    4. Insert the leases.
    """
    if not page_ids:
        return []
    ids = list(page_ids)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_LOCK_SITES, [ids])
        sites = {row[0]: (row[1], row[2]) for row in cursor.fetchall()}
        cursor.execute(_LOCK_CANDIDATES, [ids])
        rows = {row[0]: row[1:] for row in cursor.fetchall()}
        absent = [page_id for page_id in ids if page_id not in rows]
        existing = _existing(absent)
        cursor.execute(_SITE_LEASES, [list(sites)])
        leases = cursor.fetchall()
        now = leases[0][3]
        held = {page_id: expires_at for page_id, _, expires_at, _ in leases if page_id is not None}
        in_flight = Counter(site_id for page_id, site_id, _, _ in leases if page_id is not None)

        answers: list[Claimed] = []
        granted: list[tuple[int, uuid.UUID, int]] = []
        for page_id in ids:
            if page_id not in rows:
                kind = ClaimAnswer.LOCKED if page_id in existing else ClaimAnswer.GONE
                answers.append(Claimed(page_id, kind))
                continue
            site_id, due_at, retry_at = rows[page_id]
            cap, paused = sites.get(site_id, (0, True))
            answer = _judge(page_id, held.get(page_id), due_at, retry_at, now, paused, in_flight[site_id] >= cap)
            if answer.answer is ClaimAnswer.GRANTED:
                assert answer.token is not None
                granted.append((page_id, answer.token, site_id))
                in_flight[site_id] += 1
                held[page_id] = now
            answers.append(answer)
        if granted:
            pages, tokens, site_ids = (list(column) for column in zip(*granted, strict=True))
            cursor.execute(_INSERT_LEASES, [node_id, lease_s, pages, tokens, site_ids])
    return answers


def serve_as(node_id: uuid.UUID | None) -> None:
    """From now on this process starts leases of that node only: a message that an earlier run left in its queue
    carries a lease that nobody here renews."""
    global _this_node
    _this_node = node_id


def start(page_id: int, token: uuid.UUID) -> StartedPage | None:
    """Claimed -> started, just before the page is opened; starting is what counts as an attempt (D14).

    None if the lease is gone, expired, started already, another node's (`serve_as`), or the site or fleet is
    paused: then render nothing. A paused page's lease is released.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_START, [page_id, token, _this_node, _this_node])
        if cursor.rowcount == 0:
            return None
        cursor.execute(_STARTED_PAGE, [page_id])
        row = cursor.fetchone()
        if row is None or row[-1]:
            cursor.execute("DELETE FROM renderqueue_lease WHERE token = %s", [token])
            return None
        site_id, url, devices, private_hosts, started_at, _ = row
    return StartedPage(
        page_id=page_id,
        site_id=site_id,
        url=url,
        devices=tuple(devices),
        allowed_private_hosts=tuple(private_hosts),
        started_at=started_at,
    )


def renew(node_id: uuid.UUID, tokens: Sequence[uuid.UUID], lease_s: float) -> set[uuid.UUID]:
    """Extend the node's leases to `lease_s` from now and return the tokens that are still its own. A lease
    claimed two lease times ago and never started is not renewed: its message was lost (L1)."""
    if not tokens:
        return set()
    with connection.cursor() as cursor:
        cursor.execute(_RENEW, [lease_s, list(tokens), node_id, lease_s])
        return {row[0] for row in cursor.fetchall()}


def release(tokens: Sequence[uuid.UUID]) -> list[int]:
    """Claimed -> released: give back what has not started; started leases stay. Returns the pages."""
    if not tokens:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM renderqueue_lease WHERE token = ANY(%s) AND started_at IS NULL RETURNING page_id",
            [list(tokens)],
        )
        return [row[0] for row in cursor.fetchall()]


def abandon(token: uuid.UUID) -> bool:
    """Give back a lease whatever its state: a render that was cancelled at shutdown. The page is due as
    before. Returns whether the token still existed."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM renderqueue_lease WHERE token = %s", [token])
        return cursor.rowcount == 1


def recover() -> list[Recovered]:
    """Started or claimed -> expired: take back every lease past its end. Any node may call it, at any time;
    each expired lease is recovered by exactly one caller."""
    with connection.cursor() as cursor:
        cursor.execute(_RECOVER)
        return [Recovered(*row) for row in cursor.fetchall()]


@contextmanager
def completing(page_id: int, token: uuid.UUID) -> Iterator[CompletingPage | None]:
    """Started -> done: a transaction that has locked the schedule row, then the lease (L0). Yields None when
    the token is gone: then the result is late and must be dropped. A token that still exists completes,
    expired or not. Inside, store copies, reschedule through `rows`, and call `finish`."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM renderqueue_renderschedule WHERE id = %s FOR NO KEY UPDATE", [page_id])
        cursor.execute(_LOCK_LEASE, [page_id, token])
        if cursor.rowcount == 0:
            yield None
            return
        cursor.execute(_COMPLETING_PAGE, [page_id])
        row = cursor.fetchone()
        (site_id, project_id, route_id, sitemap_id, url, started_at, now, failures, retries) = row[:9]
        route_interval_s, declared_interval_s, site_default_s, cold_after = row[9:]
        yield CompletingPage(
            page_id=page_id,
            token=token,
            site_id=site_id,
            project_id=project_id,
            route_id=route_id,
            sitemap_id=sitemap_id,
            url=url,
            started_at=started_at,
            now=now,
            failures=failures,
            retries=retries,
            interval_s=effective_interval_s(route_interval_s, declared_interval_s, site_default_s),
            cold_after=cold_after,
        )


def finish(page: CompletingPage) -> None:
    """Delete the lease of a page that is being completed, in the same transaction (trap 7)."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM renderqueue_lease WHERE page_id = %s AND token = %s", [page.page_id, page.token])


def _judge(
    page_id: int,
    leased_until: dt.datetime | None,
    due_at: dt.datetime | None,
    retry_at: dt.datetime | None,
    now: dt.datetime,
    paused: bool,
    at_cap: bool,
) -> Claimed:
    if leased_until is not None:
        return Claimed(page_id, ClaimAnswer.LEASED, until=leased_until)
    if due_at is None or due_at > now:
        return Claimed(page_id, ClaimAnswer.NOT_DUE, until=due_at)
    if retry_at is not None and retry_at > now:
        return Claimed(page_id, ClaimAnswer.BACKING_OFF, until=retry_at)
    if paused:
        return Claimed(page_id, ClaimAnswer.PAUSED)
    if at_cap:
        return Claimed(page_id, ClaimAnswer.AT_CAP)
    return Claimed(page_id, ClaimAnswer.GRANTED, token=uuid.uuid4())


def _existing(page_ids: Sequence[int]) -> set[int]:
    if not page_ids:
        return set()
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM renderqueue_renderschedule WHERE id = ANY(%s)", [list(page_ids)])
        return {row[0] for row in cursor.fetchall()}


_LOCK_SITES = """
    SELECT site.id, site.concurrency_cap,
           site.paused OR COALESCE((SELECT paused FROM renderqueue_fleetpolicy WHERE id = 1), false)
    FROM renderqueue_site AS site
    WHERE site.id IN (SELECT site_id FROM renderqueue_renderschedule WHERE id = ANY(%s))
    ORDER BY site.id FOR NO KEY UPDATE OF site
"""

_LOCK_CANDIDATES = """
    SELECT id, site_id, CASE WHEN due_at > '1970-01-01' AND due_at < '6000-01-01' THEN due_at END,
           CASE WHEN retry_at > '1970-01-01' THEN LEAST(retry_at, '6000-01-01') END
    FROM renderqueue_renderschedule
    WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
"""

# All leases of the sites concerned: at most their caps. The first row only tells the time.
_SITE_LEASES = """
    SELECT NULL::bigint, NULL::bigint, NULL::timestamptz, clock_timestamp()
    UNION ALL
    SELECT page_id, site_id, expires_at, NULL FROM renderqueue_lease WHERE site_id = ANY(%s)
"""

_INSERT_LEASES = """
    INSERT INTO renderqueue_lease (page_id, token, node_id, site_id, claimed_at, started_at, expires_at)
    SELECT page_id, token, %s, site_id, clock_timestamp(), NULL, clock_timestamp() + make_interval(secs => %s)
    FROM unnest(%s::bigint[], %s::uuid[], %s::bigint[]) AS granted(page_id, token, site_id)
"""

_START = """
    UPDATE renderqueue_lease SET started_at = clock_timestamp()
    WHERE page_id = %s AND token = %s AND started_at IS NULL AND expires_at > clock_timestamp()
      AND (%s::uuid IS NULL OR node_id = %s)
"""

_STARTED_PAGE = """
    SELECT page.site_id, page.url,
           ARRAY(SELECT jsonb_array_elements_text(site.devices)),
           ARRAY(SELECT jsonb_array_elements_text(site.allowed_private_hosts)),
           lease.started_at,
           site.paused OR COALESCE((SELECT paused FROM renderqueue_fleetpolicy WHERE id = 1), false)
    FROM renderqueue_renderschedule AS page
    JOIN renderqueue_lease AS lease ON lease.page_id = page.id
    JOIN renderqueue_site AS site ON site.id = page.site_id
    WHERE page.id = %s
"""

_RENEW = """
    UPDATE renderqueue_lease SET expires_at = clock_timestamp() + make_interval(secs => %s)
    WHERE token = ANY(%s) AND node_id = %s
      AND (started_at IS NOT NULL OR claimed_at > clock_timestamp() - 2 * make_interval(secs => %s))
    RETURNING token
"""

_RECOVER = """
    DELETE FROM renderqueue_lease WHERE page_id IN (
        SELECT page_id FROM renderqueue_lease WHERE expires_at < clock_timestamp()
        ORDER BY page_id FOR UPDATE SKIP LOCKED)
    RETURNING page_id, node_id, started_at IS NOT NULL
"""

_LOCK_LEASE = """
    SELECT 1 FROM renderqueue_lease WHERE page_id = %s AND token = %s AND started_at IS NOT NULL
    FOR NO KEY UPDATE
"""

_COMPLETING_PAGE = """
    SELECT page.site_id, site.project_id, page.route_id, page.sitemap_id, page.url, lease.started_at,
           clock_timestamp(), page.failures, page.retries,
           route.interval_s, page.declared_interval_s, site.default_interval_s,
           COALESCE((SELECT cold_after FROM renderqueue_fleetpolicy WHERE id = 1), 3)
    FROM renderqueue_renderschedule AS page
    JOIN renderqueue_lease AS lease ON lease.page_id = page.id
    JOIN renderqueue_site AS site ON site.id = page.site_id
    JOIN renderqueue_route AS route ON route.id = page.route_id
    WHERE page.id = %s
"""
