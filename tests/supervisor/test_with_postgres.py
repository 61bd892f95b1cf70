"""A command with a Postgres of its own: its exit code, its signals, and nothing left."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

from tests.supervisor.processes import ROOT, bare_environment, eventually

RUN = [sys.executable, "-m", "renderqueue.supervisor.with_postgres"]


def folder_of(url: str) -> Path:
    return Path(url.strip().partition("host=")[2])


def test_the_command_gets_a_database_and_its_exit_code_is_passed_on() -> None:
    code = "import os, sys, psycopg; u = os.environ['DATABASE_URL']; psycopg.connect(u).close(); print(u); sys.exit(7)"
    done = subprocess.run(
        [*RUN, sys.executable, "-c", code], env=bare_environment(), cwd=ROOT, capture_output=True, text=True, timeout=90
    )
    assert done.returncode == 7, done.stderr
    assert not folder_of(done.stdout).exists()


def test_a_database_that_is_given_is_used() -> None:
    done = subprocess.run(
        [*RUN, "sh", "-c", 'echo "$DATABASE_URL"'],
        env=bare_environment(DATABASE_URL="postgresql://elsewhere/db"), cwd=ROOT, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert done.stdout.strip() == "postgresql://elsewhere/db"


def test_sigterm_reaches_the_command_each_time_and_the_database_goes() -> None:
    script = 'trap "echo asked; trap \'exit 9\' TERM" TERM; echo "$DATABASE_URL"; while :; do sleep 0.1; done'
    process = subprocess.Popen(
        [*RUN, "sh", "-c", script], env=bare_environment(), cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    run = folder_of(process.stdout.readline())
    assert run.exists()
    bound = threading.Timer(60, process.kill)  # a signal that is lost must not leave the test waiting
    bound.start()
    process.send_signal(signal.SIGTERM)  # perhaps before the command is known to its starter
    assert process.stdout.readline() == "asked\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 9
    bound.cancel()
    eventually(lambda: not run.exists(), "the cluster is removed")


def test_only_a_durable_server_flushes() -> None:
    ask = "psycopg.connect(os.environ['DATABASE_URL']).execute('SHOW fsync').fetchone()[0]"
    code = f"import os, psycopg; print({ask})"
    for options, expected in (([], "off"), (["--durable"], "on")):
        done = subprocess.run(
            [*RUN, *options, sys.executable, "-c", code],
            env=bare_environment(), cwd=ROOT, capture_output=True, text=True, timeout=90,
        )  # fmt: skip
        assert done.stdout.strip() == expected, done.stderr
