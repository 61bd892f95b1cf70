"""What beat is told (D6, W1, W7)."""

from __future__ import annotations

import pytest
from django_celery_beat.models import PeriodicTask

from renderqueue.celery import app
from renderqueue.models import FleetPolicy
from renderqueue.scheduling.periodic import declared, synchronise

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


def walk_interval() -> int:
    task = PeriodicTask.objects.get(task="renderqueue.ask_walks")
    assert task.interval is not None
    return int(task.interval.every)


@pytest.mark.parametrize(
    ("window", "verify", "expected"),
    [(0, 3600, 3600), (0, 0, 86400), (5400, 3600, 1800), (5400, 0, 1800), (86400, 60, 60)],
)
def test_saving_the_policy_rewrites_the_interval_of_the_walks(window: int, verify: int, expected: int) -> None:
    policy, _ = FleetPolicy.objects.get_or_create(id=1)
    policy.window_s, policy.verify_interval_s = window, verify
    policy.save()
    assert walk_interval() == expected


def test_synchronising_twice_changes_nothing_and_keeps_one_task_each() -> None:
    policy = FleetPolicy(id=1)
    synchronise(policy)
    before = list(PeriodicTask.objects.order_by("name").values_list("name", "date_changed"))
    synchronise(policy)
    assert list(PeriodicTask.objects.order_by("name").values_list("name", "date_changed")) == before


def test_a_task_that_is_no_longer_declared_goes_and_foreign_ones_stay() -> None:
    policy = FleetPolicy(id=1)
    synchronise(policy)
    interval = PeriodicTask.objects.exclude(interval=None).first()
    assert interval is not None
    PeriodicTask.objects.create(name="old", task="renderqueue.gone", interval=interval.interval)
    PeriodicTask.objects.create(name="theirs", task="other.task", interval=interval.interval)
    synchronise(policy)
    assert not PeriodicTask.objects.filter(name="old").exists()
    assert PeriodicTask.objects.filter(name="theirs").exists()


def test_every_declared_task_is_one_that_the_workers_know() -> None:
    app.loader.import_default_modules()
    assert {periodic.task for periodic in declared(FleetPolicy(id=1))} <= set(app.tasks)
