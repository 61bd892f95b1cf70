"""What every test may ask for: a real Postgres, and Chromium or Redis where they are the point.

The server comes from `tests/settings.py`. Every worker of the test runner has a database of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo


@pytest.fixture(autouse=True, scope="session")
def _flush_by_delete() -> Iterator[None]:
    """After a test with real commits the tables are emptied by DELETE without triggers: on tables this small it
    takes a fraction of TRUNCATE's time, which makes new files for every table and index (D18d)."""
    from django.db.backends.postgresql.operations import DatabaseOperations

    def sql_flush(self: DatabaseOperations, style: object, tables: list[str], **options: object) -> list[str]:
        return [
            "SET session_replication_role = replica",
            *(f"DELETE FROM {self.quote_name(table)}" for table in tables),
            "SET session_replication_role = DEFAULT",
        ]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DatabaseOperations, "sql_flush", sql_flush)
        yield


def missing(what: str, how: str) -> None:
    """Skip on a developer's machine, fail in CI: there nothing is skipped for want of a part."""
    sentence = f"no {what}: {how}"
    if os.environ.get("CI"):
        pytest.fail(sentence)
    pytest.skip(sentence)


@pytest.fixture(scope="session")
def chromium_path() -> str:
    from renderqueue.rendering.chromium import ChromiumMissing, find_chromium

    try:
        return str(find_chromium(os.environ.get("RENDERQUEUE_CHROMIUM_PATH", "")))
    except ChromiumMissing as error:
        missing("Chromium", str(error))
        raise


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """A Redis of the test run's own on a free loopback port, stopped at the end."""
    binary = shutil.which("redis-server")
    if binary is None:
        missing("Redis", "install redis-server")
    assert binary is not None
    folder = Path(tempfile.mkdtemp(prefix="rq-redis-"))
    socket_path = folder / "redis.sock"
    port = free_port()
    process = subprocess.Popen(
        [binary, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
         "--unixsocket", str(socket_path), "--dir", str(folder), "--loglevel", "warning"],
    )  # fmt: skip
    try:
        _wait_for_redis(port)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for_redis(port: int) -> None:
    import redis
    from redis.backoff import ConstantBackoff
    from redis.exceptions import ConnectionError as RedisConnectionError
    from redis.retry import Retry

    client = redis.Redis(port=port, retry=Retry(ConstantBackoff(0.05), 200), retry_on_error=[RedisConnectionError])
    client.ping()
    client.close()


def database_url() -> str:
    from django.db import connection

    settings = connection.settings_dict
    return make_conninfo(
        dbname=settings["NAME"],
        user=settings["USER"],
        password=settings["PASSWORD"] or None,
        host=settings["HOST"],
        port=settings["PORT"] or None,
    )


@pytest.fixture
def url(transactional_db: None) -> str:
    return database_url()


@pytest.fixture
def raw(url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection of the test's own, in autocommit mode."""
    with psycopg.connect(url, autocommit=True) as opened:
        yield opened
