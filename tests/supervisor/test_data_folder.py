"""The data folder: one supervisor, one secret key, and nothing of a killed run left alive."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from renderqueue.supervisor import data_folder
from renderqueue.supervisor.data_folder import DataFolder
from renderqueue.supervisor.outcome import Exit, StartError
from tests.supervisor.processes import alive


def test_one_supervisor_at_a_time(tmp_path: Path) -> None:
    first = DataFolder(tmp_path / "data")
    first.take()
    with pytest.raises(StartError, match=f"process {os.getpid()}.*RENDERQUEUE_DATA_DIR") as refused:
        DataFolder(tmp_path / "data").take()
    assert refused.value.code is Exit.ALREADY_RUNNING
    first.release()
    second = DataFolder(tmp_path / "data")
    second.take()
    second.release()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StartError, match=str(tmp_path / "file")) as refused:
        DataFolder(tmp_path / "file" / "data").take()
    assert refused.value.code is Exit.BAD_INPUT


def test_the_secret_key_is_made_once_and_private(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    key = folder.secret_key()
    assert len(key) >= 32
    assert stat.S_IMODE((tmp_path / "secret_key").stat().st_mode) == 0o600
    assert DataFolder(tmp_path).secret_key() == key


def test_a_secret_key_that_others_could_read_is_closed_and_a_short_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret_key"
    path.write_text("k" * 40)
    path.chmod(0o644)
    assert DataFolder(tmp_path).secret_key() == "k" * 40
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("short")
    with pytest.raises(StartError, match="does not hold a secret key"):
        DataFolder(tmp_path).secret_key()


def test_processes_of_a_killed_run_are_ended_with_what_they_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_folder, "LEFTOVER_GRACE_S", 0.5)
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
    left = subprocess.Popen([sys.executable, "-c", code])
    try:
        while not (inner := psutil.Process(left.pid).children()):
            pass
        DataFolder(tmp_path).record_children({"render": left.pid})
        assert DataFolder(tmp_path).end_leftovers() == ["render"]
        assert not alive(left.pid)
        assert not alive(inner[0].pid)
    finally:
        left.kill()
        left.wait()
    assert DataFolder(tmp_path).end_leftovers() == []


def test_a_pid_that_another_program_has_now_is_left_alone(tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        (tmp_path / "children.json").write_text(f'[["render", {other.pid}, 12345.0]]')
        assert DataFolder(tmp_path).end_leftovers() == []
        assert alive(other.pid)
    finally:
        other.kill()
        other.wait()


def test_a_record_that_was_cut_off_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "children.json").write_text('[["render", 1')
    assert DataFolder(tmp_path).end_leftovers() == []
