"""The page contract: when a page is ready, and what is taken from it. For site owners: docs/rendering.md."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.async_api import CDPSession
from playwright.async_api import Error as PlaywrightError

from renderqueue.rendering.gate import DocumentGate
from renderqueue.rendering.job import Fault
from renderqueue.rendering.network import NetworkWatch

QUIET_S = 0.5  # without a request in flight
DOM_QUIET_S = 0.2  # without a change of the DOM
DOM_PATIENCE_S = 2.0  # a DOM that never rests (a clock) holds a page with a quiet network no longer than this
POLL_S = 0.05
MAX_HTML_CHARS = 10_000_000

_SCRIPTS = Path(__file__).with_name("scripts")
INIT_SCRIPT = (_SCRIPTS / "init.js").read_text()
_STATE = (_SCRIPTS / "state.js").read_text()
_SERIALISE = (_SCRIPTS / "serialise.js").read_text()
_FLAG = "window.prerenderReady"
_WORLD = "renderqueue"


class PageUnreadable(Exception):
    """The page's document cannot be read."""


class Document:
    """The main document of a page. Our own scripts run in an isolated world: they see the DOM, not what the page
    made of the language."""

    def __init__(self, cdp: CDPSession, frame_id: str) -> None:
        self._cdp = cdp
        self._frame_id = frame_id
        self._world: int | None = None

    async def flag(self) -> object:
        answer = await self._cdp.send("Runtime.evaluate", {"expression": _FLAG, "returnByValue": True})
        return answer["result"].get("value")

    async def state(self) -> tuple[bool, float]:
        """Whether the document is parsed, and for how many seconds its DOM has rested."""
        parsed, rested_ms = await self._isolated(_STATE)
        return bool(parsed), rested_ms / 1000

    async def serialise(self) -> dict[str, Any]:
        taken: dict[str, Any] = await self._isolated(f"{_SERIALISE}({MAX_HTML_CHARS})")
        return taken

    async def _isolated(self, expression: str) -> Any:
        """Evaluate in our world of the present document; made anew after the page navigated."""
        for _ in range(3):
            if self._world is None:
                world = {"frameId": self._frame_id, "worldName": _WORLD}
                self._world = (await self._cdp.send("Page.createIsolatedWorld", world))["executionContextId"]
            call = {"expression": expression, "contextId": self._world, "returnByValue": True}
            try:
                answer = await self._cdp.send("Runtime.evaluate", call)
            except PlaywrightError as error:
                if "context" not in str(error).lower():
                    raise
                self._world = None
                continue
            if "exceptionDetails" in answer:
                raise PageUnreadable(f"reading the document failed: {_text(answer['exceptionDetails'])}")
            return answer["result"].get("value")
        raise PageUnreadable("the page navigates too fast to be read")


def _text(details: dict[str, Any]) -> str:
    return str(details.get("exception", {}).get("description", details.get("text", "")))[:200]


@dataclass(slots=True)
class Readiness:
    """How far a page got; read after a time-out to say why."""

    parsed: bool = False
    flag_false: bool = False
    flagged: bool = False

    def overdue(self, timeout_s: float) -> tuple[Fault, str]:
        if self.flag_false:
            return Fault.READY_FLAG, f"window.prerenderReady was set to false and not to true within {timeout_s:g} s"
        if self.parsed:
            return Fault.NEVER_QUIET, (
                f"the network did not rest for {QUIET_S:g} s within {timeout_s:g} s; "
                "a page that keeps asking should set window.prerenderReady"
            )
        return Fault.TIMEOUT, f"the document was not parsed within {timeout_s:g} s"


async def wait_until_ready(document: Document, network: NetworkWatch, gate: DocumentGate, seen: Readiness) -> None:
    """Return when the page is ready, or when the gate ended the visit. Unbounded: the caller bounds it.

    A page that sets window.prerenderReady to false is ready when it is true, and not before; any other is ready
    when it is parsed and its network and DOM have rested."""
    network_quiet_at: float | None = None
    while not gate.ended.is_set():
        seen.parsed, dom_rested_s = await document.state()
        flag = await document.flag()
        seen.flag_false = seen.flag_false or flag is False
        if flag is True and seen.parsed:
            seen.flagged = True
            return
        quiet = seen.parsed and not seen.flag_false and network.quiet_for_s() >= QUIET_S
        if not quiet:
            network_quiet_at = None
        else:
            network_quiet_at = network_quiet_at or time.monotonic()
            if dom_rested_s >= DOM_QUIET_S or time.monotonic() - network_quiet_at >= DOM_PATIENCE_S:
                return
        await asyncio.sleep(POLL_S)
