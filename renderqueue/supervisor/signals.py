"""Signals as wake-ups of one loop: nothing happens inside a handler."""

from __future__ import annotations

import contextlib
import select
import signal
import socket
from types import FrameType, TracebackType
from typing import Self

from renderqueue.supervisor.outcome import StopRequested

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Signals:
    """While entered, `wait()` returns early when a child ends or somebody asks to stop.

    `stops` counts the requests to stop: the second one means haste.
    """

    def __init__(self) -> None:
        self.stops = 0

    def __enter__(self) -> Self:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._previous_fd = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._previous = {number: signal.signal(number, self._note) for number in (*STOP_SIGNALS, signal.SIGCHLD)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_fd)
        self._reader.close()
        self._writer.close()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number in STOP_SIGNALS:
            self.stops += 1

    def wait(self, timeout_s: float) -> None:
        """Return after `timeout_s` or at the next signal."""
        select.select([self._reader], [], [], max(timeout_s, 0.0))
        with contextlib.suppress(BlockingIOError):
            while self._reader.recv(4096):
                pass

    def pause(self, timeout_s: float) -> None:
        """Like wait(), but raises StopRequested once somebody has asked to stop."""
        if not self.stops:
            self.wait(timeout_s)
        if self.stops:
            raise StopRequested
