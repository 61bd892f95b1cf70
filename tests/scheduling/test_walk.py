"""Reading the schedule in ranges (D5, F4c)."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from renderqueue.identity import PARTITIONS
from renderqueue.models import RenderSchedule
from renderqueue.scheduling import feed
from renderqueue.scheduling.walk import WalkedRange, WalkFailed, read_ranges
from tests.factories import LONG_AGO, make_page, make_pages, make_site

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]

MAX_BIGINT = 2**63 - 1


def test_no_rows_are_one_range_that_covers_all_ids(raw: Any) -> None:
    [walked] = read_ranges(raw, None)
    assert (walked.lower, walked.upper, len(walked.ids)) == (-(2**63), MAX_BIGINT, 0)


def test_ranges_cover_every_id_once_and_meet(raw: Any) -> None:
    make_pages(make_site(), 25)
    ranges = list(read_ranges(raw, None, range_rows=10))
    assert [len(walked.ids) for walked in ranges] == [10, 10, 5]
    assert [walked.lower for walked in ranges[1:]] == [walked.upper for walked in ranges[:-1]]
    assert ranges[-1].upper == MAX_BIGINT
    ids = [page_id for walked in ranges for page_id in walked.ids.tolist()]
    assert ids == list(RenderSchedule.objects.order_by("id").values_list("id", flat=True))


def test_a_range_that_is_exactly_full_is_followed_by_an_empty_one(raw: Any) -> None:
    make_pages(make_site(), 10)
    assert [len(walked.ids) for walked in read_ranges(raw, None, range_rows=10)] == [10, 0]


def test_only_the_partitions_asked_for_are_read(raw: Any) -> None:
    make_pages(make_site(), 50)
    partitions = list(range(0, PARTITIONS, 2))
    ids = [page_id for walked in read_ranges(raw, partitions, range_rows=7) for page_id in walked.ids.tolist()]
    wanted = RenderSchedule.objects.filter(partition__in=partitions).order_by("id").values_list("id", flat=True)
    assert ids == list(wanted)
    assert 0 < len(ids) < 50


def one(raw: Any) -> WalkedRange:
    [walked] = read_ranges(raw, None)
    return walked


def test_every_column_arrives_as_it_is_in_the_table(raw: Any) -> None:
    site = make_site()
    page = make_page(
        site,
        due_at=dt.datetime(2026, 2, 3, 4, 5, 59, 999_999, tzinfo=dt.UTC),
        declared_interval_s=2**31 - 1,
        failures=3,
        rendered_at=LONG_AGO,
        requested_at=dt.datetime(2026, 3, 1, 0, 0, 0, 250_000, tzinfo=dt.UTC),
        retry_at=dt.datetime(2026, 3, 1, 0, 0, 0, 1, tzinfo=dt.UTC),
    )
    plain = make_page(site)
    walked = one(raw)
    assert walked.ids.tolist() == [page.pk, plain.pk]
    due = int(dt.datetime(2026, 2, 3, 4, 5, tzinfo=dt.UTC).timestamp() // 60)
    assert walked.due_minute.tolist() == [due, int(LONG_AGO.timestamp() // 60)]
    assert walked.declared_s.tolist() == [2**31 - 1, 0]
    assert walked.flags.tolist() == [feed.RENDERED, 0]
    assert walked.failures.tolist() == [3, 0]
    assert walked.partition.tolist() == [page.partition, plain.partition]
    assert walked.route_id.tolist() == [page.route_id, plain.route_id]
    march = int(dt.datetime(2026, 3, 1, tzinfo=dt.UTC).timestamp())
    assert [column.tolist() for column in walked.requested] == [[page.pk], [march * 1000 + 250]]
    assert [column.tolist() for column in walked.retry] == [[page.pk], [march + 1]]


@pytest.mark.parametrize("due_sql", ["NULL", "'infinity'"])
def test_no_deadline_and_an_infinite_one_are_minus_one_and_break_no_stride(raw: Any, due_sql: str) -> None:
    site = make_site()
    pages = [make_page(site) for _ in range(3)]
    raw.execute(f"UPDATE renderqueue_renderschedule SET due_at = {due_sql} WHERE id = {pages[1].pk}")
    minute = int(LONG_AGO.timestamp() // 60)
    assert one(raw).due_minute.tolist() == [minute, -1, minute]


def test_a_deadline_in_2000_and_one_far_away_are_minutes_like_any_other(raw: Any) -> None:
    site = make_site()
    make_page(site, due_at=dt.datetime(2000, 1, 1, tzinfo=dt.UTC))
    make_page(site, due_at=dt.datetime(5000, 1, 1, tzinfo=dt.UTC))
    expected = [int(dt.datetime(year, 1, 1, tzinfo=dt.UTC).timestamp() // 60) for year in (2000, 5000)]
    assert one(raw).due_minute.tolist() == expected


def test_failures_beyond_a_byte_are_capped(raw: Any) -> None:
    make_page(make_site(), failures=300)
    assert one(raw).failures.tolist() == [255]


def poison(raw: Any, page_id: int) -> None:
    """Data that the reader's SQL cannot convert: a route id beyond an integer."""
    raw.execute("SET session_replication_role = replica")
    raw.execute("UPDATE renderqueue_renderschedule SET route_id = 3000000000 WHERE id = %s", [page_id])


@pytest.mark.parametrize("poisoned", [[0], [9], [4, 5], [0, 3, 9, 13], list(range(20))])
def test_a_range_with_unreadable_rows_is_read_around_them_and_names_them(raw: Any, poisoned: list[int]) -> None:
    make_pages(make_site(), 20)
    ids = list(RenderSchedule.objects.order_by("id").values_list("id", flat=True))
    for number in poisoned:
        poison(raw, ids[number])
    ranges = list(read_ranges(raw, None, range_rows=10))
    bad = [ids[number] for number in poisoned]
    assert sorted(page_id for walked in ranges for page_id in walked.unreadable) == bad
    assert [page_id for walked in ranges for page_id in walked.ids.tolist()] == [i for i in ids if i not in bad]
    assert [walked.lower for walked in ranges[1:]] == [walked.upper for walked in ranges[:-1]]
    assert ranges[-1].upper == MAX_BIGINT


def test_more_than_a_thousand_unreadable_rows_fail_the_walk(raw: Any) -> None:
    make_pages(make_site(), 1001)
    raw.execute("SET session_replication_role = replica")
    raw.execute("UPDATE renderqueue_renderschedule SET route_id = 3000000000")
    with pytest.raises(WalkFailed, match="1000 rows cannot be read"):
        list(read_ranges(raw, None, range_rows=100))
