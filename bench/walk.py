"""How fast a keeper reads the schedule: the walk into memory, the same ranges read and thrown away, and the same
rows by binary COPY read and thrown away, in turn in one run; medians.

bin/bench walk [--rows N] [--runs N] [--json]
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

import psycopg

from bench.corpus import database, fill
from bench.table import show


def main() -> None:
    parser = argparse.ArgumentParser(prog="bin/bench walk", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with database() as url, psycopg.connect(url, autocommit=True) as connection:
        fill(connection, given.rows)
        figures = measure(url, connection, given.rows, given.runs)
    show("walk", figures, as_json=given.json)


def measure(url: str, connection: psycopg.Connection[Any], rows: int, runs: int) -> dict[str, float | int | str]:
    walked, cpu, read, copied = [], [], [], []
    for _ in range(runs):
        seconds, cpu_seconds = _timed(lambda: _walk(url, connection))
        walked.append(seconds)
        cpu.append(cpu_seconds)
        read.append(_timed(lambda: _read(connection))[0])
        copied.append(_timed(lambda: _copy(connection))[0])
    walk_s, read_s, copy_s = (statistics.median(times) for times in (walked, read, copied))
    return {
        "rows": rows,
        "runs": runs,
        "rows_per_s": round(rows / walk_s),
        "read_rows_per_s": round(rows / read_s),
        "copy_rows_per_s": round(rows / copy_s),
        "walk_ratio": copy_s / walk_s,
        "walk_s": walk_s,
        "walk_cpu_s_per_1m": statistics.median(cpu) / rows * 1e6,
    }


def _walk(url: str, connection: psycopg.Connection[Any]) -> None:
    """A first load, as a node does it: rules, feed, ranges, markers, merge."""
    from bench.node import BenchNode

    with BenchNode(url, connection) as node:
        node.walk()


def _read(connection: psycopg.Connection[Any]) -> None:
    from renderqueue.scheduling.walk import read_ranges

    for _ in read_ranges(connection, None):
        pass


def _copy(connection: psycopg.Connection[Any]) -> None:
    """The same columns, as the driver hands them over."""
    with connection.cursor() as cursor, cursor.copy(
        "COPY (SELECT id, due_at, declared_interval_s, sitemap_id IS NOT NULL, rendered_at IS NOT NULL, failures,"
        " partition, route_id, requested_at, retry_at FROM renderqueue_renderschedule) TO STDOUT (FORMAT BINARY)"
    ) as copy:  # fmt: skip
        for _ in copy:
            pass


def _timed(work: Callable[[], None]) -> tuple[float, float]:
    before, cpu_before = time.perf_counter(), _cpu()
    work()
    return time.perf_counter() - before, _cpu() - cpu_before


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
