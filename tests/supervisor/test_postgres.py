"""The embedded Postgres: private, one owner, honest about what it finds in its folder."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from renderqueue.supervisor import postgres_files
from renderqueue.supervisor.postgres import EmbeddedPostgres, EmbeddedPostgresError
from tests.supervisor.processes import alive, eventually, python

FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@pytest.fixture
def system_dir(tmp_path: Path) -> Iterator[Path]:
    """Stands for /var/lib/renderqueue; short, and open to the database's account as that is."""
    folder = Path("/tmp") / f"rq-{os.getpid()}-{tmp_path.name[-8:]}"
    folder.mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def embedded(tmp_path: Path, system_dir: Path, **options: str) -> EmbeddedPostgres:
    return EmbeddedPostgres(tmp_path, options={**FAST, **options}, system_dir=system_dir)


def test_it_answers_through_a_private_socket_only(tmp_path: Path, system_dir: Path) -> None:
    with embedded(tmp_path, system_dir) as server:
        with psycopg.connect(server.url) as connection:
            assert connection.info.dbname == "renderqueue"
            assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
            assert connection.execute("SHOW fsync").fetchone() == ("off",)
            assert connection.execute("SHOW jit").fetchone() == ("off",)
        for folder in (server.layout.home, server.layout.run):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert server.pid is not None
        assert psutil.Process(server.pid).net_connections("inet") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs another account")
def test_as_root_it_runs_as_its_own_account_and_opens_nothing(tmp_path: Path, system_dir: Path) -> None:
    tmp_path.chmod(0o700)
    with embedded(tmp_path, system_dir) as server:
        assert server.pid is not None
        assert psutil.Process(server.pid).username() == postgres_files.ACCOUNT_NAME
        assert server.layout.home.is_relative_to(system_dir)
        assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_data_outlives_a_stop(tmp_path: Path, system_dir: Path) -> None:
    with embedded(tmp_path, system_dir) as server, psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS one")
    again = embedded(tmp_path, system_dir)
    with again, psycopg.connect(again.url) as connection:
        assert connection.execute("SELECT one FROM kept").fetchone() == (1,)
    assert again.pid is None
    again.stop()


def test_a_temporary_one_leaves_nothing(tmp_path: Path, system_dir: Path) -> None:
    with EmbeddedPostgres(tmp_path, options=FAST, system_dir=system_dir, temporary=True) as server:
        home = server.layout.home
        assert home.exists()
    assert not home.exists()


def test_a_second_owner_is_refused_by_name(tmp_path: Path, system_dir: Path) -> None:
    with embedded(tmp_path, system_dir) as server:
        with pytest.raises(EmbeddedPostgresError, match=f"already run by process {os.getpid()}"):
            embedded(tmp_path, system_dir).start()
        with psycopg.connect(server.url) as connection:
            connection.execute("SELECT 1")


def test_a_pid_file_of_another_program_is_removed(tmp_path: Path, system_dir: Path) -> None:
    with embedded(tmp_path, system_dir) as server:
        data = server.layout.data
    (data / "postmaster.pid").write_text(f"{os.getpid()}\n{data}\n1\n5432\n\n\n\nready\n")
    with embedded(tmp_path, system_dir) as server:
        assert server.pid is not None


def test_another_program_in_the_folder_is_left_alone(tmp_path: Path, system_dir: Path) -> None:
    with embedded(tmp_path, system_dir) as server:
        data = server.layout.data
    other = subprocess.Popen(["sleep", "100"], cwd=data)
    try:
        (data / "postmaster.pid").write_text(f"{other.pid}\n{data}\n1\n5432\n\n\n\nready\n")
        with embedded(tmp_path, system_dir):
            assert alive(other.pid)
    finally:
        other.kill()
        other.wait()


def test_a_server_that_outlived_its_owner_is_stopped_first(tmp_path: Path, system_dir: Path) -> None:
    code = """
import os, signal, sys
from pathlib import Path
from renderqueue.supervisor.postgres import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]), system_dir=Path(sys.argv[2]))
server.start()
print(server.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    owner = python(code, str(tmp_path), str(system_dir))
    printed, _ = owner.communicate(timeout=60)
    left_behind = int(printed.split()[-1])
    assert alive(left_behind)
    with embedded(tmp_path, system_dir) as server:
        assert server.pid != left_behind
        assert not alive(left_behind)


def test_a_path_too_long_for_a_socket_is_an_error(tmp_path: Path, system_dir: Path) -> None:
    deep = system_dir / ("d" * 90)
    server = EmbeddedPostgres(deep, system_dir=deep)
    with pytest.raises(EmbeddedPostgresError, match=r"socket is \d+ bytes long.*RENDERQUEUE_DATA_DIR"):
        server.start()
    assert not deep.exists()


def test_another_major_version_is_an_error_that_says_what_to_do(tmp_path: Path, system_dir: Path) -> None:
    server = embedded(tmp_path, system_dir)
    server.layout.data.mkdir(parents=True)
    (server.layout.data / "PG_VERSION").write_text("14\n")
    with pytest.raises(EmbeddedPostgresError, match=r"made by PostgreSQL 14; this installation brings 18.*Dump"):
        server.start()


def test_a_folder_that_is_no_cluster_is_left_alone(tmp_path: Path, system_dir: Path) -> None:
    server = embedded(tmp_path, system_dir)
    server.layout.data.mkdir(parents=True)
    (server.layout.data / "thesis.txt").write_text("mine")
    with pytest.raises(EmbeddedPostgresError, match="is not a database cluster"):
        server.start()
    assert (server.layout.data / "thesis.txt").read_text() == "mine"


def test_a_server_that_does_not_start_says_why_and_can_be_started_later(tmp_path: Path, system_dir: Path) -> None:
    broken = embedded(tmp_path, system_dir, shared_buffers="lots")
    with pytest.raises(EmbeddedPostgresError, match=r'invalid value for parameter "shared_buffers"'):
        broken.start()
    with embedded(tmp_path, system_dir) as server:
        assert server.pid is not None


def test_waiting_for_the_start_can_be_given_up(tmp_path: Path, system_dir: Path) -> None:
    server = embedded(tmp_path, system_dir)
    with pytest.raises(EmbeddedPostgresError, match="asked to stop"):
        server.start(stop_requested=lambda: True)
    assert server.pid is None


def test_an_interrupted_first_start_is_begun_again(tmp_path: Path, system_dir: Path) -> None:
    server = embedded(tmp_path, system_dir)
    partial = server.layout.home / "data.new"
    partial.mkdir(parents=True)
    (partial / "half").write_text("x")
    with server:
        assert (server.layout.data / "PG_VERSION").exists()
        assert not partial.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs another account")
def test_binaries_that_the_account_cannot_reach_are_copied_once(
    tmp_path: Path, system_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    for part in postgres_files.WHEEL_PARTS:
        shutil.copytree(postgres_files.wheel_site() / part, closed / part, symlinks=True)
    closed.chmod(0o700)
    monkeypatch.setattr(postgres_files, "wheel_site", lambda: closed)
    with embedded(tmp_path, system_dir) as server:
        assert server.pid is not None
        assert Path(psutil.Process(server.pid).exe()).is_relative_to(system_dir)
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    copies = [path.name for path in system_dir.iterdir() if path.name.startswith(("postgres-", ".postgres-"))]
    assert len(copies) == 1


def test_it_comes_back_after_being_killed(tmp_path: Path, system_dir: Path) -> None:
    server = embedded(tmp_path, system_dir)
    server.start()
    killed = server.pid
    assert killed is not None
    psutil.Process(killed).kill()
    eventually(lambda: server.pid is None, "the server is gone")
    server.stop()
    with server, psycopg.connect(server.url) as connection:
        connection.execute("SELECT 1")
        assert server.pid != killed
