"""The next pages of the whole fleet: the nodes' heads, merged in the keepers' own order. Pure.

Class first; inside urgent the newest request first, inside the others the greater relative lateness first, then the
page's id (D7). Lateness is brought to one instant, because reports differ in age.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from dataclasses import dataclass

from console.fleet import CLASSES, Fleet, NodeRow
from renderqueue.scheduling.priority import relative_lateness

SHOWN = 100


@dataclass(frozen=True, slots=True)
class HeadEntry:
    """A place in the order. `lateness` is in cadences, `interval_s` the cadence that applies now."""

    page: int
    kind: str
    lateness: float
    due_at: dt.datetime
    interval_s: int
    route: int
    site: int


def merged_head(fleet: Fleet, sites: Collection[int] | None = None, size: int = SHOWN) -> list[HeadEntry]:
    """The first `size` pages over all nodes that report; of `sites` only, if given (filtered before the cut)."""
    now_s = fleet.now.timestamp()
    placed: dict[int, tuple[tuple[float, ...], HeadEntry]] = {}
    for node in fleet.counted:
        for key, entry in _placed(node, now_s):
            if (sites is None or entry.site in sites) and entry.page not in placed:
                placed[entry.page] = (key, entry)
    return [entry for _, entry in sorted(placed.values(), key=lambda pair: pair[0])[:size]]


def _placed(node: NodeRow, now_s: float) -> list[tuple[tuple[float, ...], HeadEntry]]:
    placed: list[tuple[tuple[float, ...], HeadEntry]] = []
    for raw in node.document.get("head") or []:
        if raw["class"] not in CLASSES or not raw["interval_s"]:
            continue  # a newer node's word; it cannot be placed
        late = relative_lateness(raw["due_at"], raw["interval_s"], now_s)
        entry = HeadEntry(
            page=raw["page"],
            kind=raw["class"],
            lateness=late,
            due_at=dt.datetime.fromtimestamp(raw["due_at"], dt.UTC),
            interval_s=raw["interval_s"],
            route=raw["route"],
            site=raw["site"],
        )
        within = -(raw.get("requested_at") or 0.0) if entry.kind == "urgent" else -late
        placed.append(((CLASSES.index(entry.kind), within, entry.page), entry))
    return placed
