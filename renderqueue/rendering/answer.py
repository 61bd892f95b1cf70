"""The answer that a page stands for: the top response's status and headers, then what the page says of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from renderqueue.rendering.gate import absolute

# Stored and served with a copy.
STORED_HEADERS = frozenset({"content-type", "content-language", "link", "x-robots-tag"})
# Read by the verdict, never stored.
READ_HEADERS = frozenset({"retry-after"})
HTML_UTF8 = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    location: str | None


def kept(headers: Mapping[str, str]) -> dict[str, str]:
    """Of lower-case headers, those that mean something for a stored page."""
    return {name: value for name, value in headers.items() if name in STORED_HEADERS | READ_HEADERS}


def of_page(
    url: str, status: int, headers: Mapping[str, str], statuses: Sequence[str], header_lines: Sequence[str]
) -> Answer:
    """Apply the metas prerender-status-code (the last valid one) and prerender-header ("Name: value", any number).

    Only headers that are kept anyway can be set, and Location. The body is UTF-8 HTML, whatever the response was."""
    answered = {**kept(headers), "content-type": HTML_UTF8}
    location: str | None = None
    for code in statuses:
        if code.strip().isascii() and code.strip().isdigit() and 200 <= int(code) <= 599:
            status = int(code)
    for line in header_lines:
        name, colon, value = line.partition(":")
        name, value = name.strip().lower(), " ".join(value.split())
        if not colon or not value:
            continue
        if name == "location":
            location = absolute(value, url)
        elif name in STORED_HEADERS - {"content-type"} | READ_HEADERS:
            answered[name] = value
    return Answer(status, answered, location if 300 <= status < 400 else None)
