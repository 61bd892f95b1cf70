"""One browser host for all tests of a process; each test has the origin's routes to itself."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest
from pytest_httpserver import HTTPServer

from renderqueue.egress.policy import EgressPolicy
from renderqueue.rendering.browser import BrowserHost
from renderqueue.rendering.job import DeviceRender, RenderJob


@pytest.fixture(scope="session")
def browser_host(chromium_path: str) -> Iterator[BrowserHost]:
    host = BrowserHost(Path(chromium_path))
    yield host
    host.close()


@pytest.fixture(scope="session")
def _server() -> Iterator[HTTPServer]:
    server = HTTPServer(host="127.0.0.1", threaded=True)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def origin(_server: HTTPServer) -> Iterator[HTTPServer]:
    _server.clear()
    yield _server
    _server.clear()


class Pages(Protocol):
    def __call__(self, path: str, html: str, **response: object) -> None: ...


@pytest.fixture
def serve(origin: HTTPServer) -> Pages:
    """Make the origin answer a path with HTML."""

    def answer(path: str, html: str, **response: object) -> None:
        options: dict[str, object] = {"content_type": "text/html; charset=utf-8", **response}
        origin.expect_request(path).respond_with_data(html, **options)  # type: ignore[arg-type]

    return answer


class Render(Protocol):
    def __call__(self, path: str, *, timeout_s: float = ..., device: str = ..., allow: str = ...) -> DeviceRender: ...


@pytest.fixture
def render(browser_host: BrowserHost, origin: HTTPServer) -> Render:
    """Render one path of the origin on one device."""

    def once(path: str, *, timeout_s: float = 10.0, device: str = "desktop", allow: str = "") -> DeviceRender:
        job = job_for(origin, path, timeout_s=timeout_s, devices=(device,), allow=allow)
        return browser_host.render(job).renders[0]

    return once


def job_for(
    origin: HTTPServer,
    path: str,
    *,
    timeout_s: float = 10.0,
    devices: tuple[str, ...] = ("desktop",),
    allow: str = "",
) -> RenderJob:
    url = path if "://" in path else origin.url_for(path)
    allowed = frozenset({f"{origin.host}:{origin.port}", *allow.split()})
    return RenderJob(uuid.uuid4(), url, devices, EgressPolicy(allowed), timeout_s)


def text_of(render: DeviceRender) -> str:
    assert render.html is not None, render
    return render.html.decode()


@pytest.fixture
def unused_port() -> Iterator[int]:
    """A loopback port that is taken and refuses connections."""
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]
