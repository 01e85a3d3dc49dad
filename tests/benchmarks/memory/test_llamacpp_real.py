"""What is predicted beside what llama.cpp's own server takes, at each number of slots."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from benchmarks.memory.launch import launch_of
from benchmarks.memory.prediction import WATCH_SHARE, Prediction, difference, predict
from benchmarks.memory.reading import geometry_of
from tests.benchmarks.runtimes.llamacpp import serving, write_model

pytestmark = pytest.mark.real

CONTEXT = 8192


def resident_bytes() -> int:
    children = psutil.Process().children(recursive=True)
    return sum(child.memory_info().rss for child in children)


def predicted(content: bytes, slots: int) -> Prediction:
    geometry = geometry_of(content)
    launch = launch_of("llamacpp", f"-np {slots} -c {slots * CONTEXT}")
    assert geometry.weights_bytes is not None
    return predict(
        geometry, weights_bytes=geometry.weights_bytes, launch=launch, sequences=slots, tokens=100, room=None
    )


def test_memory_is_as_predicted_at_one_to_eight_slots(tmp_path: Path) -> None:
    model = tmp_path / "tiny.gguf"
    content = write_model(model, "--layers", "8", "--kv-heads", "8", "--context", str(CONTEXT))
    measured, foreseen = [], []
    for slots in (1, 2, 4, 8):
        with serving(model, "--slots", str(slots), "--context-per-slot", str(CONTEXT)):
            measured.append(resident_bytes())
        foreseen.append(predicted(content, slots))
        apart = difference(foreseen[-1].total_bytes, measured[-1])
        print(f"{slots} slots: predicted {foreseen[-1].total_bytes:,}, measured {measured[-1]:,}, {apart:+.1%}")
        assert abs(apart) <= WATCH_SHARE
    # What seven slots more take is their KV, to a few per cent of it: here only the accounting counts.
    more_kv = (foreseen[-1].kv_reserved_bytes or 0) - (foreseen[0].kv_reserved_bytes or 0)
    assert measured[-1] - measured[0] == pytest.approx(more_kv, rel=0.05)
