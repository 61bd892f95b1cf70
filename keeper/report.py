"""What a node says of itself: one versioned document in Postgres, read by the console and by /metrics.

Written every second when it changed, and every five seconds anyway; older than 15 seconds is stale (trap 20:
`written_at` is the heartbeat, whatever changed).

Document, version 1. Times are seconds since 1970 by keeper time; counts are exact over the rows this node owns
while `exact` is true:
  at                  when it was made
  phase               starting | loading | serving | feed degraded | feed lost | leaving
  status              queued | empty | unready (S1)
  complete, exact     D10
  unreadable          rows that the last walk could not read: known, not held, and why `exact` is false
  edge_s              the edge, null for none yet or for "everything is held" (see `edge_infinite`)
  edge_infinite       whether the edge is +infinity
  edge_lead_s         edge - now; null like `edge_s`
  window_s            the window in force
  groups              partition groups owned, of 256
  held, due, claimable, parked, backing_off, paused, due_by_class, coming
                      see keeper.counts.Counts; parked includes what this node has in flight
  oldest_due_at, next_due_at
  bytes, due_bytes    of the held rows and of the due set, shown apart because a window bounds only the first (W9)
  bound, leased, started
                      prefetch bound, pages leased by this node, those of them that have started
  walks               {finished, failed, last_at, last_rows, last_seconds, last_error, counts, repaired}
  flow                see keeper.index.Flow
  claims              answers of claims by kind, since the start
  head                the first pages in order, at most HEAD_SIZE
                      {page, class, lateness, due_at, interval_s, route, site, requested_at}
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from dataclasses import dataclass
from typing import Any

from django.db import connection

VERSION = 1
HEAD_SIZE = 200
STALE_AFTER_S = 15.0


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node as the console sees it. `document` is None when it has not reported yet; `age_s` is the age of
    the document, `silent_s` of the last heartbeat."""

    id: uuid.UUID
    name: str
    host: str
    pool_size: int
    started_at: dt.datetime
    silent_s: float
    leaving: bool
    age_s: float | None
    document: dict[str, Any] | None

    @property
    def stale(self) -> bool:
        return self.age_s is None or self.age_s > STALE_AFTER_S


def write(node_id: uuid.UUID, document: dict[str, Any]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_WRITE, [node_id, VERSION, json.dumps(document)])


def read_nodes(silent_for_s: float = 120.0) -> list[NodeView]:
    """Every node that has been alive within `silent_for_s`, with its newest report: one query."""
    with connection.cursor() as cursor:
        cursor.execute(_READ, [VERSION, silent_for_s])
        return [NodeView(*(*row[:8], None if row[8] is None else json.loads(row[8]))) for row in cursor.fetchall()]


_WRITE = """
    INSERT INTO renderqueue_nodereport (node_id, version, document, written_at)
    VALUES (%s, %s, %s, clock_timestamp())
    ON CONFLICT (node_id) DO UPDATE
        SET version = excluded.version, document = excluded.document, written_at = excluded.written_at
"""

_READ = """
    SELECT node.id, node.name, node.host, node.pool_size, node.started_at,
           extract(epoch FROM clock_timestamp() - node.heartbeat_at)::float8, node.leaving,
           extract(epoch FROM clock_timestamp() - report.written_at)::float8, report.document
    FROM renderqueue_node AS node
    LEFT JOIN renderqueue_nodereport AS report ON report.node_id = node.id AND report.version = %s
    WHERE node.heartbeat_at > clock_timestamp() - make_interval(secs => %s)
    ORDER BY node.started_at
"""
