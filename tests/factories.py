"""Rows for tests, made through the product's own writers."""

from __future__ import annotations

import datetime as dt
import itertools
import uuid
from typing import Any

from django.db import connection

from renderqueue.identity import page_key, partition_of
from renderqueue.models import Project, RenderSchedule, Route, Site, SiteHost

_numbers = itertools.count(1)
LONG_AGO = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def make_site(**fields: Any) -> Site:
    """A site with a project, one host and a catch-all route."""
    number = next(_numbers)
    project = fields.pop("project", None) or Project.objects.create(name=f"project {number}", slug=f"project-{number}")
    host = str(fields.pop("host", f"site{number}.test"))
    values: dict[str, Any] = {"name": f"site {number}", "origin": f"https://{host}", **fields}
    site = Site.objects.create(project=project, **values)
    SiteHost.objects.create(site=site, host=host)
    Route.objects.create(site=site, position=100)
    return site


def make_page(site: Site, path: str | None = None, **fields: Any) -> RenderSchedule:
    """A page that is due since long ago, unless `due_at` says otherwise."""
    url = f"{site.origin}{path or f'/page-{next(_numbers)}'}"
    key = page_key(url)
    values: dict[str, Any] = {"due_at": LONG_AGO, "route": site.routes.get(position=100), **fields}
    return RenderSchedule.objects.create(site=site, url=url, key=key, partition=partition_of(key), **values)


def make_pages(site: Site, count: int, *, first_number: int = 0, due_at: dt.datetime = LONG_AGO) -> None:
    """Many pages at once, by one statement for every 500."""
    route_id = site.routes.get(position=100).pk
    rows = []
    for number in range(first_number, first_number + count):
        url = f"{site.origin}/bulk/{number}"
        key = page_key(url)
        rows.append(
            RenderSchedule(site=site, route_id=route_id, url=url, key=key, partition=partition_of(key), due_at=due_at)
        )
    RenderSchedule.objects.bulk_create(rows, batch_size=500)


def database_now() -> dt.datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: dt.datetime = cursor.fetchone()[0]
        return now


NODE = uuid.UUID("00000000-0000-4000-8000-00000000a0de")
OTHER_NODE = uuid.UUID("00000000-0000-4000-8000-00000000b0de")
