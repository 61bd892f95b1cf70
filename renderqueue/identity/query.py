"""Which parts of a query make a page, and in which order they are written."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes

from renderqueue.identity.escapes import normalise_query
from renderqueue.identity.rules import KeyRules, RouteRule

ALL = "*"

# Added to links by advertisers, mailers and social networks; no page is another page for them (F47). Only
# names that nobody uses for anything else: a wrong one here would merge pages.
TRACKING_PREFIXES = ("utm_", "mtm_", "hsa_")
TRACKING_NAMES = frozenset(
    {
        "_ga",
        "_gl",
        "_hsenc",
        "_hsmi",
        "_openstat",
        "dclid",
        "epik",
        "fb_action_ids",
        "fb_action_types",
        "fb_source",
        "fbclid",
        "gad_campaignid",
        "gad_source",
        "gbraid",
        "gclid",
        "gclsrc",
        "igsh",
        "igshid",
        "irclickid",
        "li_fat_id",
        "mc_cid",
        "mc_eid",
        "mkt_tok",
        "ml_subscriber_hash",
        "msclkid",
        "oly_anon_id",
        "oly_enc_id",
        "pk_campaign",
        "pk_cid",
        "pk_content",
        "pk_kwd",
        "pk_medium",
        "pk_source",
        "rb_clickid",
        "s_kwcid",
        "srsltid",
        "ttclid",
        "twclid",
        "vero_conv",
        "vero_id",
        "wbraid",
        "wickedid",
        "yclid",
        "ysclid",
    }
)


class SplitQuery(NamedTuple):
    """The parts of a query that make a page, in canonical order, and those that do not, as they came."""

    kept: tuple[str, ...]
    dropped: tuple[str, ...]


def canonical_query(query: str, rule: RouteRule, rules: KeyRules) -> str:
    """The canonical form of a raw query, "" when nothing of it makes a page. Idempotent."""
    return "&".join(split_query(query, rule, rules).kept) if query else ""


def split_query(query: str, rule: RouteRule, rules: KeyRules) -> SplitQuery:
    """Split a raw query by the route's allow-list. Kept parts are sorted by name; parts of one name keep
    their order, because to many servers the first or the last of them wins."""
    kept: list[str] = []
    dropped: list[str] = []
    for part in query.split("&"):
        if not part:
            continue
        canonical = normalise_query(part)
        if rules.fold_plus:
            canonical = canonical.replace("+", "%20")
        name = unquote_to_bytes(_name(canonical)).decode(errors="surrogateescape")
        if _makes_a_page(name, rule.query_params):
            kept.append(canonical)
        else:
            dropped.append(part)
    if len(kept) > 1:
        kept.sort(key=_sort_key)
    return SplitQuery(tuple(kept), tuple(dropped))


def is_tracking(name: str) -> bool:
    """Whether a decoded parameter name is a known tracking parameter."""
    lower = name.lower()
    return lower in TRACKING_NAMES or lower.startswith(TRACKING_PREFIXES)


def _makes_a_page(name: str, allowed: tuple[str, ...]) -> bool:
    return name in allowed or (ALL in allowed and not is_tracking(name))


def _name(part: str) -> str:
    return part.partition("=")[0]


def _sort_key(part: str) -> bytes:
    # The name's bytes in one spelling: "a!" and "a%21" make different pages, but they are one parameter to a
    # server, and its values must not change places.
    return quote_from_bytes(unquote_to_bytes(_name(part).replace("+", " ")), safe=",:@").encode()
