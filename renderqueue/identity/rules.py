"""What a site's owner decides about identity: routes, their query parameters, two switches of the site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from renderqueue.identity.escapes import normalise_path

DEVICES = ("desktop", "mobile")


@dataclass(frozen=True, slots=True)
class RouteRule:
    """Which paths a route matches, and which query parameters make another page of them.

    `query_params` are decoded names; "*" keeps all but known tracking parameters, and those that are named
    beside it stay too. () keeps none."""

    match: Literal["exact", "prefix", "contains"]
    path: str
    mode: Literal["prerender", "passthrough"] = "prerender"
    query_params: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyRules:
    """Spellings that this site treats as one page though RFC 3986 does not."""

    fold_plus: bool = False
    strip_trailing_slash: bool = False


STRICT = KeyRules()


def match_route(path: str, rules: Sequence[tuple[int, RouteRule]], key_rules: KeyRules = STRICT) -> int | None:
    """The id of the first rule, in order, that matches a path as `ParsedUrl.path` gives it, or None.

    Rules may be written with any escapes. On a site that strips trailing slashes, a rule that ends in "/"
    matches with and without it, so that both spellings find the same route."""
    with_slash = path if path.endswith("/") else f"{path}/"
    stripped = strip_slash(path) if key_rules.strip_trailing_slash else path
    for route_id, rule in rules:
        wanted = _normalised(rule.path)
        candidate = with_slash if key_rules.strip_trailing_slash and wanted.endswith("/") else stripped
        if _matches(rule.match, candidate, wanted):
            return route_id
    return None


def strip_slash(path: str) -> str:
    """Without one trailing slash. Empty segments are part of a path, so "/" and "/a//" stay as they are."""
    return path[:-1] if len(path) > 1 and path.endswith("/") and not path.endswith("//") else path


def _matches(match: str, path: str, wanted: str) -> bool:
    if match == "exact":
        return path == wanted
    return path.startswith(wanted) if match == "prefix" else wanted in path


_normalised = lru_cache(maxsize=4096)(normalise_path)
