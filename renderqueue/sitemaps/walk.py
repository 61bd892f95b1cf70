"""The order in which a root's documents are read: depth first, each once, within bounds. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from renderqueue.identity import UrlError, parse_url
from renderqueue.sitemaps.findings import Findings


@dataclass(frozen=True, slots=True)
class WalkLimits:
    """`depth` counts indexes above a document; the protocol allows one, some sites nest them."""

    depth: int = 4
    documents: int = 10_000
    listed: int = 5_000_000


@dataclass(frozen=True, slots=True)
class Step:
    """A document to read, and the sitemap row of the index that listed it (None for the root)."""

    url: str
    parent_id: int | None
    depth: int


class Walk:
    """Hands out documents. `complete` stays true while nothing was left out: only then does absence prove that
    a page is gone (F88)."""

    def __init__(self, root_url: str, limits: WalkLimits, findings: Findings) -> None:
        self.complete = True
        self._limits = limits
        self._findings = findings
        self._pending = [Step(root_url, None, 0)]
        self._asked: set[str] = {_same(root_url)}
        self._arrived: set[str] = set()
        self._handed_out = 0

    def next(self) -> Step | None:
        if not self._pending:
            return None
        if self._handed_out >= self._limits.documents:
            self._leave_out(f"more than {self._limits.documents:,} documents", self._pending[-1].url)
            self._pending.clear()
            return None
        self._handed_out += 1
        return self._pending.pop()

    def arrive(self, final_url: str) -> bool:
        """Whether the document at this address, after redirects, is new: an index may list itself, or two
        addresses may lead to one document (F86)."""
        same = _same(final_url)
        if same in self._arrived:
            self._findings.add("sitemap listed more than once", final_url)
            return False
        self._arrived.add(same)
        self._asked.add(same)
        return True

    def add_children(self, urls: list[str], parent_id: int, depth: int) -> None:
        """The documents that an index lists, in its order."""
        steps = []
        for url in urls:
            same = _same(url)
            if same in self._asked:
                self._findings.add("sitemap listed more than once", url)
            elif depth >= self._limits.depth:
                self._leave_out(f"index below {self._limits.depth} others", url)
            else:
                self._asked.add(same)
                steps.append(Step(url, parent_id, depth + 1))
        self._pending += reversed(steps)

    def failed(self) -> None:
        self.complete = False

    def count_listed(self, listed: int) -> bool:
        """Whether the run may go on reading; False beyond the limit of URLs."""
        if listed <= self._limits.listed:
            return True
        self._leave_out(f"more than {self._limits.listed:,} URLs")
        self._pending.clear()
        return False

    def _leave_out(self, why: str, sample: str = "") -> None:
        self.complete = False
        self._findings.add(f"not read: {why}", sample)


def _same(url: str) -> str:
    try:
        return parse_url(url).url
    except UrlError:
        return url
