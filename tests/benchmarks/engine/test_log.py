"""A torn or damaged tail is cut; nothing before it is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.engine.log import FRAME_HEAD, MAGIC, READ_BYTES, LogWriter, NotALogError, frames_in, read_frames
from benchmarks.engine.terms import (
    BatchRecord,
    ClientHealth,
    End,
    NotReported,
    Outcome,
    Phase,
    Reading,
    Resumed,
    Window,
)
from tests.benchmarks.engine.plans import a_header, a_record

FRAMES = [
    a_header(),
    a_record(0, gaps_us=array("I", (1, 2, 3)).tobytes()),
    a_record(1, outcome=Outcome.REJECTED, phase=Phase.WARMUP, retry_after_s=1.5, detail="é"),
    Reading(t_ns=1, name="gpu_power_w", value=1.5, source="nvml", device="GPU-1"),
    NotReported(name="gpu_temperature_c", source="nvml", reason="not supported"),
    BatchRecord(batch=0, items=2, t_gathered_ns=1, t_sent_ns=2, t_end_ns=None, outcome=Outcome.IDLE_TIMEOUT),
    Resumed(wall_ns=7, monotonic_ns=3),
    Window(start_ns=1, end_ns=2),
    ClientHealth(loop_lag_p99_ms=None, cpu_share=0.5, send_late_p99_ms=1.0, client_limited=False),
    End(t_ns=9, complete=True, reason="window completed"),
]


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("log") / "cell.log"
    with LogWriter(path) as writer:
        for frame in FRAMES:
            writer.append(frame)
    return path.read_bytes()


def ends_of(raw: bytes) -> list[int]:
    """Where each frame ends."""
    ends, position = [], len(MAGIC)
    while position < len(raw):
        position += 8 + int.from_bytes(raw[position : position + 4], "little")
        ends.append(position)
    return ends


def test_every_kind_of_frame_comes_back_as_it_went(raw):
    assert list(frames_in(raw)) == FRAMES


def test_cut_at_any_byte_the_whole_frames_before_it_stand(raw):
    ends = ends_of(raw)
    for length in range(len(MAGIC), len(raw) + 1):
        whole = sum(end <= length for end in ends)
        assert list(frames_in(raw[:length])) == FRAMES[:whole]


@given(st.data())
@settings(max_examples=300)
def test_a_flipped_byte_costs_its_frame_and_what_follows_but_nothing_before(raw, data):
    at = data.draw(st.integers(len(MAGIC), len(raw) - 1))
    damaged = bytearray(raw)
    damaged[at] ^= data.draw(st.integers(1, 255))
    hit = sum(end <= at for end in ends_of(raw))
    assert list(frames_in(bytes(damaged))) == FRAMES[:hit]


def test_a_file_that_is_no_log_is_refused(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"PAR1")
    with pytest.raises(NotALogError):
        list(read_frames(path))


def test_a_log_is_never_written_over(tmp_path):
    path = tmp_path / "x"
    LogWriter(path).close()
    with pytest.raises(FileExistsError):
        LogWriter(path)


@pytest.mark.parametrize("cut", range(0, 60, 7))
def test_a_resumed_log_keeps_its_whole_frames_and_takes_more(raw, tmp_path, cut):
    path, ends = tmp_path / "x", ends_of(raw)
    whole = len(FRAMES) - 2
    path.write_bytes(raw[: min(ends[whole - 1] + cut, ends[whole] - 1)])
    with LogWriter.resume(path) as writer:
        writer.append(FRAMES[-1])
    assert list(read_frames(path)) == [*FRAMES[:whole], FRAMES[-1]]


@pytest.mark.parametrize("head", [b"", MAGIC[:5], MAGIC])
def test_a_log_that_died_within_its_first_line_is_begun_anew(tmp_path, head):
    path = tmp_path / "x"
    path.write_bytes(head)
    with LogWriter.resume(path) as writer:
        writer.append(FRAMES[0])
    assert list(read_frames(path)) == FRAMES[:1]


def test_only_a_log_that_is_there_can_be_resumed(tmp_path):
    with pytest.raises(FileNotFoundError):
        LogWriter.resume(tmp_path / "x")
    (tmp_path / "y").write_bytes(b"something of another product altogether")
    with pytest.raises(NotALogError):
        LogWriter.resume(tmp_path / "y")
    assert (tmp_path / "y").read_bytes() == b"something of another product altogether"


def test_a_damaged_frame_in_the_middle_is_where_a_resumed_log_goes_on(raw, tmp_path):
    damaged, ends = bytearray(raw), ends_of(raw)
    damaged[ends[3] + FRAME_HEAD.size] ^= 1
    (tmp_path / "x").write_bytes(damaged)
    LogWriter.resume(tmp_path / "x").close()
    assert (tmp_path / "x").read_bytes() == raw[: ends[3]]


def test_frames_across_the_pieces_in_which_a_file_is_read_come_whole(tmp_path):
    path = tmp_path / "x"
    sent = [a_record(i, gaps_us=bytes([i % 251]) * (4 * (i % 5) * 20_000)) for i in range(40)]
    with LogWriter(path) as writer:
        for record in sent:
            writer.append(record)
    assert path.stat().st_size > 3 * READ_BYTES
    assert list(read_frames(path)) == sent


KILLED = """
import os, signal, sys
from pathlib import Path
from benchmarks.engine.log import LogWriter
from tests.benchmarks.engine.plans import a_record
writer = LogWriter(Path(sys.argv[1]))
for index in range(3):
    writer.append(a_record(index))
writer.sync()
writer.append(a_record(3))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_synced_outlives_the_process(tmp_path):
    path = tmp_path / "x"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], env=os.environ | {"PYTHONPATH": "."})
    assert done.returncode == -signal.SIGKILL
    assert list(read_frames(path)) == [a_record(index) for index in range(3)]
