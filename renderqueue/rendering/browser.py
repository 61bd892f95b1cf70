"""The browser host: one thread with an event loop in which all pages of this process are visited.

Playwright's blocking API poisons the ORM in the thread that uses it (D6), so tasks hand jobs over and wait.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
import uuid
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from renderqueue.rendering.engine import LAUNCH_TIMEOUT_S
from renderqueue.rendering.engines import DRAIN_DEADLINE_S, RETIRE_AFTER, Engines
from renderqueue.rendering.job import RenderJob, RenderResult
from renderqueue.rendering.visit import render_page

logger = logging.getLogger(__name__)

SLACK_S = 75.0  # what a render may wait for beyond its visits: a launch after the longest pause, closing
CLOSE_WAIT_S = 30.0


class RenderCancelled(Exception):
    """The render was cancelled before it had a result: its lease was lost, or the host is closing."""


class HostClosed(RenderCancelled):
    """The host is closed and renders nothing more."""


class RenderOverdue(Exception):
    """The host did not answer in time, although every visit is bounded."""


class BrowserHost:
    """Thread-safe. The thread, its loop and the browser start with the first render and end with `close()`, after
    which no process is left; the thread is a daemon, so a process that forgets to close still ends."""

    def __init__(
        self,
        executable: Path,
        *,
        retire_after: int = RETIRE_AFTER,
        drain_deadline_s: float = DRAIN_DEADLINE_S,
        launch_timeout_s: float = LAUNCH_TIMEOUT_S,
    ) -> None:
        self._engines = Engines(
            executable,
            retire_after=retire_after,
            drain_deadline_s=drain_deadline_s,
            launch_timeout_s=launch_timeout_s,
        )
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._renders: dict[uuid.UUID, concurrent.futures.Future[RenderResult]] = {}
        self._closed = False

    def render(self, job: RenderJob, timeout_s: float | None = None) -> RenderResult:
        """Render one page; blocks for at most `timeout_s` (default: what its devices may take, and some slack).

        Raises RenderCancelled (by `cancel` or `close`), RenderOverdue, or ChromiumFailed when no browser starts.
        Whatever the page does is in the result, never an exception."""
        future = self._submit(job)
        try:
            return future.result(timeout_s or job.timeout_s * len(job.devices) + SLACK_S)
        except concurrent.futures.CancelledError:
            raise RenderCancelled(f"the render of {job.url} was cancelled") from None
        except TimeoutError:
            if not future.cancel():
                return future.result()
            raise RenderOverdue(f"the browser host did not answer for {job.url}") from None
        finally:
            with self._guard:
                self._renders.pop(job.token, None)

    def cancel(self, token: uuid.UUID) -> bool:
        """Stop the render of this lease; its page is closed. Returns whether there was one."""
        with self._guard:
            future = self._renders.get(token)
        return future is not None and future.cancel()

    def close(self) -> None:
        """Cancel what renders, close every browser, end the thread. Idempotent."""
        with self._guard:
            self._closed = True
            loop, thread, renders = self._loop, self._thread, list(self._renders.values())
            self._loop = None
        for render in renders:
            render.cancel()
        if loop is None or thread is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(self._engines.close(), loop).result(CLOSE_WAIT_S)
        except TimeoutError:
            logger.exception("a browser could not be closed in %s s", CLOSE_WAIT_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSE_WAIT_S)

    def _submit(self, job: RenderJob) -> concurrent.futures.Future[RenderResult]:
        with self._guard:
            if self._closed:
                raise HostClosed("the browser host is closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_run, args=[self._loop], name="browser-host", daemon=True)
                self._thread.start()
            render: Coroutine[Any, Any, RenderResult] = render_page(self._engines, job)
            future = asyncio.run_coroutine_threadsafe(render, self._loop)
            self._renders[job.token] = future
        return future


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(_end_tasks())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


async def _end_tasks() -> None:
    """Let what was cancelled run its cleaning up before the loop goes."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
