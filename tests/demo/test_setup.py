"""The demo's site: made once, reaching its own shop only, with something to see at once."""

from __future__ import annotations

import datetime as dt
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from renderqueue.demo.setup import INTERVAL_S, SHOWN_FIRST, set_up
from renderqueue.models import RenderSchedule, Site, SitemapRun
from renderqueue.scheduling import rows

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]

ORIGIN = "http://127.0.0.1:8001"
NOW = dt.datetime(2026, 5, 4, 12, 0, tzinfo=dt.UTC)


def test_a_site_on_the_shops_host_that_may_reach_it_and_nothing_else() -> None:
    site = set_up(ORIGIN, NOW).site
    assert site.origin == ORIGIN
    assert site.allowed_private_hosts == ["127.0.0.1:8001"]
    assert [host.host for host in site.hosts.all()] == ["127.0.0.1:8001"]
    last = site.routes.order_by("position").last()
    assert last is not None
    assert (last.match, last.path, last.mode) == ("prefix", "/", "prerender")
    assert site.default_interval_s == INTERVAL_S


def test_the_first_pages_are_asked_for_and_due_now() -> None:
    demo = set_up(ORIGIN, NOW)
    pages = RenderSchedule.objects.filter(site=demo.site)
    assert demo.requested == SHOWN_FIRST == pages.exclude(requested_at=None).count()
    assert pages.filter(url=f"{ORIGIN}/").exists()
    assert len(set(pages.values_list("partition", flat=True))) > 1


def test_a_repeat_changes_nothing() -> None:
    first = set_up(ORIGIN, NOW)
    rendered = RenderSchedule.objects.filter(site=first.site).order_by("pk")[0]
    rows.reschedule_success(rendered.pk, started_at=NOW, completed_at=NOW, interval_s=600, outcome="stored-200")
    again = set_up(ORIGIN, NOW + dt.timedelta(hours=1))
    assert again.site == first.site
    assert Site.objects.count() == 1
    assert again.requested == SHOWN_FIRST - 1  # what was rendered is not asked for again
    assert not again.sitemap_queued
    assert SitemapRun.objects.count() == 1


def test_a_sitemap_that_failed_is_read_again() -> None:
    set_up(ORIGIN, NOW)
    SitemapRun.objects.update(state=SitemapRun.State.FAILED)
    assert set_up(ORIGIN, NOW).sitemap_queued
    SitemapRun.objects.update(state=SitemapRun.State.DONE)
    assert not set_up(ORIGIN, NOW).sitemap_queued


def test_a_shop_on_another_port_is_another_site() -> None:
    assert set_up(ORIGIN, NOW).site != set_up("http://127.0.0.1:9001", NOW).site


def test_the_command_says_what_it_did() -> None:
    said = StringIO()
    call_command("demo", origin=ORIGIN, stdout=said)
    assert said.getvalue() == f"Lamplight (127.0.0.1:8001): {SHOWN_FIRST} pages asked for, its sitemap is queued.\n"


@pytest.mark.parametrize("origin", ["127.0.0.1:8001", "ftp://127.0.0.1", "http://127.0.0.1:8001/shop", "http://"])
def test_an_origin_that_is_none_is_refused(origin: str) -> None:
    with pytest.raises(CommandError, match="--origin"):
        call_command("demo", origin=origin)
    assert not Site.objects.exists()
