"""Which browser a visit runs in: one is current; a retired one finishes its visits and goes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from renderqueue.rendering.chromium import ChromiumFailed
from renderqueue.rendering.engine import CLOSE_TIMEOUT_S, LAUNCH_TIMEOUT_S, Engine

logger = logging.getLogger(__name__)

RETIRE_AFTER = 200  # visits
DRAIN_DEADLINE_S = 120.0
BACKOFF_FIRST_S = 0.5
BACKOFF_CAP_S = 30.0


class Engines:
    """The browsers of one host, used from one event loop. The first visit launches one.

    A browser that has begun `retire_after` visits is retired: it gets no more, finishes those it has, and is closed
    when idle or at the deadline (trap 43). A browser that died is replaced at the next visit, after a pause that
    doubles while browsers die or do not start without finishing a visit."""

    def __init__(
        self,
        executable: Path,
        *,
        retire_after: int = RETIRE_AFTER,
        drain_deadline_s: float = DRAIN_DEADLINE_S,
        launch_timeout_s: float = LAUNCH_TIMEOUT_S,
    ) -> None:
        self._executable = executable
        self._retire_after = retire_after
        self._drain_deadline_s = drain_deadline_s
        self._launch_timeout_s = launch_timeout_s
        self._current: Engine | None = None
        self._launching: asyncio.Task[None] | None = None
        self._closing: dict[asyncio.Task[None], Engine] = {}
        self._pausing = False
        self._losses = 0
        self._not_before = 0.0

    @asynccontextmanager
    async def visit(self) -> AsyncIterator[Engine]:
        """A browser to visit one page in. Raises ChromiumFailed when none can be started."""
        while (engine := self._usable()) is None:
            if self._launching is None:
                self._launching = asyncio.create_task(self._launch())
            # Shielded: a visit that is cancelled must not leave a half-launched browser behind.
            await asyncio.shield(self._launching)
        engine.begin()
        try:
            yield engine
        finally:
            engine.end()
            if not engine.lost.is_set():
                self._losses = 0

    async def discard(self, engine: Engine) -> None:
        """This browser no longer answers: kill it. Its other visits fail as lost."""
        engine.lost.set()
        self._forget(engine)
        await self._close_later(engine, drain_s=0, close_s=0)

    async def close(self) -> None:
        """Close every browser, visits or none; returns when no process is left."""
        if self._launching is not None:
            if self._pausing:
                self._launching.cancel()
            await asyncio.wait([self._launching])
        engines = {*self._closing.values(), *([self._current] if self._current else [])}
        self._current = None
        for task in list(self._closing):
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        await asyncio.gather(*(engine.close() for engine in engines))

    def _usable(self) -> Engine | None:
        engine = self._current
        if engine is None or engine.lost.is_set():
            return None
        if engine.opened >= self._retire_after:
            self._current = None
            self._close_later(engine, drain_s=self._drain_deadline_s, close_s=CLOSE_TIMEOUT_S)
            return None
        return engine

    async def _launch(self) -> None:
        try:
            self._pausing = True
            await asyncio.sleep(max(self._not_before - time.monotonic(), 0))
            self._pausing = False
            engine = await Engine.launch(self._executable, timeout_s=self._launch_timeout_s)
        except ChromiumFailed:
            self._count_loss()
            raise
        finally:
            self._launching = None
            self._pausing = False
        self._current = engine
        engine.browser.on("disconnected", lambda _: self._died(engine))

    def _died(self, engine: Engine) -> None:
        if self._forget(engine):
            logger.warning("browser %s died after %s visits", engine.pid, engine.opened)
            self._close_later(engine, drain_s=0, close_s=CLOSE_TIMEOUT_S)

    def _forget(self, engine: Engine) -> bool:
        if self._current is not engine:
            return False
        self._current = None
        self._count_loss()
        return True

    def _count_loss(self) -> None:
        self._losses += 1
        pause = min(BACKOFF_FIRST_S * 2 ** min(self._losses - 1, 16), BACKOFF_CAP_S)
        self._not_before = time.monotonic() + pause

    def _close_later(self, engine: Engine, *, drain_s: float, close_s: float) -> asyncio.Task[None]:
        task = asyncio.create_task(_close_when_idle(engine, drain_s, close_s))
        self._closing[task] = engine
        task.add_done_callback(lambda done: self._closing.pop(done, None))
        return task


async def _close_when_idle(engine: Engine, drain_s: float, close_s: float) -> None:
    try:
        async with asyncio.timeout(drain_s):
            await engine.idle.wait()
    except TimeoutError:
        if not engine.lost.is_set():
            logger.warning(
                "retired browser %s closes with %s visits open: they had their time", engine.pid, engine.visiting
            )
            engine.lost.set()  # before it closes: what its visits see then is not the origin's doing
    await engine.close(close_s)
