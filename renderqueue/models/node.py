"""Worker nodes, as they describe themselves."""

from __future__ import annotations

import uuid

from django.db import models


class Node(models.Model):
    """One run of one render worker: the id is made at its start, so a restarted worker is another node."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    name = models.CharField(max_length=200, help_text="Celery's name of the worker.")
    host = models.CharField(max_length=200)
    queue = models.CharField(max_length=200, help_text="The queue of its own that it takes renders from.")
    pool_size = models.PositiveSmallIntegerField()
    started_at = models.DateTimeField()
    heartbeat_at = models.DateTimeField()
    leaving = models.BooleanField(default=False, help_text="It has stopped claiming and is going away.")

    def __str__(self) -> str:
        return f"{self.name} ({str(self.id)[:8]})"


class NodeReport(models.Model):
    """The newest report of a node, an unlogged table: after a crash of the database the next report refills
    it. `document` is described by `keeper.report`."""

    node = models.OneToOneField(
        Node, on_delete=models.CASCADE, primary_key=True, related_name="report", db_constraint=False
    )
    version = models.PositiveSmallIntegerField()
    document = models.JSONField()
    written_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"report of {self.node_id}"
