"""Which nodes are alive, and which partition groups each of them owns (D6, W2b, O5)."""

from __future__ import annotations

import hashlib
import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from django.db import connection

from renderqueue.identity import GROUPS

HEARTBEAT_S = 2.0
DEAD_AFTER_S = 10.0
"""A node whose heartbeat is older owns nothing: five beats missed."""
FORGET_AFTER_S = 3600
"""Rows of dead nodes are kept this long, for whoever looks at what happened."""


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """One run of one worker; the id is new at every start, so a restarted worker is another node."""

    id: uuid.UUID
    name: str
    host: str
    queue: str
    pool_size: int


@dataclass(frozen=True, slots=True)
class Beat:
    """The answer to a heartbeat: database time, and the pool size of every live node."""

    database_s: float
    live: Mapping[uuid.UUID, int]


def owners(live: Mapping[uuid.UUID, int]) -> list[uuid.UUID]:
    """The owner of every group: weighted rendezvous hashing over the live nodes (O5), so that a node that joins
    or leaves moves only its own share. Needs at least one node."""
    return [max(live, key=lambda node: (_score(node, group, live[node]), node)) for group in range(GROUPS)]


def owned_groups(node: uuid.UUID, live: Mapping[uuid.UUID, int]) -> frozenset[int]:
    return frozenset(group for group, owner in enumerate(owners(live)) if owner == node) if live else frozenset()


def beat(node: NodeIdentity, *, leaving: bool = False) -> Beat:
    """Say that the node is alive, and learn who else is: one statement."""
    with connection.cursor() as cursor:
        cursor.execute(
            _BEAT, [node.id, node.name, node.host, node.queue, node.pool_size, leaving, DEAD_AFTER_S, node.id]
        )
        rows = cursor.fetchall()
    live = {row[1]: row[2] for row in rows if row[1] is not None}
    if not leaving:
        live[node.id] = node.pool_size
    return Beat(database_s=rows[0][0], live=live)


def forget_dead() -> int:
    """Delete the rows of nodes that have been dead for an hour, with their reports. Returns how many."""
    with connection.cursor() as cursor:
        cursor.execute(_FORGET_REPORTS, [FORGET_AFTER_S])
        cursor.execute(_FORGET_NODES, [FORGET_AFTER_S])
        return cursor.rowcount


def _score(node: uuid.UUID, group: int, weight: int) -> float:
    digest = hashlib.blake2b(node.bytes + group.to_bytes(2, "big"), digest_size=8).digest()
    fraction = (int.from_bytes(digest, "big") + 0.5) / 2**64
    return weight / -math.log(fraction)


# The first row tells the time even when no other node is alive.
_BEAT = """
    WITH beat AS (
        INSERT INTO renderqueue_node
            (id, name, host, queue, pool_size, started_at, heartbeat_at, leaving)
        VALUES (%s, %s, %s, %s, %s, clock_timestamp(), clock_timestamp(), %s)
        ON CONFLICT (id) DO UPDATE
            SET heartbeat_at = excluded.heartbeat_at, leaving = excluded.leaving, pool_size = excluded.pool_size
    )
    SELECT extract(epoch FROM clock_timestamp())::float8, NULL::uuid, NULL::int
    UNION ALL
    SELECT NULL, id, pool_size FROM renderqueue_node
    WHERE heartbeat_at > clock_timestamp() - make_interval(secs => %s) AND NOT leaving AND id <> %s
"""

_FORGET_REPORTS = """
    DELETE FROM renderqueue_nodereport WHERE node_id NOT IN (
        SELECT id FROM renderqueue_node WHERE heartbeat_at > clock_timestamp() - make_interval(secs => %s))
"""

_FORGET_NODES = """
    DELETE FROM renderqueue_node WHERE heartbeat_at < clock_timestamp() - make_interval(secs => %s)
"""
