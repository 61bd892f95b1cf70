"""A real Celery worker on the file transport: direct queues, remote control, and what must not end it."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

WAIT_S = 120.0  # an interpreter that imports Celery takes a while on a busy machine


def eventually(condition: Callable[[], Any], what: str | Callable[[], str]) -> Any:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {WAIT_S:.0f} s: {what if isinstance(what, str) else what()}")


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TEST_DATA_DIR", str(tmp_path))
    module = importlib.import_module("tests.transport.celery_worker")
    return importlib.reload(module).app


@pytest.fixture
def worker(app: Any, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A worker named render@test that reads its own direct queue."""
    command = [sys.executable, "-m", "celery", "-A", "tests.transport.celery_worker", "worker", "-P", "threads"]
    command += ["-c", "2", "-n", "render@test", "-Q", "render.test", "--without-gossip", "--without-mingle"]
    with (tmp_path / "worker.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=dict(os.environ))
    try:
        log_file = tmp_path / "worker.log"
        eventually(
            lambda: app.control.ping(["render@test"], timeout=0.5),
            lambda: f"the worker answers; its log: {log_file.read_text()}",
        )
        yield process
    finally:
        process.terminate()
        process.wait(20)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_a_workers_own_queue_and_remote_control(app: Any, worker: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for number in range(20):
        app.send_task("append", [str(out), str(number)], queue="render.test")
    eventually(lambda: len(lines(out)) == 20, "all tasks ran")
    assert sorted(map(int, lines(out))) == list(range(20))
    answers = app.control.inspect(["render@test"], timeout=5).active_queues()
    assert [queue["name"] for queue in answers["render@test"]] == ["render.test"]


def test_corrupt_files_do_not_end_the_worker(app: Any, worker: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    queue = tmp_path / "broker" / "queues" / "q-render.test"
    mailbox = tmp_path / "broker" / "queues" / "q-render@test.celery.pidbox"
    for folder in (queue, mailbox):
        (folder / "0-empty.msg").write_bytes(b"")
        (folder / "0-half.msg").write_bytes(b'{"body": "W10=", "prop')
    app.send_task("append", [str(out), "after"], queue="render.test")
    eventually(lambda: lines(out) == ["after"], "the task behind the corrupt files ran")
    assert app.control.ping(["render@test"], timeout=5)
    assert worker.poll() is None


def test_a_wiped_folder_does_not_end_the_worker(app: Any, worker: Any, tmp_path: Path) -> None:
    from renderqueue.transport import wipe

    wipe(tmp_path / "broker")
    out = tmp_path / "out"
    app.send_task("append", [str(out), "after"], queue="render.test")
    eventually(lambda: lines(out) == ["after"], "the task ran")
    assert worker.poll() is None
