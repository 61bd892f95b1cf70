"""The overview says what the nodes report, what it does not know, and asks the database for little."""

from __future__ import annotations

import datetime as dt

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from renderqueue.models import RenderSchedule
from renderqueue.scheduling import leases
from tests.console.conftest import Reporting, head_of
from tests.factories import database_now, make_page, make_site

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]


def text_of(client: Client) -> str:
    response = client.get(reverse("console:overview"))
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


def test_nobody_reports_and_that_is_unready_not_empty(operator_client: Client) -> None:
    page = text_of(operator_client)
    assert "Unready: no render worker is running" in page
    assert 'id="no-node"' in page
    assert 'id="no-site"' in page


def test_a_fleet_with_nothing_due_is_empty_and_says_when_work_comes(
    operator_client: Client, reporting: Reporting
) -> None:
    reporting(next_due_at=database_now().timestamp() + 241)
    page = text_of(operator_client)
    assert "Empty: nothing is due and nothing is being rendered. The next comes in 4 min" in page


def test_due_pages_are_told_by_class_and_by_what_they_wait_for(operator_client: Client, reporting: Reporting) -> None:
    reporting(
        due=1234,
        claimable=1000,
        parked=204,
        backing_off=20,
        paused=10,
        leased=3,
        started=2,
        due_by_class={"urgent": 4, "submitted": 1200, "discovered": 20, "cold": 10},
    )
    page = text_of(operator_client)
    assert "Queued: 1,234 pages are due, 3 of 4 places in use." in page
    for number in ("1,200", "1,000", "204"):
        assert f'class="n">{number}<' in page
    assert "2 being rendered, 1 leased and about to start." in page


def test_a_loading_node_makes_the_fleet_unready(operator_client: Client, reporting: Reporting) -> None:
    reporting(complete=False, exact=False, phase="loading", edge_infinite=False)
    page = text_of(operator_client)
    assert "Unready: nothing that is known is due" in page
    assert "render@a is still reading the schedule" in page


def test_a_sum_without_a_node_says_so_and_names_the_node(operator_client: Client, reporting: Reporting) -> None:
    reporting("render@a", groups=128, due=5, claimable=5)
    reporting("render@b", groups=128, due=7, claimable=7, age_s=60)
    page = text_of(operator_client)
    assert "Queued: at least 5 pages are due" in page
    assert "Partial numbers." in page
    assert "hold 128 of 256 parts of the schedule. Missing: render@b." in page
    assert '<strong class="bad">stale</strong>' in page


def test_a_dead_node_whose_part_was_taken_over_does_not_make_sums_partial(
    operator_client: Client, reporting: Reporting
) -> None:
    reporting("render@a", groups=256, due=5, claimable=5)
    reporting("render@b", groups=128, due=7, claimable=7, age_s=60)
    page = text_of(operator_client)
    assert "Queued: 5 pages are due" in page
    assert "render@b does not report; others hold its part, so the sums are whole." in page


def test_a_node_that_leaves_is_not_counted_twice(operator_client: Client, reporting: Reporting) -> None:
    reporting("render@a", due=5, claimable=5)
    reporting("render@b", due=5, claimable=5, leaving=True)
    assert "Queued: 5 pages are due" in text_of(operator_client)


def test_a_passed_edge_is_named(operator_client: Client, reporting: Reporting) -> None:
    reporting(complete=False, exact=False, edge_infinite=False, edge_lead_s=-90.0, window_s=600)
    page = text_of(operator_client)
    assert "the edge was passed 1 min 30 s ago" in page
    assert '<strong class="bad">passed 1 min 30 s ago</strong>' in page


def test_hours_beyond_the_edge_are_lower_bounds(operator_client: Client, reporting: Reporting) -> None:
    reporting(edge_infinite=False, edge_lead_s=2.5 * 3600, window_s=9000, coming=[10, 20, 30, *[0] * 21])
    page = text_of(operator_client)
    assert "Outlined hours reach past what the workers hold" in page
    assert "UTC: 20 pages<" in page
    assert "UTC: at least 30 pages<" in page


def test_the_next_pages_of_two_nodes_come_in_one_order(operator_client: Client, reporting: Reporting) -> None:
    site = make_site()
    now = database_now()
    late, later, cold, rushed = (
        make_page(site, f"/{name}", due_at=now - dt.timedelta(minutes=minutes), last_outcome=outcome)
        for name, minutes, outcome in (
            ("late", 144, "stored"),
            ("later", 300, ""),
            ("cold", 9000, ""),
            ("rushed", 0, ""),
        )
    )
    reporting("render@a", groups=128, due=2, head=[*head_of(late), *head_of(cold, kind="cold")])
    asked = make_page(site, "/asked", due_at=now)
    earlier = head_of(asked, kind="urgent", requested_at=now.timestamp() - 60)
    reporting("render@b", groups=128, due=2, head=[*head_of(rushed, kind="urgent"), *head_of(later)])
    reporting("render@c", groups=0, due=1, head=earlier)
    page = text_of(operator_client)
    places = [
        page.index(f'<span title="{site.origin}/{name}"') for name in ("rushed", "asked", "later", "late", "cold")
    ]
    assert places == sorted(places)
    assert "2.4 cadences late" in page
    assert "just due" in page
    assert "never rendered" in page


def test_a_page_in_flight_names_its_node(operator_client: Client, reporting: Reporting) -> None:
    page = make_page(make_site())
    node = reporting(due=1, parked=1, leased=1, head=head_of(page))
    leases.claim(node, [page.pk], 60)
    shown = text_of(operator_client)
    assert 'leased <span class="whole faint">on render@a</span>' in shown
    assert "In flight" in shown


def test_the_overview_asks_a_fixed_number_of_questions_and_never_scans_the_schedule(
    operator_client: Client, reporting: Reporting
) -> None:
    site = make_site()
    pages = [make_page(site) for _ in range(30)]
    reporting("render@a", groups=128, due=20, head=head_of(*pages[:15]))
    reporting("render@b", groups=128, due=20, head=head_of(*pages[15:]))
    with CaptureQueriesContext(
        connection,
    ) as queries:
        operator_client.get(reverse("console:overview-live"))
    # session, person, node reports, pages by key, oldest leases, whether there is a site
    assert len(queries) == 6
    about_pages = [query["sql"] for query in queries if RenderSchedule._meta.db_table in query["sql"]]
    assert len(about_pages) == 2
    by_key, by_lease = about_pages
    assert '"renderqueue_renderschedule"."id" IN (' in by_key
    assert 'FROM "renderqueue_lease" INNER JOIN "renderqueue_renderschedule"' in by_lease
    assert not any("COUNT(" in sql for sql in about_pages)


def test_a_hundred_pages_are_shown_at_most(operator_client: Client, reporting: Reporting) -> None:
    site = make_site()
    reporting(due=130, head=head_of(*[make_page(site) for _ in range(130)]))
    assert text_of(operator_client).count('<tr id="page-') == 100


def test_people_who_did_not_sign_in_are_sent_to_the_form(client: Client, db: None) -> None:
    response = client.get(reverse("console:overview"))
    assert response.status_code == 302
    assert response["Location"] == "/sign-in/?next=%2F"


def test_a_page_left_open_after_the_session_ended_goes_to_the_form(client: Client, db: None) -> None:
    response = client.get(
        reverse("console:overview-live"), headers={"HX-Request": "true", "HX-Current-URL": "http://x.test/sites/1/"}
    )
    assert response.status_code == 204
    assert response["HX-Redirect"] == "/sign-in/?next=%2Fsites%2F1%2F"


def test_console_pages_forbid_inline_code_and_caching(operator_client: Client, operator: User) -> None:
    response = operator_client.get(reverse("console:overview"))
    policy = response["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "no-store" in response["Cache-Control"]
