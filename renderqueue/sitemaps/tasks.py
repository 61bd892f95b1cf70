"""Reading sitemaps in the background, on the housekeeping worker."""

from __future__ import annotations

import logging

from celery import shared_task
from django.db import transaction
from kombu.exceptions import OperationalError

from renderqueue.celery import app
from renderqueue.models import Sitemap, SitemapRun
from renderqueue.sitemaps import runs
from renderqueue.sitemaps.ingest import IngestFailed, execute

logger = logging.getLogger(__name__)

INGEST = "renderqueue.ingest_sitemap"
MESSAGE_LIFE_S = 60


def start_run(sitemap: Sitemap) -> SitemapRun:
    """Queue a reading of a sitemap: the row now, the message after the commit. Raises runs.RunRefused."""
    run = runs.queue_run(sitemap)
    transaction.on_commit(lambda: send(run.pk))
    return run


def send(run_id: int) -> bool:
    """Tell a worker about a run; whether the broker took it. If not, the sweep tells it again."""
    try:
        # What nobody takes in time expires: the sweep sends anew as long as the row is open.
        app.send_task(INGEST, [run_id], expires=MESSAGE_LIFE_S)
    except (OperationalError, OSError):
        logger.warning("run %s stays queued: the broker cannot be reached", run_id, exc_info=True)
        return False
    return True


@shared_task(name=INGEST)
def ingest_sitemap(run_id: int) -> None:
    """Execute a run, unless it is being executed or done."""
    running = runs.take(run_id)
    if running is None:
        return
    try:
        tally = execute(running)
    except IngestFailed as error:
        logger.warning("run %s failed: %s", run_id, error)
    except runs.RunLost:
        logger.warning("run %s was taken over by another worker", run_id)
    else:
        logger.info("run %s done: %s URLs, %s new pages", run_id, tally.listed, tally.created)


@shared_task(name="renderqueue.requeue_runs")
def requeue_runs() -> None:
    """Send again what the broker lost, and what a worker left behind (C5)."""
    runs.give_up_on_hopeless_runs()
    for run_id in runs.lost_runs():
        send(run_id)


@shared_task(name="renderqueue.refresh_due_sitemaps")
def refresh_due_sitemaps() -> None:
    """Queue the root sitemaps whose refresh is due. A second one meanwhile is no fault."""
    for sitemap in runs.due_sitemaps():
        try:
            start_run(sitemap)
        except runs.RunRefused:
            continue  # another beat was faster
