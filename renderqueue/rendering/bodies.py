"""Bodies: stored once per project and content, collected when nothing points at them (C4, D19)."""

from __future__ import annotations

import datetime as dt
import gzip
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import brotli
from django.db import connection, transaction

from renderqueue.models import Body

BROTLI_QUALITY = 5  # 1 ms for 85 KB; 11 takes 67 ms for little
UNDO_S = 3600  # how long a replaced body stays, so that a clear can be undone (C3)
COLLECT_BATCH = 200


@dataclass(frozen=True, slots=True)
class NewBody:
    """A body in the forms it is stored in."""

    sha256: bytes
    size: int
    br: bytes
    gzip: bytes


def digest(content: bytes) -> bytes:
    """The address of a body within its project."""
    return hashlib.sha256(content).digest()


def compressed(content: bytes) -> NewBody:
    """Both forms, the same for the same content whenever they are made."""
    return NewBody(
        digest(content), len(content), brotli.compress(content, quality=BROTLI_QUALITY), gzip.compress(content, mtime=0)
    )


def missing(project_id: int, contents: Iterable[bytes]) -> dict[bytes, NewBody]:
    """The bodies that the project does not have yet, compressed. Call it before the transaction that stores them:
    compressing takes longer than a lock should be held."""
    by_digest = {digest(content): content for content in contents}
    known = Body.objects.filter(project_id=project_id, sha256__in=list(by_digest)).values_list("sha256", flat=True)
    for sha256 in known:
        by_digest.pop(bytes(sha256), None)
    return {sha256: compressed(content) for sha256, content in by_digest.items()}


def pin(project_id: int, contents: Sequence[bytes], prepared: Mapping[bytes, NewBody]) -> dict[bytes, int]:
    """The ids of these bodies by digest, written where they are missing and locked against the collector until the
    end of the transaction. One that exists is not written again.

    In order of digest, so that two pages with the same bodies do not wait for each other in a ring."""
    ids: dict[bytes, int] = {}
    for sha256, content in sorted((digest(content), content) for content in contents):
        body_id = _locked(project_id, sha256)
        while body_id is None:
            _insert(project_id, prepared.get(sha256) or compressed(content))
            body_id = _locked(project_id, sha256)
        ids[sha256] = body_id
    return ids


def owe(body_ids: Iterable[int], now: dt.datetime) -> None:
    """These bodies may be unused from now on: the collector looks at them when a clear can no longer be undone."""
    ids = sorted(set(body_ids))
    if ids:
        with connection.cursor() as cursor:
            cursor.execute(_OWE, [now + dt.timedelta(seconds=UNDO_S), ids])


def collect(limit: int = COLLECT_BATCH) -> tuple[int, int]:
    """Settle at most `limit` debts that are due: (debts settled, bodies deleted).

    1. Lock the debts, then their bodies; what another transaction holds is left for later.
    2. In a later statement delete the bodies that no copy points at: who wants to point at one has to lock it
       first, and waits.
    3. Forget the debts, whether the body went or is in use."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_DUE_BODIES, [limit])
        bodies = [row[0] for row in cursor.fetchall()]
        if not bodies:
            return 0, 0
        cursor.execute(_LOCK_BODIES, [bodies])
        locked = [row[0] for row in cursor.fetchall()]
        cursor.execute("SELECT DISTINCT body_id FROM renderqueue_cachedcopy WHERE body_id = ANY(%s)", [locked])
        unused = sorted(set(locked) - {row[0] for row in cursor.fetchall()})
        cursor.execute(_SETTLE, [locked, unused])
        settled = cursor.rowcount
        cursor.execute("DELETE FROM renderqueue_body WHERE id = ANY(%s)", [unused])
        return settled, cursor.rowcount


def _locked(project_id: int, sha256: bytes) -> int | None:
    with connection.cursor() as cursor:
        cursor.execute(_PIN, [project_id, sha256])
        row = cursor.fetchone()
        return None if row is None else int(row[0])


def _insert(project_id: int, body: NewBody) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, [project_id, body.sha256, body.size, body.br, body.gzip])


_PIN = "SELECT id FROM renderqueue_body WHERE project_id = %s AND sha256 = %s FOR KEY SHARE"

_INSERT = """
    INSERT INTO renderqueue_body (project_id, sha256, size, br, gzip, created_at)
    VALUES (%s, %s, %s, %s, %s, clock_timestamp()) ON CONFLICT (project_id, sha256) DO NOTHING
"""

_OWE = """
    INSERT INTO renderqueue_deletiondebt (body_id, collectable_at)
    SELECT body_id, %s FROM unnest(%s::bigint[]) AS body_id
"""

_DUE_BODIES = """
    SELECT body_id FROM renderqueue_deletiondebt WHERE collectable_at <= clock_timestamp()
    ORDER BY collectable_at LIMIT %s FOR UPDATE SKIP LOCKED
"""

_LOCK_BODIES = "SELECT id FROM renderqueue_body WHERE id = ANY(%s) ORDER BY id FOR UPDATE SKIP LOCKED"

# A body that goes takes its later debts along; one that stays is owed again when it is replaced again.
_SETTLE = """
    DELETE FROM renderqueue_deletiondebt
    WHERE (body_id = ANY(%s) AND collectable_at <= clock_timestamp()) OR body_id = ANY(%s)
"""
