"""Parser events to entries, by structure and local names, so that prefixes and namespaces do not matter (F76)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MAX_VALUE_CHARACTERS = 8192
_ENTRIES = {"urlset": "url", "sitemapindex": "sitemap"}
_VALUES = frozenset({"loc", "lastmod", "changefreq", "priority"})


@dataclass(slots=True)
class RawEntry:
    """The text of an entry's values; several of one name keep the first."""

    values: dict[str, str]
    repeated_loc: bool = False


class ElementReader:
    """A parser target that builds no tree: it holds one entry and the names of the open elements."""

    def __init__(self) -> None:
        self.root = ""
        self.root_closed = False
        self.locs = 0
        self.entries: list[RawEntry] = []
        self.other_entries = 0
        self._open: list[tuple[str, str]] = []
        self._entry: RawEntry | None = None
        self._entry_depth = 0
        self._entry_namespace = ""
        self._value: list[str] | None = None
        self._value_name = ""
        self._length = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        namespace, name = _split(tag)
        parent = self._open[-1][0] if self._open else ""
        self._open.append((name, namespace))
        self.locs += name == "loc"
        self._keep()  # a value whose end tag is missing ends where the next element begins
        if not self.root:
            self.root = name
        elif name in ("url", "sitemap"):
            self._begin(name, namespace)
        elif self._entry is not None and parent in ("url", "sitemap", *_VALUES) and name in _VALUES:
            self._value = [] if namespace == self._entry_namespace else None
            self._value_name = name
            self._length = 0

    def data(self, text: str) -> None:
        if self._value is not None and self._length <= MAX_VALUE_CHARACTERS:
            self._value.append(text)
            self._length += len(text)

    def end(self, tag: str) -> None:
        self._keep()
        if self._open:
            self._open.pop()
        if self._entry is not None and len(self._open) < self._entry_depth:
            self._finish()
        if not self._open:
            self.root_closed = True

    def close(self) -> None:
        self._finish()

    def taken(self) -> list[RawEntry]:
        """The entries that were completed since the last call."""
        entries, self.entries = self.entries, []
        return entries

    def _begin(self, name: str, namespace: str) -> None:
        self._finish()  # an entry whose end tag is missing ends where the next begins
        self._entry = RawEntry({})
        self._entry_depth = len(self._open)
        self._entry_namespace = namespace
        self.other_entries += name != _ENTRIES.get(self.root)

    def _keep(self) -> None:
        if self._value is None or self._entry is None:
            return
        name, text = self._value_name, "".join(self._value)
        self._value = None
        if name == "loc" and name in self._entry.values:
            self._entry.repeated_loc = True
        self._entry.values.setdefault(name, text)

    def _finish(self) -> None:
        if self._entry is not None:
            self.entries.append(self._entry)
            self._entry = None


def _split(tag: str) -> tuple[str, str]:
    """Namespace, and the local name in lower case."""
    namespace, _, name = tag.rpartition("}")
    return namespace, name.rpartition(":")[2].casefold()
