"""SOCKS 5 on the wire (RFC 1928): CONNECT only, no authentication; names, IPv4 and IPv6."""

from __future__ import annotations

import asyncio
import ipaddress
from enum import IntEnum

VERSION = 5
NO_AUTHENTICATION = 0
NO_ACCEPTABLE_METHOD = 0xFF
CONNECT = 1
ADDRESS_V4, NAME, ADDRESS_V6 = 1, 3, 4


class Reply(IntEnum):
    SUCCEEDED = 0
    GENERAL_FAILURE = 1
    NOT_ALLOWED = 2
    HOST_UNREACHABLE = 4
    CONNECTION_REFUSED = 5
    COMMAND_NOT_SUPPORTED = 7
    ADDRESS_TYPE_NOT_SUPPORTED = 8


class SocksError(Exception):
    """The client did not speak SOCKS 5 as we do. `answer` is what it is told, if it can be told."""

    def __init__(self, problem: str, answer: bytes = b"") -> None:
        super().__init__(problem)
        self.answer = answer


def reply(code: Reply) -> bytes:
    """A reply; the bound address is left empty, as nobody needs it for CONNECT."""
    return bytes([VERSION, code, 0, ADDRESS_V4, 0, 0, 0, 0, 0, 0])


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, int]:
    """Greet, and read one request: the host as the client wrote it, and the port. Raises SocksError, or what
    the stream raises when the client goes away."""
    version, method_count = await reader.readexactly(2)
    if version != VERSION:
        raise SocksError(f"SOCKS version {version} instead of 5")
    if NO_AUTHENTICATION not in await reader.readexactly(method_count):
        raise SocksError("the client insists on authentication", bytes([VERSION, NO_ACCEPTABLE_METHOD]))
    writer.write(bytes([VERSION, NO_AUTHENTICATION]))
    await writer.drain()
    version, command, _, address_type = await reader.readexactly(4)
    if version != VERSION:
        raise SocksError(f"SOCKS version {version} in the request instead of 5")
    if command != CONNECT:
        raise SocksError(f"command {command} instead of CONNECT", reply(Reply.COMMAND_NOT_SUPPORTED))
    host = await _read_host(reader, address_type)
    return host, int.from_bytes(await reader.readexactly(2))


async def _read_host(reader: asyncio.StreamReader, address_type: int) -> str:
    if address_type == ADDRESS_V4:
        return str(ipaddress.IPv4Address(await reader.readexactly(4)))
    if address_type == ADDRESS_V6:
        return str(ipaddress.IPv6Address(await reader.readexactly(16)))
    if address_type != NAME:
        raise SocksError(f"address type {address_type}", reply(Reply.ADDRESS_TYPE_NOT_SUPPORTED))
    (length,) = await reader.readexactly(1)
    return (await reader.readexactly(length)).decode("ascii", errors="backslashreplace")
