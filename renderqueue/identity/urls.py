"""Parsing, as Chromium does it (WHATWG), and refusing what cannot be a page."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ada_url import URL

from renderqueue.identity.escapes import normalise_path

MAX_URL_BYTES = 2048
# Tracking parameters that will be dropped may make a URL longer than its canonical form.
MAX_RAW_CHARACTERS = 8192
MAX_HOST_CHARACTERS = 253
_SHOWN_CHARACTERS = 200
_ASCII_WHITESPACE = " \t\r\n\f"
# Tab, CR and LF are removed by every browser; any other control character is a mistake in the URL.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")


class UrlError(ValueError):
    """A URL that cannot name a page; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class ParsedUrl:
    """An absolute http or https URL. `host` is lower-case ASCII, with `:port` unless it is the scheme's
    default; `path` begins with "/" and has canonical escapes; `query` is raw, without its "?", or ""."""

    scheme: str
    host: str
    path: str
    query: str

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host}"

    @property
    def url(self) -> str:
        return f"{self.origin}{self.path}{f'?{self.query}' if self.query else ''}"


def parse_url(raw: str, base: str | None = None) -> ParsedUrl:
    """Parse a URL, resolved against `base` if it is relative. The fragment is dropped, the host in punycode,
    dot segments removed. Raises UrlError, with a sentence for the person who wrote the URL."""
    text = raw.strip(_ASCII_WHITESPACE)
    _refuse_unreadable(text)
    try:
        parsed = URL(text, base)
    except ValueError:
        raise UrlError(_why_invalid(text, base)) from None
    scheme = parsed.protocol.removesuffix(":")
    if scheme not in ("http", "https"):
        raise UrlError(f"{_shown(text)} has the scheme {scheme!r}; only http and https pages can be rendered.")
    if parsed.username or parsed.password:
        raise UrlError("The URL contains a user name or password; take the part before @ out of it.")
    if len(parsed.hostname) > MAX_HOST_CHARACTERS:
        raise UrlError(f"{_shown(text)} has a host name of over {MAX_HOST_CHARACTERS} characters.")
    return ParsedUrl(scheme, parsed.host, normalise_path(parsed.pathname), parsed.search.removeprefix("?"))


def _refuse_unreadable(text: str) -> None:
    if not text:
        raise UrlError("The URL is empty.")
    if len(text) > MAX_RAW_CHARACTERS:
        raise UrlError(f"{_shown(text)} is {len(text)} characters long; the limit is {MAX_RAW_CHARACTERS}.")
    control = _CONTROL.search(text)
    if control is not None:
        code = f"U+{ord(control.group()):04X}"
        raise UrlError(f"{_shown(text)} contains the control character {code} at position {control.start()}.")


def _why_invalid(text: str, base: str | None) -> str:
    if base is None and not re.match(r"[A-Za-z][A-Za-z0-9+.\-]*:", text):
        return f"{_shown(text)} is not an absolute URL; begin it with https:// and the host."
    return f"{_shown(text)} is not a valid URL: check its host and port."


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "...")
