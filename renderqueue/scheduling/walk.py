"""Reading the schedule in id ranges for the keeper's walks (D5, F4c).

Every range is a short snapshot of its own, returned as a few arrays that go raw into numpy: no object a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray

RANGE_ROWS = 50_000
MOST_UNREADABLE = 1_000
"""More unreadable rows than this in one walk are a failure, not a partial walk (W4)."""
PG_EPOCH_MINUTE = 946_684_800 // 60
"""Minutes from 1970 to 2000, where Postgres counts from."""

FIRST_ID, LAST_ID = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)
LAST_MINUTE = 2**31 - 1
"""Deadlines beyond (the year 6053) and infinite ones are none: the columns hold 32 bits."""


class WalkFailed(Exception):
    """The walk did not prove that it covered everything (W4)."""


@dataclass(frozen=True, slots=True)
class WalkedRange:
    """Rows with `lower < id <= upper`, sorted by id, as parallel arrays.

    `due_minute` is minutes since 1970, -1 for none or infinite. `declared_s` is 0 for none; `flags` has the
    feed's bits LISTED and RENDERED. `requested` and `retry` are the sparse columns: ids and milliseconds, ids
    and seconds. The last range has `upper` = the greatest bigint. `unreadable` names the ids in the range whose
    data could not be read (W4); they are in no other column.
    """

    lower: int
    upper: int
    ids: NDArray[np.int64]
    due_minute: NDArray[np.int32]
    declared_s: NDArray[np.int32]
    flags: NDArray[np.uint8]
    failures: NDArray[np.uint8]
    partition: NDArray[np.int16]
    route_id: NDArray[np.int32]
    requested: tuple[NDArray[np.int64], NDArray[np.int64]]
    retry: tuple[NDArray[np.int64], NDArray[np.int64]]
    unreadable: tuple[int, ...] = ()


def database_time_s(connection: psycopg.Connection[Any]) -> float:
    """Database time, seconds since 1970 (T1)."""
    row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
    assert row is not None
    return float(row[0])


def read_ranges(
    connection: psycopg.Connection[Any],
    partitions: Sequence[int] | None,
    range_rows: int = RANGE_ROWS,
) -> Iterator[WalkedRange]:
    """All rows of the given partitions (None: of all), in ranges by id. `connection` is in autocommit mode.

    Only a row's data makes a range incomplete: it is then read in halves down to the rows at fault, which are
    named. Raises WalkFailed when what arrived does not add up, or when too many rows are unreadable; any other
    failure is psycopg's."""
    lower, unreadable = FIRST_ID, 0
    while True:
        walked = read_range(connection, partitions, lower, range_rows)
        unreadable += len(walked.unreadable)
        if unreadable > MOST_UNREADABLE:
            raise WalkFailed(
                f"more than {MOST_UNREADABLE} rows cannot be read, the first of them {walked.unreadable[:3]}"
            )
        yield walked
        if walked.upper == LAST_ID:
            return
        lower = walked.upper


def read_range(
    connection: psycopg.Connection[Any], partitions: Sequence[int] | None, lower: int, range_rows: int
) -> WalkedRange:
    """The next `range_rows` rows after `lower`."""
    try:
        part = _read(connection, partitions, lower, LAST_ID, range_rows)
    except psycopg.DataError:
        return _read_around(connection, partitions, lower, range_rows)
    last = len(part.ids) < range_rows
    return replace(part, upper=LAST_ID if last else int(part.ids[-1]))


def _read_around(
    connection: psycopg.Connection[Any], partitions: Sequence[int] | None, lower: int, range_rows: int
) -> WalkedRange:
    """The same range, past the rows whose data cannot be read. Proves that ids read + ids named = ids there."""
    parameters = {"lower": lower, "upper": LAST_ID, "limit": range_rows, "partitions": list(partitions or ())}
    query = _IDS.format(where=_where(partitions))
    ids = [row[0] for row in connection.execute(query.encode(), parameters).fetchall()]
    parts: list[WalkedRange] = []
    unreadable: list[int] = []
    spans = [(lower, ids)]
    while spans:
        start, span = spans.pop()
        try:
            parts.append(_read(connection, partitions, start, span[-1], range_rows))
        except psycopg.DataError:
            if len(span) == 1:
                unreadable.append(span[0])
                if len(unreadable) > MOST_UNREADABLE:
                    raise WalkFailed(f"more than {MOST_UNREADABLE} rows cannot be read after id {lower}") from None
                continue
            half = len(span) // 2
            spans += [(span[half - 1], span[half:]), (start, span[:half])]
    walked = _joined(parts, lower, ids[-1] if len(ids) == range_rows else LAST_ID, tuple(unreadable))
    missing = set(ids) - set(walked.ids.tolist()) - set(unreadable)
    unseen = connection.execute(_EXISTING, [list(missing)]).fetchall() if missing else []
    if unseen:
        raise WalkFailed(f"{len(unseen)} rows after id {lower} were neither read nor named")
    return walked


def _joined(parts: list[WalkedRange], lower: int, upper: int, unreadable: tuple[int, ...]) -> WalkedRange:
    if not parts:
        parts = [_decoded([None] * 8, lower)]

    def both(name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        pairs = [getattr(part, name) for part in parts]
        return np.concatenate([pair[0] for pair in pairs]), np.concatenate([pair[1] for pair in pairs])

    plain = ("ids", "due_minute", "declared_s", "flags", "failures", "partition", "route_id")
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in plain}
    return WalkedRange(
        lower=lower, upper=upper, **columns, requested=both("requested"), retry=both("retry"), unreadable=unreadable
    )


def _read(
    connection: psycopg.Connection[Any], partitions: Sequence[int] | None, lower: int, upper: int, limit: int
) -> WalkedRange:
    """Up to `limit` rows with lower < id <= upper; the answer's `upper` is this one."""
    cursor = connection.cursor(binary=True)
    parameters = {"lower": lower, "upper": upper, "limit": limit, "partitions": list(partitions or ())}
    cursor.execute(_RANGE.format(where=_where(partitions)), parameters)
    result = cursor.pgresult
    assert result is not None
    return replace(_decoded([result.get_value(0, index) for index in range(8)], lower), upper=upper)


def _where(partitions: Sequence[int] | None) -> str:
    only = "" if partitions is None else " AND partition = ANY(%(partitions)s)"
    return "WHERE id > %(lower)s AND id <= %(upper)s" + only


def _decoded(values: Sequence[bytes | None], lower: int) -> WalkedRange:
    ids = _array(values[0], ">i8").astype(np.int64)
    due = _array(values[1], ">i8").astype(np.int64)
    packed = _array(values[2], ">i8").astype(np.int64)
    route_id = _array(values[3], ">i4").astype(np.int32)
    if not len(ids) == len(packed) == len(due) == len(route_id):
        raise WalkFailed(f"columns of unequal length after id {lower}")
    if len(ids) and (ids[0] <= lower or (np.diff(ids) <= 0).any()):
        raise WalkFailed(f"ids out of order after id {lower}")
    asked_ids, asked_ms, retry_ids, retry_s = (_array(value, ">i8").astype(np.int64) for value in values[4:8])
    return WalkedRange(
        lower=lower,
        upper=LAST_ID,
        ids=ids,
        due_minute=_minutes(due),
        declared_s=(packed & 0x7FFFFFFF).astype(np.int32),
        flags=((packed >> 32) & 0xFF).astype(np.uint8),
        failures=((packed >> 40) & 0xFF).astype(np.uint8),
        partition=((packed >> 48) & 0x7FFF).astype(np.int16),
        route_id=route_id,
        requested=(asked_ids, asked_ms),
        retry=(retry_ids, retry_s),
    )


def _minutes(micros: NDArray[np.int64]) -> NDArray[np.int32]:
    """Postgres microseconds since 2000, floored to minutes since 1970; infinities (and none) become -1."""
    minutes = micros // 60_000_000 + PG_EPOCH_MINUTE
    minutes[(minutes < 0) | (minutes > LAST_MINUTE)] = -1
    return minutes.astype(np.int32)


def _array(raw: bytes | None, dtype: str) -> NDArray[Any]:
    """A one-dimensional binary array of fixed-width values without NULLs, as Postgres sends it: a header of
    20 bytes, then 4 bytes of length before each value. No rows at all is NULL."""
    if raw is None:
        return np.empty(0, dtype=dtype)
    if len(raw) < 20:
        return np.empty(0, dtype=dtype)
    header = np.frombuffer(raw, dtype=">i4", count=5)
    if header[0] != 1 or header[1] != 0:
        raise WalkFailed("an array with NULLs or of more than one dimension")
    values = np.frombuffer(raw, dtype=np.dtype([("length", ">i4"), ("value", dtype)]), offset=20)
    if len(values) != header[3]:
        raise WalkFailed(f"{header[3]} values announced, {len(values)} received")
    return values["value"]


# Every nullable column is coalesced, because a NULL breaks the stride of the arrays (F4c). Packed: declared
# seconds 31 bits, flags 8 bits from 32, failures 8 bits from 40, partition from 48.
_RANGE = """
    SELECT array_agg(id), array_agg(due_at), array_agg(packed), array_agg(route_id),
           array_agg(id) FILTER (WHERE requested_ms <> 0),
           array_agg(requested_ms) FILTER (WHERE requested_ms <> 0),
           array_agg(id) FILTER (WHERE retry_s <> 0),
           array_agg(retry_s) FILTER (WHERE retry_s <> 0)
    FROM (
        SELECT id,
               CASE WHEN due_at < '6000-01-01' THEN due_at ELSE '-infinity' END AS due_at,
               COALESCE(declared_interval_s, 0)::bigint
                   | (((sitemap_id IS NOT NULL)::int + 2 * (rendered_at IS NOT NULL)::int)::bigint << 32)
                   | (LEAST(failures, 255)::bigint << 40)
                   | (partition::bigint << 48) AS packed,
               route_id::int AS route_id,
               CASE WHEN requested_at > '1970-01-01' AND isfinite(requested_at)
                    THEN floor(extract(epoch FROM requested_at) * 1000)::bigint ELSE 0 END AS requested_ms,
               CASE WHEN retry_at > '1970-01-01'
                    THEN ceil(extract(epoch FROM LEAST(retry_at, '6000-01-01')))::bigint ELSE 0 END AS retry_s
        FROM renderqueue_renderschedule
        {where}
        ORDER BY id
        LIMIT %(limit)s
    ) AS rows
"""

_IDS = "SELECT id FROM renderqueue_renderschedule {where} ORDER BY id LIMIT %(limit)s"
_EXISTING = "SELECT id FROM renderqueue_renderschedule WHERE id = ANY(%s)"
