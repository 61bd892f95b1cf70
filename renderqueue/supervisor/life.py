"""The supervisor's life: check, start, get ready, watch, stop in order."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

from renderqueue.config import PROJECT_ROOT, Config
from renderqueue.supervisor import external, parts, readiness
from renderqueue.supervisor.child import Child
from renderqueue.supervisor.data_folder import DataFolder
from renderqueue.supervisor.descendants import become_subreaper, kill_trees, orphans, reap
from renderqueue.supervisor.events import plain, say
from renderqueue.supervisor.outcome import Exit, StartError, StopRequested
from renderqueue.supervisor.postgres import EmbeddedPostgres, EmbeddedPostgresError
from renderqueue.supervisor.preflight import BrowserCheck, checked_config, free_port, url_host
from renderqueue.supervisor.signals import Signals
from renderqueue.supervisor.watch import Watch
from renderqueue.transport import FILESYSTEM_SCHEME, broker_folder, wipe

READY_WITHIN_S = 300.0  # a slow machine is slow; a part that cannot start is found by its deaths
DEATHS_BEFORE_READY = 3
LOOK_EVERY_S = 0.1


@dataclass(frozen=True)
class Options:
    """The command line."""

    host: str
    port: int
    demo: bool
    demo_port: int


class Supervisor:
    """One run of the product on this machine."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.signals = Signals()
        self.config: Config
        self.folder: DataFolder  # set once its lock is held
        self.postgres: EmbeddedPostgres | None = None
        self.environment: dict[str, str] = {}
        self.watch: Watch | None = None

    def run(self) -> Exit:
        """Everything from the first check to the last process gone; returns the exit code."""
        with self.signals:
            try:
                self._prepare()
                self._start()
                self._get_ready()
                assert self.watch is not None
                self.watch.until_stopped()
            except StopRequested:
                pass
            except StartError as error:
                say("supervisor", f"cannot run: {error}")
                self._stop()
                return error.code
            except EmbeddedPostgresError as error:
                say("supervisor", f"cannot run: {error}")
                self._stop()
                return Exit.NOT_STARTED
            except BaseException:
                self._stop()
                raise
            return self._stop()

    # -- before anything runs

    def _prepare(self) -> None:
        self.config = checked_config()
        become_subreaper()
        folder = DataFolder(self.config.data_dir)
        folder.take()
        self.folder = folder
        if leftovers := folder.end_leftovers():
            say("supervisor", f"ended what an earlier run left behind: {', '.join(leftovers)}")
        self.port = free_port(self.options.host, self.options.port)
        self.origin = f"http://{url_host(self.options.host)}:{self.port}"
        if self.options.demo:
            wanted = self.options.demo_port or (self.port + 1 if self.options.port else 0)
            self.demo_port = free_port("127.0.0.1", wanted, "--demo-port")

    def _start(self) -> None:
        browser = BrowserCheck(self.config.chromium_path)
        try:
            database_url = self._start_database()
            if self.config.broker_url.startswith(FILESYSTEM_SCHEME):
                wipe(broker_folder(self.folder.path))
            else:
                external.wait_for_broker(self.config.broker_url, self.signals.pause)
            chromium = browser.finish()
        finally:
            browser.close()
        self.environment = self._environment_of_parts(database_url, str(chromium))
        self._set_up_database()

    def _start_database(self) -> str:
        if self.config.database_url:
            external.wait_for_database(self.config.database_url, self.signals.pause)
            return self.config.database_url
        self.postgres = EmbeddedPostgres(self.folder.path)
        say("postgres", f"starting in {self.postgres.layout.home}")
        url = self.postgres.start(stop_requested=lambda: self.signals.stops > 0)
        say("postgres", f"accepts connections (process {self.postgres.pid})")
        return url

    def _environment_of_parts(self, database_url: str, chromium: str) -> dict[str, str]:
        own = {
            "DATABASE_URL": database_url,
            "BROKER_URL": self.config.broker_url,
            "RENDERQUEUE_DATA_DIR": str(self.folder.path),
            "RENDERQUEUE_SECRET_KEY": self.config.secret_key or self.folder.secret_key(),
            "RENDERQUEUE_CHROMIUM_PATH": chromium,
            "DJANGO_SETTINGS_MODULE": "renderqueue.settings",
            "PYTHONUNBUFFERED": "1",
        }
        own["RENDERQUEUE_PUBLIC_URL"] = os.environ.get("RENDERQUEUE_PUBLIC_URL") or self.origin
        return {**os.environ, **own}

    def _run_to_end(self, name: str, arguments: list[str]) -> str:
        """Run one of our own commands and return what it printed. Raises StartError, StopRequested."""
        say(name, "running")
        log = self.folder.logs / f"{name}.log"
        with tempfile.TemporaryFile() as printed, log.open("ab") as errors:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                env=self.environment,
                cwd=PROJECT_ROOT,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=errors,
                start_new_session=True,
            )
            try:
                while process.poll() is None:
                    self.signals.pause(LOOK_EVERY_S)
            finally:
                process.terminate()
                process.wait()
            printed.seek(0)
            output = printed.read().decode(errors="replace")
        if process.returncode:
            last = "\n".join(log.read_text(errors="replace").splitlines()[-12:])
            raise StartError(f"{name} failed (exit code {process.returncode}), see {log}:\n{last}", Exit.NOT_STARTED)
        return output

    def _set_up_database(self) -> None:
        made = self._run_to_end("migrate", ["-m", "renderqueue.supervisor.database_setup"]).split()
        if made:
            name, password = made
            say("operator account", f'made "{name}" with password "{password}". It is shown only this once.')

    # -- the parts

    def _get_ready(self) -> None:
        machine = socket.gethostname()
        since = readiness.database_now(self.environment["DATABASE_URL"])
        groups = [
            [Child(part) for part in group]
            for group in parts.product_parts(
                self.config,
                self.environment,
                host=self.options.host,
                port=self.port,
                machine=machine,
                logs=self.folder.logs,
            )
        ]
        if self.options.demo:
            shop = parts.shop_part(self.environment, port=self.demo_port, logs=self.folder.logs)
            groups[-1].append(Child(shop))
        self.watch = Watch(groups, self.signals, self.folder, self.postgres)
        say("supervisor", f"what the parts print is in {self.folder.logs}")
        self.watch.start_all()
        self._wait_until_ready(self.watch, parts.render_worker_name(machine), since)
        if self.options.demo:
            origin = f"http://127.0.0.1:{self.demo_port}"
            self._run_to_end("demo", [str(PROJECT_ROOT / "manage.py"), "demo", "--origin", origin])
            say("demo", f"its shop is {origin}/")
        plain(f"ready: {self.origin}/")

    def _wait_until_ready(self, watch: Watch, node: str, since: object) -> None:
        deadline = time.monotonic() + READY_WITHIN_S
        while True:
            waits_for = [
                reason
                for reason in (
                    readiness.web_waits_for(self.origin),
                    readiness.node_waits_for(self.environment["DATABASE_URL"], node, since),
                )
                if reason
            ]
            if not waits_for:
                return
            if time.monotonic() > deadline:
                reasons = "\n".join(waits_for)
                raise StartError(f"not ready within {READY_WITHIN_S:.0f} s:\n{reasons}", Exit.NOT_STARTED)
            self.signals.pause(LOOK_EVERY_S)
            watch.tick()
            for child in watch.children:
                if child.starts > DEATHS_BEFORE_READY:
                    raise StartError(f"{child.name} keeps ending; {child.last_words()}", Exit.NOT_STARTED)

    # -- the end

    def _stop(self) -> Exit:
        """End everything that was started, whatever was; returns the exit code of a run that was stopped."""
        started = time.monotonic()
        forced = False
        if self.watch:
            say("supervisor", "stopping; a second signal kills what is left")
            forced = self.watch.stop_all()
        if self.postgres and self.postgres.pid:
            self.postgres.stop()
            say("postgres", "stopped")
        kill_trees(orphans(()))
        reap({})
        if self.watch:
            say("supervisor", f"stopped in {time.monotonic() - started:.1f} s")
        if hasattr(self, "folder"):
            self.folder.release()
        return Exit.KILLED if forced else Exit.STOPPED


def ignore_further_stops() -> None:
    """The last lines of a run are not to be interrupted."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
