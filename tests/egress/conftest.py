"""Raw SOCKS clients and resolvers that say what a test wants."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from renderqueue.egress.proxy import EgressListener

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def address_bytes(host: str) -> bytes:
    """The host as SOCKS writes it: an address if it is one, else a name."""
    try:
        packed = ipaddress.ip_address(host).packed
    except ValueError:
        return bytes([3, len(host)]) + host.encode()
    return bytes([1 if len(packed) == 4 else 4]) + packed


async def ask(listener: EgressListener, host: str, port: int) -> tuple[int, asyncio.StreamReader, asyncio.StreamWriter]:
    """The reply code to CONNECT, and the streams."""
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(b"\x05\x01\x00")
    assert await reader.readexactly(2) == b"\x05\x00"
    writer.write(b"\x05\x01\x00" + address_bytes(host) + port.to_bytes(2))
    answer = await reader.readexactly(10)
    return answer[1], reader, writer


@asynccontextmanager
async def echo_server(host: str = "127.0.0.1") -> AsyncIterator[int]:
    """Sends everything back; yields its port."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, host, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def resolver(*answers: list[str]) -> Callable[[str, int], Awaitable[list[str]]]:
    """Gives the answers in turn, the last one for ever: a name that is rebound after the first look-up."""
    queue = list(answers)

    async def resolve(host: str, port: int) -> list[str]:
        return queue.pop(0) if len(queue) > 1 else queue[0]

    return resolve
