"""Which browser is run, and what a person is told when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from renderqueue.rendering import chromium
from renderqueue.rendering.chromium import ChromiumMissing, find_chromium, launch_failure
from renderqueue.rendering.devices import user_agent


def executable(folder: Path, name: str, mode: int = 0o755) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


def test_the_configured_browser_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable(tmp_path / "bin", "chromium")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    mine = executable(tmp_path, "mine")
    assert find_chromium(str(mine)) == mine


def test_a_configured_browser_that_is_not_there_is_an_error_not_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(tmp_path / "bin", "chromium")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(ChromiumMissing, match="no such file"):
        find_chromium(str(tmp_path / "nowhere"))
    with pytest.raises(ChromiumMissing, match="may not execute"):
        find_chromium(str(executable(tmp_path, "text", 0o644)))


def test_system_names_are_tried_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    last = executable(tmp_path, "chrome-headless-shell")
    assert find_chromium("") == last
    first = executable(tmp_path, "chromium")
    assert find_chromium(None) == first


def test_a_downloaded_one_is_found_when_the_system_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "browsers"))
    chromium._playwrights_own.cache_clear()
    with pytest.raises(ChromiumMissing, match=r"playwright install --only-shell chromium"):
        find_chromium("")
    chromium._playwrights_own.cache_clear()
    folder = next(iter(chromium._install_locations()))
    shell = executable(folder / "chrome-headless-shell-linux64", "chrome-headless-shell")
    assert find_chromium("") == shell
    chromium._playwrights_own.cache_clear()


def test_a_failed_launch_shows_the_last_lines_only() -> None:
    lines = "\n".join(f"  - [pid=7][err] line {number}" for number in range(50))
    text = str(launch_failure(Path("/opt/chromium"), f"BrowserType.launch: closed\nCall log:\n{lines}", lines=3))
    assert text.startswith("/opt/chromium did not start.")
    assert [line.strip() for line in text.splitlines()[1:]] == ["line 47", "line 48", "line 49"]


def test_a_missing_sandbox_says_what_to_do() -> None:
    message = "x\n[pid=7][err] [FATAL] No usable sandbox! If you are running on Ubuntu"
    assert "user namespaces" in str(launch_failure(Path("/opt/chromium"), message))


def test_user_agents_are_chromiums_own_with_our_token() -> None:
    own = (
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/156.0.0.0 Safari/537.36"
    )
    assert user_agent("desktop", own, "renderqueue/1") == own.replace("Headless", "") + " renderqueue/1"
    mobile = user_agent("mobile", own, "renderqueue/1")
    assert "Chrome/156.0.0.0 Mobile Safari/537.36 renderqueue/1" in mobile
    assert "Android" in mobile
