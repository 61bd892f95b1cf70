"""One sitemap document from the network to a file, through the egress guard of its site."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from renderqueue.egress.client import FetchFailed, Problem, download_blocking
from renderqueue.egress.policy import EgressPolicy
from renderqueue.models import Site
from renderqueue.sitemaps.errors import NotASitemap, SitemapDamaged, SitemapError, SitemapTooLarge
from renderqueue.sitemaps.findings import shortened
from renderqueue.sitemaps.parse import ReadLimits, Source

TIMEOUT_S = 120.0
IN_MEMORY_BYTES = 4 * 1024 * 1024
CHUNK_BYTES = 64 * 1024
SNIPPET_CHARACTERS = 120
_HEADERS = {"Accept": "application/xml, text/xml, application/gzip, text/plain;q=0.9, */*;q=0.5"}


class Unreachable(SitemapError):
    """There was no answer, or the guard forbids to ask."""


@contextmanager
def fetched(
    url: str, site: Site, limits: ReadLimits, timeout_s: float = TIMEOUT_S
) -> Iterator[tuple[Source, BinaryIO]]:
    """The document as a file at its beginning; it is complete before anything of it is read, so that a database
    that is slow does not hold the connection. Raises SitemapError, also for any status but 200."""
    policy = EgressPolicy(frozenset(site.allowed_private_hosts))
    with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES) as spool:
        file = cast(BinaryIO, spool)
        try:
            answer = download_blocking(
                url, policy, file, max_bytes=limits.unpacked_bytes, timeout_s=timeout_s, headers=_HEADERS
            )
        except FetchFailed as error:
            raise _explained(error, site) from error
        file.seek(0)
        source = Source(answer.url, answer.status, answer.headers.get("content-type", ""))
        if answer.status != 200:
            raise NotASitemap(_status_sentence(source, file.read(2048)))
        yield source, file


def chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def _explained(error: FetchFailed, site: Site) -> SitemapError:
    if error.problem is Problem.REFUSED:
        return Unreachable(
            f"{error} If this is meant, add the host, as host or host:port, to the allowed private hosts of the site"
            f" {site.name!r}."
        )
    if error.problem is Problem.TOO_LARGE:
        return SitemapTooLarge(str(error))
    if error.problem is Problem.BROKEN:
        return SitemapDamaged(str(error))
    return Unreachable(str(error))


def _status_sentence(source: Source, start: bytes) -> str:
    kind = source.content_type.partition(";")[0].strip() or "no content type"
    snippet = shortened(start.decode("utf-8", errors="replace"), SNIPPET_CHARACTERS)
    return f"It answered {source.status} ({kind}) instead of 200{f': {snippet}' if snippet else ''}"
