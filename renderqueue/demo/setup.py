"""The demo's project: one site on the shop's host, its routes, and something to see at once."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.db import transaction

from renderqueue.demo import catalogue
from renderqueue.identity import identify, parse_url
from renderqueue.models import Project, RenderSchedule, Route, Site, SiteHost, Sitemap, SitemapRun
from renderqueue.scheduling import rows
from renderqueue.serving.lookup import rule_of
from renderqueue.sitemaps.runs import RunRefused
from renderqueue.sitemaps.tasks import start_run

PROJECT = "Demo"
# Short, so that the first renders of some 280 pages spread over minutes and not days.
INTERVAL_S = 20 * 60
SHOWN_FIRST = 12

ROUTES: tuple[tuple[str, str, str, list[str], int | None], ...] = (
    ("prefix", "/cart", "passthrough", [], None),
    ("prefix", "/api/", "passthrough", [], None),
    ("prefix", "/c/", "prerender", ["page"], 10 * 60),
    ("prefix", "/guides/", "prerender", [], 40 * 60),
    ("prefix", "/", "prerender", [], None),
)


@dataclass(frozen=True)
class Demo:
    site: Site
    requested: int
    sitemap_queued: bool


@transaction.atomic
def set_up(origin: str, now: dt.datetime) -> Demo:
    """Make the demo's project, site and routes, queue its sitemap, and ask for a few pages to be rendered now.

    `origin` is scheme://host:port of the shop. Idempotent; a shop on another port is another site.
    """
    site = _site(origin)
    pages = _first_pages(site)
    rows.add_pages(site, {route.pk: route for route in site.routes.all()}, pages, now)
    never_rendered = RenderSchedule.objects.filter(key__in=[page.key for page in pages], rendered_at=None)
    requested = rows.request_pages(never_rendered.values_list("pk", flat=True), render_now=True)
    return Demo(site, requested, _queue_sitemap(site))


def _site(origin: str) -> Site:
    host = urlsplit(origin).netloc
    project, _ = Project.objects.get_or_create(slug="demo", defaults={"name": PROJECT})
    known = SiteHost.objects.filter(host=host, site__project=project).select_related("site").first()
    if known is not None:
        return known.site
    site = Site.objects.create(
        project=project,
        name=f"Lamplight ({host})",
        origin=origin,
        default_interval_s=INTERVAL_S,
        devices=["desktop", "mobile"],
        # The guard refuses loopback addresses; this one host and port is the shop.
        allowed_private_hosts=[host],
    )
    SiteHost.objects.create(site=site, host=host)
    Route.objects.bulk_create(
        Route(site=site, position=position, match=match, path=path, mode=mode, query_params=params, interval_s=every_s)
        for position, (match, path, mode, params, every_s) in enumerate(ROUTES, start=1)
    )
    return site


def _queue_sitemap(site: Site) -> bool:
    """Queue a reading of the shop's sitemap index, unless it was read well or is being read."""
    sitemap, _ = Sitemap.objects.get_or_create(site=site, url=f"{site.origin}/sitemap.xml")
    if sitemap.runs.filter(state=SitemapRun.State.DONE).exists():
        return False
    try:
        start_run(sitemap)
    except RunRefused:
        return False
    return True


def _first_pages(site: Site) -> list[rows.NewPage]:
    """Home, the categories and a few products: what a person opens first."""
    paths = ["/", *(f"/c/{slug}" for slug in catalogue.categories())]
    paths += [product.path for product in catalogue.products()]
    rules = [(route.pk, rule_of(route)) for route in site.routes.order_by("position")]
    pages = []
    for path in paths[:SHOWN_FIRST]:
        identity = identify(parse_url(site.origin + path), rules, origin=site.origin)
        assert identity is not None
        pages.append(rows.NewPage(url=identity.url, key=identity.key, route_id=identity.route_id))
    return pages
