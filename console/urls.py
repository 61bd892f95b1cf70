"""The console's addresses."""

from django.urls import path

from console.views import metrics, overview, sign_in, sites

app_name = "console"
urlpatterns = [
    path("", overview.overview, name="overview"),
    path("live/", overview.live, name="overview-live"),
    path("sign-in/", sign_in.SignInView.as_view(), name="sign-in"),
    path("sign-out/", sign_in.SignOutView.as_view(), name="sign-out"),
    path("sites/", sites.sites, name="sites"),
    path("sites/new/", sites.add, name="site-add"),
    path("sites/<int:pk>/", sites.site, name="site"),
    path("sites/<int:pk>/live/", sites.live, name="site-live"),
    path("sites/<int:pk>/ingest/", sites.ingest, name="site-ingest"),
    path("metrics", metrics.metrics, name="metrics"),
]
