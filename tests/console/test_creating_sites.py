"""`create_site` and `manage.py add_site`."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from renderqueue.models import AuditEntry, Project, Route, Site, SiteHost
from renderqueue.sites import SiteRefused, create_site, project_named
from tests.factories import make_site

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]


@pytest.fixture
def project() -> Project:
    return Project.objects.create(name="Harbour", slug="harbour")


def test_a_site_comes_with_hosts_a_last_route_and_an_audit_entry(project: Project) -> None:
    hosts = ["WWW.Books.test", "books.test", "https://bücher.test:8443", ""]
    site = create_site(project, name=" Books ", origin="HTTPS://Books.test:443/", hosts=hosts)
    assert (site.name, site.origin) == ("Books", "https://books.test")
    kept = list(site.hosts.order_by("pk").values_list("host", flat=True))
    assert kept == ["books.test", "www.books.test", "xn--bcher-kva.test:8443"]
    route = site.routes.get()
    assert (route.match, route.path, route.mode) == (Route.Match.PREFIX, "/", Route.Mode.PRERENDER)
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.detail["hosts"]) == (None, kept)


@pytest.mark.parametrize(
    ("fields", "field", "sentence"),
    [
        ({"origin": "books.test"}, "origin", "begin it with https://"),
        ({"origin": "https://books.test/shop"}, "origin", "Give the scheme and host only: https://books.test"),
        ({"origin": "http://10.0.0.7"}, "origin", "10.0.0.7 is a private address"),
        ({"origin": "http://localhost:8000"}, "origin", "localhost:8000 is a loopback address"),
        ({"origin": "http://[::1]:8000"}, "origin", "is a loopback address"),
        ({"origin": "http://2130706433/"}, "origin", "127.0.0.1 is a loopback address"),
        ({"origin": "http://10.0.0.7", "allowed_private_hosts": ["10.0.0.8"]}, "origin", "is a private address"),
        ({"hosts": ["a b"]}, "hosts", "'a b' is not a host"),
        ({"hosts": ["www.books.test/x"]}, "hosts", "write www.books.test only"),
        ({"allowed_private_hosts": ["10.0.0.7:99999"]}, "allowed_private_hosts", "ports go from 1 to 65535"),
        ({"name": " "}, "name", "Give the site a name"),
        ({"default_interval_s": 59}, "default_interval_s", "between one minute and 366 days"),
        ({"devices": ["watch"]}, "devices", "desktop, mobile"),
        ({"devices": []}, "devices", "desktop, mobile"),
    ],
)
def test_what_is_wrong_is_named_with_its_field(
    project: Project, fields: dict[str, Any], field: str, sentence: str
) -> None:
    with pytest.raises(SiteRefused, match=None) as refused:
        create_site(project, **{"name": "Books", "origin": "https://books.test", **fields})
    assert refused.value.field == field
    assert sentence in str(refused.value)
    assert not Site.objects.exists()


def test_an_operator_allows_a_private_origin_by_naming_it(project: Project) -> None:
    site = create_site(project, name="In house", origin="http://10.0.0.7:8000", allowed_private_hosts=["10.0.0.7:8000"])
    assert site.allowed_private_hosts == ["10.0.0.7:8000"]


def test_a_host_belongs_to_one_site_and_nothing_is_left_half_made(project: Project) -> None:
    owner = make_site(host="www.books.test")
    with pytest.raises(SiteRefused, match=r"www\.books\.test already belongs to another site") as refused:
        create_site(project, name="Books", origin="https://books.test", hosts=["www.books.test"])
    assert (refused.value.field, refused.value.taken_by) == ("hosts", owner)
    assert owner.name not in str(refused.value)
    assert not SiteHost.objects.filter(host="books.test").exists()


def test_projects_are_found_by_name_or_slug_and_made_otherwise(project: Project) -> None:
    assert project_named("Harbour") == project_named("harbour") == project
    made = project_named("Harbour!")
    assert (made.name, made.slug) == ("Harbour!", "harbour-2")


def test_the_command_makes_a_site_and_says_what_comes_next() -> None:
    said = StringIO()
    call_command(
        "add_site", "Books", "https://books.test", "--host", "www.books.test", "--interval-hours", "12", stdout=said
    )
    site = Site.objects.get()
    assert (site.project.name, site.default_interval_s) == ("Books", 43_200)
    assert "manage.py ingest https://books.test/sitemap.xml" in said.getvalue()


def test_the_command_refuses_in_one_sentence_and_names_the_other_site() -> None:
    owner = make_site(host="books.test")
    with pytest.raises(CommandError, match=f"It belongs to {owner.name}"):
        call_command("add_site", "Books", "https://books.test")
    assert not Project.objects.filter(name="Books").exists()
