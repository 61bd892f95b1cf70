"""A miss: what the site's origin itself answers, through the egress guard, bounded in bytes, time and number."""

from __future__ import annotations

import logging

from django.http import HttpRequest, HttpResponse

from renderqueue.egress.client import Fetched, FetchFailed, fetch
from renderqueue.egress.policy import EgressPolicy
from renderqueue.identity import ParsedUrl, parse_url
from renderqueue.models import Site
from renderqueue.serving.copy_response import absolute
from renderqueue.serving.origin_slots import OriginBusy, OriginSlots

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 10 * 1024 * 1024
TIMEOUT_S = 15.0
FETCHES_PER_SITE = 8
RETRY_BUSY_S = 10
RETRY_FAILED_S = 120

# Set on every fetch: an edge that sends crawlers here must send these to the origin, and if it does not, the
# request comes back and is recognised.
FETCH_HEADER = "X-Renderqueue-Fetch"

# Everything else stays here: cookies and credentials are a visitor's, validators belong to our own copies (F70).
SENT_HEADERS = ("Accept", "Accept-Language", "User-Agent")
RETURNED_HEADERS = frozenset(
    {
        "allow",
        "cache-control",
        "content-disposition",
        "content-language",
        "content-type",
        "expires",
        "link",
        "retry-after",
        "vary",
        "www-authenticate",
        "x-robots-tag",
    }
)


class OriginUnavailable(Exception):
    """The origin gave no usable answer: `reason` for the client, and when to try again."""

    def __init__(self, reason: str, retry_after_s: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after_s = retry_after_s


async def fetch_from_origin(request: HttpRequest, site: Site, parsed: ParsedUrl, slots: OriginSlots) -> Fetched:
    """Fetch the requested URL, with its whole query, from the site's origin. Raises OriginUnavailable when there
    is no free slot or no usable answer; an answer with an error status is an answer (F38)."""
    url = ParsedUrl(*_origin_of(site), parsed.path, parsed.query).url
    headers = {name: request.headers[name] for name in SENT_HEADERS if name in request.headers}
    try:
        with slots.slot(site.pk):
            return await fetch(
                url,
                EgressPolicy(frozenset(site.allowed_private_hosts)),
                max_bytes=MAX_BODY_BYTES,
                timeout_s=TIMEOUT_S,
                headers={**headers, FETCH_HEADER: "1"},
                follow_same_policy_redirects=0,
                method="HEAD" if request.method == "HEAD" else "GET",
            )
    except OriginBusy:
        reason = f"{slots.per_site} requests of {site.name} already wait for its origin."
        raise OriginUnavailable(reason, RETRY_BUSY_S) from None
    except FetchFailed as error:
        log.warning("origin fetch of %s failed: %s", url, error)
        raise OriginUnavailable(f"The origin of {site.name} gave no usable answer.", RETRY_FAILED_S) from error


def origin_response(request: HttpRequest, fetched: Fetched) -> HttpResponse:
    """The origin's status and body with the headers that concern a crawler; a Location is made absolute."""
    response = HttpResponse(fetched.body, status=fetched.status)
    del response.headers["Content-Type"]
    for name, value in fetched.headers.items():
        if name.lower() in RETURNED_HEADERS:
            response.headers[name] = value
        elif name.lower() == "location":
            response.headers["Location"] = absolute(value, fetched.url)
    if request.method != "HEAD":
        response.headers["Content-Length"] = str(len(fetched.body))
    return response


def _origin_of(site: Site) -> tuple[str, str]:
    origin = parse_url(site.origin)
    return origin.scheme, origin.host
