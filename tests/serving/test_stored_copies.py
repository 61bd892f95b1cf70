"""A crawler gets the stored copy, and the header names the rung."""

from __future__ import annotations

import gzip
from email.utils import parsedate_to_datetime

import brotli
import pytest
from django.db import connection
from pytest_django import DjangoAssertNumQueries

from renderqueue.identity import parse_url
from renderqueue.models import Site, SiteHost
from renderqueue.serving.lookup import find
from tests.factories import make_page, make_site
from tests.serving.conftest import HTML, Crawl, StoreCopy

pytestmark = pytest.mark.postgres


@pytest.fixture
def shop(transactional_db: None) -> Site:
    return make_site(host="shop.test", devices=["desktop"])


def test_a_fresh_copy_is_served_with_its_headers(shop: Site, crawl: Crawl, store_copy: StoreCopy) -> None:
    copy = store_copy(
        make_page(shop, "/a"),
        headers={
            "content-type": "text/html; charset=iso-8859-1",
            "Link": "</a>; rel=canonical",
            "X-Robots-Tag": "nofollow",
            "Set-Cookie": "secret=1",
            "Transfer-Encoding": "chunked",
            "Content-Encoding": "zstd",
            "Content-Length": "1",
        },
    )
    answer = crawl("https://shop.test/a")
    assert answer.status_code == 200
    assert answer.content == HTML
    assert answer.headers["x-renderqueue"] == "fresh"
    assert answer.headers["content-type"] == "text/html; charset=iso-8859-1"
    assert answer.headers["link"] == "</a>; rel=canonical"
    assert answer.headers["x-robots-tag"] == "nofollow"
    assert answer.headers["content-length"] == str(len(HTML))
    assert answer.headers["cache-control"] == "no-cache"
    assert 600 <= int(answer.headers["age"]) < 660
    assert parsedate_to_datetime(answer.headers["last-modified"]) == copy.changed_at.replace(microsecond=0)
    assert not {"set-cookie", "transfer-encoding", "content-encoding"} & set(answer.headers)


def test_the_console_s_own_headers_stay_off_the_page(shop: Site, crawl: Crawl, store_copy: StoreCopy) -> None:
    store_copy(make_page(shop, "/a"))
    answer = crawl("https://shop.test/a", {"Host": "crawlers.test"})
    assert not {"content-security-policy", "x-frame-options"} & set(answer.headers)


@pytest.mark.parametrize("headers", [{"Host": "localhost:8000"}, {"Host": "crawlers.test", "Cookie": "sessionid=x"}])
def test_under_a_host_of_the_console_and_to_who_is_signed_in_pages_come_on_a_null_origin(
    shop: Site, crawl: Crawl, store_copy: StoreCopy, headers: dict[str, str]
) -> None:
    """Stored HTML is hostile (D18): it must not read what a person types into the console."""
    store_copy(make_page(shop, "/a"))
    assert crawl("https://shop.test/a", headers).headers["content-security-policy"] == "sandbox"


@pytest.mark.parametrize(
    ("expired_s", "last_good", "rung"),
    [(-60, False, "fresh"), (60, False, "stale"), (4 * 3600, True, "last-good")],
)
def test_the_header_names_the_rung(
    transactional_db: None, crawl: Crawl, store_copy: StoreCopy, expired_s: int, last_good: bool, rung: str
) -> None:
    site = make_site(host="shop.test", serve_last_good=last_good)
    store_copy(make_page(site, "/a"), age_s=90_000, expires_in_s=-expired_s)
    answer = crawl("https://shop.test/a")
    assert (answer.status_code, answer.headers["x-renderqueue"]) == (200, rung)


@pytest.mark.parametrize(("accepted", "encoding"), [("gzip, br", "br"), ("gzip", "gzip"), ("", None), ("br;q=0", None)])
def test_the_stored_form_that_the_client_takes(
    shop: Site, crawl: Crawl, store_copy: StoreCopy, accepted: str, encoding: str | None
) -> None:
    store_copy(make_page(shop, "/a"))
    answer = crawl("https://shop.test/a", {"Accept-Encoding": accepted})
    decode = {"br": brotli.decompress, "gzip": gzip.decompress, None: bytes}[encoding]
    assert answer.headers.get("content-encoding") == encoding
    assert decode(answer.content) == HTML
    assert answer.headers["content-length"] == str(len(answer.content))
    assert answer.headers["vary"] == "Accept-Encoding"


@pytest.mark.parametrize("accepted", ["br", "gzip", ""])
def test_head_gives_the_headers_of_get_and_no_body(
    shop: Site, crawl: Crawl, store_copy: StoreCopy, accepted: str
) -> None:
    store_copy(make_page(shop, "/a"))
    headers = {"Accept-Encoding": accepted}
    got, asked = crawl("https://shop.test/a", headers), crawl("https://shop.test/a", headers, method="HEAD")
    assert asked.content == b""
    assert asked.status_code == 200
    names = ("content-length", "content-type", "content-encoding", "etag", "vary", "x-renderqueue", "last-modified")
    assert [asked.headers.get(name) for name in names] == [got.headers.get(name) for name in names]


def test_each_device_gets_its_own_copy(transactional_db: None, crawl: Crawl, store_copy: StoreCopy) -> None:
    page = make_page(make_site(host="shop.test", devices=["desktop", "mobile"]), "/a")
    store_copy(page, b"wide", device="desktop")
    store_copy(page, b"narrow", device="mobile")
    assert crawl("https://shop.test/a").content == b"wide"
    phone = crawl("https://shop.test/a", {"User-Agent": "Android Mobile"})
    assert phone.content == b"narrow"
    assert crawl("https://shop.test/a", {"X-Renderqueue-Device": "mobile"}).content == b"narrow"
    assert phone.headers["vary"] == "Accept-Encoding, X-Renderqueue-Device, User-Agent"


def test_all_spellings_and_hosts_of_a_page_find_its_copy(shop: Site, crawl: Crawl, store_copy: StoreCopy) -> None:
    SiteHost.objects.create(site=shop, host="www.shop.test:8443")
    shop.routes.update(query_params=["x", "y"])
    store_copy(make_page(shop, "/a%2Fb?x=%E4&y=1"))
    for url in (
        "https://shop.test/a%2Fb?x=%E4&y=1",
        "https://shop.test/a%2fb?y=1&x=%e4&utm_source=mail",
        "http://SHOP.test:80/c/../a%2Fb?x=%E4&y=1",
        "https://www.shop.test:8443/a%2Fb?x=%E4&y=1",
        "https%3A%2F%2Fshop.test%2Fa%252Fb%3Fx%3D%25E4%26y%3D1",
    ):
        assert crawl(url).headers.get("x-renderqueue") == "fresh", url


@pytest.mark.parametrize(
    ("status", "location", "absolute"),
    [
        (301, "../b/?q=%2F#top", "https://shop.test/b/?q=%2F#top"),
        (302, "//other.test/o'neil", "https://other.test/o'neil"),
        (308, "https://shop.test/c", "https://shop.test/c"),
    ],
)
def test_a_stored_redirect_answers_with_an_absolute_location(
    shop: Site, crawl: Crawl, store_copy: StoreCopy, status: int, location: str, absolute: str
) -> None:
    store_copy(make_page(shop, "/x/a"), None, status=status, headers={"location": location})
    answer = crawl("https://shop.test/x/a")
    assert (answer.status_code, answer.headers["location"]) == (status, absolute)
    assert (answer.content, answer.headers["content-length"]) == (b"", "0")
    assert answer.headers["x-renderqueue"] == "fresh"


def test_a_stored_error_page_keeps_its_status(shop: Site, crawl: Crawl, store_copy: StoreCopy) -> None:
    store_copy(make_page(shop, "/gone"), b"<h1>Not here</h1>", status=404)
    answer = crawl("https://shop.test/gone")
    assert (answer.status_code, answer.content) == (404, b"<h1>Not here</h1>")


def test_validators_of_the_served_copy_answer_304(shop: Site, crawl: Crawl, store_copy: StoreCopy) -> None:
    store_copy(make_page(shop, "/a"))
    first = crawl("https://shop.test/a", {"Accept-Encoding": "br"})
    etag, modified = first.headers["etag"], first.headers["last-modified"]
    assert not etag.startswith("W/")
    for method, headers in (
        ("GET", {"Accept-Encoding": "br", "If-None-Match": etag}),
        ("HEAD", {"Accept-Encoding": "br", "If-None-Match": f'"other", {etag}'}),
        ("GET", {"If-Modified-Since": modified}),
    ):
        answer = crawl("https://shop.test/a", headers, method=method)
        assert (answer.status_code, answer.content) == (304, b"")
        assert answer.headers["x-renderqueue"] == "fresh"
        assert answer.headers["vary"] == "Accept-Encoding"
        assert not {"content-encoding", "content-length"} & set(answer.headers)


def test_each_encoding_is_another_representation(shop: Site, crawl: Crawl, store_copy: StoreCopy) -> None:
    store_copy(make_page(shop, "/a"))
    etags = {crawl("https://shop.test/a", {"Accept-Encoding": one}).headers["etag"] for one in ("br", "gzip", "")}
    assert len(etags) == 3
    answer = crawl("https://shop.test/a", {"Accept-Encoding": "gzip", "If-None-Match": sorted(etags)[0]})
    assert answer.status_code == 200


def test_an_old_validator_gets_the_new_body(shop: Site, crawl: Crawl, store_copy: StoreCopy) -> None:
    page = make_page(shop, "/a")
    store_copy(page, age_s=60)
    old = crawl("https://shop.test/a").headers
    page.copies.all().delete()
    store_copy(page, b"newer", age_s=0)
    answer = crawl("https://shop.test/a", {"If-None-Match": old["etag"], "If-Modified-Since": old["last-modified"]})
    assert (answer.status_code, answer.content) == (200, b"newer")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_other_methods_are_refused(shop: Site, crawl: Crawl, method: str) -> None:
    answer = crawl("https://shop.test/a", method=method)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("", "Put the page's absolute URL after /p/"),
        ("shop.test/a", "Put the page's absolute URL after /p/"),
        ("https://user:secret@shop.test/", "user name or password"),
        ("https://shop.test:99999/", "check its host and port"),
        ("https://shop.test/" + "a" * 2050, "the limit is 2048"),
    ],
)
def test_a_malformed_url_is_refused_with_a_sentence(shop: Site, crawl: Crawl, url: str, sentence: str) -> None:
    answer = crawl(url)
    assert answer.status_code == 400
    assert sentence in answer.text
    assert "secret" not in answer.text


def test_an_unknown_host_is_named_with_what_to_do(shop: Site, crawl: Crawl) -> None:
    answer = crawl("https://www.shop.test/a")
    assert answer.status_code == 421
    assert "The host www.shop.test is not configured here; add it to the hosts of the site" in answer.text


def test_our_own_fetch_that_comes_back_is_recognised(shop: Site, crawl: Crawl, store_copy: StoreCopy) -> None:
    store_copy(make_page(shop, "/a"))
    assert crawl("https://shop.test/a", {"X-Renderqueue-Fetch": "1"}).status_code == 508


def test_a_hit_costs_three_queries(
    shop: Site, store_copy: StoreCopy, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    store_copy(make_page(shop, "/a"))
    with django_assert_num_queries(3, connection=connection):
        found = find(parse_url("https://shop.test/a"), {}, "br", with_body=True)
    assert found is not None
    assert found.copy is not None
    assert found.copy.body is not None


def test_a_whole_request_asks_the_database_nothing_else(
    shop: Site, crawl: Crawl, store_copy: StoreCopy, queries_of_requests: list[str]
) -> None:
    store_copy(make_page(shop, "/a"))
    queries_of_requests.clear()
    assert crawl("https://shop.test/a").headers["x-renderqueue"] == "fresh"
    assert len(queries_of_requests) == 3, queries_of_requests


def test_only_the_wanted_form_of_the_body_is_read(
    shop: Site, crawl: Crawl, store_copy: StoreCopy, queries_of_requests: list[str]
) -> None:
    store_copy(make_page(shop, "/a"))
    queries_of_requests.clear()
    crawl("https://shop.test/a", {"Accept-Encoding": "br"}, method="HEAD")
    assert not any("body.gzip" in query for query in queries_of_requests)
    assert any("length(body.br), NULL" in query for query in queries_of_requests)
