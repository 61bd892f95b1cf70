"""Keys and partitions are stored: these values may never change."""

from __future__ import annotations

import uuid
from collections import Counter

import pytest

from renderqueue.identity import GROUPS, PARTITIONS, group_of, page_key, partition_of


@pytest.mark.parametrize(
    ("url", "key", "partition"),
    [
        ("https://shop.test/", "797abf99-f5e9-8f25-2503-104b51d5459b", 411),
        ("https://shop.test/a%2Fb?x=%E4", "cdd4d822-2757-5af7-6566-850ea797d55d", 349),
        ("http://127.0.0.1:8080/p/1", "1c23483a-9a04-0fd8-3cb0-3cf3b7a78acd", 717),
    ],
)
def test_pinned(url: str, key: str, partition: int) -> None:
    assert page_key(url) == uuid.UUID(key)
    assert partition_of(page_key(url)) == partition


def test_partitions_spread_evenly() -> None:
    pages = 100 * PARTITIONS
    counts = Counter(partition_of(page_key(f"https://shop.test/product/{n}")) for n in range(pages))
    assert set(counts) == set(range(PARTITIONS))
    expected = pages / PARTITIONS
    chi_square = sum((count - expected) ** 2 / expected for count in counts.values())
    # 1,023 degrees of freedom: mean 1,023, standard deviation 45; the input is fixed, so this cannot flicker.
    assert 800 < chi_square < 1250


def test_four_partitions_make_a_group() -> None:
    groups = Counter(group_of(partition) for partition in range(PARTITIONS))
    assert set(groups) == set(range(GROUPS))
    assert set(groups.values()) == {4}
    assert group_of(3) == 0
    assert group_of(4) == 1
