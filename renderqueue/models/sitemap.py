"""Sitemaps of a site and the runs that read them."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from renderqueue.models.site import Site


class Sitemap(models.Model):
    """One sitemap document: a root that somebody named, or a child that an index lists."""

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="sitemaps")
    url = models.URLField(max_length=2048)
    parent = models.ForeignKey("self", on_delete=models.CASCADE, null=True, blank=True, related_name="children")
    refresh_interval_s = models.PositiveIntegerField(default=24 * 3600)
    next_refresh_at = models.DateTimeField(null=True, blank=True)
    consecutive_failures = models.PositiveSmallIntegerField(default=0)
    last_fetched_at = models.DateTimeField(null=True, blank=True)
    last_error = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["site", "url"], name="sitemap_once")]

    def __str__(self) -> str:
        return self.url


class SitemapRun(models.Model):
    """One reading of a root sitemap and all its children. The row is the truth; the broker only hints (C5)."""

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"

    sitemap = models.ForeignKey(Sitemap, on_delete=models.CASCADE, related_name="runs")
    state = models.CharField(max_length=8, choices=State.choices, default=State.QUEUED)
    token = models.UUIDField(null=True, blank=True, help_text="Who runs it: a stale runner's token is gone.")
    queued_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    updated_at = models.DateTimeField(auto_now=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    documents = models.PositiveIntegerField(default=0)
    failed_documents = models.PositiveIntegerField(default=0)
    listed = models.PositiveIntegerField(default=0, help_text="URLs read.")
    created = models.PositiveIntegerField(default=0)
    existing = models.PositiveIntegerField(default=0)
    attached = models.PositiveIntegerField(default=0)
    unlinked = models.PositiveIntegerField(default=0)
    duplicates = models.PositiveIntegerField(default=0)
    filtered = models.PositiveIntegerField(default=0, help_text="URLs on routes that are not rendered.")
    foreign = models.PositiveIntegerField(default=0, help_text="URLs of hosts that are not the site's.")
    invalid = models.PositiveIntegerField(default=0)
    warnings = models.PositiveIntegerField(default=0)
    samples = models.JSONField(default=dict, blank=True, help_text="A few examples of each finding.")
    error = models.TextField(blank=True, default="")

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["sitemap"],
                condition=Q(state__in=["queued", "running"]),
                name="sitemap_one_open_run",
            )
        ]

    def __str__(self) -> str:
        return f"run {self.pk} of {self.sitemap_id}: {self.state}"
