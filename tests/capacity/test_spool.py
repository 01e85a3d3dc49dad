"""A message of the embedded broker appears whole or not at all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Empty

import pytest
from kombu import Connection

import capacity.celery  # noqa: F401  (names the transport)

PAYLOAD = {"body": "x" * 20_000, "headers": {}, "properties": {}}


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[object]:
    folders = {"data_folder_in": str(tmp_path), "data_folder_out": str(tmp_path), "control_folder": str(tmp_path / "c")}
    with Connection("spool://", transport_options=folders | {"processed_folder": str(tmp_path / "p")}) as connection:
        yield connection.channel()


def test_a_reader_that_looks_all_the_time_gets_every_message_whole(channel):
    got: list[object] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set() or len(got) < 400:
            try:
                got.append(channel._get("office"))
            except Empty:
                if stop.is_set() and len(got) == 400:
                    return

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(400):
        channel._put("office", PAYLOAD)
    stop.set()
    reader.join(30)
    assert got == [PAYLOAD] * 400


def test_a_message_that_is_still_being_written_is_nobody_s_queue(channel, tmp_path: Path):
    (tmp_path / "1_half.office.msg.new").write_bytes(b"")
    with pytest.raises(Empty):
        channel._get("office")


def test_another_queue_s_message_is_left_alone(channel):
    channel._put("office", PAYLOAD)
    with pytest.raises(Empty):
        channel._get("hardware")
    assert channel._get("office") == PAYLOAD
