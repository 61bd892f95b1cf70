"""The canonical URL of a page, the key made from it, and where in the fleet that key belongs."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from renderqueue.identity.query import canonical_query
from renderqueue.identity.rules import STRICT, KeyRules, RouteRule, match_route, strip_slash
from renderqueue.identity.urls import MAX_URL_BYTES, ParsedUrl, UrlError, parse_url

PARTITIONS = 1024
GROUPS = 256


@dataclass(frozen=True, slots=True)
class PageIdentity:
    """Everything that follows from a URL and a site's rules."""

    url: str
    key: uuid.UUID
    route_id: int
    rule: RouteRule


def identify(
    parsed: ParsedUrl,
    routes: Sequence[tuple[int, RouteRule]],
    rules: KeyRules = STRICT,
    *,
    origin: str | None = None,
) -> PageIdentity | None:
    """Find the route of a URL and the page that it names; None when no route matches.

    `origin` (scheme://host[:port]) is the site's own: a URL on any of the site's other hosts, or in the other
    scheme, names the page there (F91). Without it the URL's own host stays. Raises UrlError when the
    canonical URL is too long or the origin is not a URL."""
    route_id = match_route(parsed.path, routes, rules)
    if route_id is None:
        return None
    rule = next(rule for candidate, rule in routes if candidate == route_id)
    home = parse_url(origin).origin if origin is not None else parsed.origin
    url = _canonical(parsed, home, rule, rules)
    return PageIdentity(url, page_key(url), route_id, rule)


def canonical_url(raw: str, rule: RouteRule, rules: KeyRules = STRICT, base: str | None = None) -> str:
    """The one spelling of a page's URL, at most 2,048 bytes of ASCII. Idempotent, and equal to itself after a
    WHATWG parse. Raises UrlError."""
    parsed = parse_url(raw, base)
    return _canonical(parsed, parsed.origin, rule, rules)


def page_key(canonical: str) -> uuid.UUID:
    """The 128-bit identity of a page: BLAKE2b of its canonical URL. Stored; it must never change."""
    return uuid.UUID(bytes=blake2b(canonical.encode(), digest_size=16).digest())


def partition_of(key: uuid.UUID) -> int:
    """0 to 1023, from the key's low bits (the high ones spread first renders over time)."""
    return key.int % PARTITIONS


def group_of(partition: int) -> int:
    """0 to 255: the group of four partitions that is owned, fed and walked as one (W2b)."""
    return partition // (PARTITIONS // GROUPS)


def _canonical(parsed: ParsedUrl, origin: str, rule: RouteRule, rules: KeyRules) -> str:
    path = strip_slash(parsed.path) if rules.strip_trailing_slash else parsed.path
    query = canonical_query(parsed.query, rule, rules)
    url = f"{origin}{path}?{query}" if query else f"{origin}{path}"
    if len(url) > MAX_URL_BYTES:
        raise UrlError(
            f"The page's URL is {len(url)} bytes long without the parameters that its route drops; the limit "
            f"is {MAX_URL_BYTES}: {url[:120]}..."
        )
    return url
