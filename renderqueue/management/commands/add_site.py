"""`manage.py add_site NAME ORIGIN`: make a site from the command line, as an operator."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from renderqueue.identity import DEVICES
from renderqueue.models import Site
from renderqueue.sites import SiteRefused, create_site, project_named


class Command(BaseCommand):
    help = "Make a site with its hosts and a route that matches everything. Exit code 1 and one sentence if refused."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="What people call the site.")
        parser.add_argument("origin", help="Scheme and host, such as https://www.example.com")
        parser.add_argument("--project", default="", help="Name or slug; made if there is none. Default: the name.")
        parser.add_argument("--host", action="append", default=[], help="A further host of the site; repeatable.")
        parser.add_argument("--interval-hours", type=float, default=96, help="Between refreshes of a page (96).")
        parser.add_argument("--device", action="append", choices=DEVICES, help="Repeatable (desktop).")
        parser.add_argument(
            "--allow-private", action="append", default=[], help="A private host[:port] that renders may reach."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            site = self._create(options)
        except SiteRefused as refused:
            owner = f" It belongs to {refused.taken_by} (site {refused.taken_by.pk})." if refused.taken_by else ""
            raise CommandError(f"{refused}{owner}") from None
        self.stdout.write(
            f"Site {site.pk}: {site.name} at {site.origin}. Next, have its sitemap read:"
            f" manage.py ingest {site.origin}/sitemap.xml"
        )

    @transaction.atomic
    def _create(self, options: dict[str, Any]) -> Site:
        return create_site(
            project_named(options["project"] or options["name"]),
            name=options["name"],
            origin=options["origin"],
            hosts=options["host"],
            default_interval_s=round(options["interval_hours"] * 3600),
            devices=options["device"] or ["desktop"],
            allowed_private_hosts=options["allow_private"],
        )
