"""The run's row is the truth: queued, taken, lost, taken over, refreshed (C5, F89)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pytest
from django.db.models.functions import Now

from renderqueue.celery import app
from renderqueue.models import Sitemap, SitemapRun
from renderqueue.sitemaps import runs
from renderqueue.sitemaps.ingest import IngestFailed, execute
from renderqueue.sitemaps.tally import Tally
from renderqueue.sitemaps.tasks import INGEST, ingest_sitemap, refresh_due_sitemaps, requeue_runs, start_run
from tests.factories import database_now, make_site
from tests.sitemaps.conftest import Shop

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]


@pytest.fixture
def sitemap(db: None) -> Sitemap:
    return Sitemap.objects.create(site=make_site(), url="https://shop.test/s.xml")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The run ids that were given to the broker."""
    ids: list[int] = []

    def send_task(name: str, args: list[int], **options: object) -> None:
        assert name == INGEST
        ids.extend(args)

    monkeypatch.setattr(app, "send_task", send_task)
    return ids


def age(run: SitemapRun, **fields: dt.timedelta) -> None:
    SitemapRun.objects.filter(pk=run.pk).update(**{name: Now() - ago for name, ago in fields.items()})


def test_a_second_run_of_an_open_one_is_refused_and_says_which(sitemap: Sitemap) -> None:
    run = runs.queue_run(sitemap)
    with pytest.raises(runs.RunRefused, match=rf"is waiting to be read since .* \(run {run.pk}"):
        runs.queue_run(sitemap)
    runs.take(run.pk)
    with pytest.raises(runs.RunRefused, match="is being read since"):
        runs.queue_run(sitemap)


def test_a_run_is_taken_once(sitemap: Sitemap) -> None:
    run = runs.queue_run(sitemap)
    assert runs.take(run.pk) is not None
    assert runs.take(run.pk) is None
    assert runs.take(run.pk + 1000) is None


def test_a_runner_without_progress_is_replaced_and_then_writes_nothing(sitemap: Sitemap) -> None:
    run = runs.queue_run(sitemap)
    first = runs.take(run.pk)
    assert first is not None
    runs.write_progress(first, Tally(listed=7))
    age(run, updated_at=dt.timedelta(seconds=runs.STALE_S + 1))
    second = runs.take(run.pk)
    assert second is not None
    run.refresh_from_db()
    assert run.listed == 0
    with pytest.raises(runs.RunLost):
        runs.write_progress(first, Tally())
    with pytest.raises(runs.RunLost):
        runs.finish(first, Tally(), "", failed=False)
    runs.finish(second, Tally(listed=9), "", failed=False)
    run.refresh_from_db()
    assert (run.state, run.listed) == ("done", 9)


def test_the_loser_of_a_take_over_stops_without_a_trace(shop: Shop) -> None:
    shop.urlset("/s.xml", [f"/{number}" for number in range(600)])
    run = runs.queue_run(shop.sitemap("/s.xml"))
    running = runs.take(run.pk)
    assert running is not None

    def lose(_: object) -> None:
        SitemapRun.objects.filter(pk=run.pk).update(token=None)

    with pytest.raises(runs.RunLost):
        execute(running, on_progress=lose)
    assert shop.site.pages.count() == 500


def test_lost_messages_and_lost_runners_are_sent_again(sitemap: Sitemap, sent: list[int]) -> None:
    run = runs.queue_run(sitemap)
    requeue_runs()
    assert sent == []
    age(run, queued_at=dt.timedelta(seconds=runs.LOST_MESSAGE_S + 1))
    requeue_runs()
    assert sent == [run.pk]
    runs.take(run.pk)
    requeue_runs()
    assert sent == [run.pk]
    age(run, updated_at=dt.timedelta(seconds=runs.STALE_S + 1))
    requeue_runs()
    assert sent == [run.pk, run.pk]


def test_a_run_that_ends_every_worker_is_given_up(sitemap: Sitemap, sent: list[int]) -> None:
    run = runs.queue_run(sitemap)
    runs.take(run.pk)
    age(run, updated_at=dt.timedelta(hours=1), queued_at=dt.timedelta(seconds=runs.GIVE_UP_S + 1))
    requeue_runs()
    run.refresh_from_db()
    sitemap.refresh_from_db()
    assert (run.state, sent) == ("failed", [])
    assert "No worker could finish" in run.error
    assert sitemap.next_refresh_at is not None


def test_due_roots_are_queued_and_open_or_later_ones_are_not(sitemap: Sitemap, sent: list[int]) -> None:
    site, now = sitemap.site, database_now()
    Sitemap.objects.filter(pk=sitemap.pk).update(next_refresh_at=now)
    Sitemap.objects.create(site=site, url="https://shop.test/later.xml", next_refresh_at=now + dt.timedelta(hours=1))
    Sitemap.objects.create(site=site, url="https://shop.test/never.xml")
    Sitemap.objects.create(site=site, url="https://shop.test/child.xml", parent=sitemap, next_refresh_at=now)
    refresh_due_sitemaps()
    assert list(SitemapRun.objects.values_list("sitemap", flat=True)) == [sitemap.pk]
    assert runs.due_sitemaps() == []
    refresh_due_sitemaps()
    assert SitemapRun.objects.count() == 1


def test_the_message_is_sent_after_the_commit(
    sitemap: Sitemap, sent: list[int], django_capture_on_commit_callbacks: Callable[..., object]
) -> None:
    with django_capture_on_commit_callbacks(execute=True) as callbacks:  # type: ignore[attr-defined]
        run = start_run(sitemap)
        assert sent == []
    assert len(callbacks) == 1
    assert sent == [run.pk]


def test_a_good_run_is_refreshed_after_its_interval(shop: Shop) -> None:
    shop.urlset("/s.xml", ["/a"])
    shop.ingest("/s.xml")
    sitemap = shop.sitemap("/s.xml")
    assert sitemap.next_refresh_at is not None
    assert sitemap.last_fetched_at is not None
    wait = sitemap.next_refresh_at - database_now()
    assert dt.timedelta(hours=23, minutes=59) < wait <= dt.timedelta(hours=24)


def test_failures_are_retried_sooner_and_then_less_often_and_a_success_ends_it(shop: Shop) -> None:
    waits = []
    for _ in range(3):
        with pytest.raises(IngestFailed):
            shop.ingest("/s.xml")
        sitemap = shop.sitemap("/s.xml")
        assert sitemap.next_refresh_at is not None
        waits.append(round((sitemap.next_refresh_at - database_now()).total_seconds()))
    assert waits == pytest.approx([600, 1200, 2400], abs=5)
    assert "It answered 500" in shop.sitemap("/s.xml").last_error
    shop.urlset("/s.xml", ["/a"])
    shop.ingest("/s.xml")
    assert (shop.sitemap("/s.xml").consecutive_failures, shop.sitemap("/s.xml").last_error) == (0, "")


@pytest.mark.parametrize(
    ("failures", "interval", "wait"), [(1, 86400, 600), (8, 86400, 76800), (50, 86400, 86400), (3, 60, 600)]
)
def test_the_backoff_doubles_up_to_the_sitemap_s_interval(failures: int, interval: int, wait: int) -> None:
    assert runs.retry_s(failures, interval) == wait


def test_the_task_reads_the_sitemap_and_a_second_message_does_nothing(shop: Shop) -> None:
    shop.urlset("/s.xml", ["/a"])
    run = runs.queue_run(shop.sitemap("/s.xml"))
    ingest_sitemap(run.pk)
    ingest_sitemap(run.pk)
    assert shop.last_run().state == "done"
    assert len(shop.server.log) == 1
    assert ingest_sitemap.name == INGEST


def test_a_failed_run_does_not_fail_the_task(shop: Shop) -> None:
    ingest_sitemap(runs.queue_run(shop.sitemap("/missing.xml")).pk)
    assert shop.last_run().state == "failed"
