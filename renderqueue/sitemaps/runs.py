"""The life of a run's row: queued, running, done or failed. The row is the truth, the broker a hint (C5).

Every step is one compare-and-set: whoever holds the row's token runs it, and a runner that finds the token gone
stops without a word.
"""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import dataclass

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from renderqueue.models import Sitemap, SitemapRun
from renderqueue.sitemaps.tally import COUNTERS, Tally

State = SitemapRun.State

STALE_S = 300
"""A runner writes progress after every batch and document, and no document may take half as long."""
LOST_MESSAGE_S = 20
GIVE_UP_S = 6 * 3600
BACKOFF_FIRST_S = 600
SWEEP_ROWS = 50


class RunRefused(Exception):
    """The sitemap is being read already; the message says since when."""


class RunLost(Exception):
    """Another runner has taken the run over, or it was deleted."""


@dataclass(frozen=True, slots=True)
class Running:
    """A run that this process owns."""

    run_id: int
    token: uuid.UUID
    sitemap: Sitemap


def queue_run(sitemap: Sitemap) -> SitemapRun:
    """Make a row that says the sitemap is to be read. Raises RunRefused while another is open."""
    try:
        with transaction.atomic():
            return SitemapRun.objects.create(sitemap=sitemap)
    except IntegrityError:
        raise RunRefused(_open_sentence(sitemap)) from None


def take(run_id: int) -> Running | None:
    """Own a run that is queued, or whose runner has written no progress for `STALE_S`; counters start again.
    None if there is nothing to do."""
    token = uuid.uuid4()
    stale = Q(state=State.RUNNING, updated_at__lt=Now() - dt.timedelta(seconds=STALE_S))
    taken = SitemapRun.objects.filter(Q(state=State.QUEUED) | stale, pk=run_id).update(
        state=State.RUNNING,
        token=token,
        started_at=Now(),
        updated_at=Now(),
        error="",
        samples={},
        warnings=0,
        **dict.fromkeys(COUNTERS, 0),
    )
    if not taken:
        return None
    run = SitemapRun.objects.select_related("sitemap__site").get(pk=run_id)
    return Running(run_id, token, run.sitemap)


def write_progress(running: Running, tally: Tally) -> None:
    """Raises RunLost if the run is no longer ours."""
    if not _ours(running).update(updated_at=Now(), **tally.as_fields()):
        raise RunLost


@transaction.atomic
def finish(running: Running, tally: Tally, error: str, *, failed: bool) -> None:
    """Close the run, and say when its sitemap is read next: after its refresh interval, or, after a failure of it
    or of a child, sooner and then less and less often (F89). Raises RunLost."""
    closed = _ours(running).update(
        state=State.FAILED if failed else State.DONE,
        finished_at=Now(),
        updated_at=Now(),
        error=error,
        **tally.as_fields(),
    )
    if not closed:
        raise RunLost
    sitemap = Sitemap.objects.select_for_update(no_key=True).get(pk=running.sitemap.pk)
    if failed or tally.failed_documents:
        _refresh_later(sitemap, error)
    else:
        next_refresh_at = Now() + dt.timedelta(seconds=sitemap.refresh_interval_s)
        Sitemap.objects.filter(pk=sitemap.pk).update(
            consecutive_failures=0, last_error="", next_refresh_at=next_refresh_at
        )


def retry_s(failures: int, refresh_interval_s: int) -> int:
    """Seconds until the next try after `failures` failed runs in a row: doubles from ten minutes, never longer
    than the sitemap's own interval."""
    return min(BACKOFF_FIRST_S << min(max(failures - 1, 0), 20), max(refresh_interval_s, BACKOFF_FIRST_S))


def lost_runs() -> list[int]:
    """Open runs that nobody seems to work on: their message was lost, or their runner."""
    late = Q(state=State.QUEUED, queued_at__lt=Now() - dt.timedelta(seconds=LOST_MESSAGE_S))
    stale = Q(state=State.RUNNING, updated_at__lt=Now() - dt.timedelta(seconds=STALE_S))
    return list(SitemapRun.objects.filter(late | stale).order_by("pk").values_list("pk", flat=True)[:SWEEP_ROWS])


def give_up_on_hopeless_runs() -> int:
    """Fail runs that were taken over again and again without an end: something about them ends their workers."""
    given_up = 0
    hopeless = SitemapRun.objects.filter(
        state=State.RUNNING,
        updated_at__lt=Now() - dt.timedelta(seconds=STALE_S),
        queued_at__lt=Now() - dt.timedelta(seconds=GIVE_UP_S),
    ).select_related("sitemap__site")
    for run in hopeless[:SWEEP_ROWS]:
        running = Running(run.pk, run.token or uuid.uuid4(), run.sitemap)
        error = f"No worker could finish this run within {GIVE_UP_S // 3600} hours; see the workers' logs."
        if _ours(running).update(state=State.FAILED, finished_at=Now(), updated_at=Now(), error=error):
            given_up += 1
            _refresh_later(run.sitemap, error)
    return given_up


def due_sitemaps() -> list[Sitemap]:
    """Root sitemaps whose next reading is due and that are not being read."""
    return list(
        Sitemap.objects.filter(parent=None, next_refresh_at__lte=Now())
        .exclude(runs__state__in=[State.QUEUED, State.RUNNING])
        .order_by("next_refresh_at")[:SWEEP_ROWS]
    )


def _refresh_later(sitemap: Sitemap, error: str) -> None:
    failures = sitemap.consecutive_failures + 1
    Sitemap.objects.filter(pk=sitemap.pk).update(
        consecutive_failures=min(failures, 32_000),
        last_error=error,
        next_refresh_at=Now() + dt.timedelta(seconds=retry_s(failures, sitemap.refresh_interval_s)),
    )


def _ours(running: Running) -> QuerySet[SitemapRun]:
    return SitemapRun.objects.filter(pk=running.run_id, token=running.token, state=State.RUNNING)


def _open_sentence(sitemap: Sitemap) -> str:
    run = sitemap.runs.filter(state__in=[State.QUEUED, State.RUNNING]).first()
    if run is None:
        return f"{sitemap.url} was being read until a moment ago; try again."
    since = (run.started_at or run.queued_at).strftime("%H:%M:%S UTC")
    doing = "is being read" if run.state == State.RUNNING else "is waiting to be read"
    return f"{sitemap.url} {doing} since {since} (run {run.pk}, {run.listed:,} URLs so far); wait until it is done."
