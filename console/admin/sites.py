"""Projects, their people, sites, routes and sitemaps."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from unfold.admin import TabularInline

from console.admin.records import ReadOnlyRecord, Record
from renderqueue.models import Membership, Project, Route, Site, SiteHost, Sitemap, SitemapRun


class MembershipInline(TabularInline):
    model = Membership
    raw_id_fields = ("user",)
    extra = 0


@admin.register(Project)
class ProjectAdmin(Record):
    list_display = ("name", "slug", "created_at")
    search_fields = ("name", "slug")
    prepopulated_fields = {"slug": ("name",)}
    inlines = (MembershipInline,)


@admin.register(Membership)
class MembershipAdmin(Record):
    list_display = ("project", "user", "role")
    list_filter = ("role",)
    list_select_related = ("project", "user")
    search_fields = ("project__name", "user__username")
    raw_id_fields = ("project", "user")


class SiteHostInline(TabularInline):
    model = SiteHost
    extra = 0


class RouteInline(TabularInline):
    """Routes are not deleted here: pages point at them, and checking that would read all of them."""

    model = Route
    extra = 0
    can_delete = False
    fields = ("position", "match", "path", "mode", "query_params", "interval_s", "treat_as_submitted")


@admin.register(Site)
class SiteAdmin(Record):
    """Deleting a site would gather all its pages in memory first; it is not offered. The origin is part of every
    page's key and stays as it was made."""

    list_display = ("name", "origin", "project", "default_interval_s", "concurrency_cap", "paused")
    list_filter = ("paused",)
    list_select_related = ("project",)
    search_fields = ("name", "origin", "hosts__host")
    raw_id_fields = ("project",)
    readonly_fields = ("origin", "paused_generation", "created_at")
    inlines = (SiteHostInline, RouteInline)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False  # the console's form makes hosts and routes with it

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(SiteHost)
class SiteHostAdmin(Record):
    list_display = ("host", "site")
    list_select_related = ("site",)
    search_fields = ("host",)
    raw_id_fields = ("site",)


@admin.register(Route)
class RouteAdmin(Record):
    list_display = ("site", "position", "match", "path", "mode", "interval_s", "treat_as_submitted")
    list_filter = ("mode", "match")
    list_select_related = ("site",)
    search_fields = ("path", "site__name")
    raw_id_fields = ("site",)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(Sitemap)
class SitemapAdmin(Record):
    list_display = ("url", "site", "refresh_interval_s", "last_fetched_at", "next_refresh_at", "consecutive_failures")
    list_select_related = ("site",)
    search_fields = ("url",)
    raw_id_fields = ("site", "parent")
    readonly_fields = (
        "site", "url", "parent", "next_refresh_at", "consecutive_failures", "last_fetched_at", "last_error",
        "created_at",
    )  # fmt: skip
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(SitemapRun)
class SitemapRunAdmin(ReadOnlyRecord):
    list_display = ("id", "sitemap", "state", "queued_at", "finished_at", "documents", "listed", "created", "existing")
    list_filter = ("state",)
    list_select_related = ("sitemap",)
    search_fields = ("sitemap__url",)
    show_full_result_count = False
