"""No process is left behind: orphans of a part become the supervisor's children, and are ended and reaped."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Mapping

import psutil

MARKER = "RENDERQUEUE_CHILD"  # in the environment of a part and of everything that it starts
ORPHAN_GRACE_S = 2.0  # the browser driver of a worker that was killed needs a moment to clean up
_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Let orphaned descendants become children of this process instead of init's (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap(known: Mapping[int, subprocess.Popen[bytes]]) -> None:
    """Collect every child that has ended. Those in `known` keep their exit code for whoever polls them."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None:
            return
        if ended.si_pid in known:
            known[ended.si_pid].poll()
        else:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(ended.si_pid, os.WNOHANG)


def orphans(known: Collection[int]) -> list[psutil.Process]:
    """Living children of this process that it did not start: their parents are gone."""
    return [child for child in psutil.Process().children() if child.pid not in known and _lives(child)]


def owner(process: psutil.Process) -> str:
    """The mark of the part that started `process`, empty if it cannot be read."""
    try:
        return str(process.environ().get(MARKER, ""))
    except (psutil.Error, OSError):
        return ""


def kill_trees(processes: Iterable[psutil.Process]) -> int:
    """Kill these processes and all their descendants; returns how many."""
    doomed = list(processes)
    for process in list(doomed):
        with contextlib.suppress(psutil.Error):
            doomed += process.children(recursive=True)
    for process in doomed:
        with contextlib.suppress(psutil.Error):
            process.kill()
    return len(doomed)


class OrphanWatch:
    """Ends orphans whose part is gone, once they have had ORPHAN_GRACE_S to end by themselves."""

    def __init__(self) -> None:
        self._seen_at: dict[int, float] = {}

    def tick(self, known: Collection[int], living_marks: Collection[str]) -> tuple[set[str], int]:
        """Returns the marks of parts that still have orphans, and how many processes were killed."""
        found = [process for process in orphans(known) if owner(process) not in living_marks]
        now = time.monotonic()
        self._seen_at = {process.pid: self._seen_at.get(process.pid, now) for process in found}
        late = [process for process in found if now - self._seen_at[process.pid] >= ORPHAN_GRACE_S]
        return {owner(process) for process in found}, kill_trees(late)


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
