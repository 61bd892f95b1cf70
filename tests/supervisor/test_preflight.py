"""What is refused before anything starts, and what the sentence says."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from renderqueue.supervisor.__main__ import parse
from renderqueue.supervisor.outcome import Exit, StartError
from renderqueue.supervisor.preflight import BrowserCheck, checked_config, free_port, url_host


def test_a_port_in_use_is_named_with_the_option_that_changes_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(StartError, match=rf"Port {port} on 127.0.0.1.*--port") as refused:
            free_port("127.0.0.1", port)
    assert refused.value.code is Exit.BAD_INPUT
    assert free_port("127.0.0.1", port) == port
    assert free_port("127.0.0.1", 0) > 0


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(StartError, match=r"192\.0\.2\.1"):
        free_port("192.0.2.1", 0)
    with pytest.raises(StartError, match="not an address"):
        free_port("no such host", 0)


def test_all_wrong_settings_are_listed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RENDERQUEUE_POOL_SIZE", "0")
    monkeypatch.setenv("RENDERQUEUE_GRACE_S", "soon")
    monkeypatch.setenv("BROKER_URL", "amqp://localhost")
    with pytest.raises(StartError) as refused:
        checked_config()
    assert refused.value.code is Exit.BAD_INPUT
    for name in ("RENDERQUEUE_POOL_SIZE", "RENDERQUEUE_GRACE_S", "BROKER_URL"):
        assert name in str(refused.value)


def test_a_missing_browser_is_refused_with_how_to_get_one() -> None:
    with pytest.raises(StartError, match=r"RENDERQUEUE_CHROMIUM_PATH.*apt-get install chromium") as refused:
        BrowserCheck("/no/such/chromium")
    assert refused.value.code is Exit.BAD_INPUT


def test_a_browser_that_does_not_start_is_refused_with_what_it_printed(tmp_path: Path) -> None:
    fake = tmp_path / "chromium"
    fake.write_text("#!/bin/sh\necho 'error while loading shared libraries: libnss3.so' >&2\nexit 127\n")
    fake.chmod(0o755)
    check = BrowserCheck(str(fake))
    with pytest.raises(StartError, match=r"(?s)does not start \(exit code 127\).*libnss3\.so.*install-deps"):
        check.finish()


@pytest.mark.chromium
def test_a_browser_that_starts_is_used(chromium_path: str) -> None:
    assert str(BrowserCheck(chromium_path).finish()) == chromium_path


@pytest.mark.parametrize("port", ["-1", "65536", "http", ""])
def test_a_port_that_is_none_is_a_usage_error(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        parse(["--port", port])
    assert refused.value.code == 2
    assert "not a port" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("bound", "reached"),
    [("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("127.0.0.1", "127.0.0.1"), ("::1", "[::1]"), ("web.test", "web.test")],
)
def test_the_address_that_reaches_a_bound_host(bound: str, reached: str) -> None:
    assert url_host(bound) == reached
