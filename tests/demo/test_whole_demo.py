"""`bin/up --demo`: a rendered page soon after it is ready, served to a crawler, and nothing left behind."""

from __future__ import annotations

from pathlib import Path

import httpx
import psutil
import pytest

from renderqueue.supervisor.outcome import Exit
from tests.supervisor.processes import alive, eventually
from tests.supervisor.product import Product, processes_of, remove

pytestmark = [pytest.mark.slow, pytest.mark.chromium, pytest.mark.usefixtures("chromium_path")]


def test_the_demo_shows_rendered_pages_and_ends_with_its_browser(tmp_path: Path) -> None:
    product = Product(tmp_path, "--demo")
    try:
        shop = product.line(r"demo: its shop is (http://127\.0\.0\.1:\d+)/$").group(1)
        origin = product.ready()

        def stored() -> httpx.Response | None:
            answer = httpx.get(f"{origin}/p/{shop}/", headers={"User-Agent": "Googlebot"}, timeout=10)
            return answer if answer.headers.get("X-Renderqueue") == "fresh" else None

        copy = eventually(stored, "the home page is stored", within_s=120)
        assert '<a href="/c/desk-lamp">Desk lamp</a>' in copy.text
        before = [process.pid for process in product.descendants()]
        assert any("chrom" in psutil.Process(pid).name() for pid in before if alive(pid))
        assert product.stop() == Exit.STOPPED, product.output()
        assert [pid for pid in before if alive(pid)] == []
        assert processes_of(tmp_path) == []
    finally:
        if product.process.poll() is None:
            product.process.kill()
            product.process.wait()
        remove(tmp_path)
