"""The keeper's speed and memory at N rows: 97% at a cadence of 96 h, 3% at 24 h, a tenth of them due.

bin/bench keeper [--rows N] [--runs N] [--json]

Memory is the growth of the process's resident set over the rows held, in a fresh process for each window; the
walks run beside the same rows read by binary COPY. Times are medians unless named otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from bench.corpus import database, fill
from bench.table import show

Figures = dict[str, float | int | str]
WINDOWS_S = {"0": 0, "24h": 24 * 3600, "6h": 6 * 3600}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bin/bench keeper", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--due", type=float, default=0.1, help="fraction of the rows that is due")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--memory-of-window", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.memory_of_window is not None:
        print(json.dumps(_memory(os.environ["DATABASE_URL"], given.memory_of_window)))
        return
    with database() as url, psycopg.connect(url, autocommit=True) as connection:
        fill(connection, given.rows, due_fraction=given.due)
        figures: Figures = {"rows": given.rows, "runs": given.runs}
        for name, window_s in WINDOWS_S.items():
            child = subprocess.run(
                [sys.executable, "-m", "bench.keeper", "--memory-of-window", str(window_s)],
                env={**os.environ, "DATABASE_URL": url}, stdout=subprocess.PIPE, check=True,
            )  # fmt: skip
            memory = json.loads(child.stdout)
            suffix = "" if name == "0" else f"_{name}"
            figures |= {f"{figure}{suffix}": value for figure, value in memory.items()}
        from bench.walk import measure

        figures |= measure(url, connection, given.rows, given.runs)
        figures |= _questions(url, connection, given.runs)
    show("keeper", figures, as_json=given.json)


def _memory(url: str, window_s: int) -> Figures:
    """RSS after the first walk and its peak over a second one, against the rows held."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "renderqueue.settings")
    django.setup()
    from bench.node import BenchNode

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO renderqueue_fleetpolicy (id, window_s, verify_interval_s, cold_after, min_share, paused,"
            " paused_generation) VALUES (1, %s, 3600, 3, '{}', false, 0)"
            " ON CONFLICT (id) DO UPDATE SET window_s = excluded.window_s",
            [window_s],
        )
        with BenchNode(url, connection) as node:
            node.index.best(1, node.clock.now_s())
            before = _rss()
            peak = _Peak()
            node.walk()
            held = len(node.index.held_ids())
            grown = _rss() - before
            node.walk()
            base_bytes, _ = node.index.memory_bytes()
            counted = node.index.counts(node.clock.now_s())
            node.index.choose(5000, node.clock.now_s())
            _, due_bytes = node.index.memory_bytes()
            top = peak.stop() - before
    return {
        "held": held,
        "due": counted.due,
        "bytes_per_row": grown / max(held, 1),
        "walk_peak_ratio": top / max(grown, 1),
        "due_bytes_per_due_row": due_bytes / max(counted.due, 1),
        "column_bytes_per_row": base_bytes / max(held, 1),
    }


def _questions(url: str, connection: psycopg.Connection[Any], runs: int) -> Figures:
    from bench.node import BenchNode

    connection.execute("UPDATE renderqueue_fleetpolicy SET window_s = 0")
    with BenchNode(url, connection) as node:
        node.walk()
        now = node.clock.now_s
        figures: Figures = {
            "best_5000_ms": _median_ms(lambda: node.index.choose(5000, now()), 200),
            "counts_ms": _median_ms(lambda: node.index.counts(now()), 50),
        }
        figures |= _events(node)
        figures |= _holds(node)
        figures |= _visible(node, url)
    return figures


def _events(node: Any) -> Figures:
    """Applying decoded events to rows that are held: one at a time, and 500 at a time, from the payload on."""
    import numpy as np

    from renderqueue.scheduling.feed import decode_rows

    ids = node.index.held_ids()
    random = np.random.default_rng(1)
    minute = int(node.clock.now_s() // 60)

    def payloads(count: int, size: int) -> list[bytes]:
        return [
            ";".join(f"{i},{i % 1024},{minute + 600},0,2,0,0,0,1" for i in random.choice(ids, size).tolist()).encode()
            for _ in range(count)
        ]

    def microseconds(batches: list[bytes], size: int) -> float:
        times = []
        for payload in batches:
            before = time.perf_counter()
            node.index.apply(decode_rows(payload), node.clock.now_s())
            times.append((time.perf_counter() - before) / size * 1e6)
        return statistics.median(times)

    return {
        "event_us": microseconds(payloads(2000, 1), 1),
        "event_batch_us": microseconds(payloads(200, 120), 120),
    }


def _holds(node: Any) -> Figures:
    """The longest that another thread was kept from running while the index was walked, counted and asked."""
    gaps: list[float] = []
    done = threading.Event()

    def tick() -> None:
        last = time.perf_counter()
        while not done.is_set():
            time.sleep(0.0005)
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    watcher = threading.Thread(target=tick)
    watcher.start()
    node.walk()
    for _ in range(5):
        node.index.counts(node.clock.now_s())
        node.index.choose(5000, node.clock.now_s())
    done.set()
    watcher.join()
    return {"hold_ms": max(gaps) * 1000}


def _visible(node: Any, url: str) -> Figures:
    """From the commit of an urgent write to its page being first in the order."""
    arrived = threading.Event()
    node.on_rows = arrived.set
    ids = node.index.held_ids()
    times = []
    with psycopg.connect(url, autocommit=True) as writer:
        for page_id in ids[:: max(len(ids) // 300, 1)][:300].tolist():
            arrived.clear()
            writer.execute(
                "UPDATE renderqueue_renderschedule SET requested_at = clock_timestamp(), due_at = '2026-01-01'"
                " WHERE id = %s",
                [page_id],
            )
            committed = time.perf_counter()
            arrived.wait(5)
            first = node.index.best(1, node.clock.now_s())
            times.append(time.perf_counter() - committed)
            assert first[0].page_id == page_id, "an urgent write did not come first"
    times.sort()
    return {"visible_p50_ms": times[len(times) // 2] * 1000, "visible_p99_ms": times[int(len(times) * 0.99)] * 1000}


class _Peak:
    """The greatest resident set while it watches."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._greatest = _rss()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        while not self._done.is_set():
            self._greatest = max(self._greatest, _rss())
            time.sleep(0.002)

    def stop(self) -> int:
        self._done.set()
        self._thread.join()
        return self._greatest


def _rss() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _median_ms(work: Callable[[], object], times: int) -> float:
    taken = []
    for _ in range(times):
        before = time.perf_counter()
        work()
        taken.append((time.perf_counter() - before) * 1000)
    return statistics.median(taken)


if __name__ == "__main__":
    main()
