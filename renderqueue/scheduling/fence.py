"""What stops a render from outside: a lost lease (the self-fence, L1, T1), and the end of the grace at shutdown
(D6). Who decides calls `stop_renders`; whoever renders registers what stops one."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable

logger = logging.getLogger(__name__)

_stoppers: list[Callable[[uuid.UUID], None]] = []


def on_stop(stop: Callable[[uuid.UUID], None]) -> None:
    """Call `stop(token)`, from another thread, for every lease whose render must end now."""
    _stoppers.append(stop)


def stop_renders(tokens: Iterable[uuid.UUID]) -> None:
    """Stop the renders of these leases; a token that nothing renders is passed over."""
    for token in tokens:
        for stop in _stoppers:
            try:
                stop(token)
            except Exception:
                logger.exception("stopping a render failed; if its lease is lost, its result will be refused")
