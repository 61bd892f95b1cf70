"""The overview: what is due, what is rendered now and what comes next, from the nodes' reports."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from console import bars, pages, sentences
from console.access import person, signed_in
from console.fleet import Fleet
from console.order import SHOWN, merged_head
from console.scope import is_operator, steerable_projects, visible_sites
from keeper import report


@require_safe
@signed_in
def overview(request: HttpRequest) -> HttpResponse:
    return render(request, "console/overview.html", _context(request))


@require_safe
@signed_in
def live(request: HttpRequest) -> HttpResponse:
    """The part of the overview that replaces itself every two seconds."""
    return render(request, "console/overview_live.html", _context(request))


def _context(request: HttpRequest) -> dict[str, Any]:
    fleet = Fleet(report.read_nodes(), timezone.now())
    names = {node.view.id: node.name for node in fleet.nodes}
    if is_operator(person(request)):
        return _whole_fleet(request, fleet, names)
    return _own_sites(request, fleet, names)


def _whole_fleet(request: HttpRequest, fleet: Fleet, names: dict[uuid.UUID, str]) -> dict[str, Any]:
    sites = visible_sites(person(request))
    return {
        "fleet": fleet,
        "is_running": fleet.is_running,
        "now": fleet.now,
        "said": sentences.of_fleet(fleet),
        "classes": bars.shares(fleet.due_by_class, fleet.due),
        "coming": bars.hours(fleet.coming),
        "leased_length": bars.part(fleet.leased, fleet.bound),
        "started_length": bars.part(fleet.started, fleet.bound),
        "next_pages": pages.next_pages(merged_head(fleet), sites, names),
        "in_flight": pages.in_flight(None, names),
        "has_sites": sites.exists(),
        "may_add": True,
        "shown": SHOWN,
    }


def _own_sites(request: HttpRequest, fleet: Fleet, names: dict[uuid.UUID, str]) -> dict[str, Any]:
    """Nothing about other people's sites: no fleet-wide figure, no node, no place in the whole order."""
    sites = visible_sites(person(request))
    own = set(sites.values_list("pk", flat=True))
    next_pages = pages.next_pages(merged_head(fleet, own), sites, names) if own else []
    in_flight = pages.in_flight(sites, names) if own else []
    return {
        "is_running": fleet.is_running,
        "now": fleet.now,
        "said": sentences.of_own_sites(fleet, len(next_pages), len(in_flight)),
        "next_pages": next_pages,
        "in_flight": in_flight,
        "has_sites": bool(own),
        "may_add": steerable_projects(person(request)).exists(),
        "shown": SHOWN,
    }
