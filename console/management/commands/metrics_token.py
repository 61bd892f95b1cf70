"""`manage.py metrics_token`: what Prometheus sends to be let in from another machine."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from console.metrics_access import token
from renderqueue.config import config


class Command(BaseCommand):
    help = "Print the bearer token for /metrics. It is derived from RENDERQUEUE_SECRET_KEY and changes with it."

    def handle(self, *args: Any, **options: Any) -> None:
        if not config().secret_key:
            raise CommandError(
                "RENDERQUEUE_SECRET_KEY is not set here, so the web process has another key and would refuse this"
                " token. Set it to the key of the web process (bin/up keeps it in secret_key in its data folder)."
            )
        self.stdout.write(token())
