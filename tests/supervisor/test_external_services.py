"""A database or broker of somebody else: waited for, for a bounded time, and named."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from renderqueue.supervisor.external import wait_for_broker, wait_for_database
from renderqueue.supervisor.outcome import Exit, StartError, StopRequested


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port of this machine that refuses connections: bound, but nobody listens."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def never_again(seconds: float) -> None:
    raise AssertionError("it waited")


@pytest.mark.postgres
def test_a_database_that_answers_is_not_waited_for() -> None:
    wait_for_database(os.environ["DATABASE_URL"], never_again)


def test_a_database_that_does_not_answer_is_named_after_a_bounded_time(closed_port: int) -> None:
    pauses: list[float] = []
    url = f"postgresql://app:hidden@127.0.0.1:{closed_port}/shop"
    with pytest.raises(StartError, match=rf"database shop at 127.0.0.1:{closed_port} \(DATABASE_URL\)") as refused:
        wait_for_database(url, pauses.append, wait_s=2.1)
    assert refused.value.code is Exit.UNREACHABLE
    assert pauses
    assert "hidden" not in str(refused.value)


def test_a_broker_that_does_not_answer_is_named(closed_port: int) -> None:
    with pytest.raises(StartError, match=rf"broker at 127.0.0.1:{closed_port} \(BROKER_URL\)") as refused:
        wait_for_broker(f"redis://:hidden@127.0.0.1:{closed_port}/0", never_again, wait_s=0.0)
    assert refused.value.code is Exit.UNREACHABLE
    assert "hidden" not in str(refused.value)


def test_waiting_ends_when_somebody_asks_to_stop(closed_port: int) -> None:
    def stopped(seconds: float) -> None:
        raise StopRequested

    with pytest.raises(StopRequested):
        wait_for_broker(f"redis://127.0.0.1:{closed_port}/0", stopped)


@pytest.mark.redis
def test_a_broker_that_answers_is_not_waited_for(redis_url: str) -> None:
    wait_for_broker(redis_url, never_again)
