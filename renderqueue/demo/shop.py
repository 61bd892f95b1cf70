"""The demo shop: an ASGI application that sends empty pages, which its script fills in the browser."""

from __future__ import annotations

import asyncio
import html
import json
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from renderqueue.demo import catalogue, sitemaps
from renderqueue.demo.trouble import TROUBLES

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_FILES = Path(__file__).with_name("files")
_SHELL = (_FILES / "shell.html").read_text()
_ASSETS = {
    "/assets/shop.js": ("text/javascript; charset=utf-8", (_FILES / "shop.js").read_bytes()),
    "/assets/shop.css": ("text/css; charset=utf-8", (_FILES / "shop.css").read_bytes()),
}
PER_PAGE = 24


@dataclass(frozen=True)
class Answer:
    body: bytes
    content_type: str = "text/html; charset=utf-8"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    delay_s: float = field(default=0.0)


async def application(scope: Scope, receive: Any, send: Send) -> None:
    """Answers GET and HEAD; anything else is refused."""
    if scope["type"] != "http":
        return
    if scope["method"] not in ("GET", "HEAD"):
        answer = Answer(b"only GET\n", "text/plain", status=405)
    else:
        query = parse_qs(scope["query_string"].decode("latin-1"))
        answer = respond(scope["path"], query, origin_of(scope), int(time.time() // 3600))
    await asyncio.sleep(answer.delay_s)
    headers = [("content-type", answer.content_type), ("content-length", str(len(answer.body))), *answer.headers]
    await send(
        {
            "type": "http.response.start",
            "status": answer.status,
            "headers": [(name.encode(), value.encode()) for name, value in headers],
        }
    )
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else answer.body})


def origin_of(scope: Scope) -> str:
    host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
    return f"http://{host}"


def respond(path: str, query: Mapping[str, list[str]], origin: str, hour: int) -> Answer:
    """What the shop answers: a document, data, an asset or a sitemap."""
    if path in _ASSETS:
        content_type, body = _ASSETS[path]
        return Answer(body, content_type, headers=(("cache-control", "max-age=300"),))
    if path.startswith("/api/"):
        return _data(path.removeprefix("/api"), query, hour)
    if path in sitemaps.DOCUMENTS:
        content_type, body = sitemaps.DOCUMENTS[path](origin)
        return Answer(body, content_type)
    return _document(path)


def _document(path: str) -> Answer:
    """The empty shell. Products, categories and the home page say when they are ready; guides do not, and are
    ready when the network is quiet."""
    trouble = TROUBLES.get(path)
    status = trouble.status if trouble else 200 if _content(path, {}, 0) is not None else 404
    headers = trouble.headers if trouble else ()
    flag = "false" if not path.startswith("/guides/") else "undefined"
    body = _SHELL.replace("__FLAG__", flag).replace("__STATUS__", html.escape(str(status)))
    return Answer(body.encode(), status=status, headers=headers)


def _data(path: str, query: Mapping[str, list[str]], hour: int) -> Answer:
    content = _content(path, query, hour)
    trouble = TROUBLES.get(path)
    status = trouble.data_status if trouble else 200 if content is not None else 404
    body = json.dumps(content if status == 200 else {"error": "no data"}).encode()
    return Answer(body, "application/json", status=status, delay_s=trouble.data_delay_s if trouble else 0.0)


def _content(path: str, query: Mapping[str, list[str]], hour: int) -> dict[str, object] | None:
    """The data of the page at `path`, None if there is no such page."""
    if path == "/":
        shown = [one.as_json(hour) for one in catalogue.products()[:PER_PAGE]]
        return {"view": "home", "title": "Lamplight", "products": shown, "categories": catalogue.categories()}
    if path in TROUBLES:
        return {"view": "trouble", "title": TROUBLES[path].what, "ready": TROUBLES[path].ready}
    first, _, rest = path[1:].partition("/")
    if first == "p":
        found = catalogue.product(int(number)) if (number := rest.partition("-")[0]).isdecimal() else None
        return {"view": "product", "title": found.name, "product": found.as_json(hour)} if found else None
    if first == "c" and rest in catalogue.categories():
        return _category(rest, query, hour)
    if first == "guides":
        guide = next((one for one in catalogue.guides() if one.path == path), None)
        return {"view": "guide", "title": guide.title, "guide": guide.as_json()} if guide else None
    return None


def _category(slug: str, query: Mapping[str, list[str]], hour: int) -> dict[str, object]:
    number = query.get("page", ["1"])[0]
    page = max(int(number), 1) if number.isdecimal() else 1
    inside = [one for one in catalogue.products() if one.category == slug]
    shown = [one.as_json(hour) for one in inside[(page - 1) * PER_PAGE : page * PER_PAGE]]
    return {
        "view": "category",
        "title": catalogue.categories()[slug],
        "products": shown,
        "page": page,
        "pages": -(-len(inside) // PER_PAGE),
    }
