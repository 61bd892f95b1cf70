"""Nodes, the fleet's policy and the audit trail."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console.admin.records import LargeTable, ReadOnlyRecord, Record
from keeper import report
from renderqueue.models import AuditEntry, FleetPolicy, Node, NodeReport

WALKS_IN_A_WINDOW = 6
"""A window must be worth six walks, or they cannot keep the edge ahead (W7)."""


class FleetPolicyForm(forms.ModelForm):
    def clean_window_s(self) -> int:
        window_s: int = self.cleaned_data["window_s"]
        walk_s = slowest_walk_s()
        if window_s and walk_s is not None and window_s < WALKS_IN_A_WINDOW * walk_s:
            least = WALKS_IN_A_WINDOW * walk_s
            raise ValidationError(
                f"A window of {window_s} s is too short: the slowest node's last walk took {walk_s:.2f} s, and the"
                f" window must be at least {WALKS_IN_A_WINDOW} times that, {least:.1f} s. Use a longer one, or 0 to"
                " hold everything."
            )
        return window_s


def slowest_walk_s() -> float | None:
    """The longest last walk of the nodes that report; None if none has walked."""
    walks = [node.document["walks"] for node in report.read_nodes() if node.document and not node.stale]
    return max((walk["last_seconds"] for walk in walks if walk.get("last_seconds") is not None), default=None)


@admin.register(FleetPolicy)
class FleetPolicyAdmin(Record):
    """The one row; superusers change it."""

    form = FleetPolicyForm
    list_display = ("__str__", "window_s", "verify_interval_s", "cold_after", "paused")
    fields = ("window_s", "verify_interval_s", "cold_after", "min_share", "paused")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(getattr(request.user, "is_superuser", False)) and not FleetPolicy.objects.exists()

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(getattr(request.user, "is_superuser", False))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Node)
class NodeAdmin(ReadOnlyRecord):
    list_display = ("name", "id", "host", "pool_size", "started_at", "heartbeat_at", "leaving")
    search_fields = ("name", "host")
    ordering = ("-heartbeat_at",)


@admin.register(NodeReport)
class NodeReportAdmin(ReadOnlyRecord):
    list_display = ("node", "version", "written_at")
    list_select_related = ("node",)
    fields = ("node", "version", "written_at", "readable")

    @admin.display(description="document")
    def readable(self, node_report: NodeReport) -> SafeString:
        return format_html("<pre>{}</pre>", json.dumps(node_report.document, indent=1))


@admin.register(AuditEntry)
class AuditEntryAdmin(LargeTable):
    list_display = ("at", "actor", "action", "target")
    list_select_related = ("actor",)
    search_fields = ("target", "action")
