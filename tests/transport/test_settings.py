"""Which transport a broker URL selects."""

from __future__ import annotations

from pathlib import Path

from kombu import Connection

from renderqueue.transport import Transport, broker_settings


def test_filesystem_selects_the_file_transport_under_the_data_folder(tmp_path: Path) -> None:
    settings = broker_settings("filesystem://", tmp_path)
    connection = Connection(
        settings["broker_url"],
        transport=settings["broker_transport"],
        transport_options=settings["broker_transport_options"],
    )
    assert isinstance(connection.transport, Transport)
    assert connection.transport.folder == tmp_path / "broker"
    assert connection.transport.polling_interval == 0.05


def test_redis_stays_the_url_it_was(tmp_path: Path, redis_url: str) -> None:
    settings = broker_settings(redis_url, tmp_path)
    assert settings["broker_url"] == redis_url
    options = settings["broker_transport_options"]
    with Connection(redis_url, transport_options=options) as connection, connection.SimpleQueue("work") as simple:
        simple.put("hello")
        assert simple.get(timeout=5).payload == "hello"
    assert not (tmp_path / "broker").exists()
