"""People, and nodes that report."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any, Protocol

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import connection
from django.test import Client
from pytest_django import Settings

from keeper import report
from renderqueue.models import Membership, Node, Project, RenderSchedule
from tests.factories import database_now

PASSWORD = "only-for-tests-1"


@pytest.fixture(autouse=True)
def _quick_passwords(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(autouse=True)
def _no_failures_from_before() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


def make_person(name: str, **fields: Any) -> User:
    return User.objects.create_user(name, password=PASSWORD, **fields)


def member(project: Project, role: str, name: str = "") -> User:
    person = make_person(name or f"{role}-of-{project.slug}")
    Membership.objects.create(project=project, user=person, role=role)
    return person


def client_of(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


@pytest.fixture
def operator(db: None) -> User:
    return make_person("operator", is_staff=True, is_superuser=True)


@pytest.fixture
def operator_client(operator: User) -> Client:
    return client_of(operator)


def head_of(*pages: RenderSchedule, kind: str = "submitted", **fields: Any) -> list[dict[str, Any]]:
    """Entries of a report's head, in this order: urgent pages were asked for a second apart."""
    return [
        {
            "page": page.pk,
            "class": kind,
            "lateness": 1.0,
            "due_at": int(page.due_at.timestamp()) if page.due_at else 0,
            "interval_s": 3600,
            "route": page.route_id,
            "site": page.site_id,
            "requested_at": time.time() - number if kind == "urgent" else None,
            **fields,
        }
        for number, page in enumerate(pages)
    ]


def document(**fields: Any) -> dict[str, Any]:
    """A report of a node that holds the whole schedule and has nothing to do."""
    return {
        "at": time.time(),
        "phase": "serving",
        "status": "empty",
        "complete": True,
        "exact": True,
        "unreadable": 0,
        "edge_s": None,
        "edge_infinite": True,
        "edge_lead_s": None,
        "window_s": 0,
        "groups": 256,
        "held": 0,
        "due": 0,
        "claimable": 0,
        "parked": 0,
        "backing_off": 0,
        "paused": 0,
        "due_by_class": {"urgent": 0, "submitted": 0, "discovered": 0, "cold": 0},
        "coming": [0] * 24,
        "oldest_due_at": None,
        "next_due_at": None,
        "bytes": 0,
        "due_bytes": 0,
        "bound": 4,
        "leased": 0,
        "started": 0,
        "walks": {
            "finished": 1,
            "failed": 0,
            "asks_ignored": 0,
            "self_started": 0,
            "last_at": time.time() - 60,
            "last_rows": 0,
            "last_seconds": 0.5,
            "last_error": "",
            "counts": dict.fromkeys(("unschedulable", "gained", "missing", "admitted", "mismatched", "phantom"), 0),
            "repaired": 0,
        },
        "flow": {"added": 0, "rescheduled": 0, "removed": 0, "deferred": 0},
        "claims": {},
        "head": [],
        **fields,
    }


class Reporting(Protocol):
    def __call__(self, name: str = ..., *, age_s: float = ..., leaving: bool = ..., **fields: Any) -> uuid.UUID: ...


@pytest.fixture
def reporting(db: None) -> Reporting:
    """`reporting("render@a", due=3)` makes a node, or takes the one of that name, and writes its report."""

    def write(name: str = "render@a", *, age_s: float = 0, leaving: bool = False, **fields: Any) -> uuid.UUID:
        now = database_now()
        values = {"host": "a", "queue": f"render.{name}", "pool_size": 2, "started_at": now, "heartbeat_at": now}
        node, _ = Node.objects.update_or_create(name=name, defaults={**values, "leaving": leaving})
        report.write(node.pk, document(**fields))
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE renderqueue_nodereport SET written_at = written_at - make_interval(secs => %s)"
                " WHERE node_id = %s",
                [age_s, node.pk],
            )
        return node.pk

    return write
