"""Our own sitemap reader: streaming, tolerant, in bounded memory, without DTDs, entities or the network.

It reads urlset and sitemapindex documents and lists of URLs, and says what was odd. A document that ends too early
or that is something else raises; entries that were yielded before that are true, but not all there is (F88).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from ada_url import URL
from lxml import etree

from renderqueue.sitemaps.elements import ElementReader, RawEntry
from renderqueue.sitemaps.encoding import decoded, unpacked
from renderqueue.sitemaps.errors import NotASitemap, SitemapDamaged, SitemapTooLarge
from renderqueue.sitemaps.findings import Findings, shortened
from renderqueue.sitemaps.repair import Repair
from renderqueue.sitemaps.values import read_changefreq, read_lastmod, read_priority

PROTOCOL_URLS = 50_000
PROTOCOL_BYTES = 50 * 1024 * 1024
HEAD_CHARACTERS = 2048
SNIPPET_CHARACTERS = 120
LINE_CHARACTERS = 16 * 1024

_HTML = re.compile(r"(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*<(!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:", re.ASCII)
_WEB_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
_CHARSET = re.compile(r"""charset\s*=\s*["']?([A-Za-z0-9._:\-]{1,40})""", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_FEEDS = frozenset({"rss", "feed", "rdf"})


class Kind(StrEnum):
    """What a document lists."""

    PAGES = "pages"
    SITEMAPS = "sitemaps"


@dataclass(frozen=True, slots=True)
class Entry:
    """One page or one child sitemap. `loc` is absolute unless it cannot be made so; it is not yet checked."""

    loc: str
    lastmod: dt.datetime | None = None
    changefreq: str | None = None
    priority: float | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """Where a document came from: its final URL, and what the answer said about it."""

    url: str
    status: int = 200
    content_type: str = ""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Beyond the protocol's 50,000 URLs and 50 MB there is a warning; beyond these the document fails."""

    entries: int = 250_000
    unpacked_bytes: int = 250 * 1024 * 1024


class SitemapReader:
    """Reads one document. `kind` is known from the first entry on; `findings` is complete after the last."""

    def __init__(self, source: Source, limits: ReadLimits | None = None) -> None:
        self.source = source
        self.kind = Kind.PAGES
        self.findings = Findings()
        self.entries_read = 0
        self._limits = limits or ReadLimits()
        self._bytes = 0

    def read(self, chunks: Iterable[bytes]) -> Iterator[Entry]:
        """Yield the entries in order. Raises NotASitemap, SitemapDamaged or SitemapTooLarge."""
        for raw in self._raw_entries(chunks):
            entry = self._entry(raw)
            if entry is None:
                continue
            self.entries_read += 1
            if self.entries_read > self._limits.entries:
                raise SitemapTooLarge(f"It lists more than {self._limits.entries:,} URLs.")
            yield entry
        if self.entries_read > PROTOCOL_URLS:
            self.findings.add("more than 50,000 URLs in one document", f"{self.entries_read:,}")
        if self._bytes > PROTOCOL_BYTES:
            self.findings.add("more than 50 MB in one document", f"{self._bytes:,} bytes")

    def _raw_entries(self, chunks: Iterable[bytes]) -> Iterator[RawEntry]:
        charset = _CHARSET.search(self.source.content_type)
        counted = self._counted(unpacked(chunks, self._limits.unpacked_bytes))
        texts = decoded(counted, charset.group(1) if charset else None, self.findings)
        head = ""
        for text in texts:
            head = (head + text).lstrip("\ufeff \t\r\n")
            if len(head) >= HEAD_CHARACTERS:
                break
        if not head:
            raise NotASitemap(self._answered("with nothing"))
        if _HTML.match(head):
            raise NotASitemap(self._answered("with an HTML page", head))
        if head.startswith("<"):
            yield from self._xml(head, texts)
        elif _WEB_ADDRESS.match(head):
            yield from self._lines(head, texts)
        else:
            raise NotASitemap(self._answered("with neither XML nor a list of URLs", head))

    def _xml(self, head: str, texts: Iterator[str]) -> Iterator[RawEntry]:
        repair, elements = Repair(self.findings), ElementReader()
        parser = etree.XMLParser(
            target=cast(Any, elements),
            recover=True,
            resolve_entities=False,
            load_dtd=False,
            no_network=True,
            huge_tree=False,
            encoding="utf-8",
        )
        tail = ""
        for text, final in _with_end(head, texts):
            fixed = repair.feed(text, final=final)
            tail = (tail + fixed)[-HEAD_CHARACTERS:]
            parser.feed(fixed.encode())
            self._check_root(elements.root, head)
            yield from elements.taken()
        closed = elements.root_closed
        self._close(parser)
        # Before the last entry is given away: in a document that was cut off, its URL is cut off too.
        self._check_complete(elements, repair, closed, tail, head)
        yield from elements.taken()

    def _close(self, parser: etree.XMLParser) -> None:
        try:
            parser.close()
        except etree.XMLSyntaxError:
            return  # no element at all; said by what follows

    def _check_root(self, root: str, head: str) -> None:
        self.kind = Kind.SITEMAPS if root == "sitemapindex" else Kind.PAGES
        if root in _FEEDS:
            raise NotASitemap(self._answered(f"with a feed (<{root}>), not a sitemap", head))
        if root not in ("", "urlset", "sitemapindex"):
            raise NotASitemap(self._answered(f"with <{root}>, which is not a sitemap", head))

    def _check_complete(self, elements: ElementReader, repair: Repair, closed: bool, tail: str, head: str) -> None:
        if not elements.root:
            raise NotASitemap(self._answered("with XML that has no element", head))
        if not closed and not re.search(rf"</(?:[\w.\-]+:)?{elements.root}\s*>\s*$", tail, re.IGNORECASE):
            raise SitemapDamaged(
                f"It ends before </{elements.root}>, after {self.entries_read:,} entries: it was cut off on its way."
            )
        if elements.locs != repair.locs:
            raise SitemapDamaged(f"Its XML is broken: {elements.locs:,} of {repair.locs:,} <loc> could be read.")
        if elements.other_entries:
            self.findings.add(f"entries of another sort in <{elements.root}>", count=elements.other_entries)

    def _lines(self, head: str, texts: Iterator[str]) -> Iterator[RawEntry]:
        pending = ""
        for text, final in _with_end(head, texts):
            *lines, pending = re.split(r"[\r\n]+", pending + text)
            if len(pending) > LINE_CHARACTERS:
                raise NotASitemap(self._answered("with a text that is not a list of URLs", head))
            for line in [*lines, pending] if final else lines:
                if line.strip() and not line.lstrip().startswith("#"):
                    yield RawEntry({"loc": line})

    def _entry(self, raw: RawEntry) -> Entry | None:
        loc = _CONTROL.sub("", raw.values.get("loc", "")).strip()
        if not loc:
            self.findings.add("entry without a URL")
            return None
        if "\ufffd" in loc:
            self.findings.add("URL in an unreadable encoding", loc)
            return None
        if raw.repeated_loc:
            self.findings.add("entry with several URLs; the first counts", loc)
        return Entry(
            self._absolute(loc),
            self._value("lastmod", raw, read_lastmod),
            self._value("changefreq", raw, read_changefreq),
            self._value("priority", raw, read_priority),
        )

    def _value[T](self, name: str, raw: RawEntry, read: Callable[[str], T | None]) -> T | None:
        text = raw.values.get(name, "").strip()
        if not text:
            return None
        value = read(text)
        if value is None:
            self.findings.add(f"unreadable {name}", text)
        return value

    def _absolute(self, loc: str) -> str:
        if _SCHEME.match(loc):
            return loc
        self.findings.add("URL that is not absolute", loc)
        try:
            return URL(loc, self.source.url).href
        except ValueError:
            return loc  # whoever uses it says that it is no URL

    def _counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self._bytes += len(chunk)
            yield chunk

    def _answered(self, with_what: str, text: str = "") -> str:
        """What came instead, for a person: status, content type and how it begins."""
        kind = self.source.content_type.partition(";")[0].strip() or "no content type"
        begins = f": {shortened(text[:HEAD_CHARACTERS], SNIPPET_CHARACTERS)}" if text else ""
        return f"It answered {self.source.status} ({kind}) {with_what}{begins}"


def _with_end(head: str, texts: Iterator[str]) -> Iterator[tuple[str, bool]]:
    yield head, False
    for text in texts:
        yield text, False
    yield "", True
