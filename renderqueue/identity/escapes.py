"""Percent-escapes: one spelling for each path or query, without changing its meaning (RFC 3986, 2.2-2.4)."""

from __future__ import annotations

import re
import string

_UNRESERVED = string.ascii_letters + string.digits + "-._~"
_SUB_DELIMS = "!$&'()*+,;="
# Reserved by RFC 3986, yet allowed in every path segment and query and used there as plain text: escaped and
# raw they are one page, and the raw form is the canonical one because Chromium sends it so.
_ALWAYS_RAW = ",:@"

_DECODED = frozenset(_UNRESERVED + _ALWAYS_RAW)
_KEPT_IN_PATH = frozenset(_UNRESERVED + _SUB_DELIMS + ":@/")
_KEPT_IN_QUERY = _KEPT_IN_PATH | {"?"}

_TOKEN = re.compile(r"%([0-9A-Fa-f]{2})|([^A-Za-z0-9\-._~/:@!$&'()*+,;=])", re.ASCII)


def normalise_path(path: str) -> str:
    """The one spelling of a path that a WHATWG parser gave. Idempotent."""
    return _normalise(path, _KEPT_IN_PATH)


def normalise_query(part: str) -> str:
    """The one spelling of a query, or of a part of one, that a WHATWG parser gave. Idempotent."""
    return _normalise(part, _KEPT_IN_QUERY)


def _normalise(text: str, kept: frozenset[str]) -> str:
    def one(match: re.Match[str]) -> str:
        digits, raw = match.groups()
        if digits is not None:
            character = chr(int(digits, 16))
            return character if character in _DECODED else f"%{digits.upper()}"
        # A "%" that begins no escape becomes one, or decoding what follows it could make a new escape.
        return raw if raw in kept else "".join(f"%{byte:02X}" for byte in raw.encode())

    return _TOKEN.sub(one, text)
