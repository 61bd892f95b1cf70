"""What is stored for a URL, in three queries whatever is found."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db import connection

from renderqueue.identity import KeyRules, PageIdentity, ParsedUrl, RouteRule, identify
from renderqueue.models import Route, Site, SiteHost
from renderqueue.serving.device import device_of
from renderqueue.serving.encoding import Encoding


@dataclass(frozen=True, slots=True)
class StoredCopy:
    """A cached copy with the one form of its body that the client takes.

    `body` is in `encoding`, but gzip when that is identity; None when only metadata was asked for.
    `body_bytes` is its length as the client gets it. Both are None when no body is stored."""

    page_url: str
    status: int
    headers: Mapping[str, str]
    rendered_at: dt.datetime
    changed_at: dt.datetime
    expires_at: dt.datetime
    encoding: Encoding
    sha256: bytes | None
    body: bytes | None
    body_bytes: int | None


@dataclass(frozen=True, slots=True)
class Found:
    """A configured site and what it holds for the URL. `identity` is None when no route matches; `page_id` when
    the page is not scheduled, or its route is not prerendered."""

    site: Site
    routes: Mapping[int, Route] = field(repr=False)
    identity: PageIdentity | None
    page_id: int | None = None
    copy: StoredCopy | None = None


def find(parsed: ParsedUrl, headers: Mapping[str, str], encoding: Encoding, *, with_body: bool) -> Found | None:
    """Look a URL up; None when its host belongs to no site. Raises UrlError when the page's URL is too long."""
    host = SiteHost.objects.select_related("site").filter(host=parsed.host).first()
    if host is None:
        return None
    site = host.site
    routes = {route.pk: route for route in Route.objects.filter(site=site).order_by("position")}
    rules = [(route.pk, rule_of(route)) for route in routes.values()]
    identity = identify(parsed, rules, key_rules_of(site), origin=site.origin)
    if identity is None or identity.rule.mode != "prerender":
        return Found(site, routes, identity)
    stored = _page_and_copy(identity, device_of(headers, site.devices), encoding, with_body=with_body)
    return Found(site, routes, identity, *(stored or (None, None)))


def rule_of(route: Route) -> RouteRule:
    """A route as page identity sees it."""
    return RouteRule(route.match, route.path, route.mode, tuple(route.query_params))  # type: ignore[arg-type]


def key_rules_of(site: Site) -> KeyRules:
    """A site's switches as page identity sees them."""
    return KeyRules(site.fold_plus, site.strip_trailing_slash)


def _page_and_copy(
    identity: PageIdentity, device: str, encoding: Encoding, *, with_body: bool
) -> tuple[int, StoredCopy | None] | None:
    length, body = _FORMS[encoding]
    with connection.cursor() as cursor:
        cursor.execute(_PAGE_AND_COPY.format(length=length, body=body if with_body else "NULL"), [device, identity.key])
        row = cursor.fetchone()
    if row is None:
        return None
    page_id, url, status, headers, rendered_at, changed_at, expires_at, sha256, body_bytes, body = row
    if status is None:
        return page_id, None
    return page_id, StoredCopy(
        page_url=url,
        status=status,
        headers=json.loads(headers),
        rendered_at=rendered_at,
        changed_at=changed_at,
        expires_at=expires_at,
        encoding=encoding,
        sha256=sha256,
        body=body,
        body_bytes=body_bytes,
    )


# Written out: the same through the ORM took 2 ms more of CPU for each request, to build it.
_PAGE_AND_COPY = """
    SELECT page.id, page.url, copy.status, copy.headers, copy.rendered_at, copy.changed_at, copy.expires_at,
           body.sha256, {length}, {body}
    FROM renderqueue_renderschedule AS page
    LEFT JOIN renderqueue_cachedcopy AS copy ON copy.page_id = page.id AND copy.device = %s
    LEFT JOIN renderqueue_body AS body ON body.id = copy.body_id
    WHERE page.key = %s
"""

# What of the body is read for each encoding: its length as sent, and the stored form.
_FORMS: dict[Encoding, tuple[str, str]] = {
    "br": ("length(body.br)", "body.br"),
    "gzip": ("length(body.gzip)", "body.gzip"),
    "identity": ("body.size", "body.gzip"),
}
