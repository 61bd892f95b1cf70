"""Probes say whether the process is up and whether it can work."""

from __future__ import annotations

import pytest
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client

pytestmark = pytest.mark.postgres


def test_healthz_needs_no_database(client: Client) -> None:
    answer = client.get("/healthz")
    assert (answer.status_code, answer.content) == (200, b"ok\n")
    assert "no-store" in answer.headers["Cache-Control"]


def test_readyz_with_a_migrated_database(client: Client, db: None) -> None:
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json() == {"ready": True, "reasons": []}


def test_readyz_names_migrations_that_are_not_applied(client: Client, db: None) -> None:
    MigrationRecorder(connection).record_unapplied("renderqueue", "0002_feed")
    answer = client.get("/readyz")
    assert answer.status_code == 503
    [reason] = answer.json()["reasons"]
    assert "renderqueue.0002_feed" in reason
    assert "manage.py migrate" in reason


def test_readyz_says_that_the_database_does_not_answer(client: Client, db: None) -> None:
    def refuse(*arguments: object) -> None:
        raise OperationalError("connection refused\nmore")

    with connection.execute_wrapper(refuse):
        answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["reasons"] == ["The database does not answer: connection refused"]
