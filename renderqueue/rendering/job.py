"""What is asked of the browser, and what it answers."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from renderqueue.egress.policy import EgressPolicy

PRODUCT = "renderqueue/0.1"


class Fault(StrEnum):
    """Why a visit gave nothing to store, when the status of the page is not the reason."""

    TIMEOUT = "timeout"
    READY_FLAG = "ready-flag-never-set"
    NEVER_QUIET = "never-quiet"
    TAB_CRASHED = "tab-crashed"
    NAVIGATED_AWAY = "navigated-away"
    REDIRECT_LOOP = "redirects-to-itself"
    NOT_HTML = "not-html"
    UNREADABLE = "unreadable"
    TOO_LARGE = "too-large"
    EGRESS_REFUSED = "egress-refused"
    UNREACHABLE = "unreachable"
    BROWSER_LOST = "browser-lost"


@dataclass(frozen=True, slots=True)
class RenderJob:
    """One page to render on each of `devices` in turn. `timeout_s` bounds each device's visit, whatever the page
    does. `product` is the token behind Chromium's own user agent."""

    token: uuid.UUID
    url: str
    devices: tuple[str, ...]
    policy: EgressPolicy
    timeout_s: float
    product: str = PRODUCT


@dataclass(frozen=True, slots=True)
class RefusedResource:
    """A same-origin part of a page that the origin did not give: its status, or the browser's network error."""

    url: str
    resource_type: str
    why: str


@dataclass(frozen=True, slots=True)
class DeviceRender:
    """What one device's visit gave.

    `status` and `headers` are the top response's, with the page's own prerender-status-code and prerender-header
    applied; None and empty when there was no response. Of the headers only those that `answer` keeps, with
    lower-case names. `html` is there only after a full visit of an HTML page; `location` is absolute and only there
    for a redirect. With a `fault`, `subject` names what it is about (a host and port) if that is not the page
    itself, and `detail` says in a sentence what happened. `flagged` says that the page said itself when it was
    ready. `refused` is at most REFUSED_KEPT of `refused_count` resources."""

    device: str
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    html: bytes | None = field(default=None, repr=False)
    location: str | None = None
    fault: Fault | None = None
    subject: str = ""
    detail: str = ""
    refused: tuple[RefusedResource, ...] = ()
    refused_count: int = 0
    flagged: bool = False
    elapsed_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RenderResult:
    """The visits of one job, in the order of its devices. The first that gives nothing to store is the last made:
    the page fails or succeeds as a whole."""

    token: uuid.UUID
    renders: tuple[DeviceRender, ...]
