"""The fleet's status in one sentence, and what it means. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from console import words
from console.fleet import Fleet


@dataclass(frozen=True, slots=True)
class Said:
    """`status` is queued, empty or unready (S1)."""

    status: str
    sentence: str
    meaning: str


def of_fleet(fleet: Fleet) -> Said:
    if not fleet.nodes:
        return _no_node()
    if not fleet.is_running:
        return Said(
            "unready",
            f"Unready: no render worker reports; {', '.join(node.name for node in fleet.nodes)} did until lately.",
            "Nothing is known of what is due. Do not scale down on this.",
        )
    return {"queued": _queued, "empty": _empty, "unready": _unready}[fleet.status](fleet)


def of_own_sites(fleet: Fleet, near: int, in_flight: int) -> Said:
    """For people who see some sites only: nothing about anybody else's pages."""
    if not fleet.is_running:
        return Said(
            "unready",
            "Unready: no render worker reports, so nothing is being rendered.",
            "Stored copies are still served. An operator can start a worker.",
        )
    if near or in_flight:
        return Said(
            "queued",
            f"Queued: {words.pages(near)} of your sites near the front of the queue, {in_flight} being rendered.",
            "These are the pages that come next; others of yours may be due further back in the queue.",
        )
    if fleet.status == "empty":
        return Said("empty", "Empty: nothing of your sites is due.", "Every page was refreshed before its deadline.")
    return Said(
        "unready",
        "Nothing of your sites is near the front of the queue.",
        "Pages of yours may still be due further back: only the front of the queue is visible here.",
    )


def _no_node() -> Said:
    return Said(
        "unready",
        "Unready: no render worker is running, so nobody knows what is due.",
        "Pages keep their deadlines in the database; nothing is rendered until a worker starts.",
    )


def _queued(fleet: Fleet) -> Said:
    at_least = "" if fleet.is_complete else "at least "
    verb = "is" if fleet.due == 1 else "are"
    sentence = f"Queued: {at_least}{words.pages(fleet.due)} {verb} due, {fleet.leased} of {fleet.bound} places in use."
    if fleet.due and fleet.paused and not fleet.claimable and not fleet.leased:
        return Said("queued", sentence, "Nothing moves: what is due is paused or backing off.")
    if fleet.is_complete:
        return Said("queued", sentence, "Work is waiting or being done, and every page that is due is known.")
    return Said("queued", sentence, "Work is waiting or being done. There may be more: " + _why_incomplete(fleet))


def _empty(fleet: Fleet) -> Said:
    following = fleet.next_due_at
    then = "" if following is None else f" The next comes {words.relative((following - fleet.now).total_seconds())}."
    return Said(
        "empty",
        f"Empty: nothing is due and nothing is being rendered.{then}",
        "This is certain: the workers hold every page that is due before the edge, and the edge is ahead of now.",
    )


def _unready(fleet: Fleet) -> Said:
    return Said(
        "unready",
        "Unready: nothing that is known is due, but not everything is known.",
        "Do not scale down on this: " + _why_incomplete(fleet),
    )


def _why_incomplete(fleet: Fleet) -> str:
    if not fleet.is_running:
        return "no worker reports."
    if fleet.is_partial:
        return "a part of the schedule is held by no worker that reports."
    loading = [node.name for node in fleet.counted if node.phase in ("starting", "loading")]
    if loading:
        return f"{', '.join(loading)} is still reading the schedule."
    lost = [node.name for node in fleet.counted if node.phase == "feed lost"]
    if lost:
        return f"{', '.join(lost)} lost its change feed and must read the schedule again."
    if fleet.edge_lead_s < 0 and not math.isinf(fleet.edge_lead_s):
        behind = words.duration(fleet.edge_lead_s)
        return f"the edge was passed {behind} ago; pages that came due since then show up with the next walk."
    return "a worker is reading the schedule again."
