"""One visit of one page in an open tab: go there, wait until it is ready, take what it shows."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page

from renderqueue.egress.proxy import EgressListener
from renderqueue.rendering import answer
from renderqueue.rendering.contract import MAX_HTML_CHARS, Document, PageUnreadable, Readiness, wait_until_ready
from renderqueue.rendering.gate import HTML_TYPES, DocumentGate
from renderqueue.rendering.job import DeviceRender, Fault, RenderJob
from renderqueue.rendering.network import NetworkWatch

logger = logging.getLogger(__name__)

CRASH_NEWS_S = 0.3


class PageVisit:
    """Bounded by the job's `timeout_s` whatever the page does (trap 45). The driver dismisses
    dialogs when nobody listens to them; pop-ups are closed."""

    def __init__(self, page: Page, job: RenderJob, device: str, listener: EgressListener) -> None:
        self._page = page
        self._job = job
        self._device = device
        self._listener = listener
        self._network = NetworkWatch(page, job.url)
        self._readiness = Readiness()
        self._gate: DocumentGate | None = None
        self._crashed = asyncio.Event()
        self._chores: set[asyncio.Task[None]] = set()
        page.on("crash", lambda _: self._crashed.set())
        page.context.on("page", self._close_popup)

    async def run(self) -> DeviceRender:
        """Never raises for what the page does; PlaywrightError means that the browser failed."""
        visit = asyncio.create_task(self._go_and_take())
        crash = asyncio.create_task(self._crashed.wait())
        try:
            async with asyncio.timeout(self._job.timeout_s):
                await asyncio.wait({visit, crash}, return_when=asyncio.FIRST_COMPLETED)
            if await self._has_crashed(visit):
                return self._fault(
                    Fault.TAB_CRASHED, "the tab crashed; perhaps the page needs more memory than there is"
                )
            return dataclasses.replace(
                visit.result(), refused=tuple(self._network.refused), refused_count=self._network.refused_count
            )
        except PageUnreadable as error:
            return self._fault(Fault.UNREADABLE, str(error))
        except TimeoutError:
            return self._fault(*self._readiness.overdue(self._job.timeout_s))
        finally:
            visit.cancel()
            crash.cancel()
            await asyncio.wait({visit, crash}, timeout=1)
            for chore in list(self._chores):
                chore.cancel()

    async def _has_crashed(self, visit: asyncio.Task[DeviceRender]) -> bool:
        """Calls into a tab that crashes fail a moment before the news of the crash."""
        if visit.done() and isinstance(visit.exception(), PlaywrightError):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._crashed.wait(), CRASH_NEWS_S)
        return self._crashed.is_set()

    async def _go_and_take(self) -> DeviceRender:
        cdp = await self._page.context.new_cdp_session(self._page)
        frame_id = (await cdp.send("Page.getFrameTree"))["frameTree"]["frame"]["id"]
        self._gate = gate = DocumentGate(cdp, frame_id)
        await gate.open()
        try:
            await self._page.goto(self._job.url, wait_until="commit", timeout=0)
        except PlaywrightError as error:
            if "net::" not in error.message:
                raise
            if not gate.ended.is_set():
                return self._unreachable(error)
        document = Document(cdp, frame_id)
        if not gate.ended.is_set():
            await wait_until_ready(document, self._network, gate, self._readiness)
        if gate.ended.is_set():
            return self._ended(gate)
        return self._taken(gate, await document.serialise())

    def _taken(self, gate: DocumentGate, taken: dict[str, Any]) -> DeviceRender:
        if taken["contentType"] not in HTML_TYPES:
            return self._fault(Fault.NOT_HTML, f"the address gives {taken['contentType']}, not HTML")
        if taken["html"] is None:
            size, most = taken["length"], MAX_HTML_CHARS
            return self._fault(Fault.TOO_LARGE, f"the rendered page has {size:,} characters; at most {most:,} are kept")
        said = answer.of_page(self._job.url, gate.status or 0, gate.headers, taken["status"], taken["headers"])
        return DeviceRender(
            self._device,
            status=said.status,
            headers=said.headers,
            html=None if said.location else taken["html"].encode(errors="replace"),
            location=said.location,
            flagged=self._readiness.flagged,
        )

    def _ended(self, gate: DocumentGate) -> DeviceRender:
        render = self._fault(gate.fault, gate.detail) if gate.fault else DeviceRender(self._device)
        return dataclasses.replace(
            render, status=gate.status, headers=answer.kept(gate.headers), location=gate.location
        )

    def _unreachable(self, error: PlaywrightError) -> DeviceRender:
        host = urlsplit(self._job.url).hostname or ""
        for refused_host, port, reason in self._listener.refused:
            if refused_host.lower() == host:
                where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
                refusal = self._fault(Fault.EGRESS_REFUSED, _refusal(where, reason))
                return dataclasses.replace(refusal, subject=where)
        code = next(word for word in error.message.split() if "net::" in word)
        why = next((reason for failed, _, reason in self._listener.failed if failed.lower() == host), code)
        return self._fault(Fault.UNREACHABLE, f"{host} could not be reached: {why}")

    def _fault(self, fault: Fault, detail: str) -> DeviceRender:
        gate = self._gate
        return DeviceRender(self._device, status=gate.status if gate else None, fault=fault, detail=detail)

    def _close_popup(self, page: Page) -> None:
        if page != self._page:
            task = asyncio.create_task(_close(page))
            self._chores.add(task)
            task.add_done_callback(self._chores.discard)


def _refusal(where: str, reason: str) -> str:
    return (
        f"renders may not reach {where} ({reason}); if it is meant to be reached, an operator adds it to the "
        "site's allowed private hosts"
    )


async def _close(popup: Page) -> None:
    try:
        await popup.close()
    except PlaywrightError as error:
        logger.debug("a pop-up went away by itself: %s", error)
