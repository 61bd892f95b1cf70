"""One URL spelled two ways is one page; two pages never share a key (trap 36, F39-F56)."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from renderqueue.identity import (
    KeyRules,
    RouteRule,
    UrlError,
    canonical_url,
    identify,
    match_route,
    page_key,
    parse_url,
    split_query,
)

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text())
EVERYTHING = RouteRule("prefix", "/", "prerender", ("*",))


def canonical(vector: dict[str, Any], url: str) -> str:
    rule = RouteRule("prefix", "/", "prerender", tuple(vector.get("query_params", ["*"])))
    rules = KeyRules(vector.get("fold_plus", False), vector.get("strip_trailing_slash", False))
    return canonical_url(url, rule, rules, vector.get("base"))


@pytest.mark.parametrize("vector", VECTORS["canonical"], ids=lambda vector: vector["why"])
def test_canonical_form(vector: dict[str, Any]) -> None:
    assert canonical(vector, vector["in"]) == vector["out"]
    assert canonical(vector, vector["out"]) == vector["out"]


@pytest.mark.parametrize("urls", VECTORS["same"], ids=lambda urls: urls[0])
def test_spellings_of_one_page_share_a_key(urls: list[str]) -> None:
    assert len({page_key(canonical({}, url)) for url in urls}) == 1


@pytest.mark.parametrize("urls", VECTORS["different"], ids=lambda urls: urls[0])
def test_different_pages_never_share_a_key(urls: list[str]) -> None:
    for one, other in combinations(urls, 2):
        assert page_key(canonical({}, one)) != page_key(canonical({}, other)), (one, other)


@pytest.mark.parametrize("vector", VECTORS["refused"], ids=lambda vector: ascii(vector["in"]))
def test_refusal_says_what_is_wrong(vector: dict[str, str]) -> None:
    with pytest.raises(UrlError) as refusal:
        canonical_url(vector["in"], EVERYTHING)
    assert vector["message"] in str(refusal.value)


def test_credentials_are_not_repeated_in_the_refusal() -> None:
    with pytest.raises(UrlError) as refusal:
        parse_url("https://user:secret@shop.test/")
    assert "secret" not in str(refusal.value)


def test_length_limit_counts_what_is_left_of_the_url() -> None:
    longest = "https://shop.test/" + "a" * (2048 - len("https://shop.test/"))
    assert canonical_url(f"{longest}?utm_source={'x' * 1000}", EVERYTHING) == longest
    with pytest.raises(UrlError, match=r"2049 bytes long .* limit is 2048"):
        canonical_url(f"{longest}a", EVERYTHING)
    with pytest.raises(UrlError, match="limit is 8192"):
        canonical_url(f"https://shop.test/?utm_source={'x' * 9000}", EVERYTHING)


def test_dropped_parameters_can_be_shown() -> None:
    query = "b=2&utm_source=m%61il&a=1&&session=4"
    rule = RouteRule("prefix", "/", "prerender", ("a", "b"))
    assert split_query(query, rule, KeyRules()) == (("a=1", "b=2"), ("utm_source=m%61il", "session=4"))


ROUTES = [
    (1, RouteRule("exact", "/cart", "passthrough")),
    (2, RouteRule("prefix", "/blog/", "prerender", ("page",))),
    (3, RouteRule("contains", "/café", "prerender", ("*",))),
    (4, RouteRule("prefix", "/", "prerender")),
]


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/cart", 1),
        ("/cart/", 4),
        ("/cart2", 4),
        ("/blog/a", 2),
        ("/blog", 4),
        ("/x/caf%C3%A9s", 3),
        ("/%63art", 1),
    ],
)
def test_first_matching_route_wins(path: str, route: int) -> None:
    assert match_route(parse_url(f"https://shop.test{path}").path, ROUTES) == route


@pytest.mark.parametrize(("path", "route"), [("/cart/", 1), ("/blog", 2), ("/blog/", 2), ("/blogs", 4)])
def test_both_spellings_find_one_route_when_slashes_are_stripped(path: str, route: int) -> None:
    assert match_route(path, ROUTES, KeyRules(strip_trailing_slash=True)) == route


def test_no_route_is_none() -> None:
    assert match_route("/a", ROUTES[:2]) is None
    assert identify(parse_url("https://shop.test/a"), ROUTES[:2]) is None


def test_identity_is_the_routes_canonical_url_and_its_key() -> None:
    found = identify(parse_url("https://shop.test/blog/a?x=1&page=2"), ROUTES)
    assert found is not None
    assert (found.url, found.route_id) == ("https://shop.test/blog/a?page=2", 2)
    assert found.key == page_key("https://shop.test/blog/a?page=2")
    assert found.rule.query_params == ("page",)


def test_all_hosts_of_a_site_name_the_pages_of_its_origin() -> None:
    urls = [
        "http://shop.test/a",
        "https://www.shop.test/a",
        "https://WWW.shop.test:443/a",
        "http://shop.test:8080/a",
    ]
    found = [identify(parse_url(url), ROUTES, origin="https://www.Shop.test") for url in urls]
    assert {identity.url for identity in found if identity} == {"https://www.shop.test/a"}
