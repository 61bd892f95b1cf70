"""The shop's robots.txt and its sitemaps: an index with four children, one of them gzip."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable

from renderqueue.demo import catalogue
from renderqueue.demo.trouble import TROUBLES

XML = "application/xml"
_NAMESPACE = "http://www.sitemaps.org/schemas/sitemap/0.9"
CHILDREN = ("/sitemaps/categories.xml", "/sitemaps/products.xml.gz", "/sitemaps/guides.xml", "/sitemaps/trouble.xml")

Document = tuple[str, bytes]


def robots(origin: str) -> Document:
    return "text/plain", f"User-agent: *\nDisallow: /cart\nDisallow: /api/\n\nSitemap: {origin}/sitemap.xml\n".encode()


def index(origin: str) -> Document:
    entries = "".join(f"<sitemap><loc>{origin}{path}</loc></sitemap>" for path in CHILDREN)
    return XML, _xml(f'<sitemapindex xmlns="{_NAMESPACE}">{entries}</sitemapindex>')


def categories(origin: str) -> Document:
    return XML, _url_set(origin, ["/", *(f"/c/{slug}" for slug in catalogue.categories())], "hourly")


def products(origin: str) -> Document:
    body = _url_set(origin, (product.path for product in catalogue.products()))
    return "application/gzip", gzip.compress(body, mtime=0)


def guides(origin: str) -> Document:
    return XML, _url_set(origin, (guide.path for guide in catalogue.guides()), "daily")


def trouble(origin: str) -> Document:
    return XML, _url_set(origin, TROUBLES)


DOCUMENTS: dict[str, Callable[[str], Document]] = {
    "/robots.txt": robots,
    "/sitemap.xml": index,
    "/sitemaps/categories.xml": categories,
    "/sitemaps/products.xml.gz": products,
    "/sitemaps/guides.xml": guides,
    "/sitemaps/trouble.xml": trouble,
}


def _url_set(origin: str, paths: Iterable[str], frequency: str = "") -> bytes:
    extra = f"<changefreq>{frequency}</changefreq>" if frequency else ""
    entries = "".join(f"<url><loc>{origin}{path}</loc>{extra}</url>" for path in paths)
    return _xml(f'<urlset xmlns="{_NAMESPACE}">{entries}</urlset>')


def _xml(text: str) -> bytes:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()
