"""Whether an answer of an origin is a page worth rendering: pure."""

from __future__ import annotations

from collections.abc import Mapping

from selectolax.lexbor import LexborHTMLParser

_NOINDEX = frozenset({"noindex", "none"})
_ROBOTS_NAMES = frozenset({"robots", "googlebot"})


def is_indexable_page(status: int, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether this is a 200 HTML answer that neither its header nor its head keeps out of indexes."""
    if status != 200 or not _is_html(headers.get("content-type", "")):
        return False
    return not (_says_noindex(headers.get("x-robots-tag", "")) or _head_says_noindex(body))


def _is_html(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() in ("text/html", "application/xhtml+xml")


def _head_says_noindex(body: bytes) -> bool:
    return any(
        (tag.attributes.get("name") or "").strip().lower() in _ROBOTS_NAMES
        and _says_noindex(tag.attributes.get("content") or "")
        for tag in LexborHTMLParser(body).css("meta[name]")
    )


def _says_noindex(directives: str) -> bool:
    return any(_directive(part) in _NOINDEX for part in directives.split(","))


def _directive(part: str) -> str:
    """The directive without the crawler's name before it; "max-image-preview: none" is another directive."""
    name, colon, rest = part.strip().lower().partition(":")
    return rest.strip() if colon and not name.startswith("max-") else name.strip()
