"""Why a document cannot be used as a sitemap. Messages are sentences that follow "<url>: "."""

from __future__ import annotations


class SitemapError(Exception):
    """The document failed; what was read before that is true, but not all there is."""


class NotASitemap(SitemapError):
    """Something else answered: an error page, a feed, nothing."""


class SitemapDamaged(SitemapError):
    """It ends too early, or a part of it cannot be read: what is missing from it proves nothing (F88)."""


class SitemapTooLarge(SitemapError):
    """It is beyond what we read in one document (F95)."""
