from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate, post_save


class RenderqueueConfig(AppConfig):
    name = "renderqueue"
    default_auto_field = "django.db.models.BigAutoField"
    verbose_name = "renderqueue"

    def ready(self) -> None:
        post_migrate.connect(_after_migrate)
        post_save.connect(_after_policy_save, sender="renderqueue.FleetPolicy")


def _after_migrate(app_config: Any, **kwargs: Any) -> None:
    """The tables of beat and ours exist: make sure of the policy's one row and of the periodic tasks."""
    from django.db import connection

    if (
        app_config.name != "renderqueue"
        or "django_celery_beat_periodictask" not in connection.introspection.table_names()
    ):
        return
    from renderqueue.models import FleetPolicy
    from renderqueue.scheduling.periodic import synchronise

    policy, _ = FleetPolicy.objects.get_or_create(id=1)
    synchronise(policy)


def _after_policy_save(instance: Any, **kwargs: Any) -> None:
    from renderqueue.scheduling.periodic import synchronise

    synchronise(instance)
