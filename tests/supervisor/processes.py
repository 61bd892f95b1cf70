"""What the supervisor's tests need of processes: waiting with a bound, and ending by pid."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]


def eventually(condition: Callable[[], Any], what: str, within_s: float = 30.0) -> Any:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {within_s:.0f} s: {what}")


def bare_environment(**extra: str) -> dict[str, str]:
    """This process's environment without any setting of renderqueue."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("RENDERQUEUE_", "DATABASE_URL", "BROKER_URL", "PYTEST_"))
    }
    return {**kept, **extra}


def python(code: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Run a script of a few lines in an interpreter of its own, its output on a pipe."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        **{"env": bare_environment(), **options},
    )


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
