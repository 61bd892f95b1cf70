"""The fleet for Prometheus, made from the nodes' reports at every scrape (docs/console.md has the catalogue).

Label values come from closed sets: nodes, classes, results. No URL, site or person is a label.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from console.fleet import CLASSES, Fleet, NodeRow

STATES = ("live", "stale", "leaving")
WALK_COUNTS = ("unschedulable", "gained", "missing", "admitted", "mismatched", "phantom")

GAUGES: tuple[tuple[str, str, Callable[[NodeRow], float]], ...] = (
    ("queue_health_complete", "1 while every owned page that is due is held.", lambda n: n.number("complete")),
    ("queue_health_exact", "1 while counts are exact.", lambda n: n.number("exact")),
    (
        "queue_health_edge_lead_seconds",
        "Edge minus now: -Inf before the first walk, +Inf when everything is held.",
        lambda n: n.edge_lead_s,
    ),
    ("queue_claimable_pages", "Due pages that could be claimed now.", lambda n: n.number("claimable")),
    ("queue_parked_pages", "Due pages in flight, leased elsewhere or at a cap.", lambda n: n.number("parked")),
    ("queue_backing_off_pages", "Due pages that wait after failures.", lambda n: n.number("backing_off")),
    ("queue_paused_pages", "Due pages of paused sites.", lambda n: n.number("paused")),
    ("queue_leased_pages", "Pages leased by the node.", lambda n: n.number("leased")),
    ("queue_started_pages", "Leased pages whose render has started.", lambda n: n.number("started")),
    ("queue_lease_bound", "Most pages the node leases at once.", lambda n: n.number("bound")),
    ("queue_held_rows", "Schedule rows in memory.", lambda n: n.number("held")),
    ("queue_held_bytes", "Memory of held rows and due set.", lambda n: n.number("bytes") + n.number("due_bytes")),
    ("queue_unreadable_rows", "Rows that the last walk could not read.", lambda n: n.number("unreadable")),
    ("queue_groups_owned", "Partition groups owned, of 256.", lambda n: n.number("groups")),
)


class FleetCollector(Collector):
    """Samples of nodes that report; a stale node is counted and its age shown, its old numbers are not."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def collect(self) -> Iterable[Metric]:
        yield self._nodes()
        yield self._ages()
        live = _newest_by_name(node for node in self._fleet.nodes if node.reports)
        for name, text, value in GAUGES:
            gauge = GaugeMetricFamily(name, text, labels=["node"])
            for node in live:
                gauge.add_metric([node.name], value(node))
            yield gauge
        yield self._backlog(live)
        yield from self._walks(live)
        yield _claims(live)

    def _nodes(self) -> Metric:
        gauge = GaugeMetricFamily("queue_nodes", "Render workers seen in the last two minutes.", labels=["state"])
        for state in STATES:
            gauge.add_metric([state], sum(_state(node) == state for node in self._fleet.nodes))
        return gauge

    def _ages(self) -> Metric:
        gauge = GaugeMetricFamily("queue_report_age_seconds", "Age of a node's newest report.", labels=["node"])
        for node in _newest_by_name(self._fleet.nodes):
            gauge.add_metric([node.name], math.inf if node.view.age_s is None else node.view.age_s)
        return gauge

    def _backlog(self, live: list[NodeRow]) -> Metric:
        gauge = GaugeMetricFamily("queue_due_pages", "Due pages by class.", labels=["node", "class"])
        for node in live:
            by_class = node.document.get("due_by_class") or {}
            for kind in CLASSES:
                gauge.add_metric([node.name, kind], by_class.get(kind, 0))
        return gauge

    def _walks(self, live: list[NodeRow]) -> Iterator[Metric]:
        walks = CounterMetricFamily("queue_walks", "Walks by how they ended.", labels=["node", "result"])
        found = CounterMetricFamily(
            "queue_walk_rows", "Rows that walks had to correct or admit.", labels=["node", "found"]
        )
        seconds = GaugeMetricFamily("queue_last_walk_seconds", "How long the last walk took.", labels=["node"])
        for node in live:
            for result in ("finished", "failed"):
                walks.add_metric([node.name, result], node.walks.get(result) or 0)
            for name in WALK_COUNTS:
                found.add_metric([node.name, name], (node.walks.get("counts") or {}).get(name, 0))
            if node.walks.get("last_seconds") is not None:
                seconds.add_metric([node.name], node.walks["last_seconds"])
        yield from (walks, found, seconds)


def _claims(live: list[NodeRow]) -> Metric:
    claims = CounterMetricFamily("queue_claims", "Answers to claims by kind.", labels=["node", "answer"])
    for node in live:
        for answer, count in sorted((node.document.get("claims") or {}).items()):
            claims.add_metric([node.name, answer], count)
    return claims


def _state(node: NodeRow) -> str:
    return "stale" if node.is_missing else node.state


def _newest_by_name(nodes: Iterable[NodeRow]) -> list[NodeRow]:
    """A worker that was restarted is another node of the same name; only the newest one is sampled."""
    newest: dict[str, NodeRow] = {}
    for node in nodes:
        known = newest.get(node.name)
        if known is None or known.view.started_at < node.view.started_at:
            newest[node.name] = node
    return list(newest.values())
