"""A site whose sitemaps a real HTTP server on loopback answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from pytest_httpserver import HTTPServer

from renderqueue.models import Site, Sitemap, SitemapRun
from renderqueue.sitemaps import runs
from renderqueue.sitemaps.ingest import execute
from renderqueue.sitemaps.tally import Tally
from tests.factories import make_site

XML = "application/xml"


class Shop:
    """The server's side of a site: what its sitemaps list, and a way to read them."""

    def __init__(self, server: HTTPServer, site: Site) -> None:
        self.server = server
        self.site = site

    def url(self, path: str) -> str:
        return f"{self.site.origin}{path}"

    def serve(self, path: str, body: str | bytes, status: int = 200, content_type: str = XML) -> str:
        """Answer a path from now on; returns its URL."""
        for handler in [handler for handler in self.server.handlers if handler.matcher.uri == path]:
            self.server.handlers.remove(handler)
        self.server.expect_request(path).respond_with_data(body, status=status, content_type=content_type)
        return self.url(path)

    def urlset(self, path: str, urls: Iterable[str], extra: str = "") -> str:
        entries = "".join(f"<url><loc>{self._absolute(url)}</loc>{extra}</url>" for url in urls)
        return self.serve(path, f"<urlset>{entries}</urlset>")

    def index(self, path: str, children: Iterable[str]) -> str:
        entries = "".join(f"<sitemap><loc>{self._absolute(child)}</loc></sitemap>" for child in children)
        return self.serve(path, f"<sitemapindex>{entries}</sitemapindex>")

    def sitemap(self, path: str) -> Sitemap:
        return Sitemap.objects.get_or_create(site=self.site, url=self.url(path))[0]

    def ingest(self, path: str, **options: object) -> Tally:
        """One whole run; IngestFailed comes through."""
        running = runs.take(runs.queue_run(self.sitemap(path)).pk)
        assert running is not None
        return execute(running, **options)  # type: ignore[arg-type]

    def last_run(self) -> SitemapRun:
        run = SitemapRun.objects.first()
        assert run is not None
        return run

    def _absolute(self, url: str) -> str:
        return self.url(url) if url.startswith("/") else url


@pytest.fixture
def shop(db: None, httpserver: HTTPServer) -> Shop:
    host = f"127.0.0.1:{httpserver.port}"
    return Shop(httpserver, make_site(host=host, origin=f"http://{host}", allowed_private_hosts=[host]))


@pytest.fixture
def make_shop(httpserver: HTTPServer) -> Callable[..., Shop]:
    """For tests that bring their own database fixture or site settings."""

    def make(**fields: object) -> Shop:
        host = f"127.0.0.1:{httpserver.port}"
        return Shop(httpserver, make_site(host=host, origin=f"http://{host}", **fields))

    return make
