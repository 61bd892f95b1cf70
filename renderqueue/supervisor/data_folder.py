"""The data folder: one supervisor at a time, its secret key, and the processes that a killed one left."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
from pathlib import Path
from typing import IO

import psutil

from renderqueue.supervisor.descendants import kill_trees
from renderqueue.supervisor.outcome import Exit, StartError

LEFTOVER_GRACE_S = 5.0


class DataFolder:
    """Paths below RENDERQUEUE_DATA_DIR, and the lock on it."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().resolve()
        self.logs = self.path / "log"
        self._lock: IO[str] | None = None

    def take(self) -> None:
        """Make the folder and hold it until release(). Raises StartError if it is taken or not writable."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.logs.mkdir(mode=0o700, exist_ok=True)
            lock = (self.path / "supervisor.lock").open("a+")
        except OSError as error:
            raise StartError(
                f"The data folder {self.path} cannot be used ({error.strerror}). Make it writable for this "
                "account, or set RENDERQUEUE_DATA_DIR to another folder.",
                Exit.BAD_INPUT,
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            lock.close()
            raise StartError(
                f"Another supervisor (process {holder}) runs on the data folder {self.path}. Stop it first, or "
                "set RENDERQUEUE_DATA_DIR to another folder (and --port to another port).",
                Exit.ALREADY_RUNNING,
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock

    def release(self) -> None:
        if self._lock:
            self._lock.close()
            self._lock = None

    def secret_key(self) -> str:
        """The key that signs sessions; made at the first start, readable by this account only."""
        path = self.path / "secret_key"
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(48))
        path.chmod(0o600)
        key = path.read_text().strip()
        if len(key) < 32:
            raise StartError(
                f"{path} does not hold a secret key (32 characters at least). Delete it to get a new one: "
                "everybody is then signed out.",
                Exit.BAD_INPUT,
            )
        return key

    # -- processes that outlive a supervisor that was killed

    @property
    def _record(self) -> Path:
        return self.path / "children.json"

    def record_children(self, pids: dict[str, int]) -> None:
        """Write down what runs, with start times: pids are reused."""
        rows = []
        for name, pid in pids.items():
            with contextlib.suppress(psutil.NoSuchProcess):
                rows.append([name, pid, psutil.Process(pid).create_time()])
        partial = self._record.with_suffix(".new")
        partial.write_text(json.dumps(rows))
        partial.replace(self._record)

    def end_leftovers(self) -> list[str]:
        """End what a killed predecessor left running, browsers included. Returns the names of the parts."""
        found: dict[str, psutil.Process] = {}
        for name, pid, created in self._read_record():
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                if abs(process.create_time() - created) < 1.0:
                    found[name] = process
        trees = list(found.values())
        for process in found.values():
            with contextlib.suppress(psutil.Error):
                trees += process.children(recursive=True)
                process.terminate()
        _, stubborn = psutil.wait_procs(trees, timeout=LEFTOVER_GRACE_S)
        kill_trees(stubborn)
        psutil.wait_procs(stubborn, timeout=LEFTOVER_GRACE_S)
        self._record.unlink(missing_ok=True)
        return sorted(found)

    def _read_record(self) -> list[tuple[str, int, float]]:
        try:
            return [(str(name), int(pid), float(at)) for name, pid, at in json.loads(self._record.read_text())]
        except FileNotFoundError:
            return []
        except (ValueError, TypeError):  # cut off by a full disk: nothing to go by
            return []
