"""A path that does not answer until the test says so: how a test knows that a render is under way."""

from __future__ import annotations

import threading

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

WAIT_S = 20


class Held:
    def __init__(self, origin: HTTPServer, path: str, answer: str = "", content_type: str = "text/html") -> None:
        self._asked = threading.Event()
        self._released = threading.Event()
        self._answer, self._content_type = answer, content_type
        origin.expect_request(path).respond_with_handler(self._respond)

    def _respond(self, request: Request) -> Response:
        self._asked.set()
        self._released.wait(WAIT_S)
        return Response(self._answer, content_type=self._content_type)

    def wait_until_asked(self) -> None:
        assert self._asked.wait(WAIT_S), "the page was not asked for"

    def release(self) -> None:
        self._released.set()
