"""The self-fence: who renders must stop when the lease is lost (L1, T1). The renewer reports lost leases here;
whoever renders registers what stops a render."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable

logger = logging.getLogger(__name__)

_stoppers: list[Callable[[uuid.UUID], None]] = []


def on_lease_lost(stop: Callable[[uuid.UUID], None]) -> None:
    """Call `stop(token)`, from the renewer's thread, for every lease this process lost."""
    _stoppers.append(stop)


def leases_lost(tokens: Iterable[uuid.UUID]) -> None:
    """These leases are another's or nobody's now: stop their renders."""
    for token in tokens:
        for stop in _stoppers:
            try:
                stop(token)
            except Exception:
                logger.exception("stopping the render of a lost lease failed; its result will be refused")
