"""The Celery application: two workers a machine, `render` and `housekeeping` (D6)."""

from __future__ import annotations

import os

from celery import Celery

from renderqueue.config import config
from renderqueue.transport import broker_settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "renderqueue.settings")

HOUSEKEEPING_QUEUE = "housekeeping"

app = Celery("renderqueue")
app.conf.update(
    broker_settings(config().broker_url, config().data_dir),
    task_default_queue=HOUSEKEEPING_QUEUE,
    # Ownership is the lease in Postgres: a message is acknowledged at once and never retried by the broker.
    task_acks_late=False,
    task_reject_on_worker_lost=False,
    task_ignore_result=True,
    task_store_errors_even_if_ignored=False,
    result_backend=None,
    worker_prefetch_multiplier=1,
    worker_disable_prefetch=False,
    worker_send_task_events=False,
    worker_hijack_root_logger=False,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    beat_scheduler="django_celery_beat.schedulers:DatabaseScheduler",
    beat_max_loop_interval=5,
    timezone="UTC",
    enable_utc=True,
    task_serializer="json",
    accept_content=["json"],
)
app.autodiscover_tasks(["renderqueue.rendering", "renderqueue.sitemaps", "renderqueue.scheduling"])
