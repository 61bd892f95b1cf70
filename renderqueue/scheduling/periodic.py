"""The periodic tasks, declared once and written through `save()`, because django-celery-beat does not see
`update()` (D6). Called after every migrate and whenever the fleet's policy is saved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from renderqueue.models import FleetPolicy

SLOWEST_ASK_S = 24 * 3600
"""Without a window and with verification off, walks are still asked for once a day: nodes ignore what is too
soon, and the ask costs nothing."""


@dataclass(frozen=True, slots=True)
class Periodic:
    """A task that beat sends to the housekeeping queue every `every_s` seconds."""

    name: str
    task: str
    every_s: int


def declared(policy: FleetPolicy) -> list[Periodic]:
    """All of them. A run that was missed is not made up for: each looks at what is due when it runs."""
    return [
        Periodic("ask every node for a walk", "renderqueue.ask_walks", _walk_every_s(policy)),
        Periodic("queue sitemap runs whose message was lost", "renderqueue.requeue_runs", 30),
        Periodic("refresh sitemaps that are due", "renderqueue.refresh_due_sitemaps", 60),
        Periodic("delete bodies that nothing uses", "renderqueue.collect_bodies", 60),
    ]


@transaction.atomic
def synchronise(policy: FleetPolicy) -> None:
    """Make beat's table say what is declared; tasks of ours that are no longer declared go."""
    wanted = declared(policy)
    for periodic in wanted:
        schedule, _ = IntervalSchedule.objects.get_or_create(every=periodic.every_s, period=IntervalSchedule.SECONDS)
        values: dict[str, Any] = {
            "task": periodic.task,
            "interval": schedule,
            "queue": "housekeeping",
            "expire_seconds": max(periodic.every_s, 10),
        }
        known = PeriodicTask.objects.filter(name=periodic.name).first()
        if known is None:
            PeriodicTask.objects.create(name=periodic.name, **values)
        elif any(getattr(known, field) != value for field, value in values.items()):
            for field, value in values.items():
                setattr(known, field, value)
            known.save()
    PeriodicTask.objects.filter(task__startswith="renderqueue.").exclude(
        name__in=[periodic.name for periodic in wanted]
    ).delete()


def _walk_every_s(policy: FleetPolicy) -> int:
    """min(verify_interval, window / 3), whole seconds (W1)."""
    candidates = [policy.verify_interval_s or SLOWEST_ASK_S]
    if policy.window_s:
        candidates.append(policy.window_s // 3)
    return max(min(candidates), 1)
