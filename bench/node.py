"""A keeper's memory without its worker: index, feed and walks, for benchmarks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import psycopg

CHANNEL = "rq_node_bench"


class BenchNode:
    """Owns every group; a thread applies what the feed brings. `on_rows` is called after each application."""

    def __init__(self, url: str, connection: psycopg.Connection[Any]) -> None:
        from keeper.clock import KeeperClock
        from keeper.index import ScheduleIndex
        from keeper.walker import Markers
        from renderqueue.identity import GROUPS
        from renderqueue.scheduling.feed import FeedListener
        from renderqueue.scheduling.rules import load_rules

        self.connection = connection
        self.clock = KeeperClock()
        self.markers = Markers()
        self.index = ScheduleIndex(load_rules(connection))
        self.on_rows: Callable[[], None] = lambda: None
        self._listener = FeedListener(url, CHANNEL)
        self.index.gain(range(GROUPS))
        self._listener.listen(range(GROUPS))
        self.index.edges.feed_opened(range(GROUPS))
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._pump)
        self._thread.start()

    def walk(self) -> Any:
        from keeper.walker import walk

        return walk(self.index, self.connection, self.clock, self.markers, CHANNEL)

    def _pump(self) -> None:
        from renderqueue.scheduling.feed import Marked, RowsChanged

        while not self._done.is_set():
            for event in self._listener.receive(timeout_s=1):
                if isinstance(event, RowsChanged):
                    self.index.apply(event.rows, self.clock.now_s())
                    self.on_rows()
                elif isinstance(event, Marked):
                    self.markers.arrived(event.marker)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._listener.wake()
        self._thread.join()
        self._listener.close()
