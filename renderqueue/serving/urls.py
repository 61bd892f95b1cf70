"""Crawlers at /p/, probes at /healthz and /readyz."""

from django.urls import path, re_path

from renderqueue.serving import health, views

urlpatterns = [
    # Only the prefix: the decoded path that Django matches is not the URL that was asked for (D18b).
    re_path(r"^p/", views.page, name="page"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
]
