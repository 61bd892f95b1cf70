"""A whole keeper on a real Postgres: threads, feed, walks, claims. The pool is the test."""

from __future__ import annotations

import queue
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db.backends.utils import CursorWrapper

from keeper import report
from keeper.membership import NodeIdentity
from keeper.service import Keeper
from renderqueue.config import Config, config
from renderqueue.models import FleetPolicy, Lease, RenderSchedule, Site
from renderqueue.scheduling import leases, rows
from tests.factories import database_now, make_page, make_pages, make_site

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]

Sent = queue.Queue[tuple[int, uuid.UUID]]


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for what other threads do; fails loudly when it does not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.01)


CUT_FEEDS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE application_name = 'renderqueue feed' AND datname = current_database()"
)


class Node:
    """A keeper and the tasks that it handed to its pool."""

    def __init__(self, settings: Config, pool_size: int = 1) -> None:
        self.sent: Sent = queue.Queue()
        self.settings = settings.model_copy(update={"pool_size": pool_size, "prefetch_extra": 1})
        identity = NodeIdentity(uuid.uuid4(), "render@test", "test", "render.test", pool_size)
        self.keeper = Keeper(self.settings, identity, lambda page_id, token: self.sent.put((page_id, token)))
        self.keeper.start()

    def next_task(self) -> tuple[int, uuid.UUID]:
        return self.sent.get(timeout=10)

    def render(self) -> int:
        """Do what the render task does, without a browser."""
        page_id, token = self.next_task()
        self.keeper.dispatcher.started(page_id, token)
        started = leases.start(page_id, token)
        assert started is not None
        with leases.completing(page_id, token) as page:
            assert page is not None
            rows.reschedule_success(
                page_id, started_at=page.started_at, completed_at=page.now, interval_s=page.interval_s, outcome="ok"
            )
            leases.finish(page)
        self.keeper.dispatcher.finished(page_id, token)
        return page_id

    def complete(self) -> bool:
        return bool(self.keeper.document()["complete"])


@pytest.fixture
def settings_here(url: str) -> Config:
    return config().model_copy(update={"database_url": url, "feed_database_url": url, "lease_s": 6.0})


@pytest.fixture
def start(settings_here: Config) -> Iterator[Callable[..., Node]]:
    nodes: list[Node] = []

    def starter(**given: Any) -> Node:
        nodes.append(Node(settings_here, **given))
        return nodes[-1]

    yield starter
    for node in nodes:
        node.keeper.shutdown()


def test_pages_that_are_there_at_the_start_are_walked_and_handed_over_in_order(start: Any) -> None:
    site = make_site(default_interval_s=3600)
    hour_late = make_page(site, due_at=database_now().replace(second=0, microsecond=0))
    oldest = make_page(site)
    node = start()
    assert [node.render(), node.render()] == [oldest.pk, hour_late.pk]
    eventually(lambda: node.keeper.document()["status"] == "empty")
    assert RenderSchedule.objects.filter(rendered_at=None).count() == 0
    assert not Lease.objects.exists()


def test_a_page_written_later_arrives_by_the_feed_without_a_walk(start: Any) -> None:
    site = make_site()
    node = start()
    eventually(node.complete)
    walks = node.keeper.document()["walks"]["finished"]
    page = make_page(site)
    assert node.render() == page.pk
    assert node.keeper.document()["walks"]["finished"] == walks


def test_no_more_is_leased_than_the_bound_and_a_freed_slot_is_refilled(start: Any) -> None:
    make_pages(make_site(concurrency_cap=50), 20)
    node = start(pool_size=2)
    tasks = [node.next_task() for _ in range(3)]
    eventually(lambda: node.keeper.document()["leased"] == 3)
    assert node.sent.empty()
    assert Lease.objects.count() == 3
    node.sent.put(tasks[0])
    node.render()
    node.next_task()
    eventually(lambda: Lease.objects.count() == 3)


def test_all_pages_of_a_backlog_are_rendered_once(start: Any) -> None:
    make_pages(make_site(), 60)
    node = start(pool_size=4)
    rendered = [node.render() for _ in range(60)]
    assert len(set(rendered)) == 60
    eventually(lambda: node.keeper.document()["status"] == "empty")


def test_a_request_goes_before_everything_that_waits(start: Any) -> None:
    site = make_site(concurrency_cap=1)
    pages = [make_page(site) for _ in range(5)]
    node = start()
    node.next_task()
    rows.request_pages([pages[3].pk], render_now=False)
    eventually(lambda: node.keeper.document()["head"][0]["page"] == pages[3].pk)
    assert node.keeper.document()["head"][0]["class"] == "urgent"


def test_pausing_a_site_stops_its_claims_at_once_and_resuming_continues(start: Any) -> None:
    site = make_site()
    node = start()
    eventually(node.complete)
    Site.objects.filter(pk=site.pk).update(paused=True)
    make_page(site)
    eventually(lambda: node.keeper.document()["paused"] == 1)
    assert not Lease.objects.exists()
    Site.objects.filter(pk=site.pk).update(paused=False)
    node.render()


def test_a_window_set_while_running_moves_the_edge_and_widening_walks(start: Any) -> None:
    FleetPolicy.objects.get_or_create(id=1)
    node = start()
    eventually(node.complete)
    assert node.keeper.document()["edge_infinite"]
    FleetPolicy.objects.update(window_s=3600)
    eventually(lambda: node.keeper.document()["edge_lead_s"] is not None)
    assert 3590 < node.keeper.document()["edge_lead_s"] <= 3600
    walks = node.keeper.document()["walks"]["finished"]
    FleetPolicy.objects.update(window_s=7200)
    eventually(lambda: node.keeper.document()["walks"]["finished"] == walks + 1)
    assert node.keeper.document()["edge_lead_s"] > 7000


def test_asks_within_half_an_interval_are_ignored_and_counted(start: Any) -> None:
    node = start()
    eventually(node.complete)
    assert node.keeper.ask_walk() is False
    assert node.keeper.document()["walks"]["asks_ignored"] == 1


def test_what_was_written_while_the_feed_was_cut_is_found_after_it_is_back(start: Any, raw: Any) -> None:
    """The rules are read before the feed is open again: locking them holds the keeper there."""
    site = make_site()
    route = site.routes.get()
    node = start()
    eventually(node.complete)
    with psycopg.connect(node.settings.database_url) as holder:
        holder.execute("LOCK TABLE renderqueue_site IN ACCESS EXCLUSIVE MODE")
        raw.execute(CUT_FEEDS)
        eventually(lambda: not node.complete())
        assert node.keeper.document()["status"] == "unready"
        raw.execute("SET session_replication_role = replica")
        raw.execute(
            "INSERT INTO renderqueue_renderschedule"
            " (site_id, route_id, url, key, partition, due_at, failures, retries, last_outcome, created_at)"
            " VALUES (%s, %s, 'https://missed.test/', gen_random_uuid(), 9, '2026-01-01', 0, 0, '', now())",
            [site.pk, route.pk],
        )
    node.render()
    eventually(node.complete)


def test_a_feed_that_stays_silent_is_degraded_and_replaced(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half-open connections say nothing: here the node listens for its echo on the wrong channel."""
    from keeper import service

    monkeypatch.setattr(service, "FEED_TEST_S", 0.2)
    node = start()
    eventually(node.complete)
    channel = node.keeper._marker_channel
    node.keeper._marker_channel = "rq_nobody"
    eventually(lambda: not node.complete())
    node.keeper._marker_channel = channel
    eventually(node.complete)
    eventually(lambda: node.keeper.document()["phase"] == "serving")


def test_a_statement_too_large_for_the_feed_is_walked(start: Any, raw: Any) -> None:
    site = make_site()
    node = start()
    eventually(node.complete)
    raw.execute(
        "INSERT INTO renderqueue_renderschedule"
        " (site_id, route_id, url, key, partition, due_at, failures, retries, last_outcome, created_at)"
        " SELECT %s, %s, 'https://bulk.test/' || n, md5(n::text)::uuid, n %% 1024, '2100-01-01', 0, 0, '', now()"
        " FROM generate_series(1, 50001) AS n",
        [site.pk, site.routes.get().pk],
    )
    eventually(lambda: node.keeper.document()["held"] == 50_001, 20)
    eventually(node.complete)
    raw.execute("TRUNCATE renderqueue_renderschedule CASCADE")
    eventually(lambda: node.keeper.document()["held"] == 0, 20)


def test_stopping_releases_what_has_not_started_and_leaves_what_has(start: Any) -> None:
    site = make_site()
    make_page(site)
    make_page(site)
    node = start()
    (first, token), _ = node.next_task(), node.next_task()
    node.keeper.dispatcher.started(first, token)
    assert leases.start(first, token)
    node.keeper.stop()
    assert list(Lease.objects.values_list("page_id", flat=True)) == [first]
    with leases.completing(first, token) as page:
        assert page is not None
        leases.finish(page)


def test_leases_are_renewed_while_renders_run_even_after_stop(start: Any) -> None:
    make_page(make_site())
    node = start()
    page_id, token = node.next_task()
    node.keeper.dispatcher.started(page_id, token)
    assert leases.start(page_id, token)
    node.keeper.stop()
    expires = Lease.objects.get().expires_at
    eventually(lambda: Lease.objects.get().expires_at > expires)


def test_a_lease_that_another_took_is_given_up(start: Any) -> None:
    make_page(make_site())
    node = start()
    node.next_task()
    Lease.objects.update(token=uuid.uuid4())
    eventually(lambda: node.keeper.document()["leased"] == 0)


def test_a_dead_nodes_leases_come_back(start: Any) -> None:
    page = make_page(make_site())
    leases.claim(uuid.uuid4(), [page.pk], 0.001)
    node = start()
    assert node.render() == page.pk


def test_two_nodes_share_the_groups_and_one_that_leaves_gives_them_back(start: Any) -> None:
    make_pages(make_site(paused=True), 200)
    first, second = start(), start()
    eventually(lambda: first.keeper.document()["groups"] == 256 - second.keeper.document()["groups"] < 256)
    eventually(lambda: first.complete() and second.complete())
    ids = [node.keeper.index.held_ids().tolist() for node in (first, second)]
    assert sorted(ids[0] + ids[1]) == list(RenderSchedule.objects.order_by("id").values_list("id", flat=True))
    assert min(map(len, ids)) > 50
    second.keeper.shutdown()
    eventually(lambda: first.keeper.document()["held"] == 200 and first.complete())


def test_the_report_is_in_postgres_and_says_who_and_what(start: Any) -> None:
    page = make_page(make_site(paused=True))
    node = start()
    eventually(lambda: any(view.document and view.document["complete"] for view in report.read_nodes()))
    [view] = report.read_nodes()
    assert view.document is not None
    assert (view.id, view.pool_size, view.stale) == (node.keeper.identity.id, 1, False)
    assert (view.document["held"], view.document["due"], view.document["paused"]) == (1, 1, 1)
    assert view.document["status"] == "queued"
    assert page.due_at is not None
    assert view.document["oldest_due_at"] == page.due_at.timestamp()


def test_an_idle_keeper_asks_the_database_at_most_once_a_second(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statements of all its threads; what it asks outside of Django it asks when it walks or reads rules only."""
    asked: list[str] = []
    execute = CursorWrapper.execute

    def counting(self: CursorWrapper, sql: Any, params: Any = None) -> Any:
        asked.append(sql)
        return execute(self, sql, params)

    make_site()
    node = start()
    eventually(node.complete)
    began = time.monotonic()
    eventually(lambda: time.monotonic() - began > 1.5, 5)
    monkeypatch.setattr(CursorWrapper, "execute", counting)
    began = time.monotonic()
    eventually(lambda: time.monotonic() - began > 10, 15)
    assert 5 <= len(asked) <= 11, asked
