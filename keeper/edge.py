"""The edge: the instant before which every owned row due is held, kept per partition group (W2, W2b, W3)."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from renderqueue.identity import GROUPS


class GroupEdges:
    """For each group: whether this node owns it, whether its feed is listened to, its edge (seconds since
    1970, -inf until a walk of it finishes) and a generation that changes whenever its coverage breaks.

    Not thread-safe: the index's lock guards it.
    """

    def __init__(self) -> None:
        self.owned: NDArray[np.bool_] = np.zeros(GROUPS, dtype=np.bool_)
        self.listened: NDArray[np.bool_] = np.zeros(GROUPS, dtype=np.bool_)
        self.edge_s: NDArray[np.float64] = np.full(GROUPS, -math.inf)
        self._generation: NDArray[np.int64] = np.zeros(GROUPS, dtype=np.int64)

    def gain(self, groups: Iterable[int]) -> None:
        self._break(groups)
        self.owned[list(groups)] = True

    def lose(self, groups: Iterable[int]) -> None:
        groups = list(groups)
        self._break(groups)
        self.owned[groups] = False
        self.listened[groups] = False

    def feed_opened(self, groups: Iterable[int]) -> None:
        """LISTEN has been committed for these groups."""
        groups = list(groups)
        self._break(groups)
        self.listened[groups] = True

    def feed_lost(self) -> None:
        """The feed connection broke: nothing is known to be covered any more."""
        self._break(range(GROUPS))
        self.listened[:] = False

    def named_for_rewalk(self, groups: Iterable[int]) -> None:
        self._break(groups)

    def narrow(self, to_s: float) -> None:
        """A smaller window counts at once (W3)."""
        np.minimum(self.edge_s, to_s, out=self.edge_s)

    def begin_walk(self) -> NDArray[np.int64]:
        """What a walk that begins now may cover: generations of the groups owned and listened to, -1 for
        the others."""
        return np.where(self.owned & self.listened, self._generation, -1)

    def finish_walk(self, began: NDArray[np.int64], edge_s: float) -> None:
        """A walk that began with `began` has finished: the edge moves for every group whose coverage did not
        break meanwhile (W2b)."""
        unbroken = (began >= 0) & (began == self._generation) & self.owned & self.listened
        self.edge_s[unbroken] = np.maximum(self.edge_s[unbroken], edge_s)

    def node_edge_s(self) -> float:
        """The least edge over the owned groups. +inf for a node that owns nothing: it misses nothing."""
        return float(self.edge_s[self.owned].min()) if self.owned.any() else math.inf

    def walked_once(self) -> bool:
        return bool(self.owned.any()) and self.node_edge_s() > -math.inf

    def _break(self, groups: Iterable[int]) -> None:
        groups = list(groups)
        self._generation[groups] += 1
        self.edge_s[groups] = -math.inf
