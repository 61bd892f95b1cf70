"""From a sitemap to a served copy: the whole product, a real site, a real browser."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import psutil
import pytest
from selectolax.lexbor import LexborHTMLParser

from renderqueue.supervisor.postgres import EmbeddedPostgres
from tests.conftest import free_port
from tests.product.corpus import CorpusSite, documents
from tests.product.fleet import Fleet, Start
from tests.supervisor.processes import alive, eventually
from tests.supervisor.product import Product, processes_of, remove

pytestmark = [pytest.mark.slow, pytest.mark.chromium, pytest.mark.usefixtures("chromium_path")]

SERVED = 50
A_PAGE_S = 1.5
"""What a page may take on a slow machine, all included."""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start the product on a database of the test's own; everything is ended by pid afterwards."""
    fleets: list[Fleet] = []
    server = EmbeddedPostgres(tmp_path / "pg", options={"fsync": "off"}, temporary=True)

    def starter(database_url: str = "", **environment: str) -> Fleet:
        url = database_url or server.start()
        settings = {"RENDERQUEUE_POOL_SIZE": "6", **environment}
        product = Product(tmp_path, DATABASE_URL=url, **settings)
        fleets.append(Fleet(product, url, settings))
        fleets[-1].origin = product.ready()
        return fleets[-1]

    yield starter
    for fleet in fleets:
        if fleet.product.process.poll() is None:
            fleet.product.stop()
    left = processes_of(tmp_path)
    remove(tmp_path)
    server.stop()
    assert left == []


def words(html: str) -> list[str]:
    """The text that a reader sees: scripts and styles aside."""
    tree = LexborHTMLParser(html)
    tree.strip_tags(["script", "style", "noscript", "template"])
    return tree.text(separator=" ").split()


def every_page_is_ingested_rendered_and_served(fleet: Fleet) -> None:
    with CorpusSite() as site:
        total = len(site.pages)
        fleet.add(site)
        assert fleet.count() == total
        began = time.monotonic()
        fleet.make_due()
        eventually(lambda: fleet.rendered() == total, "every page is rendered", 60 + A_PAGE_S * total)
        minutes = (time.monotonic() - began) / 60
        print(f"{total} pages rendered, {total / minutes:.0f} pages a minute")
        assert set(site.hits.values()) == {1}
    # The origin is gone now: what is served can only be the stored copy.
    with httpx.Client() as crawler:
        for number, (path, original) in enumerate(sorted(site.pages.items())):
            answer = crawler.get(f"{fleet.origin}/p/{site.origin}{path}")
            assert (answer.status_code, answer.headers["x-renderqueue"]) == (200, "fresh"), path
            if number < SERVED:
                assert words(answer.text) == words(original.decode()), path
        encoded = crawler.get(f"{fleet.origin}/p/{quote(site.origin + path, safe='')}")
        assert encoded.content == answer.content


def test_every_page_of_a_real_site_is_ingested_rendered_and_served(start: Start) -> None:
    every_page_is_ingested_rendered_and_served(start())


@pytest.mark.redis
def test_the_same_on_redis_and_postgres_over_tcp(start: Start, redis_url: str, postgres_over_tcp: str) -> None:
    every_page_is_ingested_rendered_and_served(start(postgres_over_tcp, BROKER_URL=redis_url))


@pytest.fixture
def postgres_over_tcp(tmp_path: Path) -> Iterator[str]:
    """Another server, reached by address and password, as in production."""
    from renderqueue.supervisor.postgres_files import binaries_for, layout_for

    folder = Path("/var/lib/renderqueue" if os.geteuid() == 0 else tmp_path) / f"tcp-{os.getpid()}"
    account = layout_for(tmp_path / "tcp").account
    programs = binaries_for(account)
    run_as: dict[str, Any] = {"user": account.uid, "group": account.gid} if account else {}
    folder.mkdir(parents=True, mode=0o700)
    password = folder / "password"
    password.write_text("a-password-of-this-run\n")
    if account:
        account.own(folder)
        account.own(password)
    port = free_port()
    subprocess.run(
        [programs / "initdb", "-D", folder / "data", "-U", "app", "--auth=scram-sha-256", f"--pwfile={password}"],
        **run_as, check=True, stdout=subprocess.DEVNULL, cwd="/",
    )  # fmt: skip
    server = subprocess.Popen(
        [programs / "postgres", "-D", folder / "data", "-p", str(port), "-h", "127.0.0.1", "-k", "", "-F"],
        **run_as, stderr=subprocess.DEVNULL, cwd="/",
    )  # fmt: skip
    url = f"postgresql://app:a-password-of-this-run@127.0.0.1:{port}/postgres"
    try:
        yield url
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def test_a_render_worker_killed_in_the_middle_loses_nothing_and_repeats_only_what_was_in_flight(
    start: Start,
) -> None:
    """Trap 49. SIGKILL while pages are open: each page ends rendered; those in flight may be asked for twice."""
    pages = dict(list(documents().items())[:40])
    with CorpusSite(pages, delay_s=0.3) as site:
        fleet = start(RENDERQUEUE_LEASE_S="6", RENDERQUEUE_POOL_SIZE="3")
        fleet.add(site)
        fleet.make_due()
        eventually(lambda: fleet.rendered() >= 8, "some pages are rendered", 60)
        worker = psutil.Process(fleet.product.pid_of("render"))
        below = worker.children(recursive=True)
        worker.send_signal(signal.SIGKILL)
        started = fleet.query("SELECT count(*) FROM renderqueue_lease WHERE started_at IS NOT NULL")[0][0]
        eventually(lambda: fleet.rendered() == len(pages), "every page is rendered", 120)
        eventually(lambda: fleet.query("SELECT count(*) FROM renderqueue_lease") == [(0,)], "no lease is left")
        assert not [process.pid for process in below if alive(process.pid)]
    assert set(site.hits) == set(pages)
    repeated = sum(hits - 1 for hits in site.hits.values())
    assert repeated <= started <= 3
    assert max(site.hits.values()) <= 2


def test_bad_input_is_answered_with_what_to_do(start: Start) -> None:
    fleet = start()
    with CorpusSite({"/a.html": b"<title>a</title>"}) as site:
        fleet.add(site)
        closed = f"http://127.0.0.1:{free_port()}"
        for arguments, sentence in [
            (("ingest", f"{site.origin}/a.html"), "not a sitemap"),
            (("ingest", f"{site.origin}/nothing.xml"), "404"),
            (("ingest", "https://elsewhere.test/sitemap.xml"), "elsewhere.test"),
            (("add_site", "Again", site.origin, "--project", "docs", "--allow-private", site.host), "already"),
            (("add_site", "Closed", closed, "--project", "docs"), "allow"),
        ]:
            with pytest.raises(AssertionError, match=f"(?is){re.escape(sentence)}"):
                fleet.manage(*arguments)
    answer = httpx.get(f"{fleet.origin}/p/https://unknown.test/")
    assert (answer.status_code, "unknown.test" in answer.text) == (421, True)
