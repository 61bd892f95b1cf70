"""A Celery application of the transport's tests; run as a worker by them."""

from __future__ import annotations

import os
from pathlib import Path

from celery import Celery

from renderqueue.transport import broker_settings

app = Celery("transport-tests")
app.conf.update(
    broker_settings(os.environ.get("TEST_BROKER_URL", "filesystem://"), Path(os.environ["TEST_DATA_DIR"])),
    task_ignore_result=True,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="append")
def append(path: str, line: str) -> None:
    """Write `line` at the end of the file `path`."""
    with open(path, "a") as file:
        file.write(line + "\n")
