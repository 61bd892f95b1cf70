"""httpx through the guard, against real servers on loopback."""

from __future__ import annotations

import asyncio
import gzip
import io
import socket
import threading
import zlib
from collections.abc import Iterator

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from renderqueue.egress.client import FetchFailed, Problem, download_blocking, fetch, fetch_blocking
from renderqueue.egress.policy import EgressPolicy
from tests.egress.conftest import resolver


@pytest.fixture
def allowing(httpserver: HTTPServer) -> EgressPolicy:
    return EgressPolicy(frozenset({f"127.0.0.1:{httpserver.port}", f"localhost:{httpserver.port}"}))


def failure(url: str, policy: EgressPolicy, **options: object) -> FetchFailed:
    values: dict[str, object] = {"max_bytes": 1000, "timeout_s": 5.0, **options}
    with pytest.raises(FetchFailed) as caught:
        fetch_blocking(url, policy, **values)  # type: ignore[arg-type]
    return caught.value


def test_an_answer_has_status_headers_body_and_where_it_came_from(
    httpserver: HTTPServer, allowing: EgressPolicy
) -> None:
    httpserver.expect_request("/gone").respond_with_data("no", status=410, headers={"X-Says": "so"})
    fetched = fetch_blocking(httpserver.url_for("/gone"), allowing, max_bytes=1000, timeout_s=5)
    assert (fetched.status, fetched.body, fetched.headers["x-says"]) == (410, b"no", "so")
    assert fetched.url == httpserver.url_for("/gone")


def test_the_name_reaches_the_guard_which_looks_it_up_once_per_connection(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/").respond_with_data("ok")
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    policy = EgressPolicy(frozenset({"only-here.test"}))
    url = f"http://only-here.test:{httpserver.port}/"
    fetched = asyncio.run(fetch(url, policy, max_bytes=1000, timeout_s=5, resolve=resolve))
    assert fetched.body == b"ok"
    assert asked == ["only-here.test"]


def test_a_rebound_name_is_refused_with_a_sentence(httpserver: HTTPServer) -> None:
    url = f"http://rebound.test:{httpserver.port}/"
    with pytest.raises(
        FetchFailed, match=r"rebound\.test:\d+ may not be reached: 127\.0\.0\.1 is a loopback"
    ) as caught:
        asyncio.run(fetch(url, EgressPolicy(), max_bytes=1000, timeout_s=5, resolve=resolver(["127.0.0.1"])))
    assert caught.value.problem is Problem.REFUSED
    assert httpserver.log == []


def test_the_environment_does_not_lead_around_the_guard(
    httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert failure(httpserver.url_for("/"), EgressPolicy()).problem is Problem.REFUSED


def test_redirects_are_followed_hop_by_hop_through_the_same_policy(
    httpserver: HTTPServer, allowing: EgressPolicy
) -> None:
    httpserver.expect_request("/a").respond_with_data(status=302, headers={"Location": "/b?x=1#part"})
    httpserver.expect_request("/b").respond_with_data("there")
    fetched = fetch_blocking(httpserver.url_for("/a"), allowing, max_bytes=1000, timeout_s=5)
    assert (fetched.body, fetched.url) == (b"there", httpserver.url_for("/b?x=1"))


@pytest.mark.parametrize(
    "location",
    ["http://169.254.169.254/latest/meta-data/", "http://[::1]:1/", "http://2130706433:1/"],
)
def test_a_redirect_to_a_private_address_is_refused(
    httpserver: HTTPServer, allowing: EgressPolicy, location: str
) -> None:
    httpserver.expect_request("/a").respond_with_data(status=307, headers={"Location": location})
    caught = failure(httpserver.url_for("/a"), allowing)
    assert caught.problem is Problem.REFUSED
    assert caught.url == location


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "http://user:pass@example.com/", "gopher://x/", "http://0177.0.0.1/"]
)
def test_a_redirect_to_something_else_than_a_plain_web_address_is_an_error(
    httpserver: HTTPServer, allowing: EgressPolicy, location: str
) -> None:
    httpserver.expect_request("/a").respond_with_data(status=302, headers={"Location": location})
    assert failure(httpserver.url_for("/a"), allowing).problem is Problem.BAD_URL


def test_with_no_redirects_allowed_the_redirect_is_the_answer(httpserver: HTTPServer, allowing: EgressPolicy) -> None:
    httpserver.expect_request("/a").respond_with_data(status=301, headers={"Location": "/b"})
    fetched = fetch_blocking(
        httpserver.url_for("/a"), allowing, max_bytes=1000, timeout_s=5, follow_same_policy_redirects=0
    )
    assert (fetched.status, fetched.headers["location"]) == (301, "/b")


def test_endless_redirects_end(httpserver: HTTPServer, allowing: EgressPolicy) -> None:
    httpserver.expect_request("/a").respond_with_data(status=302, headers={"Location": "/a"})
    caught = failure(httpserver.url_for("/a"), allowing, follow_same_policy_redirects=3)
    assert caught.problem is Problem.TOO_MANY_REDIRECTS
    assert len(httpserver.log) == 4


def test_credentials_are_not_sent_on_to_another_origin(httpserver: HTTPServer, allowing: EgressPolicy) -> None:
    seen: list[tuple[str, str | None]] = []

    def answer(request: Request) -> Response:
        seen.append((request.path, request.headers.get("Authorization")))
        other = f"http://127.0.0.1:{httpserver.port}/c"
        return Response(status=302, headers={"Location": {"/a": "/b", "/b": other}.get(request.path, "")})

    for path in ("/a", "/b"):
        httpserver.expect_request(path).respond_with_handler(answer)
    httpserver.expect_request("/c").respond_with_handler(lambda request: answer(request) and Response("end"))
    fetch_blocking(
        httpserver.url_for("/a"), allowing, max_bytes=1000, timeout_s=5, headers={"Authorization": "Bearer secret"}
    )
    assert seen == [("/a", "Bearer secret"), ("/b", "Bearer secret"), ("/c", None)]


def test_a_body_over_the_limit_is_refused_while_it_arrives(httpserver: HTTPServer, allowing: EgressPolicy) -> None:
    httpserver.expect_request("/").respond_with_data(b"x" * 1001)
    assert failure(httpserver.url_for("/"), allowing).problem is Problem.TOO_LARGE


def test_a_gzip_bomb_is_stopped_at_the_limit(httpserver: HTTPServer, allowing: EgressPolicy) -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    assert len(bomb) < 60_000
    httpserver.expect_request("/").respond_with_data(bomb, headers={"Content-Encoding": "gzip"})
    file = io.BytesIO()
    with pytest.raises(FetchFailed) as caught:
        download_blocking(httpserver.url_for("/"), allowing, file, max_bytes=100_000, timeout_s=5)
    assert caught.value.problem is Problem.TOO_LARGE
    assert file.tell() <= 100_000


@pytest.mark.parametrize(
    ("body", "content_encoding", "wanted"),
    [
        (gzip.compress(b"hello", mtime=0), "gzip", b"hello"),
        (gzip.compress(b"hel", mtime=0) + gzip.compress(b"lo", mtime=0) + b"\0\0", "x-gzip", b"hello"),
        (b"hello", "gzip", b"hello"),
        (b"", "gzip", b""),
        (b"1", "gzip", b"1"),
        (b"hello", "identity", b"hello"),
    ],
)
def test_gzip_is_decoded_and_a_false_label_forgiven(
    httpserver: HTTPServer, allowing: EgressPolicy, body: bytes, content_encoding: str, wanted: bytes
) -> None:
    httpserver.expect_request("/").respond_with_data(body, headers={"Content-Encoding": content_encoding})
    fetched = fetch_blocking(httpserver.url_for("/"), allowing, max_bytes=1000, timeout_s=5)
    assert fetched.body == wanted
    assert "content-encoding" not in fetched.headers


@pytest.mark.parametrize(
    ("body", "content_encoding"),
    [
        (gzip.compress(b"hello" * 100, mtime=0)[:-9], "gzip"),
        (gzip.compress(b"hello", mtime=0)[:12] + b"junk" * 9, "gzip"),
        (zlib.compress(b"hello"), "br"),
    ],
)
def test_a_body_that_cannot_be_decoded_is_broken(
    httpserver: HTTPServer, allowing: EgressPolicy, body: bytes, content_encoding: str
) -> None:
    httpserver.expect_request("/").respond_with_data(body, headers={"Content-Encoding": content_encoding})
    assert failure(httpserver.url_for("/"), allowing).problem is Problem.BROKEN


@pytest.fixture
def raw_server() -> Iterator[tuple[int, list[bytes]]]:
    """Answers every connection with the bytes in the list, then keeps it open unless they end in b"close"."""
    answers: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))
    kept: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            kept.append(connection)
            connection.recv(65536)
            for answer in answers:
                if answer == b"close":
                    connection.close()
                    break
                connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1], answers
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    for connection in kept:
        connection.close()
    thread.join(5)


def test_a_body_shorter_than_announced_is_broken(raw_server: tuple[int, list[bytes]]) -> None:
    port, answers = raw_server
    answers += [b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nhalf", b"close"]
    caught = failure(f"http://127.0.0.1:{port}/", EgressPolicy(frozenset({"127.0.0.1"})))
    assert caught.problem is Problem.BROKEN


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nhalf"])
def test_the_whole_fetch_has_one_deadline(raw_server: tuple[int, list[bytes]], sent: bytes) -> None:
    port, answers = raw_server
    answers += [sent] if sent else []
    caught = failure(f"http://127.0.0.1:{port}/", EgressPolicy(frozenset({"127.0.0.1"})), timeout_s=0.3)
    assert caught.problem is Problem.TIMEOUT


def test_a_host_that_does_not_listen_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    caught = failure(f"http://127.0.0.1:{port}/", EgressPolicy(frozenset({"127.0.0.1"})))
    assert caught.problem is Problem.UNREACHABLE
    assert "the connection was refused" in str(caught)


@pytest.mark.parametrize("url", ["", "no url", "ftp://example.com/", "http://", "http://u:p@example.com/"])
def test_what_is_no_web_address_is_said_to_be_none(url: str) -> None:
    assert failure(url, EgressPolicy()).problem is Problem.BAD_URL
