"""Reading the schedule in id ranges for the keeper's walks (D5, F4c).

Every range is a short snapshot of its own, returned as a few arrays that go raw into numpy: no object a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray

RANGE_ROWS = 50_000
PG_EPOCH_MINUTE = 946_684_800 // 60
"""Minutes from 1970 to 2000, where Postgres counts from."""

_INFINITIES = (np.iinfo(np.int64).max, np.iinfo(np.int64).min)


class WalkFailed(Exception):
    """The walk did not prove that it covered everything (W4)."""


@dataclass(frozen=True, slots=True)
class WalkedRange:
    """Rows with `lower < id <= upper`, sorted by id, as parallel arrays.

    `due_minute` is minutes since 1970, -1 for none or infinite. `declared_s` is 0 for none; `flags` has the
    feed's bits LISTED and RENDERED. `requested` and `retry` are the sparse columns: ids and milliseconds, ids
    and seconds. The last range has `upper` = the greatest bigint.
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
    Raises WalkFailed when what arrived does not add up."""
    lower = np.iinfo(np.int64).min
    while True:
        walked = read_range(connection, partitions, lower, range_rows)
        yield walked
        if walked.upper == np.iinfo(np.int64).max:
            return
        lower = walked.upper


def read_range(
    connection: psycopg.Connection[Any], partitions: Sequence[int] | None, lower: int, range_rows: int
) -> WalkedRange:
    """The next `range_rows` rows after `lower`."""
    cursor = connection.cursor(binary=True)
    if partitions is None:
        cursor.execute(_RANGE.format(where=""), {"lower": lower, "limit": range_rows})
    else:
        where = "AND partition = ANY(%(partitions)s)"
        cursor.execute(
            _RANGE.format(where=where),
            {"lower": lower, "limit": range_rows, "partitions": list(partitions)},
        )
    result = cursor.pgresult
    assert result is not None

    def column(index: int, dtype: str) -> NDArray[Any]:
        return _array(result.get_value(0, index), dtype)

    ids = column(0, ">i8").astype(np.int64)
    packed = column(2, ">i8").astype(np.int64)
    due = column(1, ">i8")
    route_id = column(3, ">i4").astype(np.int32)
    if not len(ids) == len(packed) == len(due) == len(route_id):
        raise WalkFailed(f"columns of unequal length after id {lower}")
    if len(ids) and (ids[0] <= lower or (np.diff(ids) <= 0).any()):
        raise WalkFailed(f"ids out of order after id {lower}")
    last = len(ids) < range_rows
    return WalkedRange(
        lower=lower,
        upper=int(np.iinfo(np.int64).max) if last else int(ids[-1]),
        ids=ids,
        due_minute=_minutes(due.astype(np.int64)),
        declared_s=(packed & 0x7FFFFFFF).astype(np.int32),
        flags=((packed >> 32) & 0xFF).astype(np.uint8),
        failures=((packed >> 40) & 0xFF).astype(np.uint8),
        partition=((packed >> 48) & 0x7FFF).astype(np.int16),
        route_id=route_id,
        requested=(column(4, ">i8").astype(np.int64), column(5, ">i8").astype(np.int64)),
        retry=(column(6, ">i8").astype(np.int64), column(7, ">i8").astype(np.int64)),
    )


def _minutes(micros: NDArray[np.int64]) -> NDArray[np.int32]:
    """Postgres microseconds since 2000, floored to minutes since 1970; infinities (and none) become -1."""
    minutes = micros // 60_000_000 + PG_EPOCH_MINUTE
    minutes[(micros == _INFINITIES[0]) | (micros == _INFINITIES[1])] = -1
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
               COALESCE(due_at, '-infinity') AS due_at,
               COALESCE(declared_interval_s, 0)::bigint
                   | (((sitemap_id IS NOT NULL)::int + 2 * (rendered_at IS NOT NULL)::int)::bigint << 32)
                   | (LEAST(failures, 255)::bigint << 40)
                   | (partition::bigint << 48) AS packed,
               route_id::int AS route_id,
               CASE WHEN isfinite(requested_at)
                    THEN floor(extract(epoch FROM requested_at) * 1000)::bigint ELSE 0 END AS requested_ms,
               CASE WHEN isfinite(retry_at)
                    THEN ceil(extract(epoch FROM retry_at))::bigint ELSE 0 END AS retry_s
        FROM renderqueue_renderschedule
        WHERE id > %(lower)s {where}
        ORDER BY id
        LIMIT %(limit)s
    ) AS rows
"""
