"""The crawler's view: one ladder, from a fresh copy down to 503."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Mapping

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import DatabaseError, close_old_connections
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.http.request import split_domain_port, validate_host
from django.utils import timezone

from renderqueue.identity import ParsedUrl, UrlError, parse_url
from renderqueue.serving.copy_response import copy_response
from renderqueue.serving.discovery import discover
from renderqueue.serving.encoding import Encoding, negotiate
from renderqueue.serving.freshness import Rung, rung_of
from renderqueue.serving.lookup import Found, find
from renderqueue.serving.origin import (
    FETCH_HEADER,
    FETCHES_PER_SITE,
    OriginUnavailable,
    fetch_from_origin,
    origin_response,
)
from renderqueue.serving.origin_slots import OriginSlots
from renderqueue.serving.robots import is_indexable_page
from renderqueue.serving.target import target_url

RUNG_HEADER = "X-Renderqueue"
RETRY_AFTER_S = 30

log = logging.getLogger(__name__)
_slots = OriginSlots(FETCHES_PER_SITE)


async def page(request: HttpRequest) -> HttpResponseBase:
    """GET or HEAD /p/<absolute URL>: the stored copy, else what the origin answers (docs/serving.md).

    The header X-Renderqueue names the rung. Nothing is rendered here. Stored and fetched HTML is hostile (D18): under
    a host of the console, and for a browser that is signed in to it, it comes on a null origin without scripts."""
    response = await _answer(request)
    if _is_the_console_s(request.headers.get("Host", "")) or settings.SESSION_COOKIE_NAME in request.COOKIES:
        response.headers["Content-Security-Policy"] = "sandbox"
    return response


def _is_the_console_s(host: str) -> bool:
    return validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS)


async def _answer(request: HttpRequest) -> HttpResponseBase:
    if request.method not in ("GET", "HEAD"):
        refused = _refusal(405, f"A stored page answers GET and HEAD only, not {request.method}.")
        refused.headers["Allow"] = "GET, HEAD"
        return refused
    if FETCH_HEADER in request.headers:
        return _refusal(
            508,
            f"This is this service's own fetch from an origin, come back ({FETCH_HEADER}). Let requests with that "
            "header pass to the origin where crawlers are sent here.",
        )
    now = timezone.now()
    encoding = negotiate(request.headers.get("Accept-Encoding", ""))
    try:
        parsed = parse_url(target_url(request.scope))  # type: ignore[attr-defined]
        found = await _find(parsed, request.headers, encoding, with_body=request.method == "GET")
    except UrlError as error:
        return _refusal(400, str(error))
    except DatabaseError:
        log.exception("the store cannot be asked")
        return _named(_refusal(503, "The store cannot be asked at the moment.", RETRY_AFTER_S), Rung.UNAVAILABLE)
    if found is None:
        return _refusal(
            421, f"The host {parsed.host} is not configured here; add it to the hosts of the site that it serves."
        )
    return _from_store(request, found, now) or await _from_origin(request, found, parsed, now)


@sync_to_async
def _find(parsed: ParsedUrl, headers: Mapping[str, str], encoding: Encoding, *, with_body: bool) -> Found | None:
    try:
        return find(parsed, headers, encoding, with_body=with_body)
    finally:
        # Back to the pool at once: a request that waits for an origin must not hold a connection.
        close_old_connections()


def _from_store(request: HttpRequest, found: Found, now: dt.datetime) -> HttpResponseBase | None:
    if found.copy is None:
        return None
    site = found.site
    rung = rung_of(found.copy.expires_at, now, swr_ttl_s=site.swr_ttl_s, serve_last_good=site.serve_last_good)
    if rung is Rung.ORIGIN:
        return None
    response = copy_response(request, found.copy, now, varies_by_device=len(site.devices) > 1)
    return response and _named(response, rung)


async def _from_origin(request: HttpRequest, found: Found, parsed: ParsedUrl, now: dt.datetime) -> HttpResponseBase:
    try:
        fetched = await fetch_from_origin(request, found.site, parsed, _slots)
    except OriginUnavailable as unavailable:
        return _named(_refusal(503, unavailable.reason, unavailable.retry_after_s), Rung.UNAVAILABLE)
    new = found.identity is not None and found.identity.rule.mode == "prerender" and found.page_id is None
    if new and is_indexable_page(fetched.status, fetched.headers, fetched.body):
        await sync_to_async(discover)(found, now)
    return _named(origin_response(request, fetched), Rung.ORIGIN)


def _named(response: HttpResponseBase, rung: Rung) -> HttpResponseBase:
    response.headers[RUNG_HEADER] = rung.value
    return response


def _refusal(status: int, sentence: str, retry_after_s: int | None = None) -> HttpResponse:
    response = HttpResponse(f"{sentence}\n", status=status, content_type="text/plain; charset=utf-8")
    response.headers["Cache-Control"] = "no-store"
    if retry_after_s is not None:
        response.headers["Retry-After"] = str(retry_after_s)
    return response
