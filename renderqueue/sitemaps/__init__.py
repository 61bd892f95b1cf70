"""Sitemaps: read tolerantly (`parse`), walked from a root (`walk`), brought into the schedule (`reconcile`)."""
