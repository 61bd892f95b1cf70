"""Messages as files: whole, in order, each to one reader, and private."""

from __future__ import annotations

import multiprocessing
import stat
from collections.abc import Callable
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from kombu import Connection
from kombu.exceptions import ChannelError

from renderqueue import transport

Connect = Callable[[], Any]


def sent(connection: Any, queue: str, body: Any) -> None:
    with connection.SimpleQueue(queue) as simple:
        simple.put(body)


def received(connection: Any, queue: str) -> list[Any]:
    bodies = []
    with connection.SimpleQueue(queue, no_ack=True) as simple:
        while True:
            try:
                bodies.append(simple.get(block=False).payload)
            except Empty:
                return bodies


def queue_folder(folder: Path, queue: str) -> Path:
    return folder / "queues" / f"q-{queue}"


def test_messages_arrive_once_and_oldest_first(connect: Connect) -> None:
    for number in range(300):
        sent(connect_once := connect(), "work", number)
        connect_once.release()
    assert received(connect(), "work") == list(range(300))
    assert received(connect(), "work") == []


def test_queues_do_not_see_each_others_messages(connect: Connect) -> None:
    sent(connect(), "render.host-1.example", "a")
    sent(connect(), "render.host-1", "b")
    assert received(connect(), "render.host-1") == ["b"]
    assert received(connect(), "render.host-1.example") == ["a"]


def test_a_message_that_is_still_being_written_is_not_read(connect: Connect, folder: Path) -> None:
    sent(connect(), "work", "whole")
    partial = queue_folder(folder, "work") / ".00000000000000000001-x.msg.y"
    partial.write_bytes(b'{"body": "ha')
    assert received(connect(), "work") == ["whole"]
    assert partial.exists()  # its writer will rename it


@pytest.mark.parametrize(
    "content",
    [b"", b'{"body": "cut o', b"[]", b"{}", b"\xff\xfe", b'{"properties": {}}', b'"text"', b"null",
     b'{"body": "abc", "properties": {"delivery_tag": "1", "delivery_info": {}, "body_encoding": "base64"}}',
     b'{"body": "", "properties": {"delivery_tag": "1", "delivery_info": null}}'],
)  # fmt: skip
def test_a_corrupt_message_is_set_aside_and_the_rest_arrives(
    connect: Connect, folder: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    sent(connect(), "work", "good")
    corrupt = queue_folder(folder, "work") / "00000000000000000001-corrupt.msg"
    corrupt.write_bytes(content)
    assert received(connect(), "work") == ["good"]
    assert [path.read_bytes() for path in (folder / "rejected").iterdir()] == [content]
    assert str(corrupt) in caplog.text


def test_foreign_files_and_folders_are_set_aside(connect: Connect, folder: Path) -> None:
    sent(connect(), "work", "good")
    (queue_folder(folder, "work") / "notes.txt").write_text("hello")
    (queue_folder(folder, "work") / "0-folder.msg").mkdir()
    assert received(connect(), "work") == ["good"]
    assert sorted(path.name[9:] for path in (folder / "rejected").iterdir()) == ["0-folder.msg", "notes.txt"]


def test_the_folder_of_rejected_files_does_not_grow_without_end(
    connect: Connect, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "REJECTED_KEPT", 3)
    sent(connect(), "work", "good")
    for number in range(10):
        (queue_folder(folder, "work") / f"0-{number}.msg").write_text("corrupt")
    assert received(connect(), "work") == ["good"]
    assert len(list((folder / "rejected").iterdir())) == 3


def test_only_this_account_can_read_messages(connect: Connect, folder: Path) -> None:
    sent(connect(), "work", "secret")
    paths = [folder, *folder.rglob("*")]
    assert any(path.suffix == ".msg" for path in paths)
    assert not [path for path in paths if stat.S_IMODE(path.stat().st_mode) & 0o077]


def test_a_folder_that_others_could_read_is_closed(connect: Connect, folder: Path) -> None:
    folder.mkdir(mode=0o755)
    sent(connect(), "work", "secret")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_deleted_folder_is_an_empty_broker_and_comes_back(connect: Connect, folder: Path) -> None:
    connection = connect()
    sent(connection, "work", "lost")
    transport.wipe(folder)
    assert received(connection, "work") == []
    sent(connection, "work", "kept")
    assert received(connection, "work") == ["kept"]


def test_a_broker_folder_that_cannot_be_made_is_named(connect: Connect, folder: Path) -> None:
    folder.write_text("a file")
    with pytest.raises(ChannelError, match=str(folder)):
        _ = connect().transport


def test_purge_and_size_count_whole_messages(connect: Connect) -> None:
    channel = connect().channel()
    sent(connect(), "work", 1)
    sent(connect(), "work", 2)
    assert channel.queue_declare("work").message_count == 2
    assert channel.queue_purge("work") == 2
    assert channel.queue_declare("work").message_count == 0


def test_an_unacknowledged_message_returns_when_its_reader_leaves(connect: Connect) -> None:
    sent(connect(), "work", "again")
    reader = connect()
    with reader.SimpleQueue("work") as simple:
        assert simple.get(timeout=5).payload == "again"
    reader.release()
    assert received(connect(), "work") == ["again"]


def _write(settings: dict[str, Any], writer: int, count: int) -> None:
    with _connected(settings) as connection:
        for number in range(count):
            sent(connection, "busy", [writer, number, "x" * (number % 7000)])


def _read(settings: dict[str, Any], results: Any, stop: Any) -> None:
    with _connected(settings) as connection:
        taken = []
        while True:
            ended = stop.is_set()  # before the look: whatever was written by then is in it
            bodies = received(connection, "busy")
            taken += bodies
            if ended and not bodies:
                break
        results.put(taken)


def _connected(settings: dict[str, Any]) -> Any:
    return Connection(
        settings["broker_url"],
        transport=settings["broker_transport"],
        transport_options=settings["broker_transport_options"],
    )


def test_concurrent_writers_and_readers_lose_and_double_nothing(tmp_path: Path) -> None:
    settings = transport.broker_settings("filesystem://", tmp_path)
    fork = multiprocessing.get_context("spawn")
    results, stop = fork.Queue(), fork.Event()
    writers = [fork.Process(target=_write, args=(settings, number, 400)) for number in range(4)]
    readers = [fork.Process(target=_read, args=(settings, results, stop)) for _ in range(3)]
    for process in writers + readers:
        process.start()
    for process in writers:
        process.join(60)
        assert process.exitcode == 0
    stop.set()
    taken = [tuple(body) for _ in readers for body in results.get(timeout=60)]
    for process in readers:
        process.join(60)
        assert process.exitcode == 0
    assert sorted(body[:2] for body in taken) == [(writer, number) for writer in range(4) for number in range(400)]
    assert all(len(body[2]) == body[1] % 7000 for body in taken)
    assert not (tmp_path / "broker" / "rejected").exists()
