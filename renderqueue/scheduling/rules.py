"""The settings that the order depends on, as one small snapshot: fleet policy, sites, routes (K2, D7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg


@dataclass(frozen=True, slots=True)
class RouteRules:
    """`interval_s` 0 means that the route sets none."""

    route_id: int
    site_id: int
    interval_s: int
    treat_as_submitted: bool


@dataclass(frozen=True, slots=True)
class SiteRules:
    site_id: int
    default_interval_s: int
    concurrency_cap: int
    paused: bool


@dataclass(frozen=True, slots=True)
class Rules:
    """A consistent reading of all of them; `window_s` 0 holds everything."""

    window_s: int = 0
    verify_interval_s: int = 3600
    cold_after: int = 3
    paused: bool = False
    min_share: Mapping[str, float] = field(default_factory=dict)
    routes: Mapping[int, RouteRules] = field(default_factory=dict)
    sites: Mapping[int, SiteRules] = field(default_factory=dict)


def load_rules(connection: psycopg.Connection[Any]) -> Rules:
    """Read the rules in one snapshot."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        policy = connection.execute(
            "SELECT window_s, verify_interval_s, cold_after, paused, min_share"
            " FROM renderqueue_fleetpolicy WHERE id = 1"
        ).fetchone()
        sites = connection.execute(
            "SELECT id, default_interval_s, concurrency_cap, paused FROM renderqueue_site"
        ).fetchall()
        routes = connection.execute(
            "SELECT id, site_id, COALESCE(interval_s, 0), treat_as_submitted FROM renderqueue_route"
        ).fetchall()
    route_rules = {row[0]: RouteRules(*row) for row in routes}
    site_rules = {row[0]: SiteRules(*row) for row in sites}
    if policy is None:
        return Rules(routes=route_rules, sites=site_rules)
    window_s, verify_interval_s, cold_after, paused, min_share = policy
    return Rules(
        window_s=window_s,
        verify_interval_s=verify_interval_s,
        cold_after=cold_after,
        paused=paused,
        min_share=min_share,
        routes=route_rules,
        sites=site_rules,
    )
