"""Leases: the durable, expiring right of one node to render one page."""

from __future__ import annotations

from django.db import models

from renderqueue.models.schedule import RenderSchedule
from renderqueue.models.site import Site


class Lease(models.Model):
    """At most one per page: the page is the primary key (D3). Written by `renderqueue.scheduling.leases`
    only. Claimed while `started_at` is empty, started after it; done, released and expired leases are gone."""

    page = models.OneToOneField(RenderSchedule, on_delete=models.CASCADE, primary_key=True, related_name="lease")
    token = models.UUIDField(unique=True)
    node_id = models.UUIDField()
    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="+")
    claimed_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"lease of page {self.page_id} by {self.node_id}"
