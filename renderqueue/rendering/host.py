"""The process's one browser host, and what ends it."""

from __future__ import annotations

import threading
import uuid
from typing import Any

from celery import signals

from renderqueue.config import config
from renderqueue.rendering.browser import BrowserHost
from renderqueue.rendering.chromium import find_chromium
from renderqueue.scheduling.fence import on_stop

_guard = threading.Lock()
_host: BrowserHost | None = None


def browser_host() -> BrowserHost:
    """The host, made at the first call. Raises ChromiumMissing."""
    global _host
    with _guard:
        if _host is None:
            _host = BrowserHost(find_chromium(config().chromium_path))
        return _host


def stop_render(token: uuid.UUID) -> None:
    """Stop the render of a lease that this process lost (T1), or whose grace is over."""
    with _guard:
        host = _host
    if host is not None:
        host.cancel(token)


def close_browser_host(**_: Any) -> None:
    """Leave no browser behind. The next render would start another."""
    global _host
    with _guard:
        host, _host = _host, None
    if host is not None:
        host.close()


on_stop(stop_render)
signals.worker_shutdown.connect(close_browser_host)
signals.worker_process_shutdown.connect(close_browser_host)
