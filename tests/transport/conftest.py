"""Queues of the file transport in a folder of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection

from renderqueue.transport import broker_settings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "broker"


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Callable[[], Any]]:
    """Makes connections to the broker folder of this test."""
    settings = broker_settings("filesystem://", tmp_path)
    opened = []

    def open_one() -> Any:
        connection = Connection(
            settings["broker_url"],
            transport=settings["broker_transport"],
            transport_options=settings["broker_transport_options"],
        )
        opened.append(connection)
        return connection

    yield open_one
    for connection in opened:
        connection.release()
