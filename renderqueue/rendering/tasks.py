"""The tasks of rendering. Ownership is the lease: a task is acknowledged early and never retried by the broker."""

from __future__ import annotations

import logging
import uuid

from celery import shared_task
from django.db import connections

from renderqueue.config import config
from renderqueue.egress.policy import EgressPolicy
from renderqueue.rendering import bodies, counts
from renderqueue.rendering.browser import RenderCancelled
from renderqueue.rendering.completion import complete
from renderqueue.rendering.host import browser_host
from renderqueue.rendering.job import DeviceRender, Fault, RenderJob
from renderqueue.scheduling import leases
from renderqueue.scheduling.leases import StartedPage

logger = logging.getLogger(__name__)

RENDER_PAGE = "renderqueue.render_page"
COLLECT_BODIES = "renderqueue.collect_bodies"
COLLECT_BATCHES = 20  # of bodies.COLLECT_BATCH: what is left is next time's


@shared_task(name=RENDER_PAGE, ignore_result=True, acks_late=False)
def render_page(page_id: int, token: str) -> None:
    """Render one leased page on every device of its site and write what it came to.

    Does nothing when the lease is gone or was started already. Raises nothing: a failure ends in the page's row;
    what cannot be written leaves the lease to expire (trap 9)."""
    lease = uuid.UUID(token)
    try:
        page = leases.start(page_id, lease)
        if page is None:
            counts.count(counts.DROPPED)
            return
        connections.close_all()  # back to the pool: a render is long
        renders = _render(page, lease)
        if renders is None:
            counts.count(counts.CANCELLED)
            leases.abandon(lease)
            return
        verdict = complete(page_id, page.site_id, lease, renders)
        counts.count(counts.LATE if verdict is None else verdict.kind)
        if verdict is not None and verdict.detail:
            logger.info("page %s (%s): %s: %s", page_id, page.url, verdict.reason, verdict.detail)
    except Exception:
        counts.count(counts.UNSTORED)
        logger.exception("page %s: its result was not written; the lease expires and it is rendered again", page_id)
    finally:
        connections.close_all()


@shared_task(name=COLLECT_BODIES, ignore_result=True)
def collect_bodies() -> None:
    """Delete bodies that nothing points at, in bounded batches."""
    for _ in range(COLLECT_BATCHES):
        settled, _deleted = bodies.collect()
        if settled < bodies.COLLECT_BATCH:
            return


def _render(page: StartedPage, lease: uuid.UUID) -> tuple[DeviceRender, ...] | None:
    """What the browser gave; None when it was told to stop. A browser that cannot be had is the renderer's failure,
    never the page's."""
    job = RenderJob(
        token=lease,
        url=page.url,
        devices=page.devices,
        policy=EgressPolicy(frozenset(page.allowed_private_hosts)),
        timeout_s=config().render_timeout_s,
    )
    try:
        return browser_host().render(job).renders
    except RenderCancelled:
        return None
    except Exception as error:
        logger.exception("page %s could not be rendered", page.page_id)
        return (DeviceRender("", fault=Fault.BROWSER_LOST, detail=str(error)[:300]),)
