"""Visiting a page on its devices: a browser context each, behind the render's own way out."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Awaitable

from playwright.async_api import BrowserContext
from playwright.async_api import Error as PlaywrightError

from renderqueue.egress.proxy import EgressListener, egress_listener
from renderqueue.rendering.contract import INIT_SCRIPT
from renderqueue.rendering.devices import context_options
from renderqueue.rendering.engine import CLOSE_TIMEOUT_S, Engine
from renderqueue.rendering.engines import Engines
from renderqueue.rendering.job import DeviceRender, Fault, RenderJob, RenderResult
from renderqueue.rendering.page_visit import PageVisit
from renderqueue.rendering.verdict import gives_a_copy

logger = logging.getLogger(__name__)

OPEN_TIMEOUT_S = 10.0  # for a new context or page in a healthy browser, on a busy machine


class BrowserWedged(Exception):
    """The browser does not answer."""


async def render_page(engines: Engines, job: RenderJob) -> RenderResult:
    """Visit the page on each device until one gives nothing to store. Raises ChromiumFailed only."""
    renders: list[DeviceRender] = []
    async with egress_listener(job.policy) as listener:
        for device in job.devices:
            async with engines.visit() as engine:
                render = await _visit_or_lose(engines, engine, job, device, listener)
            renders.append(render)
            if not gives_a_copy(render):
                break
    return RenderResult(job.token, tuple(renders))


async def _visit_or_lose(
    engines: Engines, engine: Engine, job: RenderJob, device: str, listener: EgressListener
) -> DeviceRender:
    """The visit; or BROWSER_LOST when the browser dies first, or does not answer and is killed."""
    began = time.monotonic()
    visit = asyncio.create_task(_visit(engine, job, device, listener))
    lost = asyncio.create_task(engine.lost.wait())
    try:
        await asyncio.wait({visit, lost}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        lost.cancel()
        visit.cancel()
        await asyncio.wait({visit, lost})
        if not visit.cancelled() and isinstance(visit.exception(), BrowserWedged):
            logger.warning("browser %s is killed: %s", engine.pid, visit.exception())
            await engines.discard(engine)
    return dataclasses.replace(_outcome(visit, device), elapsed_s=time.monotonic() - began)


def _outcome(visit: asyncio.Task[DeviceRender], device: str) -> DeviceRender:
    if visit.cancelled():
        return DeviceRender(device, fault=Fault.BROWSER_LOST, detail="the browser died during the render")
    error = visit.exception()
    if error is None:
        return visit.result()
    if isinstance(error, BrowserWedged | PlaywrightError):
        return DeviceRender(device, fault=Fault.BROWSER_LOST, detail=str(error)[:300])
    raise error


async def _visit(engine: Engine, job: RenderJob, device: str, listener: EgressListener) -> DeviceRender:
    context = await _open_context(engine, job, device, listener)
    try:
        page = await _answered(context.new_page(), "open a page")
        return await PageVisit(page, job, device, listener).run()
    finally:
        if not engine.lost.is_set():
            # Shielded: a page goes on using the network until it is closed, whoever gave up on it.
            await asyncio.shield(asyncio.ensure_future(_answered(context.close(), "close a page", CLOSE_TIMEOUT_S)))


async def _open_context(engine: Engine, job: RenderJob, device: str, listener: EgressListener) -> BrowserContext:
    context = await _answered(
        engine.browser.new_context(
            proxy={"server": f"socks5://127.0.0.1:{listener.port}"},
            service_workers="block",
            accept_downloads=False,
            permissions=[],
            **context_options(device, engine.user_agent, job.product),
        ),
        "open a context",
    )
    await context.add_init_script(INIT_SCRIPT)
    return context


async def _answered[T](step: Awaitable[T], what: str, timeout_s: float = OPEN_TIMEOUT_S) -> T:
    try:
        async with asyncio.timeout(timeout_s):
            return await step
    except TimeoutError:
        raise BrowserWedged(f"it did not {what} within {timeout_s:g} s") from None
