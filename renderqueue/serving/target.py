"""Which URL a crawler's request names, taken from the bytes of the request line (D18b, F53): pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

from renderqueue.identity import UrlError

PREFIX = b"/p/"
# "https:" may have lost a slash to a proxy that merges them; its colon may be escaped, then everything else is.
_RAW = re.compile(rb"https?:", re.IGNORECASE)
_ESCAPED = re.compile(rb"https?%3a", re.IGNORECASE)


def target_url(scope: Mapping[str, Any]) -> str:
    """The absolute URL behind `/p/` in an ASGI scope, with every escape as the client sent it.

    The URL may be raw (`/p/https://shop.test/a%2Fb?x=1`, the query is the request's own) or percent-encoded as a
    whole (`/p/https%3A%2F%2Fshop.test%2Fa%252Fb%3Fx%3D1`). Raises UrlError with a sentence that shows both."""
    tail = _raw_path(scope).partition(PREFIX)[2]
    query = scope.get("query_string", b"")
    if _ESCAPED.match(tail):
        tail = unquote_to_bytes(tail)
        if query and b"?" in tail:
            raise UrlError("The request has a query inside the percent-encoded URL and another after it; send one.")
    elif not _RAW.match(tail):
        raise UrlError(
            "Put the page's absolute URL after /p/, such as /p/https://shop.example/a?x=1 or, percent-encoded as a "
            "whole, /p/https%3A%2F%2Fshop.example%2Fa%3Fx%3D1."
        )
    return _as_text(tail + b"?" + query if query else tail)


def _raw_path(scope: Mapping[str, Any]) -> bytes:
    raw: bytes | None = scope.get("raw_path")
    if raw is None:
        raise RuntimeError("The web server does not pass raw_path in the ASGI scope; run granian or uvicorn.")
    return raw


def _as_text(url: bytes) -> str:
    """Bytes that are not ASCII become escapes: they are never decoded, so no encoding is guessed (F65)."""
    return "".join(chr(byte) if byte < 0x80 else f"%{byte:02X}" for byte in url)
