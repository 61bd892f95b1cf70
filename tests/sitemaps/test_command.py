from __future__ import annotations

import os
import socket
import subprocess
import sys
from io import StringIO
from urllib.parse import urlsplit

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from renderqueue.celery import app
from renderqueue.models import SitemapRun
from renderqueue.sitemaps import runs
from tests.factories import make_site
from tests.sitemaps.conftest import Shop

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]


def ingest(*args: str) -> str:
    out = StringIO()
    call_command("ingest", *args, stdout=out)
    return out.getvalue()


def test_it_reads_the_sitemap_and_says_what_it_found(shop: Shop) -> None:
    url = shop.urlset("/s.xml", ["/a", "/b", "/a", "https://foreign.test/x"])
    said = ingest(url)
    assert "1 documents, 4 URLs, 2 new pages, 0 known" in said
    assert "1 listed more than once" in said
    assert "1 on hosts that are not the site's" in said
    assert "https://foreign.test/x" in said
    assert shop.site.pages.count() == 2


def test_a_host_of_no_site_says_how_to_add_it(db: None) -> None:
    with pytest.raises(CommandError, match=r"No site has the host shop\.test:8080\. Add it .*--site"):
        ingest("http://shop.test:8080/s.xml")


def test_site_names_the_site_when_the_sitemap_is_elsewhere(shop: Shop) -> None:
    url = shop.urlset("/s.xml", ["https://www.shop.test/a"])
    other = make_site(host="www.shop.test", name="the shop", allowed_private_hosts=["127.0.0.1"])
    ingest(url, "--site", "the shop")
    assert other.pages.count() == 1
    with pytest.raises(CommandError, match=r"no site 'nobody'. Known sites: .*the shop"):
        ingest(url, "--site", "nobody")


@pytest.mark.parametrize("url", ["shop.test/s.xml", "ftp://shop.test/s.xml", ""])
def test_what_is_no_web_address_is_said_to_be_none(db: None, url: str) -> None:
    with pytest.raises(CommandError, match=r"URL|scheme"):
        ingest(url)


def test_an_html_page_is_one_sentence(shop: Shop) -> None:
    url = shop.serve("/s.xml", "<!doctype html><p>Hello", content_type="text/html")
    with pytest.raises(CommandError, match=r"s\.xml: It answered 200 \(text/html\) with an HTML page: <!doctype html>"):
        ingest(url)


def test_a_private_origin_that_is_not_allowed_names_the_setting(shop: Shop) -> None:
    url = shop.urlset("/s.xml", ["/a"])
    shop.site.allowed_private_hosts = []
    shop.site.save()
    with pytest.raises(CommandError, match="allowed private hosts"):
        ingest(url)


def test_a_running_sitemap_is_not_read_twice(shop: Shop) -> None:
    url = shop.urlset("/s.xml", ["/a"])
    runs.take(runs.queue_run(shop.sitemap("/s.xml")).pk)
    with pytest.raises(CommandError, match="is being read since"):
        ingest(url)


def test_queue_leaves_it_to_a_worker(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[object] = []
    monkeypatch.setattr(app, "send_task", lambda name, args, **options: sent.append((name, args)))
    url = shop.urlset("/s.xml", ["/a"])
    assert "is queued" in ingest(url, "--queue")
    run = SitemapRun.objects.get()
    assert (run.state, sent) == ("queued", [("renderqueue.ingest_sitemap", [run.pk])])
    assert shop.server.log == []


def test_a_broker_that_is_away_leaves_the_run_queued(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(app, "send_task", refuse)
    assert "cannot be reached" in ingest(shop.urlset("/s.xml", ["/a"]), "--queue")
    assert SitemapRun.objects.get().state == "queued"


@pytest.mark.django_db(transaction=True)
def test_the_process_ends_with_code_1_and_one_sentence_when_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    make_site(host=f"127.0.0.1:{port}", origin=f"http://127.0.0.1:{port}", allowed_private_hosts=["127.0.0.1"])
    connection.close()
    done = subprocess.run(
        [sys.executable, "manage.py", "ingest", f"http://127.0.0.1:{port}/s.xml"],
        env={**os.environ, "DATABASE_URL": _database_url(), "DJANGO_SETTINGS_MODULE": "renderqueue.settings"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr.strip().splitlines()[-1] == (
        f"CommandError: http://127.0.0.1:{port}/s.xml: 127.0.0.1:{port} cannot be reached: the connection was refused."
    )
    assert "Traceback" not in done.stderr


def _database_url() -> str:
    """The test database's, as a child process needs it."""
    return urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
