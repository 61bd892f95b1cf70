"""Pages whose render has started, as the keeper and the task leave them."""

from __future__ import annotations

import uuid

from renderqueue.models import RenderSchedule
from renderqueue.rendering.completion import complete
from renderqueue.rendering.job import DeviceRender
from renderqueue.rendering.verdict import Verdict
from renderqueue.scheduling import leases
from tests.factories import LONG_AGO, NODE

LEASE_S = 60.0


def make_due(page: RenderSchedule) -> None:
    RenderSchedule.objects.filter(pk=page.pk).update(due_at=LONG_AGO, retry_at=None)


def claimed(page: RenderSchedule) -> uuid.UUID:
    (answer,) = leases.claim(NODE, [page.pk], LEASE_S)
    assert answer.token is not None, answer
    return answer.token


def started(page: RenderSchedule) -> uuid.UUID:
    token = claimed(page)
    assert leases.start(page.pk, token) is not None
    return token


def render_ends(page: RenderSchedule, *renders: DeviceRender) -> Verdict | None:
    """One whole render of a page: due, claimed, started, completed with these results."""
    make_due(page)
    return complete(page.pk, page.site_id, started(page), renders)


def shown(html: str, device: str = "desktop", **facts: object) -> DeviceRender:
    headers = {"content-type": "text/html; charset=utf-8"}
    return DeviceRender(device, status=200, headers=headers, html=html.encode(), **facts)  # type: ignore[arg-type]
