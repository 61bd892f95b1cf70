"""Staff records: all tables are there, the large ones are neither counted nor changed, bodies stay where they are."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from renderqueue.models import AuditEntry, Body, CachedCopy, FleetPolicy
from renderqueue.scheduling import leases
from tests.console.conftest import Reporting, client_of, document, make_person
from tests.factories import LONG_AGO, make_page, make_site

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]
MODELS = list(apps.get_app_config("renderqueue").get_models())
LARGE = ("renderschedule", "cachedcopy", "body", "deletiondebt")


@pytest.fixture
def rows(reporting: Reporting) -> dict[str, Any]:
    """One row at least of the tables that have something to hide."""
    page = make_page(make_site(host="books.test"), "/a")
    body = Body.objects.create(
        project=page.site.project, sha256=hashlib.sha256(b"x").digest(), size=1, br=b"BRBODY", gzip=b"GZBODY"
    )
    copy = CachedCopy.objects.create(
        page=page, device="desktop", status=200, body=body, render_started_at=LONG_AGO, rendered_at=LONG_AGO,
        changed_at=LONG_AGO, expires_at=LONG_AGO, route_id_then=page.route_id,
    )  # fmt: skip
    leases.claim(reporting(), [page.pk], 60)
    return {"renderschedule": page, "body": body, "cachedcopy": copy}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_table_has_a_list(operator_client: Client, rows: dict[str, Any], model: Any) -> None:
    assert admin.site.is_registered(model)
    response = operator_client.get(f"/admin/renderqueue/{model._meta.model_name}/")
    assert response.status_code == 200
    assert "'unsafe-eval'" in response["Content-Security-Policy"]
    assert "script-src 'self' 'unsafe-eval';" in response["Content-Security-Policy"]


@pytest.mark.parametrize("name", LARGE)
def test_large_tables_are_not_counted(operator_client: Client, rows: dict[str, Any], name: str) -> None:
    with CaptureQueriesContext(connection) as queries:
        operator_client.get(f"/admin/renderqueue/{name}/")
    about = [query["sql"] for query in queries if f'FROM "renderqueue_{name}"' in query["sql"]]
    assert about
    assert not any("COUNT(" in sql for sql in about)
    assert all("LIMIT" in sql for sql in about)


@pytest.mark.parametrize("name", ["renderschedule", "cachedcopy", "body"])
def test_large_tables_are_looked_at_only(operator_client: Client, rows: dict[str, Any], name: str) -> None:
    record = rows[name]
    assert operator_client.get(f"/admin/renderqueue/{name}/{record.pk}/change/").status_code == 200
    assert operator_client.post(f"/admin/renderqueue/{name}/{record.pk}/change/", {}).status_code == 403
    assert operator_client.post(f"/admin/renderqueue/{name}/{record.pk}/delete/", {"post": "yes"}).status_code == 403
    assert operator_client.get(f"/admin/renderqueue/{name}/add/").status_code == 403


@pytest.mark.parametrize("path", ["body/", "cachedcopy/", "body/{body}/change/", "cachedcopy/{cachedcopy}/change/"])
def test_bodies_are_not_read(operator_client: Client, rows: dict[str, Any], path: str) -> None:
    filled = path.format(**{name: row.pk for name, row in rows.items()})
    with CaptureQueriesContext(connection) as queries:
        shown = operator_client.get(f"/admin/renderqueue/{filled}").content
    assert not any('"br"' in query["sql"] or '"gzip"' in query["sql"] for query in queries)
    assert b"BODY" not in shown


@pytest.mark.parametrize(
    ("term", "found"),
    [("https://BOOKS.test/a", True), ("{pk}", True), ("https://books.test/", False), ("books", False)],
)
def test_pages_are_searched_by_key_not_by_scan(
    operator_client: Client, rows: dict[str, Any], term: str, found: bool
) -> None:
    with CaptureQueriesContext(connection) as queries:
        response = operator_client.get(
            "/admin/renderqueue/renderschedule/", {"q": term.format(pk=rows["renderschedule"].pk)}
        )
    assert ("https://books.test/a" in response.content.decode()) is found
    assert not any("LIKE" in query["sql"] for query in queries)


def test_a_site_with_pages_cannot_be_deleted_here(operator_client: Client, rows: dict[str, Any]) -> None:
    site = rows["renderschedule"].site
    assert operator_client.post(f"/admin/renderqueue/site/{site.pk}/delete/", {"post": "yes"}).status_code == 403


POLICY = "/admin/renderqueue/fleetpolicy/1/change/"


def policy_form(**fields: Any) -> dict[str, Any]:
    shares = '{"submitted": 0.25, "discovered": 0.1, "cold": 0.02}'
    return {"window_s": 0, "verify_interval_s": 3600, "cold_after": 3, "min_share": shares, **fields}


def test_a_window_shorter_than_six_walks_is_refused_with_both_numbers(
    operator_client: Client, reporting: Reporting
) -> None:
    reporting("render@fast", groups=128)
    reporting("render@slow", groups=128, walks={**document()["walks"], "last_seconds": 20.5})
    response = operator_client.post(POLICY, policy_form(window_s=120))
    shown = response.content.decode()
    assert "the slowest node&#x27;s last walk took 20.50 s" in shown
    assert "A window of 120 s is too short" in shown
    assert "123.0 s" in shown
    assert FleetPolicy.objects.get().window_s == 0


def test_a_window_that_is_long_enough_is_taken_and_noted(
    operator_client: Client, operator: User, reporting: Reporting
) -> None:
    reporting("render@slow", walks={**document()["walks"], "last_seconds": 20.5})
    assert operator_client.post(POLICY, policy_form(window_s=123)).status_code == 302
    assert FleetPolicy.objects.get().window_s == 123
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.action, entry.detail["window_s"]) == (operator, "fleet policy changed", 123)


def test_shares_that_leave_no_room_are_refused(operator_client: Client) -> None:
    shares = '{"submitted": 0.9, "discovered": 0.1, "cold": 0.02}'
    response = operator_client.post(POLICY, policy_form(min_share=shares))
    assert "their sum must be below 1" in response.content.decode()


def test_staff_who_are_no_superusers_do_not_change_the_policy(db: None) -> None:
    client = client_of(make_person("clerk", is_staff=True))
    assert client.post(POLICY, policy_form(window_s=123)).status_code in (302, 403)
    assert FleetPolicy.objects.get().window_s == 0
