"""The product with one site in it, and what its database says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import psycopg

from tests.product.corpus import CorpusSite
from tests.supervisor.processes import ROOT, bare_environment
from tests.supervisor.product import Product


class Fleet:
    """Commands and queries against a running product."""

    def __init__(self, product: Product, database_url: str, environment: dict[str, str]) -> None:
        self.product = product
        self.database_url = database_url
        self._environment = bare_environment(
            RENDERQUEUE_DATA_DIR=str(product.data_dir), **{"DATABASE_URL": database_url, **environment}
        )
        self.origin = ""

    def manage(self, *arguments: str) -> str:
        """Run manage.py; its output, with the error output behind it. Fails loudly."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def query(self, statement: str, *parameters: object) -> list[Any]:
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    def count(self, condition: str = "true") -> int:
        return int(self.query(f"SELECT count(*) FROM renderqueue_renderschedule WHERE {condition}")[0][0])

    def add(self, site: CorpusSite, *, cap: int = 16) -> None:
        """A site for the corpus, ingested through its sitemap index, with every page due now."""
        self.manage("add_site", "Documentation", site.origin, "--project", "docs", "--allow-private", site.host)
        self.query("UPDATE renderqueue_site SET concurrency_cap = %s", cap)
        self.manage("ingest", f"{site.origin}/sitemap.xml")

    def make_due(self) -> None:
        """By plain SQL, as an operator might: the feed carries it to the keeper."""
        self.query("UPDATE renderqueue_renderschedule SET due_at = date_trunc('minute', now())")

    def rendered(self) -> int:
        return self.count("rendered_at IS NOT NULL")


Start = Callable[..., Fleet]
