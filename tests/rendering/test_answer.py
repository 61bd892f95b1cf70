"""The status and headers that a page stands for."""

from __future__ import annotations

import pytest

from renderqueue.rendering.answer import of_page
from renderqueue.rendering.gate import absolute

URL = "https://shop.test/a/b"


@pytest.mark.parametrize(
    ("statuses", "status"), [([], 200), (["404"], 404), (["404", "410"], 410), (["x", "99", "1000", "-1", ""], 200)]
)
def test_only_a_real_status_counts(statuses: list[str], status: int) -> None:
    assert of_page(URL, 200, {}, statuses, []).status == status


def test_a_header_meta_sets_what_is_kept_and_nothing_else() -> None:
    lines = ["X-Robots-Tag:  noindex,\n nofollow", "Content-Type: text/plain", "Set-Cookie: a=1", "broken", "Link:"]
    said = of_page(URL, 200, {"link": "</x>", "server": "s"}, [], lines)
    assert said.headers == {
        "content-type": "text/html; charset=utf-8",
        "link": "</x>",
        "x-robots-tag": "noindex, nofollow",
    }


def test_a_location_counts_only_with_a_redirect_status() -> None:
    assert of_page(URL, 200, {}, ["301"], ["Location: ../c"]).location == "https://shop.test/c"
    assert of_page(URL, 200, {}, [], ["Location: /c"]).location is None


@pytest.mark.parametrize(
    ("location", "resolved"),
    [
        ("../b/", "https://shop.test/b/"),
        ("//other.test/x", "https://other.test/x"),
        ("?p=2", "https://shop.test/a/b?p=2"),
        ("HTTPS://Shop.test/\u00e4", "https://shop.test/%C3%A4"),
        ("javascript:alert(1)", None),
        ("", None),
        (None, None),
    ],
)
def test_a_location_is_resolved_against_the_page(location: str | None, resolved: str | None) -> None:
    assert absolute(location, URL) == resolved
