"""Run a command with a Postgres of its own: `python -m renderqueue.supervisor.with_postgres [--durable] COMMAND...`

The command finds the database's URL in DATABASE_URL; if that is set already, it is used and nothing is started.
Without --durable the server does not flush to disk: for tests only. The exit code is the command's; the server
and its files are gone afterwards whatever happens, also on SIGTERM and Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from renderqueue.supervisor.postgres import EmbeddedPostgres, EmbeddedPostgresError

FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_connections": "200",
}


def main(arguments: Sequence[str]) -> int:
    durable = arguments[:1] == ["--durable"]
    command = list(arguments[1:] if durable else arguments)
    if not command:
        print(__doc__, file=sys.stderr)
        return 2
    # While the server starts, SIGTERM must unwind rather than leave it behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if os.environ.get("DATABASE_URL"):
        return run(command, dict(os.environ))
    with tempfile.TemporaryDirectory(prefix="renderqueue-") as folder:
        try:
            with EmbeddedPostgres(Path(folder), options={} if durable else FAST, temporary=True) as server:
                return run(command, {**os.environ, "DATABASE_URL": server.url})
        except EmbeddedPostgresError as error:
            print(error, file=sys.stderr)
            return 1


def run(command: Sequence[str], environment: dict[str, str]) -> int:
    """The command's exit code, or 128 + n if signal n ended it. SIGTERM goes to the command; Ctrl-C, which the
    terminal sends to the command as well, is ignored here."""
    asked: list[int] = []  # SIGTERM that arrives before there is a process to pass it to
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    process = subprocess.Popen(command, env=environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
    for number in asked:
        process.send_signal(number)
    code = process.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
