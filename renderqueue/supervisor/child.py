"""One part of the product as a process: started, watched, started again with back-off, stopped by its pid."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from renderqueue.supervisor.descendants import MARKER

BACKOFF_FIRST_S = 0.5
BACKOFF_MOST_S = 30.0
STEADY_AFTER_S = 60.0  # a part that ran this long starts again with the shortest back-off
LOG_KEPT_BYTES = 20_000_000


@dataclass(frozen=True)
class Part:
    """What to run. `stop_s`: how long it may take to end after SIGTERM before it is killed."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path
    folder: Path
    stop_s: float


class Child:
    """The running process of a part."""

    def __init__(self, part: Part, clock: Callable[[], float] = time.monotonic) -> None:
        self.part = part
        self._clock = clock
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self.next_start_at = 0.0
        self._started_at = 0.0
        self._backoff_s = BACKOFF_FIRST_S

    @property
    def name(self) -> str:
        return self.part.name

    @property
    def mark(self) -> str:
        """Carried by the process and its descendants; another one after every start."""
        return f"{self.name}.{self.starts}"

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        self.starts += 1
        self._started_at = self._clock()
        self.rotate_log()
        with self.part.log.open("ab") as log:
            # Its own session: Ctrl-C in the terminal reaches the supervisor only, which stops in order.
            self.process = subprocess.Popen(
                self.part.command,
                env={**self.part.environment, MARKER: self.mark},
                cwd=self.part.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def collect(self) -> int | None:
        """The exit code if the process has ended since the last call, and the time of its next start is set."""
        if self.process is None or (code := self.process.poll()) is None:
            return None
        self.process = None
        if self._clock() - self._started_at > STEADY_AFTER_S:
            self._backoff_s = BACKOFF_FIRST_S
        self.postpone()
        return code

    def postpone(self) -> None:
        """Set the time of the next start; each one in a row is later."""
        self.next_start_at = self._clock() + self._backoff_s
        self._backoff_s = min(self._backoff_s * 2, BACKOFF_MOST_S)

    def send(self, number: signal.Signals) -> None:
        """Signal the process alone, never its group: the browser's driver would die with renders in flight."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)

    def rotate_log(self) -> None:
        """Keep one older file. The process appends, so emptying the file under it is safe."""
        log = self.part.log
        with contextlib.suppress(FileNotFoundError):
            if log.stat().st_size > LOG_KEPT_BYTES:
                log.with_suffix(".log.1").write_bytes(log.read_bytes())
                log.open("r+b").truncate(0)

    def last_words(self, lines: int = 15) -> str:
        """The end of its log, for whoever asks why it ended."""
        try:
            with self.part.log.open("rb") as log:
                log.seek(max(self.part.log.stat().st_size - 20_000, 0))
                end = log.read().decode(errors="replace").splitlines()[-lines:]
        except OSError as error:
            return f"({self.part.log} is not readable: {error})"
        return "\n".join([f"the end of {self.part.log}:", *end])


def ending(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
