"""The top response: judged when its headers are there, before its body is read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from typing import Any

import ada_url
from playwright.async_api import CDPSession
from playwright.async_api import Error as PlaywrightError

from renderqueue.rendering.job import Fault

logger = logging.getLogger(__name__)

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml", ""})
MAX_RELOADS = 3


class DocumentGate:
    """Stands before every document that the main frame asks for, matched by frame, never by comparing URLs (F31).

    Lets through one thing: a 2xx answer with HTML. Anything else is recorded (`status`, `headers` with lower-case
    names, `location` absolute) and not read: a redirect is not followed, a download does not start. The page may
    reload itself MAX_RELOADS times; a script or meta refresh that leads to another address ends the visit.
    `ended` is set when there is nothing more to visit."""

    def __init__(self, cdp: CDPSession, frame_id: str) -> None:
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.location: str | None = None
        self.fault: Fault | None = None
        self.detail = ""
        self.ended = asyncio.Event()
        self._cdp = cdp
        self._frame_id = frame_id
        self._address: str | None = None
        self._reloads = 0
        self._answers: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._cdp.on("Fetch.requestPaused", self._paused)
        await self._cdp.send("Fetch.enable", {"patterns": _PATTERNS})

    def _paused(self, event: Mapping[str, Any]) -> None:
        call: dict[str, Any] = {"requestId": event["requestId"]}
        if event["resourceType"] == "Document" and self._admits(event):
            step = self._cdp.send("Fetch.continueRequest", call)
        else:
            if event["resourceType"] == "Document":
                self.ended.set()
            step = self._cdp.send("Fetch.failRequest", {**call, "errorReason": "Aborted"})
        task = asyncio.create_task(_ignoring_its_end(step))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    def _admits(self, event: Mapping[str, Any]) -> bool:
        if event["frameId"] != self._frame_id:
            return True
        if "responseStatusCode" in event:
            return self._admits_response(event)
        if "responseErrorReason" in event:
            return True
        return self._admits_request(event["request"]["url"])

    def _admits_request(self, url: str) -> bool:
        if self._address is None:
            self._address = url
            return True
        if self.ended.is_set():
            return False
        if url != self._address:
            self._end(Fault.NAVIGATED_AWAY, f"a script or meta refresh of the page leads to {url[:300]}")
            return False
        self._reloads += 1
        if self._reloads > MAX_RELOADS:
            self._end(Fault.NAVIGATED_AWAY, f"the page reloaded itself more than {MAX_RELOADS} times")
            return False
        return True

    def _admits_response(self, event: Mapping[str, Any]) -> bool:
        self.status = int(event["responseStatusCode"])
        self.headers = _joined(event.get("responseHeaders", ()))
        if 300 <= self.status < 400:
            self.location = absolute(self.headers.get("location"), event["request"]["url"])
            if self.location == self._address:
                self._end(Fault.REDIRECT_LOOP, "the address redirects to itself")
            return False
        if not 200 <= self.status < 300:
            return False
        content_type = mime_type(self.headers.get("content-type", ""))
        attached = self.headers.get("content-disposition", "").lower().startswith("attachment")
        if attached or content_type not in HTML_TYPES or self.status in (204, 205):
            what = "an attachment" if attached else content_type or "nothing"
            self._end(Fault.NOT_HTML, f"the address gives {what}, not HTML")
            return False
        return True

    def _end(self, fault: Fault, detail: str) -> None:
        self.fault, self.detail = fault, detail


_PATTERNS = [
    {"urlPattern": "*", "resourceType": "Document", "requestStage": "Request"},
    {"urlPattern": "*", "resourceType": "Document", "requestStage": "Response"},
    # The browser's own wish for a tab's picture: one request to the origin for every render, for nothing.
    {"urlPattern": "*/favicon.ico", "resourceType": "Other", "requestStage": "Request"},
]


def mime_type(content_type: str) -> str:
    return content_type.split(";")[0].strip().lower()


def absolute(location: str | None, base: str) -> str | None:
    """A Location resolved against the address that sent it (F32); None without one, or for one that is no web
    address."""
    if not location:
        return None
    try:
        resolved = ada_url.URL(location, base)
    except ValueError:
        return None
    return str(resolved.href) if resolved.protocol in ("http:", "https:") else None


def _joined(headers: Any) -> dict[str, str]:
    joined: dict[str, str] = {}
    for header in headers:
        name = header["name"].lower()
        joined[name] = f"{joined[name]}, {header['value']}" if name in joined else header["value"]
    return joined


async def _ignoring_its_end(step: Coroutine[Any, Any, Any]) -> None:
    try:
        await step
    except PlaywrightError as error:  # the page was closed, or the request given up, meanwhile
        logger.debug("a paused document went away: %s", error)
