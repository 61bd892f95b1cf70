from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from renderqueue.sitemaps.values import declared_interval_s, read_changefreq, read_lastmod, read_priority


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2024", "2024-01-01T00:00:00+00:00"),
        ("2024-03", "2024-03-01T00:00:00+00:00"),
        ("2024-03-09", "2024-03-09T00:00:00+00:00"),
        ("2024-03-09 08:15:00", "2024-03-09T08:15:00+00:00"),
        ("2024-03-09T08:15-03:00", "2024-03-09T08:15:00-03:00"),
        ("2024-03-09T08:15:00.123456789Z", "2024-03-09T08:15:00+00:00"),
        ("2024-03-09T08:15:00 01:00", "2024-03-09T08:15:00+01:00"),
        ("2024-03-09T08:15:00+0100", "2024-03-09T08:15:00+01:00"),
        ("Sat, 09 Mar 2024 08:15:00 GMT", "2024-03-09T08:15:00+00:00"),
        (" 2016-12-31T23:59:60Z\n", "2016-12-31T23:59:59+00:00"),
    ],
)
def test_dates_are_read_leniently(text: str, meant: str) -> None:
    value = read_lastmod(text)
    assert value is not None
    assert value.isoformat() == meant


@pytest.mark.parametrize(
    "text",
    ["soon", "", "2024-13-01", "0000-00-00", "2024-03-09 2024-03-10", "2024-03-09T99:00Z", "2024-01-01T00:00:00+99:99"],
)
def test_a_bad_date_is_absent(text: str) -> None:
    assert read_lastmod(text) is None


@given(st.text())
def test_no_text_breaks_the_readers(text: str) -> None:
    read_lastmod(text)
    read_priority(text)
    read_changefreq(text)


@pytest.mark.parametrize(
    ("word", "hours"),
    [
        ("always", 1),
        ("hourly", 1),
        ("daily", 24),
        ("weekly", 7 * 24),
        ("monthly", 30 * 24),
        ("yearly", 365 * 24),
        ("never", 365 * 24),
    ],
)
def test_a_frequency_declares_an_interval(word: str, hours: int) -> None:
    assert declared_interval_s(read_changefreq(word.upper())) == hours * 3600


def test_no_frequency_declares_none_and_the_minimum_holds() -> None:
    assert declared_interval_s(None) is None
    assert declared_interval_s("always", minimum_s=7200) == 7200


@pytest.mark.parametrize(
    ("text", "value"), [("0.5", 0.5), ("0,5", 0.5), ("1", 1.0), ("2", None), ("-1", None), ("nan", None), ("x", None)]
)
def test_priorities(text: str, value: float | None) -> None:
    assert read_priority(text) == value
