"""Orphans: adopted, given a moment, killed, and no zombie kept. In a process of its own, which becomes their parent."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.supervisor.processes import python

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")

PREAMBLE = """
import json, os, subprocess, sys, time
import psutil
from renderqueue.supervisor import descendants
from renderqueue.supervisor.descendants import MARKER, OrphanWatch, become_subreaper, kill_trees, orphans, reap

become_subreaper()
LEAVE_ORPHAN = '''
import subprocess, sys
sleep = [sys.executable, "-c", "import time; time.sleep(100)"]
print(subprocess.Popen(sleep, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)
'''

def leave_orphan(mark):
    made = subprocess.run([sys.executable, "-c", LEAVE_ORPHAN], env={**os.environ, MARKER: mark}, capture_output=True)
    return int(made.stdout)

def until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)

def zombies():
    return [one.pid for one in psutil.Process().children(recursive=True) if one.status() == psutil.STATUS_ZOMBIE]
"""


def outcome(code: str) -> Any:
    process = python(PREAMBLE + code)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 0, printed
    return json.loads(printed.splitlines()[-1])


def test_orphans_of_an_ended_part_are_killed_after_a_moment_and_reaped() -> None:
    found = outcome("""
orphan = leave_orphan("render.1")
watch = OrphanWatch()
marks, killed_at_once = watch.tick((), ["web.1"])
descendants.ORPHAN_GRACE_S = 0.0
_, killed_later = watch.tick((), ["web.1"])
until(lambda: (reap({}), not psutil.pid_exists(orphan))[1])
print(json.dumps([sorted(marks), killed_at_once, killed_later, zombies()]))
""")
    assert found == [["render.1"], 0, 1, []]


def test_orphans_of_a_living_part_are_left_alone() -> None:
    found = outcome("""
descendants.ORPHAN_GRACE_S = 0.0
orphan = leave_orphan("render.1")
marks, killed = OrphanWatch().tick((), ["render.1"])
alive = psutil.pid_exists(orphan)
kill_trees(orphans(()))
print(json.dumps([sorted(marks), killed, alive]))
""")
    assert found == [[], 0, True]


def test_reaping_keeps_the_exit_code_of_known_children() -> None:
    found = outcome("""
known = subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"])
orphan = leave_orphan("x")
psutil.Process(orphan).kill()
until(lambda: (reap({known.pid: known}), known.returncode is not None and not psutil.pid_exists(orphan))[1])
print(json.dumps([known.returncode, zombies()]))
""")
    assert found == [7, []]


def test_a_killed_tree_takes_its_descendants_along() -> None:
    found = outcome("""
code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(100)'])"
top = subprocess.Popen([sys.executable, "-c", code])
until(lambda: psutil.Process(top.pid).children())
inner = psutil.Process(top.pid).children()[0].pid
kill_trees([psutil.Process(top.pid)])
until(lambda: (reap({}), not psutil.pid_exists(inner) and not psutil.pid_exists(top.pid))[1])
print(json.dumps(zombies()))
""")
    assert found == []
