"""When the product is up: the web process says so, and so does the node of this machine."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import psycopg

_NODE_PHASE = """
    SELECT report.document ->> 'phase', report.document ->> 'status'
    FROM renderqueue_node AS node LEFT JOIN renderqueue_nodereport AS report ON report.node_id = node.id
    WHERE node.name = %s AND node.started_at >= %s
    ORDER BY node.started_at DESC LIMIT 1
"""


def database_now(database_url: str) -> object:
    """The database's clock: nodes that started before it are of an earlier run."""
    with psycopg.connect(database_url, connect_timeout=5) as connection:
        row = connection.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None
    return row[0]


def web_waits_for(origin: str) -> str | None:
    """None when /readyz answers 200, else what it waits for."""
    try:
        # Always our own loopback address, never a URL that somebody gave.
        with urllib.request.urlopen(f"{origin}/readyz", timeout=5):  # noqa: S310
            return None
    except urllib.error.HTTPError as error:
        try:
            return "web: " + " ".join(json.loads(error.read())["reasons"])
        except (ValueError, KeyError, TypeError):
            return f"web: /readyz answers {error.code}"
    except OSError as error:
        return f"web: {getattr(error, 'reason', None) or error}"


def node_waits_for(database_url: str, name: str, since: object) -> str | None:
    """None when the keeper of node `name`, started at or after `since`, serves; else what it waits for."""
    try:
        with psycopg.connect(database_url, connect_timeout=5) as connection:
            row = connection.execute(_NODE_PHASE, [name, since]).fetchone()
    except psycopg.Error as error:
        return f"render: the database does not answer: {error}"
    if row is None:
        return "render: the worker has not announced its node yet"
    return None if row[0] == "serving" else f"render: the keeper is {row[0] or 'starting'}"
