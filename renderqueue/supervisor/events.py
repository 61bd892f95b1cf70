"""The supervisor's own log: one line an event, with the name of the part that it is about."""

from __future__ import annotations

import contextlib
import datetime as dt


def say(part: str, event: str) -> None:
    """`12:03:04 web: started` on standard output; what follows the first line is indented."""
    now = dt.datetime.now(tz=dt.UTC).astimezone()
    plain(f"{now:%H:%M:%S} {part}: " + event.strip().replace("\n", "\n    "))


def plain(line: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # nobody reads any more: that must not stop the shutdown
        print(line, flush=True)
