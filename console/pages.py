"""What the database knows of the few pages that are shown: by primary key, never a scan (trap 46)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from console.order import HeadEntry
from renderqueue.models import Lease, RenderSchedule, Site

IN_FLIGHT_SHOWN = 20


@dataclass(frozen=True, slots=True)
class NextPage:
    """A place in the order with its page."""

    entry: HeadEntry
    page: RenderSchedule
    lease: Lease | None
    leased_by: str


@dataclass(frozen=True, slots=True)
class InFlight:
    lease: Lease
    node: str


def next_pages(head: Sequence[HeadEntry], sites: QuerySet[Site], node_names: Mapping[uuid.UUID, str]) -> list[NextPage]:
    """The head with URLs, outcomes and leases: one query. Pages that are gone, or of other sites, are left out."""
    if not head:
        return []
    rows = (
        RenderSchedule.objects.filter(pk__in=[entry.page for entry in head], site__in=sites)
        .select_related("site", "route", "lease")
        .only(
            "url", "last_outcome", "retries", "rendered_at",
            "site__name", "route__match", "route__path",
            "lease__node_id", "lease__claimed_at", "lease__started_at", "lease__expires_at",
        )
        .in_bulk()
    )  # fmt: skip
    found = []
    for entry in head:
        page = rows.get(entry.page)
        if page is not None:
            lease = getattr(page, "lease", None)
            found.append(NextPage(entry, page, lease, _name(lease, node_names)))
    return found


def in_flight(sites: QuerySet[Site] | None, node_names: Mapping[uuid.UUID, str]) -> list[InFlight]:
    """The oldest leases, which are the ones that may hang (trap 5): one query on a table of pages in flight."""
    leases = Lease.objects.select_related("page", "site").only(
        "node_id", "claimed_at", "started_at", "expires_at", "page__url", "site__name"
    )
    if sites is not None:
        leases = leases.filter(site__in=sites)
    return [
        InFlight(lease, _name(lease, node_names)) for lease in leases.order_by("claimed_at", "pk")[:IN_FLIGHT_SHOWN]
    ]


def _name(lease: Lease | None, node_names: Mapping[uuid.UUID, str]) -> str:
    return "" if lease is None else node_names.get(lease.node_id, "a node that is gone")
