"""What a document lists, brought into the schedule: batch by batch, each in one transaction.

Deadlines never move here (trap 31), a page stays with the sitemap that had it first (trap 32), and what routes
leave out is left alone (trap 34).
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import batched

from django.db import connection, transaction

from renderqueue.models import Sitemap
from renderqueue.scheduling import rows
from renderqueue.scheduling.rows import NewPage
from renderqueue.sitemaps.listing import SiteRules, Verdict
from renderqueue.sitemaps.parse import Entry
from renderqueue.sitemaps.seen import SeenPages
from renderqueue.sitemaps.tally import Tally
from renderqueue.sitemaps.values import declared_interval_s

BATCH = 500
SHRINK_MINIMUM = 20
MOVES_KEPT = 100_000


@dataclass(frozen=True, slots=True)
class _Known:
    sitemap_id: int | None
    route_id: int
    declared_interval_s: int | None


@dataclass(slots=True)
class Reconciler:
    """One run's view of a site. `tally` is the run's and counts what happens."""

    rules: SiteRules
    tally: Tally
    _seen: SeenPages = field(default_factory=SeenPages)
    # Pages that another document of this run owns: they move here if that one no longer lists them.
    _elsewhere: dict[uuid.UUID, tuple[int, int | None]] = field(default_factory=dict)

    def batch(self, sitemap_id: int, entries: Sequence[Entry]) -> None:
        """Bring in at most `BATCH` entries of one document. Call it in a transaction."""
        pages, first = self._pages(sitemap_id, entries)
        known = self._known(pages)
        new = [page for key, page in pages.items() if key not in known]
        created = rows.add_pages(self.rules.site, self.rules.routes, new, _database_now()) if new else frozenset()
        self.tally.created += len(created)
        self.tally.sample("created", (page.url for page in new if page.key in created))
        self.tally.existing += len(first - created)
        self._update(sitemap_id, pages, known)

    def finish(self, documents: set[int], *, allow_shrink: bool) -> None:
        """After a complete walk of `documents` (ids of sitemaps): pages that none of them lists lose their
        sitemap, and pages that moved between them follow. With more than half of at least 20 pages gone nothing
        is unlinked, unless `allow_shrink`: that is rather a broken sitemap (F88)."""
        gone: dict[int, list[uuid.UUID]] = defaultdict(list)
        moved: dict[int, list[uuid.UUID]] = defaultdict(list)
        owned = 0
        for owner, keys in _owned(documents):
            owned += len(keys)
            listed = zip(keys, self._seen.anywhere(keys), self._seen.in_document(owner, keys), strict=True)
            for key, anywhere, here in listed:
                if not anywhere:
                    gone[owner].append(key)
                elif not here and key in self._elsewhere:
                    moved[owner].append(key)
        for owner, keys in moved.items():
            self._move(owner, keys)
        count = sum(map(len, gone.values()))
        if not allow_shrink and owned >= SHRINK_MINIMUM and count * 2 > owned:
            self.tally.note(
                f"{count:,} of {owned:,} pages are no longer listed. That is more than half, so none was unlinked;"
                " if it is meant, read the sitemap with --allow-shrink."
            )
            return
        for owner, keys in gone.items():
            for part in batched(keys, BATCH):
                self.tally.unlinked += rows.unlink_from_sitemap(part, owner)

    def _pages(self, sitemap_id: int, entries: Sequence[Entry]) -> tuple[dict[uuid.UUID, NewPage], set[uuid.UUID]]:
        """The pages that the entries list, each once, and those that the run sees for the first time; everything
        else is counted."""
        pages: list[NewPage] = []
        filtered: list[tuple[uuid.UUID, str]] = []
        for entry in entries:
            listing = self.rules.judge(entry.loc)
            if listing.verdict is Verdict.FOREIGN:
                self.tally.foreign += 1
                self.tally.sample("foreign", [entry.loc])
            elif listing.identity is None:
                self.tally.invalid += 1
                self.tally.sample("invalid", [listing.why])
            elif listing.verdict is Verdict.FILTERED:
                filtered.append((listing.identity.key, entry.loc))
            else:
                found = listing.identity
                declared = declared_interval_s(entry.changefreq)
                pages.append(NewPage(found.url, found.key, found.route_id, sitemap_id, declared))
        self._count_filtered(sitemap_id, filtered)
        first = self._seen.add(sitemap_id, [page.key for page in pages])
        self.tally.duplicates += first.count(False)
        self.tally.sample("duplicates", (page.url for page, new in zip(pages, first, strict=True) if not new))
        listed: dict[uuid.UUID, NewPage] = {}
        for page in pages:
            listed.setdefault(page.key, page)
        return listed, {page.key for page, new in zip(pages, first, strict=True) if new}

    def _count_filtered(self, sitemap_id: int, filtered: list[tuple[uuid.UUID, str]]) -> None:
        self.tally.filtered += len(filtered)
        self.tally.sample("filtered", (loc for _, loc in filtered))
        self._seen.add(sitemap_id, [key for key, _ in filtered])

    def _known(self, pages: Iterable[uuid.UUID]) -> dict[uuid.UUID, _Known]:
        with connection.cursor() as cursor:
            cursor.execute(_KNOWN, [list(pages), self.rules.site.pk])
            return {key: _Known(*values) for key, *values in cursor.fetchall()}

    def _update(self, sitemap_id: int, pages: dict[uuid.UUID, NewPage], known: dict[uuid.UUID, _Known]) -> None:
        """Write only what differs: to read a sitemap again that did not change writes nothing."""
        attach = [key for key, row in known.items() if row.sitemap_id is None]
        declare = {
            key: pages[key].declared_interval_s
            for key, row in known.items()
            if row.sitemap_id in (None, sitemap_id) and row.declared_interval_s != pages[key].declared_interval_s
        }
        reroute = {key: pages[key].route_id for key, row in known.items() if row.route_id != pages[key].route_id}
        for key, row in known.items():
            if row.sitemap_id not in (None, sitemap_id) and len(self._elsewhere) < MOVES_KEPT:
                self._elsewhere.setdefault(key, (sitemap_id, pages[key].declared_interval_s))
        if not (attach or declare or reroute):
            return
        _lock({*attach, *declare, *reroute})
        self.tally.attached += rows.attach_to_sitemap(attach, sitemap_id)
        rows.declare_intervals(declare, sitemap_id)
        rows.move_to_routes(reroute)

    def _move(self, owner: int, keys: list[uuid.UUID]) -> None:
        for part in batched(keys, BATCH):
            targets: dict[int, dict[uuid.UUID, int | None]] = defaultdict(dict)
            for key in part:
                target, declared = self._elsewhere[key]
                targets[target][key] = declared
            with transaction.atomic():
                _lock(part)
                rows.unlink_from_sitemap(part, owner)
                for target, declared_intervals in targets.items():
                    self.tally.attached += rows.attach_to_sitemap(declared_intervals, target)
                    rows.declare_intervals(declared_intervals, target)


def tree(root_id: int) -> set[int]:
    """The ids of a root sitemap and of all that were ever listed below it."""
    with connection.cursor() as cursor:
        cursor.execute(_TREE, [root_id])
        return {row[0] for row in cursor.fetchall()}


def forget(documents: set[int]) -> None:
    """Delete the rows of documents that no index lists any more, once no page is theirs."""
    Sitemap.objects.filter(pk__in=documents, pages=None, runs=None).delete()


def _owned(documents: set[int]) -> Iterable[tuple[int, list[uuid.UUID]]]:
    """All pages of the documents, a few thousand at a time, so that no long read holds the table."""
    for document in sorted(documents):
        after = 0
        while True:
            with connection.cursor() as cursor:
                cursor.execute(_OWNED, [document, after])
                found = cursor.fetchall()
            if not found:
                break
            after = found[-1][0]
            yield document, [key for _, key in found]


def _lock(keys: Iterable[uuid.UUID]) -> None:
    # By id, as everywhere (L0): the updates that follow lock in no order of their own.
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, [list(keys)])


def _database_now() -> dt.datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: dt.datetime = cursor.fetchone()[0]
    return now


_KNOWN = """
    SELECT key, sitemap_id, route_id, declared_interval_s FROM renderqueue_renderschedule
    WHERE key = ANY(%s) AND site_id = %s
"""

_OWNED = """
    SELECT id, key FROM renderqueue_renderschedule WHERE sitemap_id = %s AND id > %s ORDER BY id LIMIT 5000
"""

_LOCK = "SELECT 1 FROM renderqueue_renderschedule WHERE key = ANY(%s) ORDER BY id FOR NO KEY UPDATE"

_TREE = """
    WITH RECURSIVE tree AS (
        SELECT id FROM renderqueue_sitemap WHERE id = %s
        UNION SELECT child.id FROM renderqueue_sitemap AS child JOIN tree ON child.parent_id = tree.id
    )
    SELECT id FROM tree
"""
