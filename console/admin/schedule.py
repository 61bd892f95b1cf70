"""The schedule, its leases and the cached copies: read-only, never counted, bodies never loaded."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from console.admin.records import LargeTable, ReadOnlyRecord
from renderqueue.identity import UrlError, page_key, parse_url
from renderqueue.models import Body, CachedCopy, DeletionDebt, Lease, RenderSchedule


@admin.register(RenderSchedule)
class RenderScheduleAdmin(LargeTable):
    list_display = ("id", "url", "site_id", "due_at", "rendered_at", "last_outcome", "failures", "retry_at")
    search_fields = ("pk",)
    search_help_text = "The whole URL of a page, or its number."
    raw_id_fields = ("site", "route", "sitemap")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[RenderSchedule], search_term: str
    ) -> tuple[QuerySet[RenderSchedule], bool]:
        """By the page's key or number, which have indexes; a search inside URLs would read the whole table."""
        term = search_term.strip()
        if not term:
            return queryset, False
        if term.isdecimal():
            return queryset.filter(pk=int(term) if len(term) < 19 else 0), False
        try:
            return queryset.filter(key=page_key(parse_url(term).url)), False
        except UrlError as error:
            self.message_user(request, str(error), "warning")
            return queryset.none(), False


@admin.register(Lease)
class LeaseAdmin(ReadOnlyRecord):
    list_display = ("page_id", "page", "node_id", "claimed_at", "started_at", "expires_at")
    list_select_related = ("page",)
    search_fields = ("=page__pk", "=node_id")


@admin.register(CachedCopy)
class CachedCopyAdmin(LargeTable):
    list_display = ("id", "page_id", "device", "status", "rendered_at", "changed_at", "expires_at")
    search_fields = ("=page__pk",)
    search_help_text = "The number of a page."
    raw_id_fields = ("page", "body")
    exclude = ("body",)
    readonly_fields = ("body_number",)

    @admin.display(description="body")
    def body_number(self, copy: CachedCopy) -> int | None:
        return copy.body_id


@admin.register(Body)
class BodyAdmin(LargeTable):
    list_display = ("id", "hash", "size", "created_at")
    fields = ("project", "hash", "size", "created_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("br", "gzip")

    @admin.display(description="SHA-256")
    def hash(self, body: Body) -> str:
        return bytes(body.sha256).hex()


@admin.register(DeletionDebt)
class DeletionDebtAdmin(LargeTable):
    list_display = ("id", "body_id", "collectable_at")
    fields = ("body_number", "collectable_at")

    @admin.display(description="body")
    def body_number(self, debt: DeletionDebt) -> int:
        return debt.body_id
