"""/metrics: what is said, by whom, and to whom."""

from __future__ import annotations

import math
from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from renderqueue.models import Node
from tests.console.conftest import Reporting, client_of, document, make_person
from tests.factories import database_now

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]
Samples = dict[tuple[str, tuple[str, ...]], float]


def scrape(client: Client) -> Samples:
    response = client.get("/metrics")
    assert response.status_code == 200
    families = text_string_to_metric_families(response.content.decode())
    samples = [sample for family in families for sample in family.samples]
    found = {(sample.name, tuple(sample.labels.values())): sample.value for sample in samples}
    assert len(found) == len(samples), "a sample is there twice"
    return found


def test_a_node_that_reports_is_sampled(client: Client, reporting: Reporting) -> None:
    walks = {**document()["walks"], "finished": 7, "failed": 2, "last_seconds": 0.25}
    walks["counts"] = {**walks["counts"], "missing": 3}
    reporting(
        "render@a",
        due_by_class={"urgent": 1, "submitted": 20, "discovered": 3, "cold": 4},
        claimable=25, leased=3, bound=4, held=1000, edge_infinite=False, edge_lead_s=600.0, window_s=3600,
        walks=walks, claims={"granted": 40, "not due": 2},
    )  # fmt: skip
    samples = scrape(client)
    assert samples["queue_due_pages", ("submitted", "render@a")] == 20
    assert samples["queue_claimable_pages", ("render@a",)] == 25
    assert samples["queue_leased_pages", ("render@a",)] == 3
    assert samples["queue_lease_bound", ("render@a",)] == 4
    assert samples["queue_held_rows", ("render@a",)] == 1000
    assert samples["queue_health_complete", ("render@a",)] == 1
    assert samples["queue_health_edge_lead_seconds", ("render@a",)] == pytest.approx(600, abs=5)
    assert samples["queue_walks_total", ("render@a", "failed")] == 2
    assert samples["queue_walk_rows_total", ("missing", "render@a")] == 3
    assert samples["queue_claims_total", ("not due", "render@a")] == 2
    assert samples["queue_nodes", ("live",)] == 1


def test_an_edge_that_is_everywhere_or_nowhere_is_infinite(client: Client, reporting: Reporting) -> None:
    reporting("render@all", edge_infinite=True)
    reporting("render@new", edge_infinite=False, complete=False)
    samples = scrape(client)
    assert samples["queue_health_edge_lead_seconds", ("render@all",)] == math.inf
    assert samples["queue_health_edge_lead_seconds", ("render@new",)] == -math.inf


def test_a_stale_node_is_counted_and_aged_but_its_old_numbers_are_not_shown(
    client: Client, reporting: Reporting
) -> None:
    reporting("render@old", held=5, age_s=90)
    samples = scrape(client)
    assert samples["queue_nodes", ("stale",)] == 1
    assert samples["queue_report_age_seconds", ("render@old",)] > 89
    assert ("queue_held_rows", ("render@old",)) not in samples


def test_a_restarted_worker_is_sampled_once(client: Client, reporting: Reporting) -> None:
    reporting("render@a", held=5)
    now = database_now()
    Node.objects.create(
        name="render@a", host="a", queue="q", pool_size=2, started_at=now.replace(year=2020), heartbeat_at=now
    )
    assert scrape(client)["queue_held_rows", ("render@a",)] == 5


def test_strangers_are_refused(client: Client) -> None:
    assert client.get("/metrics", REMOTE_ADDR="192.0.2.7").status_code == 401
    assert client_of(make_person("jon")).get("/metrics", REMOTE_ADDR="192.0.2.7").status_code == 401


def test_a_proxy_on_this_machine_does_not_open_the_door(client: Client) -> None:
    assert client.get("/metrics", REMOTE_ADDR="127.0.0.1").status_code == 200
    assert client.get("/metrics", REMOTE_ADDR="127.0.0.1", headers={"X-Forwarded-For": "127.0.0.1"}).status_code == 401


def test_the_token_or_an_operator_gets_in_from_elsewhere(client: Client, operator_client: Client) -> None:
    printed = StringIO()
    call_command("metrics_token", stdout=printed)
    token = printed.getvalue().strip()
    away = {"REMOTE_ADDR": "192.0.2.7"}
    assert client.get("/metrics", headers={"Authorization": f"Bearer {token}"}, **away).status_code == 200
    assert client.get("/metrics", headers={"Authorization": f"Bearer {token}x"}, **away).status_code == 401
    assert operator_client.get("/metrics", **away).status_code == 200
