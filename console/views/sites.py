"""The list of sites, one site, and adding one."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console import pages
from console.access import person, signed_in
from console.fleet import Fleet
from console.forms import SiteForm, SitemapForm
from console.ingest import IngestRefused, ask_for_reading
from console.order import merged_head
from console.scope import is_operator, may_steer, steerable_projects, visible_sites
from keeper import report
from renderqueue.models import Site, SitemapRun

SITES_A_PAGE = 50
SITEMAPS_SHOWN = 50
RUNS_SHOWN = 20


@require_safe
@signed_in
def sites(request: HttpRequest) -> HttpResponse:
    someone = person(request)
    listed = visible_sites(someone).select_related("project").order_by("name", "pk")
    return render(
        request,
        "console/sites.html",
        {
            "sites": Paginator(listed, SITES_A_PAGE).get_page(request.GET.get("page")),
            "may_add": is_operator(someone) or steerable_projects(someone).exists(),
        },
    )


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def add(request: HttpRequest) -> HttpResponse:
    someone = person(request)
    if not (is_operator(someone) or steerable_projects(someone).exists()):
        raise PermissionDenied("Only operators and owners of a project add sites.")
    form = SiteForm(request.POST or None, person=someone)
    if form.is_valid() and (site := form.create()) is not None:
        messages.success(request, f"{site.name} is added. Next, have its sitemap read.")
        return redirect("console:site", site.pk)
    return render(request, "console/site_add.html", {"form": form}, status=422 if form.is_bound else 200)


@require_safe
@signed_in
def site(request: HttpRequest, pk: int) -> HttpResponse:
    found = _visible_site(request, pk)
    form = SitemapForm(initial={"url": f"{found.origin}/sitemap.xml"})
    return render(request, "console/site.html", {**_context(request, found), "form": form})


@require_safe
@signed_in
def live(request: HttpRequest, pk: int) -> HttpResponse:
    """The part of a site's page that replaces itself every two seconds."""
    return render(request, "console/site_live.html", _context(request, _visible_site(request, pk)))


@require_POST
@signed_in
def ingest(request: HttpRequest, pk: int) -> HttpResponse:
    """Queue a reading of a sitemap; back to the site's page, or the form again with what is wrong."""
    found = _visible_site(request, pk)
    if not may_steer(person(request), found):
        raise PermissionDenied("Viewers look on; an owner of the project or an operator has sitemaps read.")
    form = SitemapForm(request.POST)
    if form.is_valid():
        try:
            run = ask_for_reading(found, form.cleaned_data["url"], person(request))
        except IngestRefused as refused:
            form.add_error("url", str(refused))
        else:
            messages.success(request, f"Reading {run.sitemap.url}: run {run.pk} is queued.")
            return HttpResponseRedirect(f"{request.path.removesuffix('ingest/')}#runs")
    return render(request, "console/site.html", {**_context(request, found), "form": form}, status=422)


def _visible_site(request: HttpRequest, pk: int) -> Site:
    found: Site = get_object_or_404(visible_sites(person(request)).select_related("project"), pk=pk)
    return found


def _context(request: HttpRequest, found: Site) -> dict[str, Any]:
    someone = person(request)
    fleet = Fleet(report.read_nodes(), timezone.now())
    names = {node.view.id: node.name for node in fleet.nodes}
    only_this = Site.objects.filter(pk=found.pk)
    runs = SitemapRun.objects.filter(sitemap__site=found).select_related("sitemap").order_by("-pk")
    return {
        "site": found,
        "may_steer": may_steer(someone, found),
        "now": fleet.now,
        "is_running": fleet.is_running,
        "hosts": found.hosts.order_by("pk"),
        "routes": found.routes.order_by("position"),
        "sitemaps": found.sitemaps.filter(parent=None).order_by("pk")[:SITEMAPS_SHOWN],
        "runs": runs[:RUNS_SHOWN],
        "next_pages": pages.next_pages(merged_head(fleet, {found.pk}), only_this, names),
        "in_flight": pages.in_flight(only_this, names),
    }
