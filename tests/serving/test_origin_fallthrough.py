"""What has no copy to serve gets the origin's own answer, bounded, and becomes a page (F37, F38, F68, F70, F71)."""

from __future__ import annotations

import gzip
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from renderqueue.identity import page_key
from renderqueue.models import Body, RenderSchedule, Route, Site
from renderqueue.serving import origin
from tests.factories import make_page, make_site
from tests.serving.conftest import Crawl, StoreCopy

pytestmark = pytest.mark.postgres

PAGE = "<!doctype html><title>From the origin</title>"


@pytest.fixture
def httpserver() -> Iterator[HTTPServer]:
    """The origin: a server of the test's own that answers several requests at once."""
    with HTTPServer(host="127.0.0.1", threaded=True) as server:
        yield server


@pytest.fixture
def site(transactional_db: None, httpserver: HTTPServer) -> Site:
    """A site whose origin is a real server on the loopback address, allowed by its operator."""
    address = f"{httpserver.host}:{httpserver.port}"
    return make_site(host="shop.test", origin=f"http://{address}", allowed_private_hosts=[address])


def scheduled_urls() -> set[str]:
    return set(RenderSchedule.objects.values_list("url", flat=True))


def test_a_miss_is_answered_by_the_origin_and_becomes_a_page(site: Site, httpserver: HTTPServer, crawl: Crawl) -> None:
    site.routes.update(query_params=["x"])
    httpserver.expect_request("/new", query_string="utm_source=mail&x=1").respond_with_data(
        PAGE, content_type="text/html; charset=utf-8"
    )
    answer = crawl("https://shop.test/new?utm_source=mail&x=1")
    assert (answer.status_code, answer.text) == (200, PAGE)
    assert answer.headers["x-renderqueue"] == "origin"
    page = RenderSchedule.objects.get()
    assert page.url == f"{site.origin}/new?x=1"
    assert page.key == page_key(page.url)
    assert page.sitemap_id is None


def test_the_path_reaches_the_origin_with_its_escapes(site: Site, httpserver: HTTPServer, crawl: Crawl) -> None:
    seen: list[str] = []

    def note(request: Request) -> Response:
        seen.append(request.environ["REQUEST_URI"])
        return Response(PAGE, content_type="text/html")

    httpserver.expect_request(re.compile(".*")).respond_with_handler(note)
    crawl("https://shop.test/a%2Fb//c?x=%E4&y=a+b%20c")
    assert seen == ["/a%2Fb//c?x=%E4&y=a+b%20c"]


def test_a_page_that_cannot_be_scheduled_is_served_all_the_same(
    site: Site, httpserver: HTTPServer, crawl: Crawl
) -> None:
    def lose_the_route(request: Request) -> Response:
        Route.objects.all().delete()
        connection.close()
        return Response(PAGE, content_type="text/html")

    httpserver.expect_request("/a").respond_with_handler(lose_the_route)
    answer = crawl("https://shop.test/a")
    assert (answer.status_code, answer.text, answer.headers["x-renderqueue"]) == (200, PAGE, "origin")
    assert scheduled_urls() == set()


@pytest.mark.parametrize(
    ("status", "content_type", "headers", "html"),
    [
        (404, "text/html", {}, PAGE),
        (500, "text/html", {}, PAGE),
        (200, "application/json", {}, "{}"),
        (200, "text/html", {"X-Robots-Tag": "noindex"}, PAGE),
        (200, "text/html", {}, "<meta name=robots content=noindex>"),
    ],
)
def test_what_is_no_page_is_passed_on_and_not_scheduled(
    site: Site, httpserver: HTTPServer, crawl: Crawl, status: int, content_type: str, headers: dict[str, str], html: str
) -> None:
    httpserver.expect_request("/x").respond_with_data(html, status, headers, content_type)
    answer = crawl("https://shop.test/x")
    assert (answer.status_code, answer.text, answer.headers["x-renderqueue"]) == (status, html, "origin")
    assert scheduled_urls() == set()


def test_a_passthrough_route_is_the_origins_and_never_a_page(
    site: Site, httpserver: HTTPServer, crawl: Crawl, store_copy: StoreCopy
) -> None:
    store_copy(make_page(site, "/cart"))
    Route.objects.create(site=site, position=1, match="prefix", path="/cart", mode="passthrough")
    httpserver.expect_request(re.compile("/cart.*")).respond_with_data(PAGE, content_type="text/html")
    before = scheduled_urls()
    for path in ("/cart?utm_source=x", "/cart/other"):
        answer = crawl(f"https://shop.test{path}")
        assert (answer.text, answer.headers["x-renderqueue"]) == (PAGE, "origin")
    assert scheduled_urls() == before


def test_visitors_secrets_and_validators_stay_here(site: Site, httpserver: HTTPServer, crawl: Crawl) -> None:
    seen: dict[str, str] = {}

    def note(request: Request) -> Response:
        seen.update({name.lower(): value for name, value in request.headers.items()})
        return Response(
            PAGE,
            headers={
                "Set-Cookie": "session=1",
                "Server": "secret/1.0",
                "ETag": '"theirs"',
                "Cache-Control": "max-age=60",
                "Keep-Alive": "timeout=5",
                "Content-Language": "de",
            },
            content_type="text/html",
        )

    httpserver.expect_request("/a").respond_with_handler(note)
    answer = crawl(
        "https://shop.test/a",
        {
            "Cookie": "session=2",
            "Authorization": "Basic abc",
            "If-None-Match": '"ours"',
            "If-Modified-Since": "Tue, 01 Jan 2030 00:00:00 GMT",
            "X-Forwarded-Host": "evil.test",
            "User-Agent": "ExampleBot/1.0",
            "Accept-Language": "de",
        },
    )
    assert answer.status_code == 200
    assert seen["user-agent"] == "ExampleBot/1.0"
    assert seen["accept-language"] == "de"
    assert seen["x-renderqueue-fetch"] == "1"
    assert seen["host"] == site.origin.removeprefix("http://")
    assert not {"cookie", "authorization", "if-none-match", "if-modified-since", "x-forwarded-host"} & set(seen)
    assert answer.headers["cache-control"] == "max-age=60"
    assert answer.headers["content-language"] == "de"
    assert not {"set-cookie", "etag", "keep-alive"} & set(answer.headers)
    assert answer.headers.get("server") != "secret/1.0"


def test_an_origins_redirect_is_passed_on_absolute_and_not_followed(
    site: Site, httpserver: HTTPServer, crawl: Crawl
) -> None:
    httpserver.expect_request("/x/a").respond_with_data("", 302, {"Location": "../b/?q=%2F"})
    answer = crawl("https://shop.test/x/a")
    assert (answer.status_code, answer.headers["location"]) == (302, f"{site.origin}/b/?q=%2F")


def test_a_compressed_origin_answer_is_passed_on_decoded(site: Site, httpserver: HTTPServer, crawl: Crawl) -> None:
    httpserver.expect_request("/a").respond_with_data(
        gzip.compress(PAGE.encode()), headers={"Content-Encoding": "gzip"}, content_type="text/html"
    )
    answer = crawl("https://shop.test/a", {"Accept-Encoding": "gzip"})
    assert answer.content == PAGE.encode()
    assert "content-encoding" not in answer.headers
    assert answer.headers["content-length"] == str(len(PAGE))


def test_head_of_a_miss_asks_for_the_head_and_queues_the_page(site: Site, httpserver: HTTPServer, crawl: Crawl) -> None:
    httpserver.expect_request("/a").respond_with_data(PAGE, content_type="text/html")
    answer = crawl("https://shop.test/a", method="HEAD")
    assert (answer.status_code, answer.content, answer.headers["x-renderqueue"]) == (200, b"", "origin")
    assert [request.method for request, _ in httpserver.log] == ["HEAD"]
    assert scheduled_urls() == {f"{site.origin}/a"}


@pytest.mark.parametrize("damage", ["no body", "broken gzip"])
def test_a_copy_whose_body_is_missing_gets_the_next_rung(
    site: Site, httpserver: HTTPServer, crawl: Crawl, store_copy: StoreCopy, damage: str
) -> None:
    copy = store_copy(make_page(site, "/a"), None if damage == "no body" else b"whole")
    Body.objects.update(gzip=b"\x1f\x8b broken")
    httpserver.expect_request("/a").respond_with_data(PAGE, content_type="text/html")
    answer = crawl("https://shop.test/a")
    assert (answer.status_code, answer.text, answer.headers["x-renderqueue"]) == (200, PAGE, "origin")
    assert copy.status == 200


def test_an_expired_copy_does_not_answer_old_validators(
    site: Site, httpserver: HTTPServer, crawl: Crawl, store_copy: StoreCopy
) -> None:
    page = make_page(site, "/a")
    store_copy(page)
    etag = crawl("https://shop.test/a").headers["etag"]
    page.copies.update(expires_at="2020-01-01T00:00:00Z")
    httpserver.expect_request("/a").respond_with_data(PAGE, content_type="text/html")
    answer = crawl("https://shop.test/a", {"If-None-Match": etag})
    assert (answer.status_code, answer.text) == (200, PAGE)


def test_a_dead_origin_is_503_with_a_time_to_come_back(site: Site, crawl: Crawl, httpserver: HTTPServer) -> None:
    httpserver.stop()
    answer = crawl("https://shop.test/a")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "120")
    assert answer.headers["x-renderqueue"] == "unavailable"
    assert f"The origin of {site.name} gave no usable answer" in answer.text


def test_a_private_origin_that_nobody_allowed_is_refused(site: Site, httpserver: HTTPServer, crawl: Crawl) -> None:
    Site.objects.update(allowed_private_hosts=[])
    httpserver.expect_request("/a").respond_with_data(PAGE)
    answer = crawl("https://shop.test/a")
    assert (answer.status_code, answer.headers["x-renderqueue"]) == (503, "unavailable")
    assert httpserver.log == []


def test_an_answer_over_the_byte_limit_is_503(
    site: Site, httpserver: HTTPServer, crawl: Crawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(origin, "MAX_BODY_BYTES", 1000)
    httpserver.expect_request("/a").respond_with_data("x" * 1001, content_type="text/html")
    assert crawl("https://shop.test/a").status_code == 503
    assert scheduled_urls() == set()


@pytest.fixture
def held_origin(site: Site, httpserver: HTTPServer) -> Iterator[tuple[threading.Semaphore, threading.Event]]:
    """An origin that announces each request at /slow and answers none before it is let go."""
    arrived, release = threading.Semaphore(0), threading.Event()

    def hold(request: Request) -> Response:
        arrived.release()
        release.wait(30)
        return Response(PAGE, content_type="text/plain")

    httpserver.expect_request("/slow").respond_with_handler(hold)
    yield arrived, release
    release.set()


def connections_in_use() -> int:
    """Of the process's pool, this test's own included."""
    stats: dict[str, int] = connection.pool.get_stats()  # type: ignore[attr-defined]
    return stats["pool_size"] - stats["pool_available"]


def test_a_slow_origin_is_asked_a_bounded_number_of_times_and_the_rest_is_told_to_wait(
    site: Site, crawl: Crawl, held_origin: tuple[threading.Semaphore, threading.Event]
) -> None:
    arrived, release = held_origin
    with ThreadPoolExecutor(origin.FETCHES_PER_SITE) as pool:
        waiting = [pool.submit(crawl, "https://shop.test/slow") for _ in range(origin.FETCHES_PER_SITE)]
        for _ in waiting:
            assert arrived.acquire(timeout=20)
        held = connections_in_use()
        refused = crawl("https://shop.test/slow")
        release.set()
        answers = [request.result(timeout=20) for request in waiting]
    assert held <= 1, "a request that waits for an origin holds a database connection"
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "10")
    assert refused.headers["x-renderqueue"] == "unavailable"
    assert {answer.status_code for answer in answers} == {200}
    assert crawl("https://shop.test/slow").status_code == 200


def test_a_silent_origin_is_given_up(
    site: Site,
    crawl: Crawl,
    held_origin: tuple[threading.Semaphore, threading.Event],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(origin, "TIMEOUT_S", 0.3)
    answer = crawl("https://shop.test/slow")
    assert (answer.status_code, answer.headers["x-renderqueue"]) == (503, "unavailable")
