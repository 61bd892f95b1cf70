"""Parts watched and stopped together. In a process of its own, which adopts what they leave."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.supervisor.processes import python

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")

PREAMBLE = """
import json, os, subprocess, sys, time
from pathlib import Path
import psutil
from renderqueue.supervisor import watch
from renderqueue.supervisor.child import Child, Part
from renderqueue.supervisor.data_folder import DataFolder
from renderqueue.supervisor.descendants import become_subreaper
from renderqueue.supervisor.signals import Signals

folder = DataFolder(Path(sys.argv[1]))
become_subreaper()
watch.ORPHANS_AT_THE_END_S = 0.2
LEAVES_ORPHAN = '''
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"], start_new_session=True)
open(sys.argv[1], "w").close()
time.sleep(100)
'''
STUBBORN = '''
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1], "w").close()
time.sleep(100)
'''
ENDS = "import sys; open(sys.argv[1], 'w').close()"

def child(name, code, stop_s=20.0):
    mark = folder.path / name
    command = (sys.executable, "-c", code, str(mark))
    return Child(Part(name, command, dict(os.environ), folder.path / f"{name}.log", folder.path, stop_s))

def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)

def started(one):
    until((folder.path / one.name).exists)
"""


def outcome(folder: Path, code: str) -> Any:
    process = python(PREAMBLE + code, str(folder))
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == 0, printed
    return json.loads(printed.splitlines()[-1])


def test_what_a_stopped_part_leaves_is_killed(tmp_path: Path) -> None:
    found = outcome(
        tmp_path,
        """
with Signals() as signals:
    one = child("leaver", LEAVES_ORPHAN)
    both = watch.Watch([[one]], signals, folder, None)
    both.start_all()
    started(one)
    forced = both.stop_all()
    print(json.dumps([forced, [left.pid for left in psutil.Process().children(recursive=True)]]))
""",
    )
    assert found == [True, []]


def test_a_part_that_ignores_sigterm_is_killed_after_its_time(tmp_path: Path) -> None:
    found = outcome(
        tmp_path,
        """
with Signals() as signals:
    one = child("stubborn", STUBBORN, stop_s=0.3)
    both = watch.Watch([[one]], signals, folder, None)
    both.start_all()
    started(one)
    forced = both.stop_all()
    print(json.dumps([forced, one.running, psutil.Process().children()]))
""",
    )
    assert found == [True, False, []]


def test_a_part_that_ends_is_started_again(tmp_path: Path) -> None:
    found = outcome(
        tmp_path,
        """
with Signals() as signals:
    one = child("short", ENDS)
    both = watch.Watch([[one]], signals, folder, None)
    both.start_all()
    until(lambda: (both.tick(), one.starts >= 3)[1])
    print(json.dumps([both.stop_all(), psutil.Process().children()]))
""",
    )
    assert found == [False, []]
