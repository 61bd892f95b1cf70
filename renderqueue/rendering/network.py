"""What a page has asked the network for: whether it is quiet, and what its own origin refused."""

from __future__ import annotations

import time
from urllib.parse import urlsplit

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page, Request, Response

from renderqueue.rendering.job import RefusedResource

REFUSED_KEPT = 50
REFUSING_STATUSES = frozenset({401, 403, 408, 425, 429})

# Long-lived by nature, or sent without waiting for an answer: a page that has only these is quiet.
_NEVER_AWAITED = frozenset({"websocket", "eventsource", "ping", "media", "cspviolationreport"})


class NetworkWatch:
    """Follows the requests of a page's main frame; those of inner frames are not part of what is stored."""

    def __init__(self, page: Page, url: str) -> None:
        self._origin = _origin(url)
        self._main_frame = page.main_frame
        self._in_flight: set[Request] = set()
        self._quiet_since = time.monotonic()
        self.refused: list[RefusedResource] = []
        self.refused_count = 0
        page.on("request", self._begun)
        page.on("response", self._answered)
        page.on("requestfinished", self._ended)
        page.on("requestfailed", self._failed)

    def quiet_for_s(self) -> float:
        """Seconds since the last awaited request ended; 0 while one is in flight."""
        return 0.0 if self._in_flight else time.monotonic() - self._quiet_since

    def _begun(self, request: Request) -> None:
        if request.resource_type not in _NEVER_AWAITED and self._is_ours(request):
            self._in_flight.add(request)

    def _answered(self, response: Response) -> None:
        if response.status in REFUSING_STATUSES or response.status >= 500:
            self._count_refused(response.request, str(response.status))

    def _failed(self, request: Request) -> None:
        # Aborted: the page itself changed its mind, or our gate ended the visit.
        why = request.failure or ""
        if why != "net::ERR_ABORTED":
            self._count_refused(request, why)
        self._ended(request)

    def _ended(self, request: Request) -> None:
        if request in self._in_flight:
            self._in_flight.discard(request)
            self._quiet_since = time.monotonic()

    def _count_refused(self, request: Request, why: str) -> None:
        if _origin(request.url) != self._origin or not self._is_ours(request) or request.is_navigation_request():
            return
        self.refused_count += 1
        if len(self.refused) < REFUSED_KEPT:
            self.refused.append(RefusedResource(request.url[:500], request.resource_type, why))

    def _is_ours(self, request: Request) -> bool:
        try:
            return request.frame == self._main_frame
        except PlaywrightError:  # a request without a frame: a worker's
            return False


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc
