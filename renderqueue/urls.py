"""Where everything answers: crawlers at /p/, people at /, staff records at /admin/."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", include("renderqueue.serving.urls")),
    path("", include("console.urls")),
]
