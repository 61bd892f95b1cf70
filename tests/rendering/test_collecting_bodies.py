"""A body goes when nothing points at it, and never while somebody is about to."""

from __future__ import annotations

import threading

import pytest
from django.db import connection, connections, transaction

from renderqueue.models import Body, CachedCopy, DeletionDebt, RenderSchedule
from renderqueue.rendering import bodies
from renderqueue.rendering.tasks import collect_bodies
from tests.factories import LONG_AGO, make_page, make_site
from tests.rendering.leased import render_ends, shown
from tests.rendering.processes import wait_for

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


def replaced_body(page: RenderSchedule) -> Body:
    """A body that the page had and has no more."""
    render_ends(page, shown("<p>old</p>"))
    body = Body.objects.get()
    render_ends(page, shown("<p>new</p>"))
    return body


def make_collectable() -> None:
    DeletionDebt.objects.update(collectable_at=LONG_AGO)


def test_an_unused_body_goes_when_its_time_has_come() -> None:
    old = replaced_body(make_page(make_site()))
    assert bodies.collect() == (0, 0)
    make_collectable()
    assert bodies.collect() == (1, 1)
    assert not Body.objects.filter(pk=old.pk).exists()
    assert Body.objects.count() == 1
    assert not DeletionDebt.objects.exists()


def test_a_body_that_came_back_into_use_stays() -> None:
    page = make_page(make_site())
    old = replaced_body(page)
    render_ends(page, shown("<p>old</p>"))
    make_collectable()
    assert bodies.collect() == (2, 1)
    assert Body.objects.get().pk == old.pk == CachedCopy.objects.get().body_id


def test_batches_are_bounded_and_the_task_goes_on() -> None:
    page = make_page(make_site())
    for number in range(6):
        render_ends(page, shown(f"<p>{number}</p>"))
    make_collectable()
    assert bodies.collect(limit=2) == (2, 2)
    collect_bodies()
    assert Body.objects.count() == 1


def test_a_body_that_a_render_is_about_to_use_is_left_alone() -> None:
    page = make_page(make_site())
    old = replaced_body(page)
    make_collectable()
    pinned, collected = threading.Event(), threading.Event()

    def render() -> None:
        with transaction.atomic():
            bodies.pin(page.site.project_id, [b"<p>old</p>"], {})
            pinned.set()
            collected.wait(10)
            CachedCopy.objects.update(body_id=old.pk)
        connections.close_all()

    thread = threading.Thread(target=render)
    thread.start()
    assert pinned.wait(10)
    assert bodies.collect() == (0, 0)
    collected.set()
    thread.join(10)
    assert CachedCopy.objects.get().body_id == old.pk
    assert Body.objects.filter(pk=old.pk).exists()


def test_a_body_that_the_collector_holds_is_waited_for_and_written_anew() -> None:
    page = make_page(make_site())
    old = replaced_body(page)
    ids: list[int] = []

    def render() -> None:
        with transaction.atomic():
            ids.extend(bodies.pin(page.site.project_id, [b"<p>old</p>"], {}).values())
        connections.close_all()

    thread = threading.Thread(target=render)
    with transaction.atomic():
        Body.objects.select_for_update().get(pk=old.pk)
        thread.start()
        wait_for(_somebody_waits, "waiting for the collector's lock")
        DeletionDebt.objects.filter(body=old).delete()
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM renderqueue_body WHERE id = %s", [old.pk])
    thread.join(10)
    assert ids != [old.pk]
    assert Body.objects.filter(pk=ids[0], sha256=old.sha256).exists()


def _somebody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(cursor.fetchone()[0])


def test_pages_with_the_same_bodies_do_not_wait_in_a_ring() -> None:
    project_id = make_site().project_id
    low, high = sorted([b"<p>a</p>", b"<p>b</p>"], key=bodies.digest)
    ids: list[int] = []

    def other() -> None:
        with transaction.atomic():
            ids.extend(bodies.pin(project_id, [high, low], {}).values())
        connections.close_all()

    thread = threading.Thread(target=other)
    with transaction.atomic():
        mine = bodies.pin(project_id, [low], {})
        thread.start()
        wait_for(_somebody_waits, "waiting for the first body")
        mine |= bodies.pin(project_id, [high], {})
    thread.join(10)
    assert sorted(ids) == sorted(mine.values())
