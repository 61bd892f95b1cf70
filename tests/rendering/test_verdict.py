"""What a render means for its page: every status and fault has one verdict."""

from __future__ import annotations

import datetime as dt
from email.utils import format_datetime

import pytest

from renderqueue.rendering.job import DeviceRender, Fault, RefusedResource
from renderqueue.rendering.verdict import RETRY_AFTER_CAP_S, Kind, judge, retry_after_s

NOW = dt.datetime(2026, 5, 1, 12, 0, tzinfo=dt.UTC)


def answered(status: int, **facts: object) -> DeviceRender:
    return DeviceRender("desktop", status=status, **facts)  # type: ignore[arg-type]


STORED = answered(200, html=b"<p>")


@pytest.mark.parametrize(
    ("render", "kind"),
    [
        (STORED, Kind.STORED),
        (answered(203, html=b"<p>"), Kind.STORED),
        (answered(301, location="https://a.test/"), Kind.REDIRECT),
        (answered(308, location="https://a.test/"), Kind.REDIRECT),
        (answered(302), Kind.PAGE_FAILURE),
        (answered(304), Kind.PAGE_FAILURE),
        (answered(404), Kind.GONE),
        (answered(410), Kind.GONE),
        (answered(400), Kind.PAGE_FAILURE),
        (answered(451), Kind.PAGE_FAILURE),
        (answered(204), Kind.PAGE_FAILURE),
        *(
            (answered(status), Kind.ORIGIN_FAILURE)
            for status in (401, 403, 407, 408, 425, 429, 500, 502, 503, 504, 599)
        ),
        (answered(503, location="https://a.test/"), Kind.ORIGIN_FAILURE),
        (DeviceRender("desktop"), Kind.ORIGIN_FAILURE),
    ],
)
def test_a_status_has_one_verdict(render: DeviceRender, kind: Kind) -> None:
    assert judge([render], NOW).kind is kind


@pytest.mark.parametrize("fault", Fault)
def test_a_fault_is_the_pages_unless_the_origin_or_the_renderer_failed(fault: Fault) -> None:
    expected = {Fault.UNREACHABLE: Kind.ORIGIN_FAILURE, Fault.BROWSER_LOST: Kind.RENDERER_FAILURE}
    verdict = judge([answered(200, fault=fault, detail="why")], NOW)
    assert verdict.kind is expected.get(fault, Kind.PAGE_FAILURE)
    assert verdict.reason == fault.value
    assert verdict.detail == "why"
    assert len(verdict.reason) <= 40


def test_one_failing_device_decides_for_the_page() -> None:
    assert judge([STORED, answered(503)], NOW).kind is Kind.ORIGIN_FAILURE
    assert judge([STORED, STORED], NOW).kind is Kind.STORED
    assert judge([], NOW).kind is Kind.RENDERER_FAILURE


def part(kind: str, why: str) -> RefusedResource:
    return RefusedResource("https://a.test/x", kind, why)


@pytest.mark.parametrize(
    ("refused", "flagged", "kind"),
    [
        (part("script", "403"), True, Kind.ORIGIN_FAILURE),
        (part("script", "net::ERR_CONNECTION_RESET"), False, Kind.ORIGIN_FAILURE),
        (part("fetch", "503"), False, Kind.ORIGIN_FAILURE),
        (part("xhr", "429"), False, Kind.ORIGIN_FAILURE),
        (part("fetch", "503"), True, Kind.STORED),
        (part("fetch", "401"), False, Kind.STORED),
        (part("image", "503"), False, Kind.STORED),
    ],
)
def test_a_page_whose_parts_were_refused_is_not_stored_as_good(
    refused: RefusedResource, flagged: bool, kind: Kind
) -> None:
    render = answered(200, html=b"<p>", refused=(refused,), refused_count=1, flagged=flagged)
    assert judge([render], NOW).kind is kind


@pytest.mark.parametrize(
    ("value", "wait_s"),
    [
        ("0", 60.0),
        ("-5", None),
        ("90", 90.0),
        ("99999999999999999999", RETRY_AFTER_CAP_S),
        (format_datetime(NOW + dt.timedelta(hours=1)), 3600.0),
        (format_datetime(NOW - dt.timedelta(days=1)), 60.0),
        ("Wed, 21 Oct 2099 07:28:00 GMT", RETRY_AFTER_CAP_S),
        ("soon", None),
        ("", None),
        ("\u0663", None),
    ],
)
def test_retry_after_neither_spins_nor_waits_for_ever(value: str, wait_s: float | None) -> None:
    assert retry_after_s(value, NOW) == wait_s


def test_only_an_origin_failure_carries_what_the_origin_asked_for() -> None:
    headers = {"retry-after": "300"}
    assert judge([answered(429, headers=headers)], NOW).retry_after_s == 300
    assert judge([answered(404, headers=headers)], NOW).retry_after_s is None
