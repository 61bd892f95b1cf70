"""Crawlers' requests go past the console's middleware."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.exception import convert_exception_to_response

from renderqueue.serving.target import PREFIX

Application = Callable[[Any, Any, Any], Awaitable[None]]


class CrawlerHandler(ASGIHandler):
    """Django's request cycle without middleware: sessions, CSP, frame and host rules are the console's. They cost
    most of a hit, and CommonMiddleware gives a 304 the Content-Length 0, which says that the page is empty."""

    def load_middleware(self, is_async: bool = False) -> None:
        self._view_middleware: list[Any] = []
        self._template_response_middleware: list[Any] = []
        self._exception_middleware: list[Any] = []
        self._middleware_chain = convert_exception_to_response(self._get_response_async)  # type: ignore[attr-defined]


def crawlers_first(console: Application) -> Application:
    """An ASGI application that answers /p/ itself and hands everything else to `console`."""
    crawlers = CrawlerHandler()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        is_crawler = scope["type"] == "http" and scope["path"].startswith(PREFIX.decode())
        await (crawlers if is_crawler else console)(scope, receive, send)

    return application
