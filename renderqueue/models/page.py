"""Cached copies and their bodies."""

from __future__ import annotations

from django.db import models

from renderqueue.models.schedule import RenderSchedule
from renderqueue.models.site import Project


class Body(models.Model):
    """A body, stored once per project and content in the two encodings that clients ask for (C4, D19)."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    sha256 = models.BinaryField(max_length=32)
    size = models.PositiveIntegerField(help_text="Bytes before compression.")
    br = models.BinaryField()
    gzip = models.BinaryField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "sha256"], name="body_once")]
        verbose_name_plural = "bodies"

    def __str__(self) -> str:
        return f"body {bytes(self.sha256).hex()[:12]}"


class CachedCopy(models.Model):
    """What a crawler gets for one page on one device. `expires_at` is the due time that its own render set
    (C1); an epoch covers it by the route and sitemap recorded here or the page's present ones (C2)."""

    page = models.ForeignKey(RenderSchedule, on_delete=models.CASCADE, related_name="copies")
    device = models.CharField(max_length=12)
    status = models.PositiveSmallIntegerField()
    headers = models.JSONField(default=dict)
    body = models.ForeignKey(Body, on_delete=models.PROTECT, null=True, related_name="copies")
    render_started_at = models.DateTimeField()
    rendered_at = models.DateTimeField()
    changed_at = models.DateTimeField(help_text="When its status, headers or body last differed.")
    expires_at = models.DateTimeField()
    route_id_then = models.BigIntegerField()
    sitemap_id_then = models.BigIntegerField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["page", "device"], name="copy_once_per_device")]
        verbose_name_plural = "cached copies"

    def __str__(self) -> str:
        return f"{self.device} copy of page {self.page_id}"


class DeletionDebt(models.Model):
    """A body that may be unused: the collector deletes it if nothing points at it (C4)."""

    body = models.ForeignKey(Body, on_delete=models.CASCADE, related_name="+")
    collectable_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"debt for body {self.body_id}"
