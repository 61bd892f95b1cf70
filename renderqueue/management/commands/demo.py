"""`manage.py demo --origin http://127.0.0.1:8001`: make the demo shop a site of this fleet."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from renderqueue.demo.setup import set_up
from renderqueue.identity import UrlError, parse_url


class Command(BaseCommand):
    help = "Makes the project, site and routes of the demo shop and queues its sitemap. Can be repeated."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--origin", required=True, help="where the shop answers, such as http://127.0.0.1:8001")

    def handle(self, *args: Any, origin: str, **options: Any) -> None:
        try:
            parsed = parse_url(origin)
        except UrlError as error:
            raise CommandError(f"--origin {origin}: {error}") from error
        if parsed.path != "/" or parsed.query:
            raise CommandError(f"--origin {origin}: give scheme, host and port only, such as http://127.0.0.1:8001")
        demo = set_up(parsed.origin, timezone.now())
        queued = "its sitemap is queued" if demo.sitemap_queued else "its sitemap was read or is queued already"
        self.stdout.write(f"{demo.site.name}: {demo.requested} pages asked for, {queued}.")
