"""Real sockets through the listener; no name is really looked up unless a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from renderqueue.egress.policy import REFUSE_EVERYTHING, EgressPolicy
from renderqueue.egress.proxy import Limits, egress_listener
from tests.egress.conftest import ask, echo_server, resolver

SUCCEEDED, GENERAL, NOT_ALLOWED, UNREACHABLE, REFUSED = 0, 1, 2, 4, 5
CLOSED = EgressPolicy()


def run(test: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await test

    asyncio.run(bounded())


def test_an_allowed_port_is_joined_and_data_goes_both_ways() -> None:
    async def test() -> None:
        async with echo_server() as port, egress_listener(EgressPolicy(frozenset({f"127.0.0.1:{port}"}))) as listener:
            code, reader, writer = await ask(listener, "127.0.0.1", port)
            assert code == SUCCEEDED
            sent = b"x" * 3_000_000
            writer.write(sent)
            writer.write_eof()
            assert await reader.read(-1) == sent
            writer.close()
        assert listener.refused == []

    run(test())


def test_all_bytes_arrive_when_the_target_closes_at_once() -> None:
    async def test() -> None:
        body = b"y" * 5_000_000

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(body)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with egress_listener(EgressPolicy(frozenset({"127.0.0.1"}))) as listener:
            _, reader, writer = await ask(listener, "127.0.0.1", port)
            received = b""
            while chunk := await reader.read(10_000):
                received += chunk
            assert len(received) == len(body)
            writer.close()
        server.close()

    run(test())


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "169.254.169.254",
        "::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "localhost",
        "2130706433",
        "0177.0.0.1",
        "0x7f.1",
        "127.1",
        "0",
    ],
)
def test_no_spelling_of_a_private_address_is_dialled(host: str) -> None:
    """The last ones go through the system's own resolver, which reads decimal, octal and hexadecimal forms."""

    async def test() -> None:
        async with echo_server() as port, egress_listener(CLOSED) as listener:
            code, _, writer = await ask(listener, host, port)
            writer.close()
            assert code == NOT_ALLOWED
            assert [entry[:2] for entry in listener.refused] == [(host, port)]

    run(test())


def test_a_name_is_resolved_once_and_the_checked_address_is_dialled() -> None:
    """Rebinding: public at the check, loopback at every later look-up. Had the dial looked up again, the echo
    server would have answered."""

    async def test() -> None:
        async with echo_server() as port:
            rebound = resolver(["192.0.2.1"], ["127.0.0.1"])
            async with egress_listener(CLOSED, resolve=rebound) as listener:
                code, _, writer = await ask(listener, "rebound.test", port)
                writer.close()
                assert code == NOT_ALLOWED
            public_first = resolver(["127.0.0.1"], ["192.0.2.1"])
            policy = EgressPolicy(frozenset({"rebound.test"}))
            async with egress_listener(policy, resolve=public_first) as listener:
                code, _, writer = await ask(listener, "rebound.test", port)
                writer.close()
                assert code == SUCCEEDED

    run(test())


def test_one_private_address_among_public_ones_refuses_the_name() -> None:
    async def test() -> None:
        mixed = resolver(["93.184.216.34", "10.0.0.1"])
        async with egress_listener(CLOSED, resolve=mixed) as listener:
            code, _, writer = await ask(listener, "mixed.test", 443)
            writer.close()
            assert code == NOT_ALLOWED
            assert listener.refused == [("mixed.test", 443, "10.0.0.1 is a private address")]

    run(test())


def test_the_next_address_is_dialled_when_the_first_does_not_answer() -> None:
    async def test() -> None:
        async with echo_server("127.0.0.2") as port:
            both = resolver(["127.0.0.1", "127.0.0.2"])
            async with egress_listener(EgressPolicy(frozenset({"two.test"})), resolve=both) as listener:
                code, _, writer = await ask(listener, "two.test", port)
                writer.close()
                assert code == SUCCEEDED

    run(test())


def test_allowed_host_and_port_opens_that_port_only() -> None:
    async def test() -> None:
        async with (
            echo_server() as one,
            echo_server() as other,
            egress_listener(EgressPolicy(frozenset({f"127.0.0.1:{one}"}))) as listener,
        ):
            assert (await ask(listener, "127.0.0.1", one))[0] == SUCCEEDED
            assert (await ask(listener, "127.0.0.1", other))[0] == NOT_ALLOWED

    run(test())


def test_refuse_everything_looks_nothing_up() -> None:
    async def test() -> None:
        async def resolve(host: str, port: int) -> list[str]:
            raise AssertionError("looked up")

        async with egress_listener(REFUSE_EVERYTHING, resolve=resolve) as listener:
            assert (await ask(listener, "example.com", 443))[0] == NOT_ALLOWED
            assert listener.refused == [("example.com", 443, "this listener refuses everything")]

    run(test())


@pytest.mark.parametrize(("failure", "code"), [(OSError("no such name"), UNREACHABLE), (TimeoutError(), UNREACHABLE)])
def test_a_name_that_does_not_resolve_is_unreachable_not_refused(failure: OSError, code: int) -> None:
    async def test() -> None:
        async def resolve(host: str, port: int) -> list[str]:
            raise failure

        async with egress_listener(CLOSED, resolve=resolve) as listener:
            assert (await ask(listener, "nowhere.test", 443))[0] == code
            assert listener.refused == []
            assert listener.failed[0][:2] == ("nowhere.test", 443)

    run(test())


def test_a_closed_port_is_reported_as_refused_by_its_host() -> None:
    async def test() -> None:
        async with echo_server() as port:
            pass
        async with egress_listener(EgressPolicy(frozenset({"127.0.0.1"}))) as listener:
            assert (await ask(listener, "127.0.0.1", port))[0] == REFUSED

    run(test())


def test_a_look_up_that_never_ends_is_given_up() -> None:
    async def test() -> None:
        async def resolve(host: str, port: int) -> list[str]:
            await asyncio.Event().wait()
            return []

        async with egress_listener(CLOSED, limits=Limits(dial_s=0.1), resolve=resolve) as listener:
            assert (await ask(listener, "slow.test", 443))[0] == UNREACHABLE

    run(test())


@pytest.mark.parametrize("sent", [b"", b"\x05", b"\x05\x01\x00", b"\x05\x01\x00\x05\x01\x00\x03\x20abc"])
def test_a_slow_handshake_is_given_up(sent: bytes) -> None:
    async def test() -> None:
        async with egress_listener(CLOSED, limits=Limits(handshake_s=0.2)) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(sent)
            with pytest.raises((EOFError, ConnectionError)):
                await reader.readexactly(1000)
            writer.close()

    run(test())


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b""),
        (b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00", b""),
        (b"\x05\x01\x02", b"\x05\xff"),
        (b"\x05\x01\x00\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50", b"\x05\x00\x05\x07\x00\x01\0\0\0\0\0\0"),
        (b"\x05\x01\x00\x05\x01\x00\x09\x7f\x00\x00\x01\x00\x50", b"\x05\x00\x05\x08\x00\x01\0\0\0\0\0\0"),
    ],
)
def test_other_protocols_commands_and_address_types_are_answered_as_the_rfc_says(sent: bytes, answer: bytes) -> None:
    async def test() -> None:
        async with egress_listener(CLOSED) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(sent)
            received = b""
            try:
                while chunk := await reader.read(100):
                    received += chunk
            except ConnectionError:
                pass
            assert received == answer
            writer.close()

    run(test())


@pytest.mark.parametrize("host", ["a b", "a\x00b", "a/b", "-", "ümlaut", ""])
def test_what_is_no_host_name_is_not_looked_up(host: str) -> None:
    async def test() -> None:
        async def resolve(name: str, port: int) -> list[str]:
            raise AssertionError("looked up")

        async with egress_listener(CLOSED, resolve=resolve) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            encoded = host.encode()
            writer.write(b"\x05\x01\x00\x05\x01\x00\x03" + bytes([len(encoded)]) + encoded + b"\x00\x50")
            assert (await reader.readexactly(12))[3] == NOT_ALLOWED
            writer.close()

    run(test())


def test_closing_the_listener_ends_its_connections_and_its_port() -> None:
    async def test() -> None:
        async with echo_server() as port:
            async with egress_listener(EgressPolicy(frozenset({"127.0.0.1"}))) as listener:
                code, reader, writer = await ask(listener, "127.0.0.1", port)
                assert code == SUCCEEDED
                idle, _ = await asyncio.open_connection("127.0.0.1", listener.port)
                while listener.open_connections < 2:
                    await asyncio.sleep(0)
            assert listener.open_connections == 0
            for stream in (reader, idle):
                with pytest.raises((EOFError, ConnectionError)):
                    await stream.readexactly(1)
            with pytest.raises(ConnectionError):
                await asyncio.open_connection("127.0.0.1", listener.port)
            writer.close()

    run(test())


def test_connections_beyond_the_limit_are_refused_and_counted() -> None:
    async def test() -> None:
        async with echo_server() as port:
            policy = EgressPolicy(frozenset({"127.0.0.1"}))
            async with egress_listener(policy, limits=Limits(connections=2)) as listener:
                first = await ask(listener, "127.0.0.1", port)
                await ask(listener, "127.0.0.1", port)
                with pytest.raises((EOFError, ConnectionError)):
                    await ask(listener, "127.0.0.1", port)
                assert listener.refused == [("", 0, "more than 2 connections at once")]
                first[2].close()
                while listener.open_connections > 1:
                    await asyncio.sleep(0)
                assert (await ask(listener, "127.0.0.1", port))[0] == SUCCEEDED
                assert listener.connections == 4

    run(test())
