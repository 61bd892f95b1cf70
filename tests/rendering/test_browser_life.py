"""Browsers come and go: nothing of them is left, and only their own renders suffer."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from pytest_httpserver import HTTPServer

from renderqueue.rendering.browser import BrowserHost, HostClosed, RenderCancelled
from renderqueue.rendering.chromium import ChromiumFailed
from renderqueue.rendering.engine import Engine
from renderqueue.rendering.job import DeviceRender, Fault, RenderJob, RenderResult
from tests.rendering.conftest import Pages, job_for
from tests.rendering.holding import Held
from tests.rendering.processes import browsers_among, descendants, drivers, left_of, profile_of, send, tabs_of, wait_for

pytestmark = pytest.mark.chromium


class Lab:
    """A host of the test's own and the drivers and browsers that it brought."""

    def __init__(self, host: BrowserHost) -> None:
        self.host = host
        self._others = set(drivers())
        self._pool = ThreadPoolExecutor(8)

    def begin(self, job: RenderJob) -> Future[RenderResult]:
        return self._pool.submit(self.host.render, job)

    def drivers(self) -> list[psutil.Process]:
        return [driver for driver in drivers() if driver not in self._others]

    def processes(self) -> set[psutil.Process]:
        return {process for driver in self.drivers() for process in [driver, *descendants(driver.pid)]}

    def browsers(self) -> list[psutil.Process]:
        return browsers_among(self.processes())

    def end(self) -> None:
        self.host.close()
        self._pool.shutdown()


@pytest.fixture
def new_lab(chromium_path: str) -> Iterator[Callable[..., Lab]]:
    labs: list[Lab] = []

    def make(**options: float) -> Lab:
        labs.append(Lab(BrowserHost(Path(chromium_path), **options)))  # type: ignore[arg-type]
        return labs[-1]

    yield make
    for lab in labs:
        lab.end()


def only(result: RenderResult) -> DeviceRender:
    (render,) = result.renders
    return render


def test_nothing_is_left_after_closing(new_lab: Callable[..., Lab], origin: HTTPServer, serve: Pages) -> None:
    serve("/", "<p>x</p>")
    lab = new_lab()
    assert lab.processes() == set(), "a host starts nothing before its first render"
    assert only(lab.host.render(job_for(origin, "/"))).html
    (browser,) = lab.browsers()
    mine, profile = lab.processes(), profile_of(browser)
    assert profile.is_dir()
    lab.host.close()
    assert left_of(mine) == []
    assert not profile.exists()
    with pytest.raises(HostClosed):
        lab.host.render(job_for(origin, "/"))


def test_a_killed_browser_costs_its_own_render_and_leaves_nothing(
    new_lab: Callable[..., Lab], origin: HTTPServer, serve: Pages
) -> None:
    serve("/", "<p>x</p><script>prerenderReady = true</script>")
    lab = new_lab()
    seen: set[psutil.Process] = set()
    profiles = []
    for cycle in range(2):
        held = Held(origin, f"/held{cycle}")
        render = lab.begin(job_for(origin, f"/held{cycle}"))
        held.wait_until_asked()
        (browser,) = lab.browsers()
        seen |= lab.processes()
        profiles.append(profile_of(browser))
        browser.kill()
        assert only(render.result(10)).fault is Fault.BROWSER_LOST
        held.release()
        # A finished visit says that browsers are well here: the pause after the next loss is short again.
        assert only(lab.host.render(job_for(origin, "/"))).html
        seen |= lab.processes()
        lab.browsers()[0].kill()  # and once with nothing open
        wait_until_gone(seen)
        assert lab.processes() == set()
    assert [profile for profile in profiles if profile.exists()] == []


def wait_until_gone(processes: set[psutil.Process]) -> None:
    wait_for(lambda: not left_of(processes), "the end and the reaping of all that belonged to dead browsers")


def test_a_crashed_tab_fails_its_own_render_only(new_lab: Callable[..., Lab], origin: HTTPServer, serve: Pages) -> None:
    serve("/", "<script>prerenderReady = false; fetch('/crash')</script>")
    crash, other = Held(origin, "/crash"), Held(origin, "/other", "<p>well</p>")
    lab = new_lab()
    victim = lab.begin(job_for(origin, "/"))
    crash.wait_until_asked()
    (browser,) = lab.browsers()
    tabs = tabs_of(browser)
    bystander = lab.begin(job_for(origin, "/other"))
    other.wait_until_asked()
    send(signal.SIGKILL, tabs)
    assert only(victim.result(10)).fault is Fault.TAB_CRASHED
    other.release()
    assert only(bystander.result(10)).html
    assert lab.browsers() == [browser]
    crash.release()


def test_a_browser_that_stops_answering_is_replaced(
    new_lab: Callable[..., Lab], origin: HTTPServer, serve: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("renderqueue.rendering.visit.CLOSE_TIMEOUT_S", 1.0)
    serve("/", "<p>x</p>")
    held = Held(origin, "/held")
    lab = new_lab()
    render = lab.begin(job_for(origin, "/held", timeout_s=2))
    held.wait_until_asked()
    (browser,) = lab.browsers()
    mine = lab.processes()
    browser.suspend()
    assert only(render.result(10)).fault is Fault.BROWSER_LOST
    assert left_of(mine) == []
    held.release()
    assert only(lab.host.render(job_for(origin, "/"))).html


def test_closing_ends_a_browser_that_does_not_answer(
    new_lab: Callable[..., Lab], origin: HTTPServer, serve: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine.close, "__defaults__", (1.0,))
    serve("/", "<p>x</p>")
    lab = new_lab()
    lab.host.render(job_for(origin, "/"))
    mine = lab.processes()
    send(signal.SIGSTOP, mine)
    lab.host.close()
    assert left_of(mine) == []


def test_a_retired_browser_finishes_what_it_has(new_lab: Callable[..., Lab], origin: HTTPServer, serve: Pages) -> None:
    serve("/", "<p>x</p>")
    held = Held(origin, "/held", "<p>finished</p>")
    lab = new_lab(retire_after=1)
    slow = lab.begin(job_for(origin, "/held", timeout_s=20))
    held.wait_until_asked()
    (old,) = lab.browsers()
    assert only(lab.host.render(job_for(origin, "/"))).html
    assert old.is_running(), "the retired browser still has a page open"
    held.release()
    assert b"finished" in (only(slow.result(20)).html or b"")
    wait_for(lambda: not left_of({old}), "the end of the retired browser")


def test_a_retired_browser_does_not_wait_for_ever(
    new_lab: Callable[..., Lab], origin: HTTPServer, serve: Pages
) -> None:
    serve("/", "<p>x</p>")
    held = Held(origin, "/held")
    lab = new_lab(retire_after=1, drain_deadline_s=0.5)
    slow = lab.begin(job_for(origin, "/held", timeout_s=20))
    held.wait_until_asked()
    lab.host.render(job_for(origin, "/"))
    assert only(slow.result(10)).fault is Fault.BROWSER_LOST
    held.release()


def test_a_render_can_be_cancelled_by_its_token(new_lab: Callable[..., Lab], origin: HTTPServer, serve: Pages) -> None:
    serve("/", "<p>x</p>")
    held = Held(origin, "/held")
    lab = new_lab()
    job = job_for(origin, "/held", timeout_s=20)
    render = lab.begin(job)
    held.wait_until_asked()
    (browser,) = lab.browsers()
    tabs = set(tabs_of(browser))
    assert lab.host.cancel(job.token)
    with pytest.raises(RenderCancelled):
        render.result(5)
    wait_for(lambda: not left_of(tabs & set(tabs_of(browser))), "the end of the cancelled render's tab")
    assert not lab.host.cancel(job.token)
    held.release()
    assert only(lab.host.render(job_for(origin, "/"))).html
    assert lab.browsers() == [browser]


def test_a_render_cancelled_while_the_browser_starts_leaves_no_second_browser(
    new_lab: Callable[..., Lab], origin: HTTPServer, serve: Pages
) -> None:
    serve("/", "<p>x</p>")
    lab = new_lab()
    job = job_for(origin, "/")
    render = lab.begin(job)
    wait_for(lambda: bool(lab.processes()), "the start of a driver")
    assert lab.host.cancel(job.token)
    with pytest.raises(RenderCancelled):
        render.result(5)
    assert only(lab.host.render(job_for(origin, "/"))).html
    assert len(lab.drivers()) == 1
    mine = lab.processes()
    lab.host.close()
    assert left_of(mine) == []


def test_closing_cancels_what_renders(new_lab: Callable[..., Lab], origin: HTTPServer) -> None:
    held = Held(origin, "/held")
    lab = new_lab()
    render = lab.begin(job_for(origin, "/held", timeout_s=20))
    held.wait_until_asked()
    mine = lab.processes()
    lab.host.close()
    with pytest.raises(RenderCancelled):
        render.result(5)
    assert left_of(mine) == []
    held.release()


def test_renders_of_many_threads_share_one_browser(
    new_lab: Callable[..., Lab], origin: HTTPServer, serve: Pages
) -> None:
    serve("/", "<p>x</p><script>prerenderReady = true</script>")
    lab = new_lab()
    renders = [lab.begin(job_for(origin, "/", timeout_s=20)) for _ in range(6)]
    assert all(only(render.result(30)).html for render in renders)
    assert len(lab.browsers()) == 1


WORKER = """
import signal, sys
from pathlib import Path
from tests.rendering.worker_script import render_once
signal.signal(signal.SIGTERM, lambda *_: print("asked to stop", flush=True))
print(render_once(sys.argv[1], sys.argv[2]), flush=True)
"""


@contextmanager
def worker(chromium_path: str, url: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that renders one page."""
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, chromium_path, url], stdout=subprocess.PIPE, text=True, cwd=root
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_sigterm_does_not_take_the_browser_from_a_render(chromium_path: str, origin: HTTPServer) -> None:
    held = Held(origin, "/held", "<p>finished</p>")
    with worker(chromium_path, origin.url_for("/held")) as process:
        held.wait_until_asked()
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        assert process.stdout.readline() == "asked to stop\n"
        held.release()
        assert "finished" in process.stdout.readline()
        assert process.wait(20) == 0


def test_a_process_killed_outright_leaves_no_browser(chromium_path: str, origin: HTTPServer) -> None:
    held = Held(origin, "/held")
    with worker(chromium_path, origin.url_for("/held")) as process:
        held.wait_until_asked()
        theirs = descendants(process.pid)
        (browser,) = browsers_among(theirs)
        profile = profile_of(browser)
        process.kill()
        wait_for(lambda: not left_of(theirs), "the end of the killed process's browser")
        wait_for(lambda: not profile.exists(), "the end of its profile")
    held.release()


def fake_chromium(folder: Path, script: str) -> Path:
    path = folder / "chromium"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_browser_that_does_not_start_says_its_last_words(tmp_path: Path, origin: HTTPServer) -> None:
    host = BrowserHost(fake_chromium(tmp_path, "echo 'libfoo.so.1: cannot open shared object file' >&2; exit 127"))
    with pytest.raises(ChromiumFailed, match=r"chromium did not start(.|\n)*libfoo\.so\.1: cannot open"):
        host.render(job_for(origin, "/"))
    host.close()


def test_a_browser_that_hangs_at_its_start_is_killed(tmp_path: Path, origin: HTTPServer) -> None:
    before = descendants()
    hanging = fake_chromium(tmp_path, "trap '' INT TERM HUP\necho waiting >&2\nwhile :; do sleep 0.1; done")
    host = BrowserHost(hanging, launch_timeout_s=1)
    began = time.monotonic()
    with pytest.raises(ChromiumFailed, match="did not start"):
        host.render(job_for(origin, "/"))
    assert time.monotonic() - began < 15
    host.close()
    left = [process for process in descendants() - before if str(hanging) in " ".join(process.cmdline())]
    assert left == []


def test_closing_does_not_wait_for_the_pause_after_a_failed_start(
    tmp_path: Path, origin: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("renderqueue.rendering.engines.BACKOFF_FIRST_S", 25.0)
    host = BrowserHost(fake_chromium(tmp_path, "exit 1"))
    with pytest.raises(ChromiumFailed):
        host.render(job_for(origin, "/"))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(host.render, job_for(origin, "/"))
        wait_for(lambda: host._engines._pausing, "the pause before the second start")
        began = time.monotonic()
        host.close()
        with pytest.raises(RenderCancelled):
            waiting.result(5)
    assert time.monotonic() - began < 10


def test_the_host_is_safe_to_close_twice_and_unused(chromium_path: str) -> None:
    threads = threading.active_count()
    host = BrowserHost(Path(chromium_path))
    host.close()
    host.close()
    assert threading.active_count() == threads
