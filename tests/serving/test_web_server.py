"""The web server passes a crawler's URL on, byte for byte."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import httpx
import pytest
from django.db import connection

from tests.factories import make_page, make_site
from tests.serving.conftest import HTML, StoreCopy

pytestmark = pytest.mark.postgres


@pytest.fixture
def web_port(transactional_db: None) -> Iterator[int]:
    """The product's web process under granian on a free loopback port, on this test's database."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}")
    command = [sys.executable, "-m", "granian", "--interface", "asginl", "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "renderqueue.asgi:application"],
        env={**os.environ, "DATABASE_URL": urlunsplit(url), "DJANGO_SETTINGS_MODULE": "renderqueue.settings"},
    )
    try:
        # It says that it listens seconds before it does: connect until it answers.
        with httpx.Client(transport=httpx.HTTPTransport(retries=7)) as client:
            assert client.get(f"http://127.0.0.1:{port}/healthz").text == "ok\n"
        yield port
    finally:
        process.terminate()
        try:
            process.wait(20)
        finally:
            process.kill()


def ask(port: int, request_target: bytes, method: bytes = b"GET") -> tuple[bytes, bytes]:
    """Send exactly these bytes; return head and body of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(method + b" " + request_target + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.lower(), body


def test_escapes_reach_the_lookup_through_a_real_server(web_port: int, store_copy: StoreCopy) -> None:
    site = make_site(host="shop.test", devices=["desktop"])
    site.routes.update(query_params=["x"])
    store_copy(make_page(site, "/a%2Fb?x=%E4"))
    store_copy(make_page(site, "/a/b?x=%E4"), b"another page")
    store_copy(make_page(site, "/%E4//c%3Fd"), b"bytes that are no text")
    for target, body in (
        (b"/p/https://shop.test/a%2Fb?x=%E4", HTML),
        (b"/p/https://shop.test/a/b?x=%E4", b"another page"),
        (b"/p/https%3A%2F%2Fshop.test%2Fa%252Fb%3Fx%3D%25E4", HTML),
        (b"/p/https://shop.test/%e4//c%3fd", b"bytes that are no text"),
    ):
        head, got = ask(web_port, target)
        assert head.startswith(b"http/1.1 200"), (target, head)
        assert b"x-renderqueue: fresh" in head
        assert got == body, target


def test_head_through_a_real_server_tells_the_length_and_sends_no_body(web_port: int, store_copy: StoreCopy) -> None:
    store_copy(make_page(make_site(host="shop.test"), "/a"))
    head, body = ask(web_port, b"/p/https://shop.test/a", b"HEAD")
    assert head.startswith(b"http/1.1 200")
    assert b"content-length: %d" % len(HTML) in head
    assert body == b""
