"""A crawler that talks ASGI to the product, and pages stored as renders store them."""

from __future__ import annotations

import asyncio
import datetime as dt
import gzip
import hashlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import brotli
import httpx
import pytest
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.utils import timezone

from renderqueue.asgi import application
from renderqueue.models import Body, CachedCopy, RenderSchedule

HTML = b"<!doctype html><title>Shoes</title><p>" + b"rendered " * 200

Crawl = Callable[..., httpx.Response]


@pytest.fixture
def crawl(transactional_db: None) -> Crawl:
    """`crawl("https://shop.test/a", headers)` asks /p/ for it as a crawler, by the raw bytes of the URL, and returns
    the body undecoded. Only committed rows are seen: the request has a connection of its own."""

    def request(url: str, headers: dict[str, str] | None = None, *, method: str = "GET") -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(application)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                asked = client.build_request(method, f"/p/{url}", headers={"Accept-Encoding": "", **(headers or {})})
                asked.url = httpx.URL("http://localhost").copy_with(raw_path=f"/p/{url}".encode())
                answer = await client.send(asked, stream=True)
                answer._content = b"".join([chunk async for chunk in answer.aiter_raw()])
                await answer.aclose()
                return answer

        return asyncio.run(ask())

    return request


class StoreCopy(Protocol):
    def __call__(
        self,
        page: RenderSchedule,
        html: bytes | None = HTML,
        *,
        status: int = 200,
        age_s: int = 600,
        expires_in_s: int = 3600,
        device: str = "desktop",
        headers: dict[str, str] | None = None,
    ) -> CachedCopy: ...


@pytest.fixture
def store_copy(transactional_db: None) -> StoreCopy:
    def store(
        page: RenderSchedule,
        html: bytes | None = HTML,
        *,
        status: int = 200,
        age_s: int = 600,
        expires_in_s: int = 3600,
        device: str = "desktop",
        headers: dict[str, str] | None = None,
    ) -> CachedCopy:
        now = timezone.now()
        rendered_at = now - dt.timedelta(seconds=age_s)
        body = None
        if html is not None:
            body, _ = Body.objects.get_or_create(
                project=page.site.project,
                sha256=hashlib.sha256(html).digest(),
                defaults={
                    "size": len(html),
                    "br": brotli.compress(html, quality=5),
                    "gzip": gzip.compress(html, mtime=0),
                },
            )
        return CachedCopy.objects.create(
            page=page,
            device=device,
            status=status,
            headers={"Content-Type": "text/html; charset=utf-8"} if headers is None else headers,
            body=body,
            render_started_at=rendered_at,
            rendered_at=rendered_at,
            changed_at=rendered_at,
            expires_at=now + dt.timedelta(seconds=expires_in_s),
            route_id_then=page.route_id,
            sitemap_id_then=page.sitemap_id,
        )

    return store


@pytest.fixture
def queries_of_requests(transactional_db: None) -> Iterator[list[str]]:
    """The SQL of every connection that is opened while the test runs: each request opens its own."""
    seen: list[str] = []

    def note(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        seen.append(sql)
        return execute(sql, params, many, context)

    def watch(sender: object, connection: BaseDatabaseWrapper, **kwargs: object) -> None:
        connection.execute_wrappers.append(note)

    connection_created.connect(watch)
    yield seen
    connection_created.disconnect(watch)
