"""The whole product as a person starts it, for tests: output read line by line, ended by pid."""

from __future__ import annotations

import contextlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import psutil

from renderqueue.supervisor.postgres_files import layout_for
from tests.supervisor.processes import ROOT, bare_environment

START_WITHIN_S = 320.0


class Product:
    """One `python -m renderqueue.supervisor` on a data folder of the test."""

    def __init__(self, data_dir: Path, *arguments: str, **environment: str) -> None:
        self.data_dir = data_dir
        self.lines: list[str] = []
        self._queue: queue.Queue[str | None] = queue.Queue()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "renderqueue.supervisor", "--port", "0", *arguments],
            cwd=ROOT,
            env=bare_environment(**{"RENDERQUEUE_DATA_DIR": str(data_dir), "RENDERQUEUE_GRACE_S": "5", **environment}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._queue.put(line.rstrip("\n"))
        self._queue.put(None)

    def line(self, pattern: str, within_s: float = START_WITHIN_S) -> re.Match[str]:
        """Wait for a new line of output that matches."""
        deadline = time.monotonic() + within_s
        while (left := deadline - time.monotonic()) > 0:
            try:
                text = self._queue.get(timeout=left)
            except queue.Empty:
                break
            if text is None:
                raise AssertionError(f"it ended before a line like {pattern!r}:\n" + "\n".join(self.lines))
            self.lines.append(text)
            if found := re.search(pattern, text):
                return found
        raise AssertionError(f"no line like {pattern!r} within {within_s:.0f} s:\n" + "\n".join(self.lines))

    def ready(self) -> str:
        """Its origin, once it says that it is ready."""
        return self.line(r"^ready: (http://127\.0\.0\.1:\d+)/$").group(1)

    def pid_of(self, part: str) -> int:
        """The process that runs `part` now."""
        for line in reversed(self.lines):
            if found := re.search(rf" {part}: .*\(process (\d+)\)", line):
                return int(found.group(1))
        raise AssertionError(f"no process of {part} in:\n" + "\n".join(self.lines))

    def stop(self, number: signal.Signals = signal.SIGTERM, within_s: float = 60.0) -> int:
        self.process.send_signal(number)
        return self.end(within_s)

    def end(self, within_s: float = 60.0) -> int:
        code = self.process.wait(within_s)
        while (text := self._queue.get(timeout=10)) is not None:
            self.lines.append(text)
        return code

    def descendants(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def output(self) -> str:
        return "\n".join(self.lines)


def processes_of(data_dir: Path) -> list[psutil.Process]:
    """Everything alive that was started for this data folder, a supervisor first, whoever its parent is now."""
    home = str(layout_for(data_dir).home)
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            environment: dict[str, Any] = process.environ()
            if environment.get("RENDERQUEUE_DATA_DIR") == str(data_dir) or home in " ".join(process.cmdline()):
                found.append(process)
    return found


def remove(data_dir: Path) -> None:
    """End by pid what is left, and delete the cluster."""
    for process in processes_of(data_dir):
        with contextlib.suppress(psutil.Error):
            process.kill()
    shutil.rmtree(layout_for(data_dir).home, ignore_errors=True)


def status_of(url: str) -> int | None:
    try:
        return httpx.get(url, timeout=5).status_code
    except httpx.HTTPError:
        return None
