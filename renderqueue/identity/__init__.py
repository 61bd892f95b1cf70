"""Page identity: a URL in, the canonical URL and its key out. Pure; the rules are in docs/page-identity.md.

Everything that names a page (ingest, rendering, serving, console) goes through `identify` or the same pieces
in the same order: one URL spelled two ways is one page, and two pages never share a key (trap 36, F46).
"""

from renderqueue.identity.keys import (
    GROUPS,
    PARTITIONS,
    PageIdentity,
    canonical_url,
    group_of,
    identify,
    page_key,
    partition_of,
)
from renderqueue.identity.query import is_tracking, split_query
from renderqueue.identity.rules import DEVICES, KeyRules, RouteRule, match_route
from renderqueue.identity.urls import MAX_URL_BYTES, ParsedUrl, UrlError, parse_url

__all__ = [
    "DEVICES",
    "GROUPS",
    "MAX_URL_BYTES",
    "PARTITIONS",
    "KeyRules",
    "PageIdentity",
    "ParsedUrl",
    "RouteRule",
    "UrlError",
    "canonical_url",
    "group_of",
    "identify",
    "is_tracking",
    "match_route",
    "page_key",
    "parse_url",
    "partition_of",
    "split_query",
]
