"""Text of a sitemap to XML that a parser can read: stray ampersands, HTML entities, comments and DTDs.

libxml2 in recovery drops what follows a stray `&`, which would make another URL of it; so these are put right
before the parser sees them. Comments and document types are taken out: nothing here may declare an entity.
"""

from __future__ import annotations

import re
from html.entities import html5
from xml.sax.saxutils import escape

from renderqueue.sitemaps.errors import SitemapDamaged
from renderqueue.sitemaps.findings import Findings

HELD_CHARACTERS = 512  # longest start of a marker, tag or entity that may be cut by a chunk's end

MAX_DOCTYPE_CHARACTERS = 64 * 1024

_XML_ENTITIES = frozenset({"amp", "lt", "gt", "quot", "apos"})
_MARKER = re.compile(r"<!--|<!\[CDATA\[|<!doctype", re.IGNORECASE)
_AMPERSAND = re.compile(r"&(?:(#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});)?", re.ASCII)
_LOC = re.compile(r"<(?:[\w.\-]+:)?loc[\s/>]", re.IGNORECASE)
_ENDS = {"<!--": "-->", "<![CDATA[": "]]>"}


class Repair:
    """Feed it text, give what it returns to the parser. `locs` counts the loc tags that went through: a proof
    of what the parser must find."""

    def __init__(self, findings: Findings) -> None:
        self.locs = 0
        self._findings = findings
        self._pending = ""
        self._inside = ""  # the marker that is open: a comment, CDATA or document type

    def feed(self, text: str, *, final: bool = False) -> str:
        """Repaired text, as far as it is certain; the rest comes with the next call."""
        self._pending += text
        out: list[str] = []
        while self._pending and self._step(out, final):
            pass
        return "".join(out)

    def _step(self, out: list[str], final: bool) -> bool:
        """Take one piece off what is pending; False when more text is needed first."""
        if self._inside == "<!doctype":
            return self._skip_doctype()
        if self._inside:
            return self._until_end(out, final)
        marker = _MARKER.search(self._pending)
        if marker is not None:
            out.append(self._markup(self._pending[: marker.start()]))
            self._open(marker.group().lower() if "!d" in marker.group().lower() else marker.group().upper(), out)
            self._pending = self._pending[marker.end() :]
            return True
        cut = len(self._pending) if final else _certain(self._pending)
        out.append(self._markup(self._pending[:cut]))
        self._pending = self._pending[cut:]
        return False

    def _open(self, marker: str, out: list[str]) -> None:
        self._inside = marker
        if marker == "<![CDATA[":
            out.append(marker)
        elif marker == "<!doctype":
            self._findings.add("document type ignored")

    def _until_end(self, out: list[str], final: bool) -> bool:
        end = _ENDS[self._inside]
        at = self._pending.find(end)
        keep = self._inside == "<![CDATA["
        if at < 0:
            cut = len(self._pending) if final else max(len(self._pending) - len(end) + 1, 0)
            if keep:
                out.append(self._pending[:cut])
            self._pending = self._pending[cut:]
            return False
        if keep:
            out.append(self._pending[: at + len(end)])
        self._pending = self._pending[at + len(end) :]
        self._inside = ""
        return True

    def _skip_doctype(self) -> bool:
        subset, close = self._pending.find("["), self._pending.find(">")
        if close >= 0 and 0 <= subset < close:
            end = re.search(r"\]\s*>", self._pending)
            close = end.end() - 1 if end else -1
        if close < 0:
            if len(self._pending) > MAX_DOCTYPE_CHARACTERS:
                raise SitemapDamaged("It begins with a document type that does not end.")
            return False
        self._pending = self._pending[close + 1 :]
        self._inside = ""
        return True

    def _markup(self, text: str) -> str:
        self.locs += len(_LOC.findall(text))
        return _AMPERSAND.sub(self._entity, text) if "&" in text else text

    def _entity(self, match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            self._findings.add("stray ampersand", match.string[max(match.start() - 60, 0) : match.end() + 20])
            return "&amp;"
        if name.startswith("#") or name in _XML_ENTITIES:
            return match.group()
        self._findings.add("entity that XML does not know", match.group())
        character = html5.get(f"{name};")
        return f"&amp;{name};" if character is None else escape(character)


def _certain(text: str) -> int:
    """How much of the text cannot be changed by what follows: up to a tag or entity that is still open."""
    cut = len(text)
    for start, end in (("<", ">"), ("&", ";")):
        at = text.rfind(start)
        if at >= 0 and end not in text[at:] and len(text) - at <= HELD_CHARACTERS:
            cut = min(cut, at)
    return cut
