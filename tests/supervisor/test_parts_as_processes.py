"""A part as a process: watched, started again later each time, signalled alone."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from renderqueue.supervisor import child as child_module
from renderqueue.supervisor.child import Child, Part, ending
from tests.supervisor.processes import alive, eventually


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Child]]:
    """Children to clean up, by pid."""
    children: list[Child] = []
    yield children
    for child in children:
        if child.process:
            child.process.kill()
            child.process.wait()


def part(tmp_path: Path, code: str) -> Part:
    return Part(
        name="part",
        command=(sys.executable, "-c", code),
        environment=dict(os.environ),
        log=tmp_path / "part.log",
        folder=tmp_path,
        stop_s=5.0,
    )


def test_an_ended_part_is_reported_once_with_its_last_words(tmp_path: Path, started: list[Child]) -> None:
    child = Child(part(tmp_path, "import sys; print('no such table'); sys.exit(3)"))
    started.append(child)
    child.start()
    code = eventually(child.collect, "the part ends")
    assert ending(code) == "ended with exit code 3"
    assert "no such table" in child.last_words()
    assert child.collect() is None


def test_each_start_in_a_row_is_later(tmp_path: Path, started: list[Child]) -> None:
    child = Child(part(tmp_path, "raise SystemExit(1)"), clock=lambda: 100.0)
    started.append(child)
    delays = []
    for _ in range(9):
        child.start()
        assert child.process is not None
        child.process.wait()
        assert child.collect() == 1
        delays.append(child.next_start_at - 100.0)
    assert delays == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_a_part_that_ran_for_a_while_starts_again_at_once(tmp_path: Path, started: list[Child]) -> None:
    now = 100.0
    child = Child(part(tmp_path, "raise SystemExit(1)"), clock=lambda: now)
    started.append(child)
    for _ in range(3):
        child.start()
        assert child.process is not None
        child.process.wait()
        now += 61.0
        child.collect()
    assert child.next_start_at - now == 0.5


def test_a_signal_reaches_the_process_and_not_what_it_started(tmp_path: Path, started: list[Child]) -> None:
    code = """
import signal, subprocess, sys
inner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
signal.signal(signal.SIGTERM, lambda *_: (open("asked", "w").close(), inner.wait(), sys.exit(0)))
open("inner", "w").write(str(inner.pid))
signal.pause()
"""
    child = Child(part(tmp_path, code))
    started.append(child)
    child.start()
    inner_file = tmp_path / "inner"
    eventually(lambda: inner_file.exists() and inner_file.read_text(), "the inner process runs")
    inner = psutil.Process(int(inner_file.read_text()))
    try:
        child.send(signal.SIGTERM)
        eventually((tmp_path / "asked").exists, "the part got the signal")
        assert alive(inner.pid)
    finally:
        inner.kill()
    assert eventually(lambda: child.collect() is not None, "the part ends")


def test_a_part_is_not_in_the_terminals_process_group(tmp_path: Path, started: list[Child]) -> None:
    child = Child(part(tmp_path, "import time; time.sleep(600)"))
    started.append(child)
    child.start()
    assert child.process is not None
    assert os.getpgid(child.process.pid) == child.process.pid != os.getpgid(0)


def test_a_long_log_is_moved_aside_while_the_part_writes(
    tmp_path: Path, started: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_module, "LOG_KEPT_BYTES", 1000)
    code = """
import sys, pathlib, time
print("x" * 2000, flush=True)
while not pathlib.Path("go").exists(): time.sleep(0.02)
print("after", flush=True)
"""
    child = Child(part(tmp_path, code))
    started.append(child)
    child.start()
    log = child.part.log
    eventually(lambda: log.stat().st_size > 2000, "the part wrote")
    child.rotate_log()
    (tmp_path / "go").touch()
    eventually(lambda: child.collect() is not None, "the part ends")
    assert log.read_text() == "after\n"
    assert (tmp_path / "part.log.1").read_text() == "x" * 2000 + "\n"


def test_signals_are_named() -> None:
    assert ending(-9) == "was ended by SIGKILL"
    assert ending(0) == "ended with exit code 0"
