"""The keeper's life in a worker: its threads, and what happens when a part of it fails.

Threads: `feed` (LISTEN, apply), `walk`, `dispatch`, `pulse` (heartbeat, lease renewal, recovery), `fence` and
`report`. One that fails begins again. `stop` ends all but the pulse's renewing and the fence, which live until the
pool has drained (`shutdown`).
"""

from __future__ import annotations

import logging
import math
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import psycopg
from django.db import DatabaseError
from django.db import connection as django_connection

from keeper import membership, report
from keeper.clock import KeeperClock
from keeper.dispatcher import RECOVERY_SWEEP_S, Dispatcher, Send
from keeper.index import ScheduleIndex, WalkCounts
from keeper.membership import NodeIdentity
from keeper.status import is_complete, queue_status, walk_interval_s
from keeper.walker import Markers, WalkResult, walk
from renderqueue.config import NETWORK_LIMITS, Config
from renderqueue.scheduling import feed, fence, leases
from renderqueue.scheduling.rules import load_rules
from renderqueue.scheduling.walk import WalkFailed

logger = logging.getLogger(__name__)

RECONNECT_S = 1.0
WALK_RETRY_FIRST_S = 30.0
SELF_START_FACTOR = 1.2
"""A keeper that nobody asked starts its walk at 1.2 intervals (W7)."""
ASK_TOO_SOON_FACTOR = 0.5
FEED_TEST_S = 10.0
"""A round trip on the feed this often; one that is not back by the next is a degraded feed."""
ECHO = "echo"
CLEAN_UP_S = 600.0
REPORT_S = 1.0
REPORT_ANYWAY_S = 5.0


class Keeper:
    """One node's keeper. `start` returns at once; the node owns nothing until its first heartbeat."""

    def __init__(self, config: Config, identity: NodeIdentity, send: Send) -> None:
        self._config = config
        self.identity = identity
        self.index = ScheduleIndex()
        self.clock = KeeperClock()
        self.dispatcher = Dispatcher(self.index, self.clock, identity.id, config.prefetch_bound, config.lease_s, send)
        self._markers = Markers()
        self._marker_channel = f"rq_node_{identity.id.hex}"
        self._stopping = threading.Event()
        self._drained = threading.Event()
        self._walk_wanted = threading.Condition()
        self._walk_asked = False
        self._threads: list[threading.Thread] = []
        self._listener: feed.FeedListener | None = None
        self._ownership = threading.Condition()
        self._wanted_groups: frozenset[int] = frozenset()
        self._groups: frozenset[int] = frozenset()
        self._feed_open = False
        self._feed_degraded = False
        self._replace_feed = False
        self._echo_missing = False
        self._rules_lock = threading.Lock()
        self._renewed_at = time.monotonic()
        self._last_began_s: float | None = None
        self._walk_retry_at: float | None = None
        self._last_walk: WalkResult | None = None
        self._last_walk_error = ""
        self._walk_failures = 0
        self._walks_finished = 0
        self._walks_failed = 0
        self._asks_ignored = 0
        self._self_started = 0
        self._found = WalkCounts()
        self._edge_passed = False

    # Life

    def start(self) -> None:
        for name, body in (
            ("pulse", self._pulse),
            ("feed", self._feed),
            ("walk", self._walk_loop),
            ("dispatch", self._dispatch),
            ("report", self._report_loop),
            ("fence", self._fence),
        ):
            thread = threading.Thread(target=self._keep_running, args=[body], name=f"keeper {name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _keep_running(self, body: Callable[[], None]) -> None:
        """A part of the keeper that ends before its time begins again: a node that is a member and does half its
        work would be worse than none."""
        while True:
            try:
                body()
            except Exception:
                logger.exception("a part of the keeper failed and begins again in %.0f s", RECONNECT_S)
            else:
                return
            if self._drained.wait(RECONNECT_S):
                return

    def stop(self) -> None:
        """Stop claiming, release what has not started, and stop listening. Leases of running renders go on
        being renewed until `shutdown`."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        try:
            released = self.dispatcher.close()
            logger.info("released %d leased pages that had not started", len(released))
        except DatabaseError as error:
            logger.warning("could not release leases, they expire by themselves: %s", error)
        with self._walk_wanted:
            self._walk_wanted.notify_all()
        self._markers.feed_lost()
        self._wake_feed()

    def stop_renders(self) -> None:
        """The grace is over: renders that still run end now, and their tasks give the leases back."""
        tokens = self.dispatcher.held_tokens()
        if tokens:
            logger.warning("the grace is over: %d renders are cancelled", len(tokens))
            fence.stop_renders(tokens)

    def shutdown(self) -> None:
        """The pool has drained: end everything."""
        self.stop()
        self._drained.set()
        for thread in self._threads:
            thread.join(5)

    def ask_walk(self) -> bool:
        """Somebody (beat) asks for a walk. Within half an interval of the last one it is ignored (W7).
        Returns whether it will be walked."""
        interval = self._walk_interval_s()
        began_s = self._last_began_s
        if began_s is not None and interval and self.clock.now_s() - began_s < interval * ASK_TOO_SOON_FACTOR:
            self._asks_ignored += 1
            return False
        self._want_walk()
        return True

    # The feed

    def _feed(self) -> None:
        while not self._stopping.is_set():
            try:
                with feed.FeedListener(self._config.feed_url, self._marker_channel) as listener:
                    self._listener = listener
                    self._reload_rules()
                    self._receive(listener)
            except (psycopg.Error, OSError) as error:
                logger.warning("feed lost, connecting again: %s", error)
            finally:
                self._listener = None
                self._feed_lost()
            self._stopping.wait(RECONNECT_S)

    def _receive(self, listener: feed.FeedListener) -> None:
        self._feed_open = True
        self._echo_missing = self._replace_feed = False
        while not self._stopping.is_set():
            self._settle_ownership(listener)
            events = listener.receive(timeout_s=FEED_TEST_S)
            if any(isinstance(event, feed.SettingsChanged) for event in events):
                self._reload_rules()
                self.dispatcher.signal()
            for event in events:
                self._handle(event)
            if self._replace_feed:
                raise psycopg.OperationalError("a round trip on the feed did not come back")

    def _test_feed(self) -> None:
        """Send a marker through the database to ourselves. While the last one is missing the feed is degraded:
        the connection may be half open, so it is replaced (F2's order makes an echo that came prove the rest)."""
        if not self._feed_open:
            return
        if self._echo_missing:
            self._feed_degraded = self._replace_feed = True
            logger.warning("feed degraded: no echo within %.1f s", FEED_TEST_S)
            self._wake_feed()
            return
        self._echo_missing = True
        with django_connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [self._marker_channel, ECHO])

    def _handle(self, event: feed.FeedEvent) -> None:
        match event:
            case feed.RowsChanged(rows=rows):
                self.index.apply(rows, self.clock.now_s())
                if self.index.unknown_routes():
                    self._reload_rules()
                self.dispatcher.signal()
            case feed.Marked(marker=marker) if marker == ECHO:
                self._echo_missing = self._feed_degraded = False
            case feed.Marked(marker=marker):
                self._markers.arrived(marker)
            case feed.SettingsChanged():
                pass  # once for all that came together, in _receive
            case feed.WalkAgain(group=group, reason=reason):
                if reason:
                    logger.error("group %d: an event could not be read, walking again: %s", group, reason)
                with self.index.lock:
                    self.index.edges.named_for_rewalk([group])
                self._want_walk()

    def _settle_ownership(self, listener: feed.FeedListener) -> None:
        """Make what is listened to and held what the last heartbeat said is owned: LISTEN is committed before
        any walk of a gained group begins (F2)."""
        with self._ownership:
            wanted = self._wanted_groups
        owned = frozenset(np.flatnonzero(self.index.edges.owned).tolist())
        gained, lost = wanted - self._groups, owned - wanted
        if lost:
            listener.unlisten(lost)
            dropped = self.index.lose(lost)
            logger.info("%d partition groups moved to other nodes, %d rows dropped", len(lost), dropped)
        if gained:
            self.index.gain(gained)
            listener.listen(gained)
            with self.index.lock:
                self.index.edges.feed_opened(gained)
            logger.info("%d partition groups gained, walking them", len(gained))
            self._want_walk()
        self._groups = wanted

    def _feed_lost(self) -> None:
        self._feed_open = False
        self._groups = frozenset()
        with self.index.lock:
            self.index.edges.feed_lost()
        self._markers.feed_lost()

    def _reload_rules(self) -> None:
        """One at a time, so that an older reading never replaces a newer one."""
        with self._rules_lock:
            with psycopg.connect(self._config.database_url, autocommit=True, **NETWORK_LIMITS) as connection:
                rules = load_rules(connection)
            wider = self.index.set_rules(rules, self.clock.now_s())
        if wider:
            self._want_walk()

    def _wake_feed(self) -> None:
        listener = self._listener
        if listener is not None:
            listener.wake()

    # Walks

    def _walk_loop(self) -> None:
        while not self._stopping.is_set():
            self._wait_for_walk()
            if self._stopping.is_set():
                return
            if not (self._feed_open and self._groups):
                self._stopping.wait(0.1)
                continue
            self._walk_once()

    def _walk_once(self) -> None:
        with self._walk_wanted:
            self._walk_asked = False
            self._walk_retry_at = None
        try:
            with psycopg.connect(
                self._config.database_url,
                autocommit=True,
                application_name="renderqueue walk",
                options="-c statement_timeout=60s",
                **NETWORK_LIMITS,
            ) as connection:
                self._last_began_s = self.clock.now_s()
                result = walk(self.index, connection, self.clock, self._markers, self._marker_channel)
            if self.index.unknown_routes():
                self._reload_rules()
        except (WalkFailed, psycopg.Error) as error:
            self._walk_failed(error)
            return
        self._last_walk, self._last_walk_error, self._walk_failures = result, "", 0
        self._walks_finished += 1
        for name, value in asdict(result.counts).items():
            setattr(self._found, name, getattr(self._found, name) + value)
        logger.info("walked %d rows in %.2f s: %s", result.rows, result.seconds, asdict(result.counts))
        if result.unreadable:
            logger.error("%d rows cannot be read and are not held: %s", len(result.unreadable), result.unreadable[:20])
        third = self.index.rules.window_s / 3
        if third and result.seconds > third / 2:
            logger.warning("a walk takes %.1f s, over half of a third of the window (%.1f s)", result.seconds, third)
        self.dispatcher.signal()

    def _walk_failed(self, error: Exception) -> None:
        self._walk_failures += 1
        self._walks_failed += 1
        self._last_walk_error = str(error)
        logger.warning("walk failed, the edge stays where it is: %s", error)
        self._last_began_s = None
        retry_s = WALK_RETRY_FIRST_S * 2 ** min(self._walk_failures - 1, 10)
        if self._last_walk is None:
            retry_s = RECONNECT_S
        self._walk_retry_at = time.monotonic() + min(retry_s, self._walk_interval_s() or retry_s)

    def _wait_for_walk(self) -> None:
        """Until somebody asks (a gained group and a new feed do), a failed walk is to be tried again, or nobody
        asked for 1.2 intervals (W7)."""
        with self._walk_wanted:
            while not (self._walk_asked or self._stopping.is_set()):
                interval = self._walk_interval_s()
                last = self._last_walk
                wait_s = 60.0
                if self._walk_retry_at is not None:
                    wait_s = self._walk_retry_at - time.monotonic()
                elif last is not None and interval is not None:
                    wait_s = last.t0_s + interval * SELF_START_FACTOR - self.clock.now_s()
                    self._self_started += wait_s <= 0
                if wait_s <= 0:
                    return
                self._walk_wanted.wait(min(wait_s, 60.0))

    def _want_walk(self) -> None:
        with self._walk_wanted:
            self._walk_asked = True
            self._walk_wanted.notify_all()

    def _walk_interval_s(self) -> float | None:
        rules = self.index.rules
        return walk_interval_s(rules.window_s, rules.verify_interval_s)

    # Dispatch

    def _dispatch(self) -> None:
        try:
            self.dispatcher.run()
        finally:
            django_connection.close()

    # Pulse: heartbeat, renewal, recovery

    def _pulse(self) -> None:
        """Lives until the pool has drained, so that running renders keep their leases."""
        next_beat = next_renewal = next_recovery = next_feed_test = next_clean_up = 0.0
        while not self._drained.is_set():
            now = time.monotonic()
            try:
                if now >= next_beat:
                    self._beat()
                    next_beat = now + membership.HEARTBEAT_S
                if now >= next_renewal:
                    sent_at = time.monotonic()
                    self._renew()
                    self._renewed_at = sent_at
                    next_renewal = now + self._config.lease_s / 3
                if now >= next_feed_test and not self._stopping.is_set():
                    next_feed_test = now + FEED_TEST_S
                    self._test_feed()
                if now >= next_clean_up:
                    next_clean_up = now + CLEAN_UP_S
                    membership.forget_dead()
                if now >= next_recovery and not self._stopping.is_set():
                    self._recover()
                    next_recovery = now + RECOVERY_SWEEP_S
            except DatabaseError as error:
                logger.warning("pulse failed, trying again: %s", error)
                django_connection.close()
            self._drained.wait(min(membership.HEARTBEAT_S, self._config.lease_s / 6))
        self._leave()

    def _beat(self) -> None:
        answer = membership.beat(self.identity, leaving=self._stopping.is_set())
        self.clock.set(answer.database_s)
        groups = membership.owned_groups(self.identity.id, answer.live)
        if not self._stopping.is_set() and groups != self._wanted_groups:
            with self._ownership:
                self._wanted_groups = groups
            self._wake_feed()

    def _renew(self) -> None:
        tokens = self.dispatcher.held_tokens()
        ours = leases.renew(self.identity.id, tokens, self._config.lease_s)
        self._lose(set(tokens) - ours)

    def _fence(self) -> None:
        """A node that cannot renew stops its own renders before its leases end (T1). A thread of its own that asks
        nobody: the renewer may hang in a call."""
        while not self._drained.wait(self._config.lease_s / 20):
            if time.monotonic() - self._renewed_at > self._config.lease_s * 0.8:
                self._lose(set(self.dispatcher.held_tokens()))

    def _lose(self, tokens: set[uuid.UUID]) -> None:
        if tokens:
            logger.warning("%d leases lost; their renders are stopped", len(tokens))
            self.dispatcher.lost(tokens)
            fence.stop_renders(tokens)

    def _recover(self) -> None:
        recovered = leases.recover()
        if recovered:
            logger.info("recovered %d expired leases", len(recovered))
            self.index.unpark(lease.page_id for lease in recovered)
            self.dispatcher.signal()

    def _leave(self) -> None:
        try:
            membership.beat(self.identity, leaving=True)
        except DatabaseError as error:
            logger.warning("could not say goodbye, the heartbeat runs out: %s", error)
        finally:
            django_connection.close()

    # Report

    def _report_loop(self) -> None:
        written: dict[str, Any] = {}
        written_at = 0.0
        while not self._stopping.is_set():
            document = self.document()
            changed = _comparable(document) != _comparable(written)
            if changed or time.monotonic() - written_at >= REPORT_ANYWAY_S:
                try:
                    report.write(self.identity.id, document)
                    written, written_at = document, time.monotonic()
                except DatabaseError as error:
                    logger.warning("report not written: %s", error)
                    django_connection.close()
            self._stopping.wait(REPORT_S)
        self._write_last_report()

    def _write_last_report(self) -> None:
        try:
            report.write(self.identity.id, self.document())
        except DatabaseError as error:
            logger.warning("last report not written: %s", error)
        finally:
            django_connection.close()

    def document(self) -> dict[str, Any]:
        """The node's report, described in `keeper.report`."""
        now_s = self.clock.now_s()
        counted = self.index.counts(now_s)
        head = self.index.best(report.HEAD_SIZE, now_s)
        with self.index.lock:
            edge_s = self.index.edges.node_edge_s()
            loaded = self.index.edges.walked_once()
        base_bytes, due_bytes = self.index.memory_bytes()
        in_flight = self.dispatcher.in_flight()
        complete = is_complete(loaded, now_s, edge_s)
        self._watch_edge(loaded, now_s, edge_s)
        finite = math.isfinite(edge_s)
        last = self._last_walk
        return {
            "at": now_s,
            "phase": self._phase(loaded),
            "status": queue_status(counted.due, len(in_flight), complete).value,
            "complete": complete,
            "exact": complete and last is not None and not (last.counts.repaired or last.unreadable),
            "unreadable": len(last.unreadable) if last else 0,
            "edge_s": edge_s if finite else None,
            "edge_infinite": edge_s == math.inf,
            "edge_lead_s": edge_s - now_s if finite else None,
            "window_s": self.index.rules.window_s,
            "groups": len(self._groups),
            **{name: value for name, value in asdict(counted).items() if not name.endswith("_minute")},
            "oldest_due_at": _seconds(counted.oldest_due_minute),
            "next_due_at": _seconds(counted.next_due_minute),
            "bytes": base_bytes,
            "due_bytes": due_bytes,
            "bound": self.dispatcher.bound,
            "leased": len(in_flight),
            "started": sum(in_flight.values()),
            "walks": {
                "finished": self._walks_finished,
                "failed": self._walks_failed,
                "asks_ignored": self._asks_ignored,
                "self_started": self._self_started,
                "last_at": last.t0_s if last else None,
                "last_rows": last.rows if last else None,
                "last_seconds": last.seconds if last else None,
                "last_error": self._last_walk_error,
                "counts": asdict(self._found),
                "repaired": self._found.repaired + self.dispatcher.repaired,
            },
            "flow": asdict(self.index.flow),
            "claims": dict(self.dispatcher.answers),
            "head": [
                {
                    "page": entry.page_id,
                    "class": entry.priority_class.label,
                    "lateness": round(entry.lateness, 4),
                    "due_at": entry.due_minute * 60,
                    "interval_s": entry.interval_s,
                    "route": entry.route_id,
                    "site": entry.site_id,
                    "requested_at": entry.requested_ms / 1000 or None,
                }
                for entry in head
            ],
        }

    def _phase(self, loaded: bool) -> str:
        if self._stopping.is_set():
            return "leaving"
        if not self._feed_open:
            return "feed lost" if self._walks_finished else "starting"
        if self._feed_degraded:
            return "feed degraded"
        return "serving" if loaded else "loading"

    def _watch_edge(self, loaded: bool, now_s: float, edge_s: float) -> None:
        """One error a passing: what comes due behind the edge is invisible until a walk finishes (D10)."""
        passed = loaded and now_s >= edge_s
        if passed and not self._edge_passed:
            logger.error(
                "the clock passed the edge by %.0f s: pages that came due since are not held until a walk"
                " finishes; last walk error: %s",
                now_s - edge_s,
                self._last_walk_error or "none",
            )
        self._edge_passed = passed


def _seconds(minute: int | None) -> int | None:
    return None if minute is None else minute * 60


def _comparable(document: dict[str, Any]) -> dict[str, Any]:
    """The document without what changes by the clock alone."""
    moving = ("at", "edge_lead_s", "head")
    rest = {key: value for key, value in document.items() if key not in moving}
    rest["order"] = [entry["page"] for entry in document.get("head", [])]
    return rest
