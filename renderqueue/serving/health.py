"""Probes: is the process up, and can it work."""

from __future__ import annotations

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe


@require_safe
@never_cache
def healthz(request: HttpRequest) -> HttpResponse:
    """200 as long as the process answers; it asks nothing else."""
    return HttpResponse("ok\n", content_type="text/plain; charset=utf-8")


@require_safe
@never_cache
def readyz(request: HttpRequest) -> JsonResponse:
    """200 when the database answers and holds this version's tables; else 503. JSON: `ready`, `reasons`."""
    reasons = _reasons_not_ready()
    return JsonResponse({"ready": not reasons, "reasons": reasons}, status=503 if reasons else 200)


def _reasons_not_ready() -> list[str]:
    try:
        executor = MigrationExecutor(connection)
        pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as error:
        return [f"The database does not answer: {_first_line(error)}"]
    if not pending:
        return []
    names = ", ".join(f"{migration.app_label}.{migration.name}" for migration, _ in pending[:5])
    return [f"{len(pending)} migrations are not applied ({names}); run manage.py migrate."]


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
