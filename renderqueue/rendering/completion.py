"""The end of a render: copies, next deadline and lease in one transaction (D3, C1, trap 7)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from renderqueue.models import RenderSchedule, Site
from renderqueue.rendering import bodies, copies
from renderqueue.rendering.bodies import NewBody
from renderqueue.rendering.job import DeviceRender
from renderqueue.rendering.verdict import Kind, Verdict, gone_outcome, gone_streak, judge
from renderqueue.scheduling import leases, rows
from renderqueue.scheduling.leases import CompletingPage


def complete(page_id: int, site_id: int, token: uuid.UUID, renders: Sequence[DeviceRender]) -> Verdict | None:
    """Write what a render came to and give its lease back. None, and nothing written, when the token is gone: the
    result is late.

    Every outcome ends in a next deadline, a next try or the page's deletion (trap 6). A failure never touches a
    copy. Raises what the database raises; then nothing is written and the lease stays (trap 9)."""
    prepared = _prepare(site_id, renders)
    with leases.completing(page_id, token) as page:
        if page is None:
            return None
        verdict = judge(renders, page.now)
        if verdict.kind in (Kind.STORED, Kind.REDIRECT):
            _succeed(page, renders, prepared, verdict)
        elif verdict.kind is Kind.GONE:
            _count_gone(page, verdict)
        else:
            _fail(page, verdict, verdict.reason)
        leases.finish(page)
    return verdict


def _prepare(site_id: int, renders: Sequence[DeviceRender]) -> dict[bytes, NewBody]:
    contents = [render.html for render in renders if render.html is not None]
    if not contents:
        return {}
    project_id = Site.objects.filter(pk=site_id).values_list("project_id", flat=True).first()
    return {} if project_id is None else bodies.missing(project_id, contents)


def _succeed(
    page: CompletingPage, renders: Sequence[DeviceRender], prepared: dict[bytes, NewBody], verdict: Verdict
) -> None:
    due_at = rows.reschedule_success(
        page.page_id,
        started_at=page.started_at,
        completed_at=page.now,
        interval_s=page.interval_s,
        outcome=verdict.reason,
    )
    copies.store(page, renders, prepared, due_at)


def _count_gone(page: CompletingPage, verdict: Verdict) -> None:
    """The `cold_after`-th confirmation in a row retires the page: its copies and its row go, and crawlers get the
    origin's own answer (trap 27, F28). A request starts the count again."""
    last_outcome = RenderSchedule.objects.values_list("last_outcome", flat=True).get(pk=page.page_id)
    streak = min(gone_streak(last_outcome), page.failures) + 1
    if streak < page.cold_after:
        _fail(page, verdict, gone_outcome(verdict, streak))
        return
    copies.remove(page)
    leases.finish(page)
    rows.delete_page(page.page_id)


def _fail(page: CompletingPage, verdict: Verdict, outcome: str) -> None:
    rows.reschedule_failure(
        page.page_id,
        now=page.now,
        retries=page.retries,
        interval_s=page.interval_s,
        cold_after=page.cold_after,
        page_level=verdict.kind in (Kind.PAGE_FAILURE, Kind.GONE),
        outcome=outcome,
        retry_after_s=verdict.retry_after_s,
    )
