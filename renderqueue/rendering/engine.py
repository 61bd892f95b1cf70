"""One driver process and its one browser: launched, watched and ended together.

They are retired together because the driver keeps objects of what it has seen (F04), and because killing a whole
process tree is what ends a browser that no longer answers (F01, F10).
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
from playwright.async_api import Browser, Playwright, async_playwright
from playwright.async_api import Error as PlaywrightError

from renderqueue.rendering.chromium import launch_failure

logger = logging.getLogger(__name__)

LAUNCH_TIMEOUT_S = 30.0
CLOSE_TIMEOUT_S = 5.0
KILL_WAIT_S = 5.0

# The driver would stop sending loopback addresses through the proxy if this were set.
_UNSAFE_VARIABLE = "PLAYWRIGHT_DISABLE_FORCED_CHROMIUM_PROXIED_LOOPBACK"

ARGUMENTS = (
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-domain-reliability",
    "--disable-quic",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-blink-features=WebTransport",
    "--dns-prefetch-disable",
    "--no-pings",
    # The driver's own rule has literal quotes in it, which Chromium does not read; the last one given counts.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)


class Engine:
    """A running browser. `lost` is set when it is gone, for whatever reason; `opened` counts the visits begun in
    it and `visiting` those not ended."""

    def __init__(
        self, playwright: Playwright, browser: Browser, user_agent: str, refusing: socket.socket, pid: int
    ) -> None:
        self.browser = browser
        self.user_agent = user_agent
        self.pid = pid
        self.opened = 0
        self.visiting = 0
        self.lost = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()
        self._playwright = playwright
        self._refusing = refusing
        self._root, self._profile = _tree_of(pid)
        self._closing = asyncio.Lock()
        self._closed = False
        browser.on("disconnected", lambda _: self.lost.set())

    @classmethod
    async def launch(
        cls, executable: Path, *, timeout_s: float = LAUNCH_TIMEOUT_S, arguments: Sequence[str] = ARGUMENTS
    ) -> Engine:
        """Start a driver and a browser. Raises ChromiumFailed with the browser's last words.

        The browser's own proxy refuses everything: only contexts with a proxy of their own reach anything (D18)."""
        os.environ.pop(_UNSAFE_VARIABLE, None)
        refusing = _refusing_socket()
        playwright = await async_playwright().start()
        try:
            async with asyncio.timeout(timeout_s + CLOSE_TIMEOUT_S):
                browser = await playwright.chromium.launch(
                    executable_path=executable,
                    headless=True,
                    args=list(arguments),
                    chromium_sandbox=os.geteuid() != 0,
                    proxy={"server": f"socks5://127.0.0.1:{refusing.getsockname()[1]}"},
                    handle_sigint=False,
                    handle_sigterm=False,
                    handle_sighup=False,
                    timeout=timeout_s * 1000,
                )
                user_agent, pid = await _introduce(browser)
        except (PlaywrightError, TimeoutError) as error:
            await playwright.stop()
            refusing.close()
            raise launch_failure(executable, str(error)) from error
        return cls(playwright, browser, user_agent, refusing, pid)

    def begin(self) -> None:
        self.opened += 1
        self.visiting += 1
        self.idle.clear()

    def end(self) -> None:
        self.visiting -= 1
        if self.visiting == 0:
            self.idle.set()

    async def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """End it and return when no process of it is left; what does not go in time is killed. Idempotent."""
        async with self._closing:
            if self._closed:
                return
            tree = self._processes()
            if timeout_s > 0:
                await self._close_gently(timeout_s)
            await self._kill(tree)
            self._refusing.close()
            self.lost.set()
            self._closed = True

    async def _close_gently(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self.browser.close()
                await self._playwright.stop()
        except (TimeoutError, PlaywrightError) as error:
            logger.warning("browser %s did not close by itself (%r) and is killed", self.pid, error)

    async def _kill(self, tree: list[psutil.Process]) -> None:
        """Kill what is left of the tree and what it has started since; return when it is gone."""
        left = [process for process in {*tree, *self._processes()} if not _ended(process)]
        for process in left:
            _kill(process)
        if left:
            # Its pipes are closed now: this lets go of the driver's side in this process.
            try:
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self._playwright.stop()
            except (TimeoutError, PlaywrightError):
                logger.debug("the driver of browser %s was gone already", self.pid)
        deadline = time.monotonic() + KILL_WAIT_S
        while time.monotonic() < deadline and not all(_ended(process) for process in left):
            await asyncio.sleep(0.02)
        if self._profile is not None:
            await asyncio.to_thread(shutil.rmtree, self._profile, ignore_errors=True)

    def _processes(self) -> list[psutil.Process]:
        """The driver, the browser and their descendants that still run; also those that lost their parents, which
        still name the profile."""
        found: dict[int, psutil.Process] = {}
        try:
            if self._root.is_running():
                found = {process.pid: process for process in [self._root, *self._root.children(recursive=True)]}
        except psutil.NoSuchProcess:
            pass
        if self._profile is not None:
            mark = f"--user-data-dir={self._profile}"
            for process in psutil.process_iter(["cmdline"]):
                if mark in (process.info["cmdline"] or ()):
                    found[process.pid] = process
        return list(found.values())


def _refusing_socket() -> socket.socket:
    """A loopback port that is ours and refuses every connection: bound, never listening."""
    refusing = socket.socket()
    refusing.bind(("127.0.0.1", 0))
    return refusing


async def _introduce(browser: Browser) -> tuple[str, int]:
    """The browser's own user agent and its process id."""
    session = await browser.new_browser_cdp_session()
    version = await session.send("Browser.getVersion")
    processes = await session.send("SystemInfo.getProcessInfo")
    await session.detach()
    pid = next(process["id"] for process in processes["processInfo"] if process["type"] == "browser")
    return version["userAgent"], pid


def _tree_of(pid: int) -> tuple[psutil.Process, Path | None]:
    """The child of this process that the browser hangs under (the driver), and the browser's profile folder."""
    browser = psutil.Process(pid)
    root = browser
    while (parent := root.parent()) is not None and parent.pid != os.getpid():
        root = parent
    profile = next((part for part in browser.cmdline() if part.startswith("--user-data-dir=")), None)
    return root, Path(profile.partition("=")[2]) if profile else None


def _ended(process: psutil.Process) -> bool:
    """Whether it runs no more. One that only waits to be reaped by a parent that is not ours has ended: its own
    parent died first, and whoever adopted it reaps it (the supervisor is a subreaper)."""
    try:
        if not process.is_running():
            return True
        return process.status() == psutil.STATUS_ZOMBIE and process.ppid() != os.getpid()
    except psutil.NoSuchProcess:
        return True


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        logger.debug("process %s was gone already", process.pid)
