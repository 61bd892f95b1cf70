"""Cached copies: written only inside the completion of a render, after the locks of L0."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from renderqueue.models import CachedCopy
from renderqueue.rendering import bodies
from renderqueue.rendering.answer import STORED_HEADERS
from renderqueue.rendering.bodies import NewBody
from renderqueue.rendering.job import DeviceRender
from renderqueue.scheduling.leases import CompletingPage


def store(
    page: CompletingPage, renders: Sequence[DeviceRender], prepared: Mapping[bytes, NewBody], expires_at: dt.datetime
) -> None:
    """One copy per device, replacing what was there. A body that did not change is not written, and `changed_at`
    stays; one that was replaced becomes deletion debt. Copies of devices that were not rendered go."""
    contents = [render.html for render in renders if render.html is not None]
    ids = bodies.pin(page.project_id, contents, prepared)
    present = {copy.device: copy for copy in _locked(page.page_id)}
    replaced: list[int] = []
    for render in renders:
        body_id = None if render.html is None else ids[bodies.digest(render.html)]
        old = present.pop(render.device, None)
        if old is not None and old.body_id is not None and old.body_id != body_id:
            replaced.append(old.body_id)
        _write(page, old, _answer(render, body_id), render.device, expires_at)
    replaced += _delete(list(present.values()))
    bodies.owe(replaced, page.now)


def remove(page: CompletingPage) -> None:
    """Delete every copy of a page that retires; the bodies become deletion debt."""
    bodies.owe(_delete(_locked(page.page_id)), page.now)


def _locked(page_id: int) -> list[CachedCopy]:
    return list(CachedCopy.objects.select_for_update(no_key=True).filter(page_id=page_id).order_by("id"))


def _answer(render: DeviceRender, body_id: int | None) -> dict[str, Any]:
    headers = {name: value for name, value in render.headers.items() if name in STORED_HEADERS}
    if render.location is not None:
        # A redirect has no body, so nothing else of its headers means anything.
        headers = {"location": render.location}
    return {"status": render.status, "headers": headers, "body_id": body_id}


def _write(
    page: CompletingPage, old: CachedCopy | None, answer: dict[str, Any], device: str, expires_at: dt.datetime
) -> None:
    unchanged = old is not None and all(getattr(old, name) == value for name, value in answer.items())
    values = {
        **answer,
        "render_started_at": page.started_at,
        "rendered_at": page.now,
        "changed_at": old.changed_at if old is not None and unchanged else page.now,
        "expires_at": expires_at,
        "route_id_then": page.route_id,
        "sitemap_id_then": page.sitemap_id,
    }
    if old is None:
        CachedCopy.objects.create(page_id=page.page_id, device=device, **values)
    else:
        CachedCopy.objects.filter(pk=old.pk).update(**values)


def _delete(copies: list[CachedCopy]) -> list[int]:
    CachedCopy.objects.filter(pk__in=[copy.pk for copy in copies]).delete()
    return [copy.body_id for copy in copies if copy.body_id is not None]
