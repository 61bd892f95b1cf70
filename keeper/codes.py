"""Small integer codes for values that many rows share: routes, declared intervals (K0, K1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class CodeBook:
    """Gives each distinct value a code in order of first sight; codes are never reused or changed."""

    def __init__(self, *known: int) -> None:
        self.values: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._codes: dict[int, int] = {}
        self._sorted = self.values
        self._sorted_codes: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self._add(list(known))

    def __len__(self) -> int:
        return len(self.values)

    def code(self, value: int) -> int:
        """The code of one value; a new value gets one."""
        if value not in self._codes:
            self._add([value])
        return self._codes[value]

    def encode(self, values: NDArray[np.int64]) -> NDArray[np.int32]:
        """The code of each value; new values get one."""
        places = np.searchsorted(self._sorted, values)
        known = self._matches(places, values)
        if not known.all():
            self._add(sorted(set(values[~known].tolist())))
            places = np.searchsorted(self._sorted, values)
        return self._sorted_codes[places]

    def _matches(self, places: NDArray[np.intp], values: NDArray[np.int64]) -> NDArray[np.bool_]:
        if not len(self._sorted):
            return np.zeros(len(values), dtype=np.bool_)
        return self._sorted[np.minimum(places, len(self._sorted) - 1)] == values

    def _add(self, values: list[int]) -> None:
        self.values = np.concatenate([self.values, np.array(values, dtype=np.int64)])
        self._codes = {value: code for code, value in enumerate(self.values.tolist())}
        order = np.argsort(self.values, kind="stable")
        self._sorted = self.values[order]
        self._sorted_codes = order.astype(np.int32)
