"""Housekeeping of the schedule, run by beat."""

from __future__ import annotations

from celery import shared_task

from renderqueue.celery import app
from renderqueue.models import Node

ASK_WALKS = "renderqueue.ask_walks"


@shared_task(name=ASK_WALKS)
def ask_walks() -> None:
    """Ask every node for a walk; a walk fills that node's memory, so nobody else can do it (D6). A broadcast
    without waiting: what a lost ask costs is counted by the node that then starts by itself (W7)."""
    nodes = list(Node.objects.filter(leaving=False).order_by("-heartbeat_at").values_list("name", flat=True)[:1000])
    if nodes:
        app.control.broadcast("walk", destination=sorted(set(nodes)), reply=False)
