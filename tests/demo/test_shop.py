"""The demo shop: nothing to read without its script, and its sitemaps list what it has."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from lxml import etree

from renderqueue.demo import catalogue, trouble
from renderqueue.demo.shop import application, respond

ORIGIN = "http://127.0.0.1:8001"
Get = Callable[..., httpx.Response]


@pytest.fixture
def get() -> Get:
    def ask(path: str, method: str = "GET") -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(application)
            async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
                return await client.request(method, path)

        return asyncio.run(send())

    return ask


def locations(document: bytes) -> list[str]:
    return [str(node.text) for node in etree.fromstring(document).iter("{*}loc")]


def listed(get: Get) -> list[str]:
    """Every page that the sitemap index leads to."""
    pages = []
    for child in locations(get("/sitemap.xml").content):
        body = get(child.removeprefix(ORIGIN)).content
        pages += locations(gzip.decompress(body) if child.endswith(".gz") else body)
    return pages


def test_the_sitemaps_list_a_few_hundred_pages_once_each(get: Get) -> None:
    pages = listed(get)
    assert 200 < len(pages) < 500
    assert len(set(pages)) == len(pages)
    assert all(page.startswith(f"{ORIGIN}/") for page in pages)
    assert f"Sitemap: {ORIGIN}/sitemap.xml" in get("/robots.txt").text


def test_every_listed_page_but_the_troubles_answers_with_its_data(get: Get) -> None:
    for page in listed(get):
        path = page.removeprefix(ORIGIN)
        if path in trouble.TROUBLES:
            continue
        assert get(path).status_code == 200, path
        assert get(f"/api{path}").json()["title"], path


def test_a_page_is_empty_without_its_script(get: Get) -> None:
    product = catalogue.products()[0]
    page = get(product.path).text
    assert '<main id="app"></main>' in page
    assert product.name not in page
    assert get(f"/api{product.path}").json()["product"]["name"] == product.name


def test_some_pages_use_the_ready_flag_and_some_do_not(get: Get) -> None:
    assert "prerenderReady = false" in get("/").text
    assert "prerenderReady = undefined" in get(catalogue.guides()[0].path).text


@pytest.mark.parametrize(
    ("path", "status"),
    [("/trouble/broken", 500), ("/trouble/busy", 503), ("/trouble/not-found", 404), ("/trouble/gone", 410),
     ("/trouble/moved", 301), ("/trouble/slow-data", 200), ("/p/9999-none", 404), ("/nowhere", 404), ("/c/none", 404)],
)  # fmt: skip
def test_pages_fail_as_they_are_meant_to(get: Get, path: str, status: int) -> None:
    assert get(path).status_code == status


def test_headers_of_troubles(get: Get) -> None:
    assert get("/trouble/busy").headers["retry-after"] == "120"
    assert get("/trouble/moved").headers["location"] == "/p/1"


def test_slow_data_is_slow_and_broken_data_is_broken() -> None:
    assert respond("/api/trouble/slow-data", {}, ORIGIN, 0).delay_s == trouble.SLOW_S
    assert respond("/api/trouble/data-fails", {}, ORIGIN, 0).status == 500
    assert json.loads(respond("/api/trouble/never-ready", {}, ORIGIN, 0).body)["ready"] is False


def test_only_reading_is_possible(get: Get) -> None:
    assert get("/", "POST").status_code == 405
    assert get("/", "HEAD").content == b""


def test_most_products_keep_their_price_and_some_change_it() -> None:
    changed = [one for one in catalogue.products() if one.price_cents(1) != one.price_cents(2)]
    assert 0 < len(changed) < catalogue.PRODUCTS / 2


def test_pages_of_a_category_hold_all_its_products(get: Get) -> None:
    for slug in catalogue.categories():
        first = get(f"/api/c/{slug}").json()
        names: list[Any] = []
        for page in range(1, first["pages"] + 1):
            names += [one["path"] for one in get(f"/api/c/{slug}?page={page}").json()["products"]]
        assert len(names) == len([one for one in catalogue.products() if one.category == slug])


def test_names_are_safe_in_paths() -> None:
    assert all(re.fullmatch(r"/p/\d+-[a-z-]+", one.path) for one in catalogue.products())
