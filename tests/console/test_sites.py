"""A site's page, adding sites, and asking for a sitemap to be read."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from renderqueue.models import AuditEntry, Project, Site, Sitemap, SitemapRun
from tests.console.conftest import client_of, member
from tests.factories import make_site

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]


def site_form(**fields: Any) -> dict[str, Any]:
    return {
        "new_project": "Harbour",
        "name": "Books",
        "origin": "https://books.test",
        "interval": "2",
        "interval_unit": "days",
        "devices": ["desktop", "mobile"],
        **fields,
    }


def test_an_operator_adds_a_site_with_its_project(operator_client: Client, operator: User) -> None:
    response = operator_client.post("/sites/new/", site_form(hosts="www.books.test\n"))
    site = Site.objects.get()
    assert (response.status_code, response["Location"]) == (302, f"/sites/{site.pk}/")
    assert (site.project.name, site.default_interval_s, site.devices) == ("Harbour", 172_800, ["desktop", "mobile"])
    assert sorted(site.hosts.values_list("host", flat=True)) == ["books.test", "www.books.test"]
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.action, entry.target) == (operator, "site created", "https://books.test")


def test_an_owner_cannot_open_a_private_host_whatever_is_posted(db: None) -> None:
    project = Project.objects.create(name="Harbour", slug="harbour")
    client = client_of(member(project, "owner"))
    fields = site_form(project=project.pk, origin="http://127.0.0.1:8000", allowed_private_hosts="127.0.0.1:8000")
    response = client.post("/sites/new/", fields)
    assert response.status_code == 422
    assert "an operator adds 127.0.0.1:8000" in response.content.decode()
    assert not Site.objects.exists()


def test_an_owner_cannot_add_to_another_project_or_make_one(db: None) -> None:
    own = Project.objects.create(name="Own", slug="own")
    other = Project.objects.create(name="Other", slug="other")
    client = client_of(member(own, "owner"))
    assert client.post("/sites/new/", site_form(project=other.pk)).status_code == 422
    assert client.post("/sites/new/", site_form()).status_code == 422
    assert not Site.objects.exists()


def test_a_refused_site_leaves_no_new_project_behind(operator_client: Client) -> None:
    make_site(host="books.test")
    before = Project.objects.count()
    response = operator_client.post("/sites/new/", site_form())
    assert "The host books.test already belongs to another site" in response.content.decode()
    assert Project.objects.count() == before


def test_a_sitemap_is_queued_and_who_asked_is_noted(operator_client: Client, operator: User) -> None:
    site = make_site()
    response = operator_client.post(f"/sites/{site.pk}/ingest/", {"url": f"{site.origin}/sitemap.xml"})
    assert (response.status_code, response["Location"]) == (302, f"/sites/{site.pk}/#runs")
    run = SitemapRun.objects.get()
    assert (run.state, run.sitemap.url, run.sitemap.site) == ("queued", f"{site.origin}/sitemap.xml", site)
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.action, entry.target) == (operator, "sitemap read", run.sitemap.url)
    assert "queued" in operator_client.get(f"/sites/{site.pk}/live/").content.decode()


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("https://cdn.test/sitemap.xml", "cdn.test is not a host of this site"),
        ("sitemap.xml", "is not an absolute URL"),
        ("ftp://x.test/s.xml", "only http and https"),
        ("", "This field is required"),
    ],
)
def test_a_sitemap_that_cannot_be_read_is_refused_with_a_reason(
    operator_client: Client, url: str, sentence: str
) -> None:
    site = make_site()
    response = operator_client.post(f"/sites/{site.pk}/ingest/", {"url": url})
    assert response.status_code == 422
    assert sentence in response.content.decode()
    assert not Sitemap.objects.exists()
    assert not AuditEntry.objects.exists()


def test_a_sitemap_that_is_being_read_is_not_queued_again(operator_client: Client) -> None:
    site = make_site()
    url = {"url": f"{site.origin}/sitemap.xml"}
    operator_client.post(f"/sites/{site.pk}/ingest/", url)
    response = operator_client.post(f"/sites/{site.pk}/ingest/", url)
    assert response.status_code == 422
    assert "is waiting to be read since" in response.content.decode()
    assert (SitemapRun.objects.count(), AuditEntry.objects.count()) == (1, 1)


def test_a_form_without_the_csrf_token_is_refused(operator: User) -> None:
    site = make_site()
    client = Client(enforce_csrf_checks=True)
    client.force_login(operator)
    assert client.post(f"/sites/{site.pk}/ingest/", {"url": f"{site.origin}/sitemap.xml"}).status_code == 403
    assert not SitemapRun.objects.exists()


def test_a_running_reading_shows_its_progress_and_a_failed_one_why(operator_client: Client) -> None:
    site = make_site()
    sitemap = Sitemap.objects.create(site=site, url=f"{site.origin}/sitemap.xml")
    SitemapRun.objects.create(sitemap=sitemap, state="failed", error="The server answered <503>.")
    samples = {"warnings": [{"kind": "bad date", "count": 3, "samples": ["<b>x"]}], "foreign": ["https://cdn.test/"]}
    SitemapRun.objects.create(sitemap=sitemap, state="running", listed=12_345, created=45, samples=samples)
    shown = operator_client.get(reverse("console:site", args=[site.pk])).content.decode()
    for text in ("12,345", "The server answered &lt;503&gt;.", "bad date", "&lt;b&gt;x", "https://cdn.test/"):
        assert text in shown
