"""One run from its root document to the schedule."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from renderqueue.identity import UrlError, parse_url
from renderqueue.models import Sitemap
from renderqueue.sitemaps.errors import SitemapError
from renderqueue.sitemaps.fetching import chunks, fetched
from renderqueue.sitemaps.findings import shortened
from renderqueue.sitemaps.listing import SiteRules
from renderqueue.sitemaps.parse import Entry, Kind, ReadLimits, SitemapReader
from renderqueue.sitemaps.reconcile import BATCH, Reconciler, forget, tree
from renderqueue.sitemaps.runs import RunLost, Running, finish, write_progress
from renderqueue.sitemaps.tally import Tally
from renderqueue.sitemaps.walk import Step, Walk, WalkLimits

logger = logging.getLogger(__name__)

MAX_URL_CHARACTERS = 2048


class IngestFailed(Exception):
    """The run failed and its row says so; the message is the row's error."""


def execute(
    running: Running,
    *,
    on_progress: Callable[[Tally], None] = lambda tally: None,
    allow_shrink: bool = False,
    read_limits: ReadLimits | None = None,
    walk_limits: WalkLimits | None = None,
) -> Tally:
    """Read the sitemap and all its children, and close the run. Raises IngestFailed when nothing could be read,
    RunLost when another runner took over. `on_progress` is called after every batch and document."""
    ingest = _Ingest(running, on_progress, read_limits or ReadLimits(), walk_limits or WalkLimits())
    try:
        ingest.walk_all()
        ingest.check_that_something_was_read()
        ingest.reconcile_absent(allow_shrink=allow_shrink)
    except RunLost:
        raise
    except IngestFailed as error:
        finish(running, ingest.tally, str(error), failed=True)
        raise
    except BaseException as error:
        # Closed even when somebody presses Ctrl-C; if the database itself is gone, the sweep takes over.
        finish(running, ingest.tally, f"The run broke off: {type(error).__name__}: {error}"[:2000], failed=True)
        raise
    finish(running, ingest.tally, ingest.remarks(), failed=False)
    return ingest.tally


class _Ingest:
    def __init__(
        self, running: Running, on_progress: Callable[[Tally], None], read_limits: ReadLimits, walk_limits: WalkLimits
    ) -> None:
        self.tally = Tally()
        self._running = running
        self._on_progress = on_progress
        self._read_limits = read_limits
        self._site = running.sitemap.site
        self._reconciler = Reconciler(SiteRules(self._site), self.tally)
        self._walk = Walk(running.sitemap.url, walk_limits, self.tally.findings)
        self._read: set[int] = set()
        self._root_failed = False
        self._page_documents = 0

    def walk_all(self) -> None:
        while (step := self._walk.next()) is not None:
            row = self._running.sitemap if step.parent_id is None else self._child(step)
            try:
                self._document(row, step)
            except SitemapError as error:
                self._document_failed(row, step, str(error))
            self._progress()

    def check_that_something_was_read(self) -> None:
        """Raise IngestFailed if the root failed, or every document that could have listed pages."""
        if self._root_failed or (self._page_documents == 0 and self.tally.failed_documents > 0):
            raise IngestFailed(self.tally.first_failure())

    def reconcile_absent(self, *, allow_shrink: bool) -> None:
        """What is not listed any more is unlinked, but only when everything was read (F88)."""
        if not self._walk.complete:
            self.tally.note("Not everything could be read, so no page was unlinked.")
            return
        documents = tree(self._running.sitemap.pk) | self._read
        self._reconciler.finish(documents, allow_shrink=allow_shrink)
        forget(documents - self._read)

    def remarks(self) -> str:
        """What a person should know about a run that is done."""
        lines = list(self.tally.notes)
        if self.tally.failed_documents:
            count, all_documents = self.tally.failed_documents, self.tally.documents
            lines.insert(0, f"{count} of {all_documents} documents failed. {self.tally.first_failure()}")
        return " ".join(lines)

    def _document(self, row: Sitemap, step: Step) -> None:
        self.tally.documents += 1
        with fetched(step.url, self._site, self._read_limits) as (source, file):
            if not self._walk.arrive(source.url):
                return
            reader = SitemapReader(source, self._read_limits)
            children: list[str] = []
            try:
                self._entries(row, reader, chunks(file), children)
            finally:  # a child that was listed before the document broke off is still a child
                self.tally.findings.merge(reader.findings)
                self._walk.add_children(self._usable(children), row.pk, step.depth)
        self._read.add(row.pk)
        self._page_documents += reader.kind is Kind.PAGES
        values: dict[str, Any] = {} if step.parent_id is None else {"last_error": "", "consecutive_failures": 0}
        Sitemap.objects.filter(pk=row.pk).update(last_fetched_at=Now(), **values)

    def _entries(self, row: Sitemap, reader: SitemapReader, data: Iterable[bytes], children: list[str]) -> None:
        """Bring pages in, batch by batch; note the children of an index."""
        for batch in _batches(reader.read(data), BATCH):
            if reader.kind is Kind.SITEMAPS:
                children += [entry.loc for entry in batch]
                continue
            self.tally.listed += len(batch)
            if not self._walk.count_listed(self.tally.listed):
                return
            with transaction.atomic():
                self._reconciler.batch(row.pk, batch)
                write_progress(self._running, self.tally)
            self._on_progress(self.tally)

    def _usable(self, children: list[str]) -> list[str]:
        """The children that can be fetched and have a row; the others are failed documents."""
        usable = []
        for url in children:
            try:
                parse_url(url)
            except UrlError as error:
                self._not_a_child(url, str(error))
            else:
                if len(url) <= MAX_URL_CHARACTERS:
                    usable.append(url)
                else:
                    self._not_a_child(url, f"Its URL is longer than {MAX_URL_CHARACTERS:,} characters.")
        return usable

    def _not_a_child(self, url: str, why: str) -> None:
        self._walk.failed()
        self.tally.documents += 1
        self.tally.fail_document(shortened(url), why)

    def _child(self, step: Step) -> Sitemap:
        row, _ = Sitemap.objects.get_or_create(site=self._site, url=step.url, defaults={"parent_id": step.parent_id})
        return row

    def _document_failed(self, row: Sitemap, step: Step, why: str) -> None:
        self._walk.failed()
        self.tally.fail_document(step.url, why)
        if step.parent_id is None:
            self._root_failed = True
        else:
            Sitemap.objects.filter(pk=row.pk).update(last_error=why, consecutive_failures=F("consecutive_failures") + 1)
        logger.warning("sitemap %s of %s failed: %s", step.url, self._site, why)

    def _progress(self) -> None:
        write_progress(self._running, self.tally)
        self._on_progress(self.tally)


def _batches(entries: Iterator[Entry], size: int) -> Iterator[list[Entry]]:
    """As itertools.batched, but what was read before an error is handed out first."""
    batch: list[Entry] = []
    try:
        for entry in entries:
            batch.append(entry)
            if len(batch) == size:
                yield batch
                batch = []
    except SitemapError:
        if batch:
            yield batch
        raise
    if batch:
        yield batch
