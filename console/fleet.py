"""The nodes' reports as one view of the fleet. Pure: reports in, numbers and sentences out.

A sum says when a part is missing (trap 19): it is partial as long as the nodes that report own fewer than all
partition groups. Nodes that are leaving own nothing any more and are left out; what they still render stays due
for the node that took over.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from keeper.report import NodeView
from renderqueue.identity import GROUPS
from renderqueue.scheduling.priority import PriorityClass

CLASSES = tuple(kind.label for kind in PriorityClass)
HOURS = 24
HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class ComingHour:
    """Pages that come due `hour` to `hour + 1` hours from now. Unless `known`, there may be more: the hour reaches
    past the edge, or a node is missing (W8)."""

    hour: int
    starts_at: dt.datetime
    pages: int
    known: bool


class NodeRow:
    """One node, for a person."""

    def __init__(self, view: NodeView) -> None:
        self.view = view
        self.name = view.name
        self.document: dict[str, Any] = view.document or {}

    @property
    def state(self) -> str:
        if self.view.leaving:
            return "leaving"
        if self.view.document is None:
            return "no report yet"
        return "stale" if self.view.stale else "live"

    @property
    def reports(self) -> bool:
        return self.view.document is not None and not self.view.stale

    @property
    def is_missing(self) -> bool:
        return self.state in ("stale", "no report yet")

    @property
    def phase(self) -> str:
        return str(self.document.get("phase", "unknown"))

    @property
    def edge_lead_s(self) -> float:
        """How far the edge is ahead; infinite when everything is held, minus infinity before the first walk."""
        if self.document.get("edge_infinite"):
            return math.inf
        lead = self.document.get("edge_lead_s")
        return -math.inf if lead is None else float(lead) - (self.view.age_s or 0.0)

    @property
    def has_edge(self) -> bool:
        return not math.isinf(self.edge_lead_s) or self.edge_lead_s > 0

    @property
    def walks(self) -> dict[str, Any]:
        return dict(self.document.get("walks") or {})

    @property
    def walked_at(self) -> dt.datetime | None:
        at = self.walks.get("last_at")
        return None if at is None else dt.datetime.fromtimestamp(at, dt.UTC)

    @property
    def bytes(self) -> int:
        return self.number("bytes") + self.number("due_bytes")

    def number(self, name: str) -> int:
        return int(self.document.get(name) or 0)


class Fleet:
    """All nodes that were alive of late, and the sums over those that report."""

    def __init__(self, views: Sequence[NodeView], fallback_now: dt.datetime) -> None:
        self.nodes = [NodeRow(view) for view in views]
        self.counted = [node for node in self.nodes if node.reports and not node.view.leaving]
        self._fallback_now = fallback_now

    @cached_property
    def now(self) -> dt.datetime:
        """Keeper time, which is database time (T1); the web process's own clock only if no node reports."""
        ages = [node.document["at"] + (node.view.age_s or 0.0) for node in self.nodes if node.reports]
        return dt.datetime.fromtimestamp(max(ages), dt.UTC) if ages else self._fallback_now

    @property
    def is_running(self) -> bool:
        return bool(self.counted)

    # What is missing

    @property
    def groups(self) -> int:
        return self._sum("groups")

    @property
    def is_partial(self) -> bool:
        return self.groups < GROUPS

    @property
    def missing(self) -> list[str]:
        return [node.name for node in self.nodes if node.is_missing]

    @property
    def is_complete(self) -> bool:
        return self.is_running and not self.is_partial and all(node.document.get("complete") for node in self.counted)

    @property
    def is_exact(self) -> bool:
        return self.is_complete and all(node.document.get("exact") for node in self.counted)

    @property
    def edge_lead_s(self) -> float:
        return min((node.edge_lead_s for node in self.counted), default=-math.inf)

    # Sums

    @property
    def due(self) -> int:
        return self._sum("due")

    @property
    def claimable(self) -> int:
        return self._sum("claimable")

    @property
    def parked(self) -> int:
        return self._sum("parked")

    @property
    def backing_off(self) -> int:
        return self._sum("backing_off")

    @property
    def paused(self) -> int:
        return self._sum("paused")

    @property
    def held(self) -> int:
        return self._sum("held")

    @property
    def unreadable(self) -> int:
        return self._sum("unreadable")

    @property
    def held_bytes(self) -> int:
        return sum(node.bytes for node in self.counted)

    @property
    def bound(self) -> int:
        return self._sum("bound")

    @property
    def leased(self) -> int:
        return self._sum("leased")

    @property
    def started(self) -> int:
        return self._sum("started")

    @property
    def waiting(self) -> int:
        """Leased pages whose render has not started."""
        return self.leased - self.started

    @property
    def due_by_class(self) -> list[tuple[str, int]]:
        by_class = [node.document.get("due_by_class") or {} for node in self.counted]
        return [(kind, sum(int(one.get(kind, 0)) for one in by_class)) for kind in CLASSES]

    @property
    def coming(self) -> list[ComingHour]:
        sums = [0] * HOURS
        for node in self.counted:
            for hour, pages in enumerate((node.document.get("coming") or [])[:HOURS]):
                sums[hour] += int(pages)
        lead_s = self.edge_lead_s if self.is_complete else -math.inf
        return [
            ComingHour(hour, self.now + dt.timedelta(hours=hour), pages, (hour + 1) * HOUR_S <= lead_s)
            for hour, pages in enumerate(sums)
        ]

    @property
    def coming_total(self) -> int:
        return sum(hour.pages for hour in self.coming)

    @property
    def coming_most(self) -> int:
        return max(hour.pages for hour in self.coming)

    @property
    def coming_unknown(self) -> bool:
        return not all(hour.known for hour in self.coming)

    @property
    def oldest_due_at(self) -> dt.datetime | None:
        return _instant(min(self._values("oldest_due_at"), default=None))

    @property
    def next_due_at(self) -> dt.datetime | None:
        return _instant(min(self._values("next_due_at"), default=None))

    # What it says of itself (D10, S1)

    @property
    def status(self) -> str:
        if self.due or self.leased:
            return "queued"
        return "empty" if self.is_complete else "unready"

    def _sum(self, name: str) -> int:
        return sum(node.number(name) for node in self.counted)

    def _values(self, name: str) -> Iterable[float]:
        return (node.document[name] for node in self.counted if node.document.get(name) is not None)


def _instant(seconds: float | None) -> dt.datetime | None:
    return None if seconds is None else dt.datetime.fromtimestamp(seconds, dt.UTC)
