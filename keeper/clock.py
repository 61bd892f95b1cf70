"""Keeper time: database time carried on by the monotonic clock (T1). A node's wall clock decides nothing."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

STEP_BACK_TOLERANCE_S = 0.5


class KeeperClock:
    """Seconds since 1970 by the database; never goes back. `set` it at least once a minute."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._base_s = 0.0
        self._base_at = monotonic()
        self._floor_s = 0.0

    def set(self, database_s: float) -> None:
        """Take over a reading of the database's clock. A step back is logged; time then stands still until
        the database has caught up."""
        with self._lock:
            ahead = self._read() - database_s
            if self._base_s and ahead > STEP_BACK_TOLERANCE_S:
                logger.warning("the database's clock stepped back by %.1f s; keeper time waits for it", ahead)
            self._floor_s = self._read()
            self._base_s, self._base_at = database_s, self._monotonic()

    def now_s(self) -> float:
        with self._lock:
            self._floor_s = self._read()
            return self._floor_s

    def _read(self) -> float:
        if not self._base_s:
            return 0.0
        return max(self._floor_s, self._base_s + self._monotonic() - self._base_at)
