"""The URL behind /p/ is what the client sent, byte for byte (D18b, F53, F65)."""

from __future__ import annotations

import pytest

from renderqueue.identity import UrlError
from renderqueue.serving.target import target_url


def scope(path: bytes, query: bytes = b"") -> dict[str, bytes]:
    return {"raw_path": path, "query_string": query}


@pytest.mark.parametrize(
    ("path", "query", "url"),
    [
        (b"/p/https://shop.test/a", b"", "https://shop.test/a"),
        (b"/p/https://shop.test/a%2Fb", b"x=%E4&y=a+b", "https://shop.test/a%2Fb?x=%E4&y=a+b"),
        (b"/p/http://shop.test/p/http://x/", b"a?b", "http://shop.test/p/http://x/?a?b"),
        (b"/p/HTTPS://Shop.Test/", b"", "HTTPS://Shop.Test/"),
        (b"/p/https:/shop.test/a", b"", "https:/shop.test/a"),
        (b"/p/https://shop.test/caf\xe9", b"q=\xc3\xa9", "https://shop.test/caf%E9?q=%C3%A9"),
        (b"/p/https%3A%2F%2Fshop.test%2Fa%252Fb%3Fx%3D%25E4%26y%3D1", b"", "https://shop.test/a%2Fb?x=%E4&y=1"),
        (b"/p/https%3a%2f%2fshop.test%2Fa", b"x=1", "https://shop.test/a?x=1"),
        (b"/root/p/https://shop.test/a", b"", "https://shop.test/a"),
    ],
)
def test_raw_and_wholly_encoded_targets(path: bytes, query: bytes, url: str) -> None:
    assert target_url(scope(path, query)) == url


@pytest.mark.parametrize(
    "path", [b"/p/", b"/p/shop.test/a", b"/p//shop.test/a", b"/p/ftp://shop.test/", b"/p/httpss://x/"]
)
def test_what_is_no_absolute_url_is_refused_with_an_example(path: bytes) -> None:
    with pytest.raises(UrlError, match=r"/p/https://shop.example/a\?x=1"):
        target_url(scope(path))


def test_two_queries_are_refused() -> None:
    with pytest.raises(UrlError, match="send one"):
        target_url(scope(b"/p/https%3A%2F%2Fshop.test%2F%3Fa", b"b"))


def test_a_server_without_raw_path_is_named_as_the_fault() -> None:
    with pytest.raises(RuntimeError, match="raw_path"):
        target_url({"path": "/p/https://shop.test/a"})
