"""On llama.cpp's own server a client that leaves in mid-stream frees its slot within a second, and during prefill only
between two batches: both as its headers to one who waits tell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.engine.probe_plan import Cancellation
from tests.benchmarks.engine.probes.evidence import run_probe
from tests.benchmarks.runtimes.llamacpp import serving, write_model

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    model = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_model(model)
    with serving(model, "--slots", "2", "--context-per-slot", "8192", "--batch", "2048") as address:
        yield address


def test_a_slot_left_in_mid_stream_is_free_within_a_second_and_one_left_during_prefill_later(tmp_path: Path, url: str):
    probe = Cancellation(slots=2, tries=2, fill_output_tokens=4000, prefill_prompt_tokens=3500)
    left, verdict = run_probe(tmp_path, url, "headroom-tiny", probe, simulated=False, runtime_kind="llamacpp")
    assert verdict.verdict == "frees_in_time", verdict.reasons
    stream, prefill = (verdict.figures[f"{kind}_freed_worst"] for kind in ("stream", "prefill"))
    assert stream.n == 2
    assert stream.value < 1.0
    assert prefill.value is not None, verdict.reasons
    assert prefill.value > stream.value
    # It is the headers that tell: here they come when a slot takes the request up.
    fresh = [record for record in left.records if record.role == "fresh_stream"]
    leaves = [record for record in left.records if record.role == "left_stream"]
    for one, gone in zip(fresh, leaves, strict=True):
        assert gone.t_closed_ns < one.t_headers_ns <= one.t_first_ns
