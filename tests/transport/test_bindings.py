"""Exchanges: fan-out to every node, replies to one, and mailboxes that start empty."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kombu import Exchange, Producer, Queue

Connect = Callable[[], Any]


def publish(connection: Any, exchange: Exchange, routing_key: str, body: Any) -> None:
    Producer(connection.channel()).publish(body, exchange=exchange, routing_key=routing_key, declare=[exchange])


def bodies(connection: Any, queue: Queue) -> list[Any]:
    bound = queue(connection.channel())
    taken = []
    while message := bound.get(no_ack=True):
        taken.append(message.payload)
    return taken


def test_fan_out_reaches_every_bound_queue_across_connections(connect: Connect) -> None:
    everyone = Exchange("news", type="fanout")
    queues = [Queue(f"reader-{number}", everyone) for number in range(3)]
    for queue in queues:
        queue(connect().channel()).declare()
    publish(connect(), everyone, "", "hello")
    assert [bodies(connect(), queue) for queue in queues] == [["hello"]] * 3


def test_a_direct_exchange_delivers_by_routing_key(connect: Connect) -> None:
    letters = Exchange("letters", type="direct")
    one, two = Queue("box-1", letters, routing_key="one"), Queue("box-2", letters, routing_key="two")
    for queue in (one, two):
        queue(connect().channel()).declare()
    publish(connect(), letters, "two", "for two")
    assert bodies(connect(), one) == []
    assert bodies(connect(), two) == ["for two"]


def test_a_deleted_queue_is_no_longer_bound(connect: Connect, folder: Path) -> None:
    everyone = Exchange("news", type="fanout")
    queue = Queue("leaver", everyone)(connect().channel())
    queue.declare()
    queue.delete()
    publish(connect(), everyone, "", "hello")
    assert list((folder / "exchanges").rglob("*.binding")) == []
    assert not (folder / "queues" / "q-leaver").exists()


def test_a_corrupt_binding_does_not_stop_the_others(connect: Connect, folder: Path) -> None:
    everyone = Exchange("news", type="fanout")
    queue = Queue("reader", everyone)
    queue(connect().channel()).declare()
    (folder / "exchanges" / "x-news" / "corrupt.binding").write_text("[1")
    publish(connect(), everyone, "", "hello")
    assert bodies(connect(), queue) == ["hello"]
    assert [path.name[9:] for path in (folder / "rejected").iterdir()] == ["corrupt.binding"]


def test_a_nodes_mailbox_starts_empty(connect: Connect) -> None:
    control = Exchange("celery.pidbox", type="fanout")
    mailbox = Queue("render@host.celery.pidbox", control, exclusive=True, auto_delete=True)
    mailbox(connect().channel()).declare()
    publish(connect(), control, "", {"method": "shutdown"})
    mailbox(connect().channel()).declare()
    assert bodies(connect(), mailbox) == []


def test_names_cannot_leave_the_folder(connect: Connect, folder: Path) -> None:
    for name in ("..", "../../up", "/etc/x", "a b/c"):
        with connect().SimpleQueue(name) as simple:
            simple.put("x")
            assert simple.get(timeout=5).payload == "x"
    assert {path.name for path in folder.iterdir()} <= {"queues", "exchanges"}
