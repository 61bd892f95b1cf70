"""The ladder: fresh, stale, last good, origin (C1)."""

from __future__ import annotations

import datetime as dt

import pytest

from renderqueue.serving.freshness import Rung, rung_of

EXPIRES = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)
HOUR_S = 3600


def rung(after_s: float, *, serve_last_good: bool = False, swr_ttl_s: int = 3 * HOUR_S) -> Rung:
    now = EXPIRES + dt.timedelta(seconds=after_s)
    return rung_of(EXPIRES, now, swr_ttl_s=swr_ttl_s, serve_last_good=serve_last_good)


@pytest.mark.parametrize(
    ("after_s", "expected"),
    [
        (-1, Rung.FRESH),
        (0, Rung.STALE),
        (3 * HOUR_S - 1, Rung.STALE),
        (3 * HOUR_S, Rung.ORIGIN),
        (1000 * HOUR_S, Rung.ORIGIN),
    ],
)
def test_the_rung_follows_the_deadline(after_s: float, expected: Rung) -> None:
    assert rung(after_s) is expected


def test_the_last_good_copy_comes_after_stale_where_the_site_allows_it() -> None:
    assert rung(3 * HOUR_S - 1, serve_last_good=True) is Rung.STALE
    assert rung(3 * HOUR_S, serve_last_good=True) is Rung.LAST_GOOD
    assert rung(9000 * HOUR_S, serve_last_good=True) is Rung.LAST_GOOD


def test_no_grace_means_no_stale_copies() -> None:
    assert rung(0, swr_ttl_s=0) is Rung.ORIGIN


@pytest.mark.parametrize("serve_last_good", [True, False])
def test_a_page_without_a_copy_gets_the_origin(serve_last_good: bool) -> None:
    assert rung_of(None, EXPIRES, swr_ttl_s=60, serve_last_good=serve_last_good) is Rung.ORIGIN
