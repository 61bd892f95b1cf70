"""One command from nothing to ready, through deaths of its parts, to nothing left."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from renderqueue.supervisor.outcome import Exit
from renderqueue.supervisor.preflight import free_port
from tests.supervisor.processes import alive, eventually
from tests.supervisor.product import Product, processes_of, remove, status_of

pytestmark = [pytest.mark.slow, pytest.mark.chromium, pytest.mark.usefixtures("chromium_path")]

PARTS = ("beat", "render", "housekeeping", "web")


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    remove(tmp_path)


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """One run for the tests of a running product, which leave it running."""
    folder = tmp_path_factory.mktemp("life")
    product = Product(folder)
    product.ready()
    yield product
    if product.process.poll() is None:
        product.process.kill()
        product.process.wait()
    remove(folder)


def zombies(product: Product) -> list[int]:
    return [one.pid for one in product.descendants() if one.status() == psutil.STATUS_ZOMBIE]


def port_of(origin: str) -> int:
    return int(origin.rpartition(":")[2])


def origin_of(product: Product) -> str:
    found = re.search(r"^ready: (\S+)/$", product.output(), re.MULTILINE)
    assert found
    return found.group(1)


def test_ready_means_that_it_answers(life: Product) -> None:
    assert status_of(f"{origin_of(life)}/readyz") == 200
    assert {part: alive(life.pid_of(part)) for part in PARTS} == dict.fromkeys(PARTS, True)


def test_the_first_start_makes_an_operator_and_a_private_key(life: Product) -> None:
    assert re.search(r'operator account: made "operator" with password "\S{16}"', life.output())
    key = life.data_dir / "secret_key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    password = re.search(r'password "(\S+)"', life.output())
    assert password
    for path in (life.data_dir / "log").iterdir():
        assert password.group(1) not in path.read_text()


def test_a_second_supervisor_on_the_same_folder_is_refused(life: Product) -> None:
    second = Product(life.data_dir)
    assert second.end() == Exit.ALREADY_RUNNING
    assert f"process {life.process.pid}" in second.output()
    assert status_of(f"{origin_of(life)}/readyz") == 200


def test_a_port_in_use_is_refused_and_nothing_is_started(life: Product, data_dir: Path) -> None:
    second = Product(data_dir, "--port", str(port_of(origin_of(life))))
    assert second.end() == Exit.BAD_INPUT
    assert "cannot be used" in second.output()
    assert processes_of(data_dir) == []


@pytest.mark.parametrize("part", ["web", "render", "beat"])
def test_a_part_that_is_killed_is_started_again(life: Product, part: str) -> None:
    killed = life.pid_of(part)
    below = psutil.Process(killed).children(recursive=True)
    os.kill(killed, signal.SIGKILL)
    life.line(rf" {part}: was ended by SIGKILL", within_s=30)
    life.line(rf" {part}: started again \(process \d+\)", within_s=60)
    assert life.pid_of(part) != killed
    assert [process.pid for process in below if alive(process.pid)] == []
    eventually(lambda: status_of(f"{origin_of(life)}/readyz") == 200, "the web process answers", 120)
    eventually(lambda: not zombies(life), "no zombie is left", 30)


def test_the_database_comes_back_after_being_killed(life: Product) -> None:
    os.kill(life.pid_of("postgres"), signal.SIGKILL)
    life.line(r" postgres: accepts connections again \(process \d+\)", within_s=60)
    eventually(lambda: status_of(f"{origin_of(life)}/readyz") == 200, "the web process answers", 120)


def test_it_stops_in_order_and_leaves_nothing(life: Product) -> None:
    origin = origin_of(life)
    before = [process.pid for process in life.descendants()]
    assert life.stop() == Exit.STOPPED, life.output()
    stopped = re.findall(r" (\w+): stopped$", life.output(), re.MULTILINE)
    assert stopped[0] == "beat"
    assert set(stopped[1:3]) == {"render", "housekeeping"}
    assert stopped[3:] == ["web", "postgres"]
    assert [pid for pid in before if alive(pid)] == []
    assert processes_of(life.data_dir) == []
    assert free_port("127.0.0.1", port_of(origin))


def test_a_killed_supervisor_is_cleaned_up_after_by_the_next(data_dir: Path) -> None:
    first = Product(data_dir)
    first.ready()
    parts = [first.pid_of(part) for part in PARTS]
    postgres = first.pid_of("postgres")
    first.process.kill()
    first.process.wait()
    second = Product(data_dir)
    second.ready()
    assert "ended what an earlier run left behind: beat, housekeeping, render, web" in second.output()
    assert [pid for pid in [*parts, postgres] if alive(pid)] == []
    assert "operator account" not in second.output()
    assert second.stop(signal.SIGINT) == Exit.STOPPED
    assert processes_of(data_dir) == []


def test_a_stop_while_it_starts_leaves_nothing(data_dir: Path) -> None:
    product = Product(data_dir)
    product.line(" migrate: running")
    assert product.stop(signal.SIGINT) == Exit.STOPPED
    assert "ready:" not in product.output()
    assert processes_of(data_dir) == []


def test_a_second_signal_kills_what_does_not_stop(data_dir: Path) -> None:
    product = Product(data_dir, RENDERQUEUE_GRACE_S="600")
    product.ready()
    frozen = product.pid_of("render")
    os.kill(frozen, signal.SIGSTOP)
    product.process.send_signal(signal.SIGTERM)
    product.line(" housekeeping: stopped", within_s=60)
    assert alive(frozen)
    assert product.stop() == Exit.KILLED
    assert "render: killed: in a hurry" in product.output()
    assert processes_of(data_dir) == []


def test_a_database_that_is_given_is_used_and_not_stopped(data_dir: Path) -> None:
    from renderqueue.supervisor.postgres import EmbeddedPostgres

    with EmbeddedPostgres(data_dir / "own", options={"fsync": "off"}, temporary=True) as server:
        product = Product(data_dir, DATABASE_URL=server.url)
        product.ready()
        assert product.stop() == Exit.STOPPED
        assert "postgres" not in product.output()
        assert server.pid is not None


def test_a_database_that_does_not_answer_is_named_and_a_stop_ends_the_wait(data_dir: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        product = Product(data_dir, DATABASE_URL=f"postgresql://app@127.0.0.1:{port}/pages")
        product.line(rf"database pages at 127\.0\.0\.1:{port} \(DATABASE_URL\) does not answer yet")
        assert product.stop() == Exit.STOPPED


def test_a_missing_browser_is_refused_before_anything_starts(data_dir: Path) -> None:
    product = Product(data_dir, RENDERQUEUE_CHROMIUM_PATH="/no/such/chromium")
    assert product.end() == Exit.BAD_INPUT
    assert "/no/such/chromium" in product.output()
    assert processes_of(data_dir) == []
