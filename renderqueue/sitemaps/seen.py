"""Which pages a run has seen, and in which document: eight bytes a listing, so that a million fit easily."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
_LOW_64 = (1 << 64) - 1


class SeenPages:
    """Pages are known by 64 bits of their key. Two of a million pages share them with a chance of 3 in 10^8; then
    one listing is counted as a duplicate, or one page keeps its sitemap until the next run."""

    def __init__(self) -> None:
        self._anywhere = _Sorted()
        self._by_document: dict[int, _Sorted] = {}

    def add(self, document_id: int, keys: Sequence[uuid.UUID]) -> list[bool]:
        """Note the listings of one document; for each, whether it is the run's first of that page."""
        hashes = _hashes(keys)
        first = np.zeros(len(hashes), dtype=bool)
        first[np.unique(hashes, return_index=True)[1]] = True
        first &= ~self._anywhere.contains(hashes)
        self._anywhere.add(hashes[first])
        self._by_document.setdefault(document_id, _Sorted()).add(hashes)
        return list(map(bool, first))

    def anywhere(self, keys: Sequence[uuid.UUID]) -> list[bool]:
        return list(map(bool, self._anywhere.contains(_hashes(keys))))

    def in_document(self, document_id: int, keys: Sequence[uuid.UUID]) -> list[bool]:
        listed = self._by_document.get(document_id, _Sorted())
        return list(map(bool, listed.contains(_hashes(keys))))


class _Sorted:
    """Sorted arrays, each more than twice as long as the next, so that adding and asking stay cheap."""

    def __init__(self) -> None:
        self._levels: list[Hashes] = []

    def add(self, hashes: Hashes) -> None:
        if not len(hashes):
            return
        self._levels.append(np.sort(hashes))
        while len(self._levels) > 1 and len(self._levels[-2]) <= 2 * len(self._levels[-1]):
            last = self._levels.pop()
            merged = np.concatenate((self._levels[-1], last))
            merged.sort(kind="stable")  # merges two sorted runs
            self._levels[-1] = merged

    def contains(self, hashes: Hashes) -> NDArray[np.bool_]:
        found = np.zeros(len(hashes), dtype=bool)
        for level in self._levels:
            at = np.minimum(np.searchsorted(level, hashes), len(level) - 1)
            found |= level[at] == hashes
        return found


def _hashes(keys: Sequence[uuid.UUID]) -> Hashes:
    return np.fromiter((key.int & _LOW_64 for key in keys), dtype=np.uint64, count=len(keys))
