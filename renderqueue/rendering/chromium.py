"""Which Chromium to run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

SYSTEM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome-headless-shell")
HOW_TO_GET_ONE = (
    "Install the system's package (Debian: `apt-get install chromium`), or download Playwright's with "
    "`playwright install --only-shell chromium`, or set RENDERQUEUE_CHROMIUM_PATH to the executable of one."
)
PATH_LOOKUP_S = 30


class ChromiumMissing(Exception):
    """There is no Chromium to run; the message says how to get one."""


class ChromiumFailed(Exception):
    """Chromium is there but did not start; the message ends with what it printed last."""


def find_chromium(setting: str | None = None) -> Path:
    """The executable to launch: the configured one, else a system one by name, else one that Playwright has
    downloaded. Raises ChromiumMissing.

    A configured path that does not exist or cannot be executed is an error, never a reason to look further:
    somebody meant that browser."""
    if setting:
        return _configured(setting)
    for name in SYSTEM_NAMES:
        found = shutil.which(name)
        if found is not None:
            return Path(found)
    downloaded = _playwrights_own()
    if downloaded is not None:
        return downloaded
    raise ChromiumMissing(f"No Chromium was found (looked for {', '.join(SYSTEM_NAMES)}). {HOW_TO_GET_ONE}")


def _configured(setting: str) -> Path:
    path = Path(shutil.which(setting) or setting)
    if not path.is_file():
        raise ChromiumMissing(f"RENDERQUEUE_CHROMIUM_PATH is {setting!r}, and there is no such file. {HOW_TO_GET_ONE}")
    if not os.access(path, os.X_OK):
        raise ChromiumMissing(
            f"RENDERQUEUE_CHROMIUM_PATH is {setting!r}, which this account may not execute: "
            "give it execute permission, or name another."
        )
    return path


@cache
def _playwrights_own() -> Path | None:
    """The browser that `playwright install` has put on this machine, if it has."""
    for folder in _install_locations():
        for pattern in ("*/chrome-headless-shell", "*/headless_shell", "*/chrome"):
            for executable in sorted(folder.glob(pattern)):
                if os.access(executable, os.X_OK):
                    return executable
    return None


def _install_locations() -> list[Path]:
    """Where the library would put it. It tells only from inside a running driver, which needs an event loop, or by
    a dry run of its installer."""
    command = [sys.executable, "-m", "playwright", "install", "--dry-run", "--only-shell", "chromium"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=PATH_LOOKUP_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [Path(folder.strip()) for folder in re.findall(r"Install location:\s+(\S.*)", answer.stdout)]


_LOG_LINE = re.compile(r"\[pid=\d+\]\[err\] (.*)")


def launch_failure(executable: Path, message: str, *, lines: int = 12) -> ChromiumFailed:
    """The error of a launch that failed, from the driver's message: what Chromium printed last, and no more."""
    printed = [line.strip() for line in _LOG_LINE.findall(message)]
    if not printed:
        printed = [line.strip() for line in message.splitlines() if line.strip()][:2]
    hint = ""
    if any("No usable sandbox" in line for line in printed):
        hint = " Allow this account unprivileged user namespaces, or run the worker in a container as root."
    last = "\n  ".join(printed[-lines:])
    return ChromiumFailed(f"{executable} did not start.{hint} It printed last:\n  {last}")
