"""What another process runs in the tests of signals."""

from __future__ import annotations

import uuid
from pathlib import Path
from urllib.parse import urlsplit

from renderqueue.egress.policy import EgressPolicy
from renderqueue.rendering.browser import BrowserHost
from renderqueue.rendering.job import RenderJob


def render_once(chromium_path: str, url: str) -> str:
    host = BrowserHost(Path(chromium_path))
    job = RenderJob(uuid.uuid4(), url, ("desktop",), EgressPolicy(frozenset({urlsplit(url).netloc})), 30.0)
    try:
        html = host.render(job).renders[0].html
    finally:
        host.close()
    return (html or b"nothing").decode().replace("\n", " ")
