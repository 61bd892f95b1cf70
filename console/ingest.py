"""A person asks for a sitemap to be read."""

from __future__ import annotations

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from renderqueue.identity import MAX_URL_BYTES, UrlError, parse_url
from renderqueue.models import AuditEntry, Site, Sitemap, SitemapRun
from renderqueue.sitemaps.runs import RunRefused
from renderqueue.sitemaps.tasks import start_run


class IngestRefused(ValueError):
    """The sitemap is not read; the message says why and what to do."""


def ask_for_reading(site: Site, url: str, actor: AbstractBaseUser) -> SitemapRun:
    """Queue a reading of a sitemap on one of the site's hosts, and note who asked. Raises IngestRefused."""
    wanted = _on_a_host_of(site, url)
    try:
        with transaction.atomic():
            sitemap, _ = Sitemap.objects.get_or_create(site=site, url=wanted)
            run = start_run(sitemap)
            AuditEntry.objects.create(
                actor_id=actor.pk, action="sitemap read", target=wanted, detail={"site": site.pk, "run": run.pk}
            )
    except RunRefused as refused:
        raise IngestRefused(str(refused)) from None
    return run


def _on_a_host_of(site: Site, url: str) -> str:
    try:
        parsed = parse_url(url)
    except UrlError as error:
        raise IngestRefused(str(error)) from None
    if len(parsed.url.encode()) > MAX_URL_BYTES:
        raise IngestRefused(f"The URL is longer than {MAX_URL_BYTES:,} bytes.")
    hosts = list(site.hosts.order_by("pk").values_list("host", flat=True))
    if parsed.host not in hosts:
        raise IngestRefused(
            f"{parsed.host} is not a host of this site ({', '.join(hosts)}). Give a sitemap on one of them, or add"
            f" {parsed.host} to the site's hosts first."
        )
    return parsed.url
