from __future__ import annotations

from renderqueue.sitemaps.findings import Findings
from renderqueue.sitemaps.walk import Walk, WalkLimits

ROOT = "https://shop.test/root.xml"


def urls(count: int) -> list[str]:
    return [f"https://shop.test/{number}.xml" for number in range(count)]


def test_documents_come_depth_first_in_the_order_of_their_index() -> None:
    walk = Walk(ROOT, WalkLimits(), Findings())
    assert walk.next() is not None
    walk.add_children(urls(3), 1, 0)
    first = walk.next()
    assert first is not None
    assert (first.url, first.parent_id, first.depth) == ("https://shop.test/0.xml", 1, 1)
    walk.add_children(["https://shop.test/below.xml"], 2, first.depth)
    order = []
    while (step := walk.next()) is not None:
        order.append(step.url.rpartition("/")[2])
    assert order == ["below.xml", "1.xml", "2.xml"]
    assert walk.complete


def test_an_index_that_lists_itself_or_its_parent_ends_and_is_named() -> None:
    findings = Findings()
    walk = Walk(ROOT, WalkLimits(), findings)
    walk.next()
    walk.add_children([ROOT, "https://SHOP.test:443/root.xml#x", "https://shop.test/b.xml"], 1, 0)
    assert walk.next() is not None
    walk.add_children([ROOT, "https://shop.test/b.xml"], 2, 1)
    assert walk.next() is None
    assert findings.counts["sitemap listed more than once"] == 4
    assert walk.complete


def test_two_addresses_of_one_document_are_read_once() -> None:
    walk = Walk(ROOT, WalkLimits(), Findings())
    assert walk.arrive("https://shop.test/real.xml")
    assert not walk.arrive("https://shop.test/real.xml")


def test_what_is_too_deep_is_left_out_and_makes_the_walk_incomplete() -> None:
    findings = Findings()
    walk = Walk(ROOT, WalkLimits(depth=1), findings)
    walk.add_children(urls(1), 1, 1)
    assert not walk.complete
    assert "not read: index below 1 others" in findings.counts


def test_too_many_documents_end_the_walk_incomplete() -> None:
    walk = Walk(ROOT, WalkLimits(documents=3), Findings())
    walk.add_children(urls(10), 1, 0)
    assert sum(1 for _ in iter(walk.next, None)) == 3
    assert not walk.complete


def test_too_many_urls_end_the_walk_incomplete() -> None:
    walk = Walk(ROOT, WalkLimits(listed=10), Findings())
    assert walk.count_listed(10)
    assert walk.complete
    assert not walk.count_listed(11)
    assert walk.next() is None
    assert not walk.complete
