"""The parts while they run: started again when they end, and stopped in order."""

from __future__ import annotations

import signal
import subprocess
import time

from renderqueue.supervisor.child import Child, ending
from renderqueue.supervisor.data_folder import DataFolder
from renderqueue.supervisor.descendants import OrphanWatch, kill_trees, orphans, reap
from renderqueue.supervisor.events import say
from renderqueue.supervisor.postgres import EmbeddedPostgres, EmbeddedPostgresError
from renderqueue.supervisor.signals import Signals

LOOK_EVERY_S = 1.0
LOGS_EVERY_S = 60.0
ORPHANS_AT_THE_END_S = 5.0
POSTGRES_BACKOFF_S = 2.0


class Watch:
    """The parts in groups, in the order in which they are stopped; the database is stopped by its owner."""

    def __init__(
        self, groups: list[list[Child]], signals: Signals, folder: DataFolder, postgres: EmbeddedPostgres | None
    ) -> None:
        self.groups = groups
        self.children = [child for group in groups for child in group]
        self._signals = signals
        self._folder = folder
        self._postgres = postgres
        self._orphans = OrphanWatch()
        self._marks_in_the_way: set[str] = set()
        self._postgres_next_at = 0.0
        self._logs_at = time.monotonic() + LOGS_EVERY_S

    def start_all(self) -> None:
        for child in self.children:
            self._start(child)

    def until_stopped(self) -> None:
        """Watch until somebody asks to stop."""
        while not self._signals.stops:
            self.tick()
            self._signals.wait(LOOK_EVERY_S)

    def tick(self) -> None:
        """Collect what has ended, end its orphans, and start again what is due to."""
        self.reap()
        for child in self.children:
            if (code := child.collect()) is not None:
                say(child.name, f"{ending(code)}; {child.last_words()}")
        living = [child.mark for child in self.children if child.running]
        self._marks_in_the_way, killed = self._orphans.tick(self._known(), living)
        if killed:
            say("supervisor", f"killed {killed} processes whose part had ended")
        self._keep_database()
        now = time.monotonic()
        for child in self.children:
            if not child.running and now >= child.next_start_at and child.mark not in self._marks_in_the_way:
                self._start(child)
        if now >= self._logs_at:
            self._logs_at = now + LOGS_EVERY_S
            for child in self.children:
                child.rotate_log()

    def reap(self) -> None:
        reap(self._known())

    def stop_all(self) -> bool:
        """Stop group after group; returns whether anything had to be killed."""
        forced = False
        for group in self.groups:
            forced |= self._stop_group(group)
        forced |= self._end_orphans()
        self._folder.record_children({})
        return forced

    def _start(self, child: Child) -> None:
        try:
            child.start()
        except OSError as error:  # out of processes or memory: the back-off tries again
            say(child.name, f"did not start: {error}")
            child.postpone()
            return
        assert child.process is not None
        say(child.name, f"{'started' if child.starts == 1 else 'started again'} (process {child.process.pid})")
        self._folder.record_children({one.name: one.process.pid for one in self.children if one.process})

    def _stop_group(self, group: list[Child]) -> bool:
        forced = False
        asked_at = time.monotonic()
        for child in group:
            if child.running:
                child.send(signal.SIGTERM)
        remaining = [child for child in group if child.process]
        while remaining:
            for child in list(remaining):
                if (code := child.collect()) is not None:
                    say(child.name, "stopped" if code in (0, -signal.SIGTERM) else ending(code))
                    remaining.remove(child)
                elif self._signals.stops > 1 or time.monotonic() - asked_at > child.part.stop_s:
                    say(child.name, "killed: " + ("in a hurry" if self._signals.stops > 1 else "it did not stop"))
                    child.send(signal.SIGKILL)
                    forced = True
            self.reap()
            if remaining:
                self._signals.wait(0.2)
        return forced

    def _end_orphans(self) -> bool:
        """Wait for browsers and their helpers; kill what stays. Returns whether anything was killed."""
        deadline = time.monotonic() + ORPHANS_AT_THE_END_S
        killed = 0
        while left := orphans(self._known()):
            if time.monotonic() > deadline or self._signals.stops > 1:
                killed += kill_trees(left)
            self.reap()
            self._signals.wait(0.05)
        self.reap()
        if killed:
            say("supervisor", f"killed {killed} processes that outlived their part")
        return killed > 0

    def _keep_database(self) -> None:
        if self._postgres is None or self._postgres.pid or time.monotonic() < self._postgres_next_at:
            return
        say("postgres", "ended; starting it again")
        try:
            self._postgres.stop()
            self._postgres.start(stop_requested=lambda: self._signals.stops > 0)
            say("postgres", f"accepts connections again (process {self._postgres.pid})")
        except EmbeddedPostgresError as error:
            self._postgres_next_at = time.monotonic() + POSTGRES_BACKOFF_S
            say("postgres", str(error))

    def _known(self) -> dict[int, subprocess.Popen[bytes]]:
        known = {child.process.pid: child.process for child in self.children if child.process}
        if self._postgres and self._postgres.process:
            known[self._postgres.process.pid] = self._postgres.process
        return known
