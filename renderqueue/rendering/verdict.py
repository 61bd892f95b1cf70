"""What a render means for its page: pure policy (traps 26 to 30).

Facts in, verdict out. How long a failing page waits is `scheduling.intervals`; what is written is `completion`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum

from renderqueue.rendering.job import DeviceRender, Fault, RefusedResource

RETRY_AFTER_FLOOR_S = 60.0
RETRY_AFTER_CAP_S = 7 * 24 * 3600.0
REASON_CHARS = 40
GONE_STATUSES = frozenset({404, 410})
# A wrong credential, a limit or a bad minute of the origin: never the page's fault (trap 26).
ORIGIN_STATUSES = frozenset({401, 403, 407, 408, 425, 429})
OVERLOAD_STATUSES = frozenset({"429", "503"})


class Kind(StrEnum):
    """What follows for the page. Only GONE and PAGE_FAILURE count towards cold."""

    STORED = "stored"
    REDIRECT = "redirect"
    GONE = "gone"
    PAGE_FAILURE = "page failure"
    ORIGIN_FAILURE = "origin failure"
    RENDERER_FAILURE = "renderer failure"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`reason` is at most REASON_CHARS long: a token, and perhaps what it is about; `detail` is a sentence for the
    page's owner, or empty. `retry_after_s` is what the origin asked for, held between a minute and seven days
    (trap 30)."""

    kind: Kind
    reason: str
    detail: str = ""
    retry_after_s: float | None = None


_FAULT_KINDS = {
    Fault.UNREACHABLE: Kind.ORIGIN_FAILURE,
    Fault.BROWSER_LOST: Kind.RENDERER_FAILURE,
}


def gives_a_copy(render: DeviceRender) -> bool:
    """Whether this visit ends in something to store."""
    return _judge_answer(render).kind in (Kind.STORED, Kind.REDIRECT)


def judge(renders: Sequence[DeviceRender], now: dt.datetime) -> Verdict:
    """The verdict on a page from its devices: the first that gives nothing to store decides, else the first.
    `now` only reads a Retry-After that is a date."""
    if not renders:
        return Verdict(Kind.RENDERER_FAILURE, "not-rendered", "no device was rendered")
    render = next((each for each in renders if not gives_a_copy(each)), renders[0])
    verdict = _judge_answer(render)
    if verdict.kind is not Kind.ORIGIN_FAILURE:
        return verdict
    wait_s = retry_after_s(render.headers.get("retry-after", ""), now)
    return Verdict(verdict.kind, verdict.reason, verdict.detail, wait_s)


def retry_after_s(value: str, now: dt.datetime) -> float | None:
    """Seconds from a Retry-After header (RFC 9110, 10.2.3), held between a minute and seven days; None without a
    readable one."""
    text = value.strip()
    if text.isascii() and text.isdigit():
        wait_s = float(text[:12])
    else:
        try:
            at = parsedate_to_datetime(text)
        except ValueError:
            return None
        wait_s = (at.replace(tzinfo=at.tzinfo or dt.UTC) - now).total_seconds()
    return min(max(wait_s, RETRY_AFTER_FLOOR_S), RETRY_AFTER_CAP_S)


def _judge_answer(render: DeviceRender) -> Verdict:
    if render.fault is not None:
        reason = f"{render.fault} {render.subject}".rstrip()[:REASON_CHARS]
        return Verdict(_FAULT_KINDS.get(render.fault, Kind.PAGE_FAILURE), reason, render.detail)
    status = render.status
    if status is None:
        return Verdict(Kind.ORIGIN_FAILURE, "no-response", "the origin gave no response")
    if status in ORIGIN_STATUSES or status >= 500:
        return Verdict(Kind.ORIGIN_FAILURE, f"status-{status}", f"the origin answered {status}")
    if status in GONE_STATUSES:
        return Verdict(Kind.GONE, f"gone-{status}", f"the origin answered {status}")
    if 300 <= status < 400:
        return _judge_redirect(render, status)
    if not 200 <= status < 300 or render.html is None:
        return Verdict(Kind.PAGE_FAILURE, f"status-{status}", f"the origin answered {status}")
    return _judge_page(render)


def _judge_redirect(render: DeviceRender, status: int) -> Verdict:
    if render.location is None:
        return Verdict(Kind.PAGE_FAILURE, f"no-location-{status}", f"the origin answered {status} without a Location")
    return Verdict(Kind.REDIRECT, f"redirect-{status}")


def _judge_page(render: DeviceRender) -> Verdict:
    """A page whose own parts were refused is not whole, however good it looks (trap 29)."""
    missed = _missed(render.refused, flagged=render.flagged)
    if missed is None:
        return Verdict(Kind.STORED, f"stored-{render.status}")
    return Verdict(
        Kind.ORIGIN_FAILURE,
        "part-refused",
        f"the origin refused a {missed.resource_type} of the page ({missed.why}): {missed.url[:200]}",
    )


def _missed(refused: Iterable[RefusedResource], *, flagged: bool) -> RefusedResource | None:
    """The first refusal that makes the page incomplete: any of its scripts; or data, by an overloaded origin, for
    a page that does not say itself when it is ready. Other refusals are normal (a session call answered 401)."""
    for part in refused:
        if part.resource_type == "script":
            return part
        if part.resource_type in ("fetch", "xhr") and part.why in OVERLOAD_STATUSES and not flagged:
            return part
    return None


_STREAK = re.compile(r"gone-\d{3} x(\d{1,4})")


def gone_outcome(verdict: Verdict, streak: int) -> str:
    """The outcome to record for the `streak`-th answer in a row that the page is gone."""
    return f"{verdict.reason} x{streak}"


def gone_streak(last_outcome: str) -> int:
    """How many times in a row, up to the last render, the origin said that the page is gone."""
    match = _STREAK.fullmatch(last_outcome)
    return int(match.group(1)) if match else 0
