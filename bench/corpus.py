"""A schedule table of N pages for benchmarks, in a database of its own, filled by SQL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

SITES = 20
CADENCE_MIX = "CASE WHEN n % 100 < 97 THEN 96 * 3600 ELSE 24 * 3600 END"
"""97% at 96 h, 3% at 24 h: the mix of the keeper's specification."""


@contextmanager
def database(name: str = "renderqueue_bench") -> Iterator[str]:
    """The URL of a fresh, migrated database beside DATABASE_URL's; dropped at the end."""
    server = os.environ["DATABASE_URL"]
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    url = urlsplit(server)._replace(path=f"/{name}").geturl()
    os.environ["DATABASE_URL"] = url
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "renderqueue.settings")
    import django

    from renderqueue.config import config

    config.cache_clear()
    django.setup()
    from django.core.management import call_command
    from django.db import connections

    call_command("migrate", verbosity=0)
    try:
        yield url
    finally:
        connections.close_all()
        for wrapper in connections.all():
            wrapper.close_pool()  # type: ignore[attr-defined]
        with psycopg.connect(server, autocommit=True) as admin:
            admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def fill(connection: psycopg.Connection[Any], rows: int, *, due_fraction: float = 0.1) -> None:
    """`rows` pages over 20 sites: `due_fraction` of them due within the last day, the rest spread over each
    page's cadence. Triggers are off: the feed is not what is filled."""
    connection.execute("SET session_replication_role = replica")
    connection.execute(
        "INSERT INTO renderqueue_project (id, name, slug, created_at) VALUES (1, 'bench', 'bench', now());"
        "INSERT INTO renderqueue_site (id, project_id, name, origin, default_interval_s, devices, concurrency_cap,"
        " paused, paused_generation, swr_ttl_s, serve_last_good, allowed_private_hosts, fold_plus,"
        " strip_trailing_slash, created_at)"
        " SELECT n, 1, 'site ' || n, 'https://site' || n || '.test', 345600, '[\"desktop\"]', 4, false, 0, 10800,"
        f" false, '[]', false, false, now() FROM generate_series(1, {SITES}) AS n;"
        "INSERT INTO renderqueue_route (id, site_id, position, match, path, mode, query_params, treat_as_submitted)"
        " SELECT n, n, 100, 'prefix', '/', 'prerender', '[]', false"
        f" FROM generate_series(1, {SITES}) AS n"
    )
    connection.execute(
        sql.SQL(
            "INSERT INTO renderqueue_renderschedule (site_id, route_id, url, key, partition, due_at,"
            " declared_interval_s, failures, retries, last_outcome, rendered_at, created_at)"
            " SELECT 1 + n % {sites}, 1 + n % {sites},"
            " 'https://site' || (1 + n % {sites}) || '.test/category/' || n % 977 || '/product-' || n || '-by-name',"
            " md5(n::text)::uuid, ('x' || substr(md5(n::text), 1, 4))::bit(16)::int % 1024,"
            " date_trunc('minute', now() + make_interval(secs => CASE WHEN random() < {due}"
            "   THEN -86400 * random() ELSE ({cadence}) * random() END)),"
            " {cadence}, 0, 0, 'rendered', now(), now() FROM generate_series(1, {rows}) AS n"
        ).format(
            sites=sql.Literal(SITES),
            due=sql.Literal(due_fraction),
            cadence=sql.SQL(CADENCE_MIX),
            rows=sql.Literal(rows),
        )
    )
    connection.execute("SET session_replication_role = DEFAULT")
    connection.execute("VACUUM (ANALYZE) renderqueue_renderschedule")
