"""Bounded prefetch: choose in memory, own at dispatch, hand to the pool (D14, L0)."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.db import Error as DatabaseError
from django.db import connection

from keeper.clock import KeeperClock
from keeper.index import ScheduleIndex
from renderqueue.scheduling import leases
from renderqueue.scheduling.leases import ClaimAnswer, Claimed

logger = logging.getLogger(__name__)

RECOVERY_SWEEP_S = 10.0
EVENT_GRACE_S = 5.0
"""How long after a render its page is not offered: its event, which tells the new deadline, is on the way."""
SITE_CLOSED_S = 1.0
RETRY_S = 1.0
LONGEST_WAIT_S = 30.0

Send = Callable[[int, uuid.UUID], None]


@dataclass(slots=True)
class Held:
    """A lease of this node. `started` once its task runs."""

    token: uuid.UUID
    site_id: int
    claimed_at: float
    started: bool = False


class Dispatcher:
    """Keeps at most `bound` leased pages with the pool: claims what the index ranks first whenever there is
    room, and nothing when there is none."""

    def __init__(
        self,
        index: ScheduleIndex,
        clock: KeeperClock,
        node_id: uuid.UUID,
        bound: int,
        lease_s: float,
        send: Send,
    ) -> None:
        self._index = index
        self._clock = clock
        self._node_id = node_id
        self.bound = bound
        self._lease_s = lease_s
        self._send = send
        self._wake = threading.Condition()
        self._signalled = False
        self._closing = False
        self._held: dict[int, Held] = {}
        self._closed_sites: dict[int, float] = {}
        self.answers: Counter[str] = Counter()
        self.repaired = 0

    # Called from other threads

    def signal(self) -> None:
        """Something changed: room, a due page, a setting."""
        with self._wake:
            self._signalled = True
            self._wake.notify()

    def started(self, page_id: int, token: uuid.UUID) -> None:
        with self._wake:
            held = self._held.get(page_id)
            if held is not None and held.token == token:
                held.started = True

    def finished(self, page_id: int, token: uuid.UUID) -> None:
        """The task is over, however it ended: its slot is free at once."""
        with self._wake:
            held = self._held.get(page_id)
            if held is None or held.token != token:
                return
            del self._held[page_id]
            self._closed_sites.pop(held.site_id, None)
        self._index.park([page_id], self._clock.now_s() + EVENT_GRACE_S)
        self.signal()

    def lost(self, tokens: set[uuid.UUID]) -> None:
        """These leases are no longer ours; whatever still runs for them is refused when it ends."""
        with self._wake:
            gone = [page_id for page_id, held in self._held.items() if held.token in tokens]
            for page_id in gone:
                del self._held[page_id]
        self._index.park(gone, self._clock.now_s() + RETRY_S)
        self.signal()

    def held_tokens(self) -> list[uuid.UUID]:
        with self._wake:
            return [held.token for held in self._held.values()]

    def in_flight(self) -> dict[int, bool]:
        """The leased pages, and whether each has started."""
        with self._wake:
            return {page_id: held.started for page_id, held in self._held.items()}

    def close(self) -> list[int]:
        """Claim no more, and release what has not started. Returns the released pages."""
        with self._wake:
            self._closing = True
            self._signalled = True
            self._wake.notify()
            unstarted = [held.token for held in self._held.values() if not held.started]
        released = leases.release(unstarted)
        with self._wake:
            for page_id in released:
                self._held.pop(page_id, None)
        return released

    # The dispatcher's own thread

    def run(self) -> None:
        """Until `close`."""
        while not self._closing:
            try:
                wait_s = self.fill()
            except (DatabaseError, OSError) as error:
                logger.warning("claiming failed, trying again in %.0f s: %s", RETRY_S, error)
                connection.close()
                wait_s = RETRY_S
            self._rest(wait_s)

    def fill(self) -> float:
        """Claim and hand over until there is no room or nothing to claim. Returns how long, in seconds, nothing
        can change by the clock alone."""
        while not self._closing:
            room = self.bound - len(self._held)
            if room <= 0:
                return LONGEST_WAIT_S
            now_s = self._clock.now_s()
            entries = self._index.best(room, now_s, self._sites_without_room(now_s))
            if not entries:
                return self._until_next(now_s)
            sites = {entry.page_id: entry.site_id for entry in entries}
            claims = leases.claim(self._node_id, [entry.page_id for entry in entries], self._lease_s)
            self._take(claims, sites)
        return 0.0

    def _take(self, claims: Sequence[Claimed], sites: dict[int, int]) -> None:
        now_s = self._clock.now_s()
        for claimed in claims:
            self.answers[claimed.answer.value] += 1
            if claimed.answer is ClaimAnswer.GRANTED and claimed.token is not None:
                self._hand_over(claimed.page_id, claimed.token, sites[claimed.page_id])
            else:
                self._refused(claimed, sites[claimed.page_id], now_s)

    def _hand_over(self, page_id: int, token: uuid.UUID, site_id: int) -> None:
        with self._wake:
            self._held[page_id] = Held(token, site_id, time.monotonic())
        self._index.park([page_id], float("inf"))
        try:
            self._send(page_id, token)
        except Exception:
            # The broker is down: ownership is in Postgres, so giving it back loses nothing.
            logger.exception("handing page %d to the pool failed; its lease is released", page_id)
            with self._wake:
                self._held.pop(page_id, None)
            self._index.park([page_id], self._clock.now_s() + RETRY_S)
            try:
                leases.release([token])
            except DatabaseError as error:
                connection.close()
                logger.warning("page %d: its lease could not be released and expires: %s", page_id, error)

    def _refused(self, claimed: Claimed, site_id: int, now_s: float) -> None:
        """Only "not due" and "gone" say that memory was wrong (L0)."""
        until_s = claimed.until.timestamp() if claimed.until else now_s
        match claimed.answer:
            case ClaimAnswer.GONE:
                self.repaired += 1
                self._index.correct(claimed.page_id, None)
            case ClaimAnswer.NOT_DUE:
                self.repaired += 1
                minute = int(until_s // 60) if claimed.until else None
                self._index.correct(claimed.page_id, minute)
                self._index.park([claimed.page_id], max(until_s, now_s + RETRY_S))
            case ClaimAnswer.LEASED:
                self._index.park([claimed.page_id], until_s + RECOVERY_SWEEP_S)
            case ClaimAnswer.BACKING_OFF:
                self._index.park([claimed.page_id], max(until_s, now_s + RETRY_S))
            case ClaimAnswer.AT_CAP | ClaimAnswer.PAUSED:
                with self._wake:
                    self._closed_sites[site_id] = now_s + SITE_CLOSED_S
            case _:
                self._index.park([claimed.page_id], now_s + RETRY_S)

    def _sites_without_room(self, now_s: float) -> frozenset[int]:
        """Sites whose cap our own leases fill, and those that a claim found full a moment ago."""
        with self._wake:
            self._closed_sites = {site: until for site, until in self._closed_sites.items() if until > now_s}
            ours = Counter(held.site_id for held in self._held.values())
        rules = self._index.rules.sites
        full = {site for site, count in ours.items() if site in rules and count >= rules[site].concurrency_cap}
        return frozenset(full | set(self._closed_sites))

    def _until_next(self, now_s: float) -> float:
        """Rows come due on whole minutes; parkings, backoffs and closed sites end at their own times."""
        moments = [now_s + LONGEST_WAIT_S, (now_s // 60 + 1) * 60, self._index.next_timer_s()]
        with self._wake:
            moments.extend(self._closed_sites.values())
        return max(min(moments) - now_s, 0.01)

    def _rest(self, seconds: float) -> None:
        with self._wake:
            self._wake.wait_for(lambda: self._signalled or self._closing, seconds)
            self._signalled = False
