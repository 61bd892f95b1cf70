"""`manage.py ingest URL`: read a sitemap now, in this process, with its progress on the screen."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from renderqueue.identity import UrlError, parse_url
from renderqueue.models import Site, SiteHost, Sitemap
from renderqueue.sitemaps import runs
from renderqueue.sitemaps.ingest import IngestFailed, execute
from renderqueue.sitemaps.tally import Tally
from renderqueue.sitemaps.tasks import send

LINE_EVERY_S = 1.0
_FINDINGS = (
    ("attached", "known pages that had no sitemap, or moved to another of its documents"),
    ("unlinked", "pages that are no longer listed: they stay, without a sitemap"),
    ("duplicates", "listed more than once"),
    ("filtered", "on routes that are not rendered"),
    ("foreign", "on hosts that are not the site's"),
    ("invalid", "not usable as URLs"),
    ("failed_documents", "documents failed"),
)


class Command(BaseCommand):
    help = "Read a sitemap or sitemap index and schedule its pages. Exit code 1 and one sentence if it fails."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("url", help="The sitemap's URL, such as https://www.example.com/sitemap.xml")
        parser.add_argument(
            "--site", default="", help="Name or id of the site, if the URL's host is not one of its hosts."
        )
        parser.add_argument("--queue", action="store_true", help="Let a worker read it, and return at once.")
        parser.add_argument(
            "--allow-shrink",
            action="store_true",
            help="Unlink pages that are gone even if they are more than half of all.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        site = _site(options["site"], options["url"])
        sitemap, _ = Sitemap.objects.get_or_create(site=site, url=options["url"].strip())
        try:
            run = runs.queue_run(sitemap)
        except runs.RunRefused as refused:
            raise CommandError(str(refused)) from None
        if options["queue"]:
            sent = send(run.pk)
            later = "" if sent else " The broker cannot be reached; a worker takes the run when it can be again."
            self.stdout.write(f"Run {run.pk} of {sitemap.url} is queued.{later}")
            return
        running = runs.take(run.pk)
        if running is None:
            raise CommandError(f"A worker was faster: it reads {sitemap.url} now, as run {run.pk}.")
        self._execute(running, allow_shrink=options["allow_shrink"])

    def _execute(self, running: runs.Running, *, allow_shrink: bool) -> None:
        self.stdout.write(f"Reading {running.sitemap.url} for {running.sitemap.site.name} (run {running.run_id}).")
        started = time.monotonic()
        try:
            tally = execute(running, on_progress=_Progress(self).show, allow_shrink=allow_shrink)
        except IngestFailed as error:
            raise CommandError(str(error)) from None
        except runs.RunLost:
            raise CommandError("Another process took this run over; this one stopped.") from None
        self._summary(tally, time.monotonic() - started)

    def _summary(self, tally: Tally, took_s: float) -> None:
        self.stdout.write(
            f"Done in {took_s:.1f} s: {tally.documents:,} documents, {tally.listed:,} URLs,"
            f" {tally.created:,} new pages, {tally.existing:,} known."
        )
        samples = tally.as_fields()["samples"]
        for name, what in _FINDINGS:
            if count := getattr(tally, name):
                self.stdout.write(f"  {count:,} {what}")
                self._examples(samples.get(name, []))
        for warning in samples["warnings"]:
            self.stdout.write(f"  {warning['count']:,} x {warning['kind']}")
            self._examples(warning["samples"])
        for note in tally.notes:
            self.stdout.write(f"  {note}")

    def _examples(self, texts: list[str]) -> None:
        for text in texts[:3]:
            self.stdout.write(f"    {text}")


class _Progress:
    """At most one line a second."""

    def __init__(self, command: BaseCommand) -> None:
        self._command = command
        self._next = time.monotonic() + LINE_EVERY_S

    def show(self, tally: Tally) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + LINE_EVERY_S
        left_out = tally.filtered + tally.foreign + tally.invalid
        self._command.stdout.write(
            f"  {tally.documents:,} documents, {tally.listed:,} URLs: {tally.created:,} new, {tally.existing:,} known,"
            f" {tally.duplicates:,} twice, {left_out:,} left out"
        )
        self._command.stdout.flush()


def _site(wanted: str, url: str) -> Site:
    try:
        host = parse_url(url).host
    except UrlError as error:
        raise CommandError(str(error)) from None
    if wanted:
        return _named_site(wanted)
    found = SiteHost.objects.select_related("site").filter(host=host).first()
    if found is None:
        raise CommandError(
            f"No site has the host {host}. Add it to a site (console: Sites, the site, Hosts), or say with --site whose"
            " sitemap this is."
        )
    return found.site


def _named_site(wanted: str) -> Site:
    found = list(Site.objects.filter(name=wanted)[:2])
    if not found and wanted.isdigit():
        found = list(Site.objects.filter(pk=int(wanted)))
    if len(found) == 1:
        return found[0]
    if found:
        raise CommandError(f"Several sites are called {wanted!r}; give the id instead.")
    known = ", ".join(f"{site.name} ({site.pk})" for site in Site.objects.all()[:20]) or "none"
    raise CommandError(f"There is no site {wanted!r}. Known sites: {known}.")
