"""The processes of browsers, as the operating system sees them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import psutil


def descendants(pid: int | None = None) -> set[psutil.Process]:
    try:
        return set(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return set()


def drivers() -> list[psutil.Process]:
    """This process's browser drivers; it has other children, too (a database)."""
    return [process for process in psutil.Process().children() if "run-driver" in _command(process)]


def browsers_among(processes: set[psutil.Process]) -> list[psutil.Process]:
    """The main processes of browsers: those that a driver talks to."""
    return [process for process in processes if "--remote-debugging-pipe" in _command(process) and not _type(process)]


def tabs_of(browser: psutil.Process) -> list[psutil.Process]:
    return [process for process in browser.children(recursive=True) if _type(process) == "renderer"]


def profile_of(browser: psutil.Process) -> Path:
    mark = "--user-data-dir="
    return Path(next(part for part in _command(browser) if part.startswith(mark)).removeprefix(mark))


def left_of(processes: set[psutil.Process]) -> list[psutil.Process]:
    """Those that still run, and the zombies that this process or a living descendant should have reaped."""
    parents = {os.getpid(), *(process.pid for process in descendants())}
    return [process for process in processes if not _gone(process, parents)]


def send(signal: int, processes: Iterable[psutil.Process]) -> None:
    """To each that still is: spare tabs and helpers come and go by themselves."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal)


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float = 15) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen in {timeout_s} s"
        time.sleep(0.02)


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


def _type(process: psutil.Process) -> str:
    return next((part.removeprefix("--type=") for part in _command(process) if part.startswith("--type=")), "")


def _gone(process: psutil.Process, parents: set[int]) -> bool:
    try:
        if not process.is_running():
            return True
        return process.status() == psutil.STATUS_ZOMBIE and process.ppid() not in parents
    except psutil.NoSuchProcess:
        return True
