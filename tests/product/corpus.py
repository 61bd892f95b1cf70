"""A real site on loopback: the HTML of Debian's postgresql-doc-15, with a sitemap index of three files.

Counts how often each page was asked for, and can hold every page back for a while.
"""

from __future__ import annotations

import gzip
import os
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

import pytest

from tests.conftest import missing

FOLDER = Path("/usr/share/doc/postgresql-doc-15/html")
SIZE = os.environ.get("RENDERQUEUE_TEST_PAGES", "90")
"""Pages of the corpus that are used; "all" for the whole of it, which takes minutes more."""


def documents() -> dict[str, bytes]:
    """Path -> HTML, spread over the whole corpus. The pages are ISO-8859-1 or UTF-8, as they say themselves."""
    names = sorted(path.name for path in FOLDER.glob("*.html")) if FOLDER.is_dir() else []
    if not names:
        missing("corpus", "install postgresql-doc-15")
    if SIZE != "all":
        names = names[:: max(len(names) // int(SIZE), 1)][: int(SIZE)]
    return {f"/{name}": (FOLDER / name).read_bytes() for name in names}


class CorpusSite:
    """`with CorpusSite() as site`: served at `site.origin` by threads of this process."""

    def __init__(self, pages: dict[str, bytes] | None = None, delay_s: float = 0.0) -> None:
        self.pages = documents() if pages is None else pages
        self.delay_s = delay_s
        self.hits: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def origin(self) -> str:
        return f"http://{self.host}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def answer(self, path: str) -> tuple[int, str, bytes]:
        if path in self.pages:
            with self._lock:
                self.hits[path] += 1
            time.sleep(self.delay_s)
            return 200, "text/html; charset=utf-8", self.pages[path]
        if path == "/sitemap.xml":
            entries = "".join(f"<sitemap><loc>{self.origin}/sitemap-{n}.xml.gz</loc></sitemap>" for n in range(3))
            return 200, "application/xml", _xml("sitemapindex", entries)
        if path.startswith("/sitemap-"):
            own = sorted(self.pages)[int(path[9]) :: 3]
            entries = "".join(f"<url><loc>{self.origin}{page}</loc></url>" for page in own)
            return 200, "application/gzip", gzip.compress(_xml("urlset", entries))
        asset = FOLDER / path.lstrip("/")
        if asset.is_file() and asset.suffix in (".css", ".svg", ".png"):
            return 200, "text/css" if asset.suffix == ".css" else "image/svg+xml", asset.read_bytes()
        return 404, "text/plain", b"not here"

    def _handler(site: CorpusSite) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, kind, body = site.answer(self.path)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        return Handler


def _xml(root: str, entries: str) -> bytes:
    namespace = "http://www.sitemaps.org/schemas/sitemap/0.9"
    return f'<?xml version="1.0" encoding="UTF-8"?><{root} xmlns="{namespace}">{entries}</{root}>'.encode()


@pytest.fixture
def corpus() -> CorpusSite:
    return CorpusSite()
