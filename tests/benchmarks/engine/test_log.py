"""A torn or damaged tail is cut; nothing before it is lost."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.engine.log import MAGIC, LogWriter, NotALogError, frames_in, read_frames
from benchmarks.engine.terms import ClientHealth, End, NotReported, Outcome, Phase, Reading, Window
from tests.benchmarks.engine.plans import a_header, a_record

FRAMES = [
    a_header(),
    a_record(0, gaps_us=array("I", (1, 2, 3)).tobytes()),
    a_record(1, outcome=Outcome.REJECTED, phase=Phase.WARMUP, retry_after_s=1.5, detail="é"),
    Reading(t_ns=1, name="gpu_power_w", value=1.5, source="nvml", device="GPU-1"),
    NotReported(name="gpu_temperature_c", source="nvml", reason="not supported"),
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
@settings(max_examples=300, deadline=None)
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
