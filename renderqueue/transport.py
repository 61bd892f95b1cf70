"""Celery's messages as files in a private folder: the broker when there is no Redis (D1).

kombu's own filesystem transport writes a message in place, so a reader can meet half of it or an empty file,
and that ends the worker. Here a file appears under its name only when it is whole. One folder a queue, one file
a message, one file a binding; names sort by age, so a queue is read oldest first. The broker carries only work
that Postgres knows too (leases, task rows): nothing here is flushed to disk, and the folder is wiped at start.

    queues/q-<queue>/<age>-<unique>.msg        exchanges/x-<exchange>/<hash>.binding        rejected/...
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import logging
import os
import shutil
import stat
import time
import uuid
from collections import deque
from pathlib import Path
from queue import Empty
from typing import Any
from urllib.parse import quote

from kombu.exceptions import ChannelError
from kombu.transport import virtual
from kombu.utils.json import dumps, loads

logger = logging.getLogger(__name__)

FILESYSTEM_SCHEME = "filesystem://"
POLLING_INTERVAL_S = 0.05
MESSAGE_SUFFIX = ".msg"
BINDING_SUFFIX = ".binding"
PARTIAL_PREFIX = "."  # a file that is still being written
REJECTED_KEPT = 100  # files set aside for a person to look at

REDIS_OPTIONS = {
    "socket_connect_timeout": 5.0,
    "socket_timeout": 30.0,
    "socket_keepalive": True,
    "health_check_interval": 20,
    "retry_on_timeout": True,
}


def broker_settings(broker_url: str, data_dir: Path) -> dict[str, Any]:
    """Celery's settings for `broker_url`: redis:// as it is, filesystem:// as this transport in data_dir/broker."""
    if not broker_url.startswith(FILESYSTEM_SCHEME):
        return {"broker_url": broker_url, "broker_transport_options": REDIS_OPTIONS}
    return {
        "broker_url": FILESYSTEM_SCHEME,
        "broker_transport": f"{__name__}:Transport",
        "broker_transport_options": {
            "folder": str(broker_folder(data_dir)),
            "polling_interval": POLLING_INTERVAL_S,
        },
    }


def broker_folder(data_dir: Path) -> Path:
    return data_dir.expanduser().resolve() / "broker"


def wipe(folder: Path) -> None:
    """Forget every message and binding. Only while no worker, beat or web process runs."""
    shutil.rmtree(folder, ignore_errors=True)
    _private(folder)


# What kombu calls a row of an exchange's table: routing key, pattern, queue.
Binding = tuple[str, str, str]


class Channel(virtual.Channel):
    """Queues as folders. Delivery is at least once, and exactly once unless a reader is killed in the act."""

    supports_fanout = True
    do_restore = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        transport: Any = self.connection
        self.root: Path = transport.folder
        self._waiting: dict[str, deque[str]] = {}

    # -- messages

    def _put(self, queue: str, message: Any, **kwargs: Any) -> None:
        name = f"{time.monotonic_ns():020d}-{uuid.uuid4().hex}{MESSAGE_SUFFIX}"
        _write_whole(self._queue_folder(queue), name, dumps(message).encode())

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        """The oldest message of `queue`; raises Empty. Whoever removes the file has the message."""
        folder = self._queue_folder(queue)
        waiting = self._waiting.setdefault(queue, deque())
        if not waiting:
            waiting.extend(_names(folder, MESSAGE_SUFFIX, self.root))
        while waiting:
            path = folder / waiting.popleft()
            try:
                content = path.read_bytes()
            except FileNotFoundError:
                continue
            except OSError as error:
                _set_aside(path, self.root, f"it cannot be read ({error})")
                continue
            payload = self._decoded(content)
            if payload is None:
                _set_aside(path, self.root, "it is not a message of this transport")
                continue
            try:
                path.unlink()
            except FileNotFoundError:
                continue
            return payload
        raise Empty

    def _decoded(self, content: bytes) -> dict[str, Any] | None:
        """The message if kombu can deliver it, else None: what it cannot read would end the worker."""
        try:
            payload = loads(content.decode())
            self.Message(payload, channel=self)
            delivery = payload["properties"]["delivery_info"]
        except (ValueError, LookupError, TypeError, AttributeError):
            return None
        return payload if isinstance(delivery, dict) else None

    def _size(self, queue: str) -> int:
        return len(_names(self._queue_folder(queue), MESSAGE_SUFFIX, self.root))

    def _purge(self, queue: str) -> int:
        self._waiting.pop(queue, None)
        folder = self._queue_folder(queue)
        removed = 0
        for name in _names(folder, MESSAGE_SUFFIX, self.root):
            with contextlib.suppress(FileNotFoundError):  # a reader was faster
                (folder / name).unlink()
                removed += 1
        return removed

    # -- queues and bindings

    def _new_queue(self, queue: str, **kwargs: Any) -> None:
        _private(self._queue_folder(queue))
        if queue.endswith(".pidbox") and ".reply." not in queue:
            # A node's mailbox ends with the node elsewhere; here a command to a predecessor (shutdown, say)
            # would reach its successor of the same name.
            self._purge(queue)

    def _has_queue(self, queue: str, **kwargs: Any) -> bool:
        return self._queue_folder(queue).is_dir()

    def queue_bind(
        self, queue: str, exchange: str | None = None, routing_key: str = "", arguments: Any = None, **kwargs: Any
    ) -> None:
        """Bind, also when this process did so before: the folder may have been wiped in between."""
        exchange = exchange or "amq.direct"
        known = self.state.has_binding(queue, exchange, routing_key)
        super().queue_bind(queue, exchange, routing_key, arguments, **kwargs)
        if known:
            meta: Any = self.typeof(exchange).prepare_bind(queue, exchange, routing_key, arguments)
            self._queue_bind(exchange, *meta)

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        binding = (routing_key or "", pattern or "", queue or "")
        _write_whole(self._exchange_folder(exchange), _binding_name(binding), dumps(list(binding)).encode())

    def _delete(self, queue: str, exchange: str, routing_key: str, pattern: str, *args: Any, **kwargs: Any) -> None:
        binding = (routing_key or "", pattern or "", queue or "")
        (self._exchange_folder(exchange) / _binding_name(binding)).unlink(missing_ok=True)
        self._purge(queue)
        with contextlib.suppress(OSError):  # a message came in between: the folder stays
            self._queue_folder(queue).rmdir()

    def get_table(self, exchange: str) -> list[Binding]:
        folder = self._exchange_folder(exchange)
        table: list[Binding] = []
        for name in _names(folder, BINDING_SUFFIX, self.root):
            try:
                routing_key, pattern, queue = loads((folder / name).read_text())
            except FileNotFoundError:
                continue
            except (OSError, ValueError, TypeError) as error:
                _set_aside(folder / name, self.root, f"it is not a binding ({error})")
            else:
                table.append((routing_key, pattern, queue))
        return table

    def _put_fanout(self, exchange: str, payload: Any, routing_key: str, **kwargs: Any) -> None:
        for _, _, queue in self.get_table(exchange):
            self._put(queue, payload, **kwargs)

    def _queue_folder(self, queue: str) -> Path:
        return self.root / "queues" / f"q-{quote(queue, safe='@')}"

    def _exchange_folder(self, exchange: str) -> Path:
        return self.root / "exchanges" / f"x-{quote(exchange, safe='@')}"


class Transport(virtual.Transport):
    """Transport option `folder`: where the messages are; `polling_interval`: seconds between looks."""

    Channel = Channel
    default_port = 0
    driver_type = "filesystem"
    driver_name = "renderqueue files"
    polling_interval = POLLING_INTERVAL_S
    implements = virtual.Transport.implements.extend(
        asynchronous=False, exchange_type=frozenset(["direct", "topic", "fanout"])
    )
    # What a process knows of exchanges and bindings, per folder: all its connections share it.
    _states: dict[Path, virtual.BrokerState] = {}

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        self.folder = Path(client.transport_options["folder"])
        _private(self.folder)
        self.state = self._states.setdefault(self.folder, virtual.BrokerState())

    @property
    def default_connection_params(self) -> dict[str, Any]:
        return {"port": self.default_port, "hostname": None}  # there is no host to fall back to, or to warn of

    def driver_version(self) -> str:
        return "1"


def _private(folder: Path) -> None:
    """Make `folder` and the parents that are missing, readable by this account only."""
    if not folder.parent.exists():
        _private(folder.parent)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if stat.S_IMODE(folder.stat().st_mode) != 0o700:
            folder.chmod(0o700)
    except OSError as error:
        raise ChannelError(f"The broker folder {folder} cannot be used: {error}") from error


def _write_whole(folder: Path, name: str, content: bytes) -> None:
    """Write under a temporary name, then rename: a reader sees the whole file or none."""
    partial = folder / f"{PARTIAL_PREFIX}{name}.{uuid.uuid4().hex}"
    for attempt in itertools.count():
        try:
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)
            partial.replace(folder / name)
        except FileNotFoundError:
            if attempt:
                raise
            _private(folder)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise ChannelError(f"Cannot write a message into {folder}: {error}") from error
        else:
            return


def _names(folder: Path, suffix: str, root: Path) -> list[str]:
    """Names of the finished files, oldest first. Anything that does not belong here is set aside."""
    try:
        found = os.listdir(folder)
    except FileNotFoundError:
        return []
    names = [name for name in found if not name.startswith(PARTIAL_PREFIX)]
    for name in [name for name in names if not name.endswith(suffix)]:
        _set_aside(folder / name, root, f"its name does not end in {suffix}")
    return sorted(name for name in names if name.endswith(suffix))


def _binding_name(binding: Binding) -> str:
    return hashlib.blake2b(dumps(list(binding)).encode(), digest_size=12).hexdigest() + BINDING_SUFFIX


def _set_aside(path: Path, root: Path, why: str) -> None:
    """Move a file out of the way, for a person to look at, and say so; drop it when many are kept already."""
    rejected = root / "rejected"
    try:
        _private(rejected)
        if len(os.listdir(rejected)) >= REJECTED_KEPT and path.is_file():
            path.unlink()
            kept = "deleted, the folder is full"
        else:
            kept = f"kept as {path.rename(rejected / f'{uuid.uuid4().hex[:8]}-{path.name}')}"
    except FileNotFoundError:
        return  # another reader did
    except OSError as error:
        kept = f"it could not be moved: {error}"
    logger.warning("Broker: ignored %s: %s (%s)", path, why, kept)
