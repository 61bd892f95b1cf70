"""What must be in order before anything starts: settings, port, browser."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import IO

from renderqueue.config import Config, ConfigError, load_config
from renderqueue.rendering.chromium import HOW_TO_GET_ONE, ChromiumMissing, find_chromium
from renderqueue.supervisor.outcome import Exit, StartError

BROWSER_START_S = 30.0


def checked_config() -> Config:
    """The settings. Raises StartError that lists every wrong one."""
    try:
        return load_config()
    except ConfigError as error:
        raise StartError(str(error), Exit.BAD_INPUT) from error


def free_port(host: str, port: int, option: str = "--port") -> int:
    """`port` if it can be bound on `host`, or a free one for 0. Raises StartError."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise StartError(f"--host {host} is not an address: {error.strerror}.", Exit.BAD_INPUT) from error
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            raise StartError(
                f"Port {port} on {host} cannot be used ({error.strerror}). Stop the program that has it, or choose "
                f"another with {option}.",
                Exit.BAD_INPUT,
            ) from error
        return int(probe.getsockname()[1])


def url_host(host: str) -> str:
    """`host` as it stands in a URL that reaches it from this machine."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104
    return f"[{reachable}]" if ":" in reachable else reachable


class BrowserCheck:
    """Starts Chromium once on an empty page, while the database starts: a browser that lacks a library or its
    sandbox is found now, not at the first render."""

    def __init__(self, setting: str) -> None:
        """Raises StartError if there is no Chromium."""
        try:
            self.path = Path(find_chromium(setting))
        except ChromiumMissing as error:
            raise StartError(str(error), Exit.BAD_INPUT) from error
        self._folder = tempfile.TemporaryDirectory(prefix="renderqueue-browser-", ignore_cleanup_errors=True)
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 -- closed by close()
        command = [str(self.path), "--headless", "--disable-gpu", "--disable-breakpad", "--no-first-run"]
        command += [f"--user-data-dir={self._folder.name}", "--dump-dom", "about:blank"]
        if os.geteuid() == 0:
            command.insert(1, "--no-sandbox")  # Chromium refuses its sandbox to root
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._output, stderr=self._output, start_new_session=True
        )

    def finish(self) -> Path:
        """Wait for the end. Returns the browser's path; raises StartError with what it printed last."""
        try:
            code = self.process.wait(BROWSER_START_S)
        except subprocess.TimeoutExpired:
            code = None
        output = self._printed()
        self.close()
        if code == 0 and "<html>" in output:
            return self.path
        how = f"exit code {code}" if code is not None else f"nothing within {BROWSER_START_S:.0f} s"
        last = "\n  ".join(line for line in output.splitlines()[-8:] if line.strip())
        raise StartError(
            f"{self.path} does not start ({how}). It printed last:\n  {last}\nIf a library is missing, install the "
            f"browser's dependencies (`playwright install-deps chromium`, as root). {HOW_TO_GET_ONE}",
            Exit.BAD_INPUT,
        )

    def _printed(self) -> str:
        self._output.seek(0)
        return self._output.read().decode(errors="replace")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._output.close()
        self._folder.cleanup()
