"""The right to run one cluster: a lock among live processes, and what a killed predecessor left behind."""

from __future__ import annotations

import fcntl
import os
import signal
from pathlib import Path
from typing import IO

import psutil

from renderqueue.supervisor.postgres_files import EmbeddedPostgresError

# Fast shutdown, immediate shutdown, kill; seconds to wait for each.
STOP_STEPS = ((signal.SIGINT, 60.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0))


def take_cluster(home: Path) -> IO[str]:
    """Lock the cluster in `home` until the returned file is closed. Raises EmbeddedPostgresError with the holder."""
    lock = (home / "lock").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        holder = lock.read().strip() or "unknown"
        lock.close()
        raise EmbeddedPostgresError(
            f"The database in {home} is already run by process {holder}. Stop that one, or set "
            "RENDERQUEUE_DATA_DIR to another folder."
        ) from None
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


def stop_leftover(data: Path) -> None:
    """Deal with a predecessor's postmaster.pid: stop a live Postgres on this folder, remove a stale file.

    Called with the cluster's lock held, so a live server can only be one that outlived its supervisor.
    """
    pid_file = data / "postmaster.pid"
    try:
        first = pid_file.read_text().partition("\n")[0].strip()
    except FileNotFoundError:
        return
    server = _postgres_on(data, int(first)) if first.isdigit() else None
    if server is None:
        pid_file.unlink(missing_ok=True)
        return
    for number, wait_s in STOP_STEPS:
        try:
            server.send_signal(number)
            server.wait(wait_s)
        except psutil.TimeoutExpired:
            continue
        except psutil.NoSuchProcess:
            pass
        return
    raise EmbeddedPostgresError(f"A Postgres from an earlier run (pid {server.pid}) on {data} does not end.")


def _postgres_on(data: Path, pid: int) -> psutil.Process | None:
    """The process `pid` if it is a Postgres server that works in `data`; pids are reused by others."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE or process.name() != "postgres":
            return None
        return process if Path(process.cwd()).resolve() == data.resolve() else None
    except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
        return None
