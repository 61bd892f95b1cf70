"""A database or a broker that somebody else runs: waited for, for a bounded time, and named when missing."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import urlsplit

import psycopg
import redis
from psycopg.conninfo import conninfo_to_dict

from renderqueue.supervisor.events import say
from renderqueue.supervisor.outcome import Exit, StartError

WAIT_S = 60.0
EVERY_S = 2.0
OLDEST_POSTGRES = 15

Pause = Callable[[float], None]


def wait_for_database(url: str, pause: Pause, wait_s: float = WAIT_S) -> None:
    """Return once PostgreSQL answers. Raises StartError after `wait_s`, or at once if it is too old."""
    parts = conninfo_to_dict(url)
    where = f"{parts.get('host') or 'the local socket'}:{parts.get('port') or 5432}"
    name = f"the database {parts.get('dbname') or ''} at {where} (DATABASE_URL)"

    def ask() -> None:
        with psycopg.connect(url, connect_timeout=5) as connection:
            major = connection.info.server_version // 10000
        if major < OLDEST_POSTGRES:
            raise StartError(
                f"PostgreSQL {major} runs at {where}; {OLDEST_POSTGRES} or later is needed.", Exit.BAD_INPUT
            )

    _wait(name, ask, psycopg.OperationalError, pause, wait_s)


def wait_for_broker(url: str, pause: Pause, wait_s: float = WAIT_S) -> None:
    """Return once Redis answers. Raises StartError after `wait_s`."""
    parts = urlsplit(url)
    name = f"the broker at {parts.hostname or 'localhost'}:{parts.port or 6379} (BROKER_URL)"

    def ask() -> None:
        client = redis.Redis.from_url(url, socket_connect_timeout=5, socket_timeout=5)
        try:
            client.ping()
        finally:
            client.close()

    _wait(name, ask, redis.RedisError, pause, wait_s)


def _wait(name: str, ask: Callable[[], None], kind: type[Exception], pause: Pause, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    told = ""
    while True:
        try:
            ask()
        except kind as error:
            problem = str(error).strip() or type(error).__name__
        else:
            return
        if time.monotonic() + EVERY_S > deadline:
            raise StartError(
                f"{name[0].upper()}{name[1:]} did not answer within {wait_s:.0f} s: {problem}", Exit.UNREACHABLE
            )
        if problem != told:
            say("supervisor", f"{name} does not answer yet, trying for {wait_s:.0f} s: {problem}")
            told = problem
        pause(EVERY_S)
