"""The answer from a stored copy: its status, the headers that may be stored, its body in the client's encoding."""

from __future__ import annotations

import datetime as dt
import gzip
import logging
import zlib

from ada_url import URL
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.cache import get_conditional_response
from django.utils.http import http_date

from renderqueue.serving.device import DEVICE_HEADER
from renderqueue.serving.lookup import StoredCopy

log = logging.getLogger(__name__)

STORED_HEADERS = frozenset({"content-type", "content-language", "link", "x-robots-tag"})


def copy_response(
    request: HttpRequest, copy: StoredCopy, now: dt.datetime, *, varies_by_device: bool
) -> HttpResponseBase | None:
    """The whole answer, its body in hand before the status is decided; None when the copy needs a body and has
    none that can be read, so that the next rung answers (F71).

    HEAD gets the same headers from metadata. A validator is compared only here, with a copy that is served: a
    cleared one never comes back through a 304 (trap 39)."""
    if not _is_whole(copy):
        log.error("the copy of %s has no body; serving the next rung", copy.page_url)
        return None
    body = b"" if request.method == "HEAD" else _body(copy)
    if body is None:
        log.error("the body of %s cannot be decompressed; serving the next rung", copy.page_url)
        return None
    response = HttpResponse(body, status=copy.status)
    del response.headers["Content-Type"]
    _set_headers(response, copy, now, varies_by_device=varies_by_device)
    etag = response.headers.get("ETag")
    answer = get_conditional_response(request, etag, int(copy.changed_at.timestamp()), response)
    if answer is not None and answer.status_code == 304:
        answer.headers["Age"] = response.headers["Age"]
        return answer
    return response


def _is_whole(copy: StoredCopy) -> bool:
    needs_body = 200 <= copy.status < 300 and copy.status != 204
    return bool(copy.body_bytes) or not needs_body


def _body(copy: StoredCopy) -> bytes | None:
    if copy.body is None:
        return b""
    if copy.encoding != "identity":
        return copy.body
    try:
        return gzip.decompress(copy.body)
    except (OSError, EOFError, zlib.error):
        return None


def _set_headers(response: HttpResponse, copy: StoredCopy, now: dt.datetime, *, varies_by_device: bool) -> None:
    for name, value in copy.headers.items():
        if name.lower() in STORED_HEADERS:
            response.headers[name] = value
    location = {name.lower(): value for name, value in copy.headers.items()}.get("location")
    if location is not None and 300 <= copy.status < 400:
        response.headers["Location"] = absolute(location, copy.page_url)
    if copy.sha256 is not None:
        suffix = "" if copy.encoding == "identity" else f"-{copy.encoding}"
        response.headers["ETag"] = f'"{copy.sha256.hex()[:32]}{suffix}"'
        if suffix:
            response.headers["Content-Encoding"] = copy.encoding
    response.headers["Content-Length"] = str(copy.body_bytes or 0)
    response.headers["Last-Modified"] = http_date(copy.changed_at.timestamp())
    response.headers["Age"] = str(max(int((now - copy.rendered_at).total_seconds()), 0))
    # A cache in front asks each time (usually a 304), or it would hide a clear.
    response.headers["Cache-Control"] = "no-cache"
    by_device = f", {DEVICE_HEADER}, User-Agent" if varies_by_device else ""
    response.headers["Vary"] = f"Accept-Encoding{by_device}"


def absolute(location: str, page_url: str) -> str:
    """A Location resolved against the page that it came from (F32)."""
    try:
        return str(URL(location, page_url).href)
    except ValueError:
        return location
