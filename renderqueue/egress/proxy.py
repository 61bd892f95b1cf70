"""The guard itself: a SOCKS 5 listener that resolves once, checks every address, and dials what it checked.

One listener per render or fetch, bound to its policy; it and all its connections end with its context. It uses
the running event loop and nothing global, so any loop in any thread can have its own.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass

from renderqueue.egress.addresses import IPAddress
from renderqueue.egress.policy import EgressPolicy, EgressRefused, check_address, is_host_name
from renderqueue.egress.socks import Reply, SocksError, read_request, reply

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""A name and a port in, addresses in order of preference out; raises OSError when there are none."""

CHUNK_BYTES = 64 * 1024
KEPT_REFUSALS = 1000
LOOKUP_THREADS = 4


@dataclass(frozen=True, slots=True)
class Limits:
    """What one listener may use. A tunnel itself lives as long as its listener."""

    connections: int = 256
    handshake_s: float = 5.0
    dial_s: float = 10.0
    addresses_dialled: int = 4


class EgressListener:
    """A listener on 127.0.0.1. Make one with `egress_listener`.

    `connections` counts accepted connections; `refused` holds (host, port, reason) of what the policy or a
    limit forbade and `failed` of what could not be reached, each the first thousand; `refused_count` all."""

    def __init__(self, policy: EgressPolicy, limits: Limits, resolve: Resolver | None) -> None:
        self.policy = policy
        self.port = 0
        self.connections = 0
        self.refused: list[tuple[str, int, str]] = []
        self.refused_count = 0
        self.failed: list[tuple[str, int, str]] = []
        self._limits = limits
        # Its own threads: names that never answer must not hold up the look-ups of other listeners.
        self._lookups = ThreadPoolExecutor(LOOKUP_THREADS, "egress-lookup")
        self._resolve = resolve or self._look_up
        self._server: asyncio.Server | None = None
        self._tunnels: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def url(self) -> str:
        return f"socks5://127.0.0.1:{self.port}"

    @property
    def open_connections(self) -> int:
        return len(self._tunnels)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=CHUNK_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and end every connection. Idempotent."""
        self._closed = True
        if self._server is not None:
            self._server.close()
        tunnels = list(self._tunnels)
        for tunnel in tunnels:
            tunnel.cancel()
        await asyncio.gather(*tunnels, return_exceptions=True)
        self._lookups.shutdown(wait=False, cancel_futures=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self._closed:
            writer.transport.abort()
        elif len(self._tunnels) >= self._limits.connections:
            self._note_refusal("", 0, f"more than {self._limits.connections} connections at once")
            writer.transport.abort()
        else:
            tunnel = asyncio.get_running_loop().create_task(self._serve(reader, writer))
            self._tunnels.add(tunnel)
            tunnel.add_done_callback(self._tunnels.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            target = await self._connect(reader, writer)
            if target is not None:
                await _join((reader, writer), target)
        except (OSError, EOFError, TimeoutError):
            pass  # either end went away; the other learns it by the abort
        finally:
            writer.transport.abort()

    async def _connect(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Handshake, check and dial; None after telling the client why not."""
        try:
            async with asyncio.timeout(self._limits.handshake_s):
                host, port = await read_request(reader, writer)
        except SocksError as error:
            self._note(self.failed, "", 0, str(error))
            await _answer(writer, error.answer)
            return None
        try:
            async with asyncio.timeout(self._limits.dial_s):
                addresses = await self._checked_addresses(host, port)
                target = await self._dial(addresses, port)
        except EgressRefused as refusal:
            self._note_refusal(host, port, refusal.reason)
            await _answer(writer, reply(Reply.NOT_ALLOWED))
            return None
        except (OSError, UnicodeError) as error:  # TimeoutError is an OSError
            self._note(self.failed, host, port, _failure(error))
            refused = isinstance(error, ConnectionRefusedError)
            await _answer(writer, reply(Reply.CONNECTION_REFUSED if refused else Reply.HOST_UNREACHABLE))
            return None
        try:
            writer.write(reply(Reply.SUCCEEDED))
            await writer.drain()
        except BaseException:
            target[1].transport.abort()
            raise
        return target

    async def _checked_addresses(self, host: str, port: int) -> list[IPAddress]:
        """The host's addresses, all of them allowed: one that is not spoils the rest."""
        if self.policy.refuse_everything:
            raise EgressRefused("this listener refuses everything")
        try:
            addresses = [ipaddress.ip_address(host)]
        except ValueError:
            if not is_host_name(host):
                raise EgressRefused("not a host name") from None
            addresses = [ipaddress.ip_address(text) for text in await self._resolve(host, port)]
        for address in addresses:
            check_address(address, host, port, self.policy)
        if not addresses:
            raise OSError("the name has no address")
        return addresses

    async def _dial(self, addresses: list[IPAddress], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the first address that answers. They are literals, so nothing is looked up again."""
        candidates = addresses[: self._limits.addresses_dialled]
        for address in candidates[:-1]:
            try:
                async with asyncio.timeout(self._limits.dial_s / len(candidates)):
                    return await asyncio.open_connection(str(address), port, limit=CHUNK_BYTES)
            except OSError:
                continue  # the next address may answer; the last one's error is the one that is reported
        return await asyncio.open_connection(str(candidates[-1]), port, limit=CHUNK_BYTES)

    async def _look_up(self, host: str, port: int) -> list[str]:
        def look_up() -> list[str]:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
            return list(dict.fromkeys(str(entry[4][0]) for entry in found))

        return await asyncio.get_running_loop().run_in_executor(self._lookups, look_up)

    def _note_refusal(self, host: str, port: int, reason: str) -> None:
        self.refused_count += 1
        self._note(self.refused, host, port, reason)

    @staticmethod
    def _note(notes: list[tuple[str, int, str]], host: str, port: int, reason: str) -> None:
        if len(notes) < KEPT_REFUSALS:
            notes.append((host, port, reason))


@asynccontextmanager
async def egress_listener(
    policy: EgressPolicy, *, limits: Limits | None = None, resolve: Resolver | None = None
) -> AsyncIterator[EgressListener]:
    """A listener for the time of the context. `resolve` replaces the system's resolver."""
    listener = EgressListener(policy, limits or Limits(), resolve)
    try:
        await listener.start()
        yield listener
    finally:
        await listener.close()


async def _join(
    client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    target: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    """Copy both ways until both directions ended; an end of one direction is passed on."""
    try:
        async with asyncio.TaskGroup() as directions:
            directions.create_task(_copy(client[0], target[1]))
            directions.create_task(_copy(target[0], client[1]))
        for _, writer in (client, target):
            await _flush_and_close(writer)
    except* (OSError, EOFError):
        pass  # a reset ends the tunnel
    finally:
        target[1].transport.abort()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while chunk := await source.read(CHUNK_BYTES):
        sink.write(chunk)
        await sink.drain()
    if sink.can_write_eof():
        sink.write_eof()


async def _answer(writer: asyncio.StreamWriter, answer: bytes) -> None:
    """Say why not, and close in order, so that the client reads it before the connection ends."""
    if not answer:
        return
    writer.write(answer)
    async with asyncio.timeout(1):
        await _flush_and_close(writer)


async def _flush_and_close(writer: asyncio.StreamWriter) -> None:
    # An abort instead would drop what is still buffered.
    writer.close()
    await writer.wait_closed()


def _failure(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, socket.gaierror):
        return "the name does not resolve"
    if isinstance(error, ConnectionRefusedError):
        return "the connection was refused"
    return str(error) or type(error).__name__
