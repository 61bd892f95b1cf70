"""The change feed, as a listener sees it (D4, F0-F4). The triggers and the payload are in the migrations,
`sql/feed.sql`; this module listens and decodes."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import psycopg
from numpy.typing import NDArray

from renderqueue.config import NETWORK_LIMITS

FIELDS = 9
"""Integers a row: id, partition, due, declared, flags, failures, requested, retry, route."""
ID, PARTITION, DUE, DECLARED, FLAGS, FAILURES, REQUESTED, RETRY, ROUTE = range(FIELDS)

NO_DUE = -1
LISTED, RENDERED, DELETED = 1, 2, 4

SETTINGS_CHANNEL = "rq_settings"
FEED_PREFIX = "rq_feed_"


class FeedError(Exception):
    """A payload that cannot be read: the group it came for must be walked again."""


@dataclass(frozen=True, slots=True)
class RowsChanged:
    """New states of rows of one group: an int64 array of shape (rows, FIELDS), in commit order."""

    group: int
    rows: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WalkAgain:
    """A group whose changes were too many to send, or could not be read (`reason` is then set)."""

    group: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """Sites, routes or the fleet's policy changed."""


@dataclass(frozen=True, slots=True)
class Marked:
    """A marker that this listener's node sent came back: all that was committed before it has arrived."""

    marker: str


FeedEvent = RowsChanged | WalkAgain | SettingsChanged | Marked


def decode_rows(text: bytes) -> NDArray[np.int64]:
    """The rows of one payload, shape (rows, FIELDS). Raises FeedError."""
    numbers = text.replace(b";", b",")
    try:
        values = np.fromstring(numbers, dtype=np.int64, sep=",")
    except (ValueError, DeprecationWarning) as error:
        raise FeedError(f"not all numbers: {error}") from error
    if len(values) != numbers.count(b",") + 1 or len(values) % FIELDS:
        raise FeedError(f"{len(values)} numbers are not rows of {FIELDS}")
    return values.reshape(-1, FIELDS)


def decode(channel: str, payload: bytes) -> FeedEvent:
    """One notification as an event. What cannot be read asks for a walk of its group."""
    if channel == SETTINGS_CHANNEL:
        return SettingsChanged()
    if not channel.startswith(FEED_PREFIX):
        return Marked(payload.decode())
    group = int(channel.removeprefix(FEED_PREFIX))
    try:
        _, kind, text = payload.split(b":", 2)
        return RowsChanged(group, decode_rows(text)) if kind == b"R" else WalkAgain(group)
    except (FeedError, ValueError) as error:
        return WalkAgain(group, reason=str(error))


class FeedListener:
    """One connection that LISTENs. Owned by one thread, except `wake`, which any thread may call.

    Raises psycopg.OperationalError from any method once the connection is lost: then every group must be
    listened to again and walked.
    """

    def __init__(self, url: str, marker_channel: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True, application_name="renderqueue feed", **NETWORK_LIMITS)
        # The driver takes what arrives while it runs a statement (LISTEN, say) for itself, and hands it over here.
        self._early: list[FeedEvent] = []
        self._connection.add_notify_handler(
            lambda notify: self._early.append(decode(notify.channel, notify.payload.encode()))
        )
        self._wake_lock = threading.Lock()
        self._closed = False
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        try:
            self._connection.execute(f'LISTEN "{marker_channel}"; LISTEN {SETTINGS_CHANNEL}')
        except psycopg.Error:
            self.close()
            raise

    def listen(self, groups: Iterable[int]) -> None:
        """Committed when it returns: what commits from now on arrives."""
        statement = ";".join(f"LISTEN {FEED_PREFIX}{group}" for group in groups)
        if statement:
            self._connection.execute(statement.encode())

    def unlisten(self, groups: Iterable[int]) -> None:
        statement = ";".join(f"UNLISTEN {FEED_PREFIX}{group}" for group in groups)
        if statement:
            self._connection.execute(statement.encode())

    def wake(self) -> None:
        """Make a waiting `receive` return; nothing after `close`."""
        with self._wake_lock:
            if not self._closed:
                with contextlib.suppress(BlockingIOError):  # the pipe is full of wake-ups already
                    os.write(self._wake_write, b"x")

    def receive(self, timeout_s: float) -> list[FeedEvent]:
        """What has arrived, in order, one event a notification; waits up to `timeout_s` for the first."""
        pgconn = self._connection.pgconn
        events = self._drain(pgconn)
        if events:
            return events
        poll = select.poll()
        poll.register(pgconn.socket, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        ready = [descriptor for descriptor, _ in poll.poll(timeout_s * 1000)]
        if self._wake_read in ready:
            os.read(self._wake_read, 4096)
        if pgconn.socket in ready:
            pgconn.consume_input()
            if pgconn.status != psycopg.pq.ConnStatus.OK:
                raise psycopg.OperationalError("the feed connection is lost")
        return self._drain(pgconn)

    def close(self) -> None:
        self._connection.close()
        with self._wake_lock:
            if not self._closed:
                self._closed = True
                os.close(self._wake_read)
                os.close(self._wake_write)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _drain(self, pgconn: Any) -> list[FeedEvent]:
        events, self._early = self._early, []
        while (notification := pgconn.notifies()) is not None:
            events.append(decode(notification.relname.decode(), bytes(notification.extra)))
        return events


def send_marker(connection: psycopg.Connection[Any], channel: str, marker: str) -> None:
    """NOTIFY a marker that comes back on the feed behind everything committed so far (F2). `connection` is in
    autocommit mode."""
    connection.execute("SELECT pg_notify(%s, %s)", [channel, marker])
