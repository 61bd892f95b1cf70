"""The schedule: one durable row per page."""

from __future__ import annotations

import datetime as dt

from django.db import models
from django.db.models import Q

from renderqueue.models.site import Route, Site
from renderqueue.models.sitemap import Sitemap

EARLIEST_DUE = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)


class RenderSchedule(models.Model):
    """When a page should next be rendered, and what its class is derived from.

    Nothing that a render, a retry or an operation changes is in any index (D2, F5): those updates stay on
    their heap page. The migration sets the fillfactor and the triggers of the change feed. Written by
    `renderqueue.scheduling.rows` only.
    """

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="pages")
    route = models.ForeignKey(Route, on_delete=models.PROTECT, related_name="pages")
    sitemap = models.ForeignKey(Sitemap, on_delete=models.SET_NULL, null=True, blank=True, related_name="pages")
    url = models.TextField(help_text="The canonical URL.")
    key = models.UUIDField(unique=True, help_text="128-bit hash of the canonical URL: the page's identity.")
    partition = models.SmallIntegerField()
    due_at = models.DateTimeField(null=True, help_text="Freshness deadline, whole minutes; never moved for importance.")
    declared_interval_s = models.PositiveIntegerField(
        null=True, blank=True, help_text="Seconds between changes that the sitemap declares."
    )
    failures = models.PositiveSmallIntegerField(
        default=0, help_text="Page-level failures in a row; these make a page cold."
    )
    retries = models.PositiveSmallIntegerField(
        default=0, help_text="Failures of any sort in a row; these lengthen the backoff."
    )
    requested_at = models.DateTimeField(null=True, blank=True, help_text="When somebody asked for this page.")
    retry_at = models.DateTimeField(null=True, blank=True, help_text="Not before this, after failures.")
    rendered_at = models.DateTimeField(null=True, blank=True, help_text="Last successful render.")
    last_outcome = models.CharField(max_length=40, default="", blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(partition__gte=0, partition__lt=1024), name="schedule_partition_range"),
            models.CheckConstraint(
                condition=Q(due_at__isnull=True) | Q(due_at__gte=EARLIEST_DUE), name="schedule_due_is_real"
            ),
        ]
        indexes = [models.Index(fields=["partition", "id"], name="schedule_partition_id")]
        verbose_name = "scheduled page"

    def __str__(self) -> str:
        return self.url
