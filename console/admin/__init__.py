"""Staff records under /admin/ (D18b): every table, dressed by Unfold. Owners never come here."""

from django.contrib import admin

from console.admin import fleet, people, schedule, sites
from console.admin.site import prepare

prepare(admin.site)

__all__ = ["fleet", "people", "schedule", "sites"]
