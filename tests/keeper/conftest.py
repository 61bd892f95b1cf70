"""Keeper tests use the database of the test runner's worker, by URL, with real commits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection
from psycopg.conninfo import make_conninfo


def database_url() -> str:
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
