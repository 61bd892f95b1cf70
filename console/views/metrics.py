"""GET /metrics."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from console.fleet import Fleet
from console.metrics import FleetCollector
from console.metrics_access import may_scrape
from keeper import report


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    if not may_scrape(request):
        return HttpResponse(
            "Send the token of `manage.py metrics_token` as Authorization: Bearer, or scrape from this machine.\n",
            status=401,
            content_type="text/plain; charset=utf-8",
            headers={"WWW-Authenticate": 'Bearer realm="metrics"'},
        )
    registry = CollectorRegistry(auto_describe=False)
    registry.register(FleetCollector(Fleet(report.read_nodes(), timezone.now())))
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)
