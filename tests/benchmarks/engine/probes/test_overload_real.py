"""Overload on llama.cpp's own server: bare, and behind HAProxy with a bounded queue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.engine.plan import Fixed
from benchmarks.engine.probe_plan import Overload
from benchmarks.engine.terms import Outcome
from benchmarks.engine.verdicts import ProbeVerdict, verdict_of
from tests.benchmarks.engine.loads.running import NO_ERROR_LIMIT, Left, run_cell
from tests.benchmarks.engine.plans import a_class
from tests.benchmarks.runtimes.haproxy import HOW, in_front_of
from tests.benchmarks.runtimes.llamacpp import serving, write_model

pytestmark = [pytest.mark.real, pytest.mark.needs("haproxy", HOW)]
SLOTS, QUEUE = 2, 4
# Far enough beyond capacity that a capacity measured in a slow moment does not spoil it.
PROBE = Overload(measure_s=3.0, measure_clients=4, times_capacity=2.5, calm_s=8.0, overload_s=6.0, recovery_s=40.0)


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    model = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_model(model)
    with serving(model, "--slots", str(SLOTS), "--context-per-slot", "2048") as address:
        yield address


def overload(folder: Path, url: str) -> tuple[Left, ProbeVerdict]:
    short = a_class(prompt_tokens=Fixed(16), output_tokens=Fixed(32))
    left = run_cell(
        folder, url=url, model="headroom-tiny", runtime_kind="llamacpp", probe=PROBE, classes=(short,), class_name="mixed",
        guard=NO_ERROR_LIMIT, window_s=60.0, max_wall_s=120.0, metrics_url="",
    )  # fmt: skip
    found = verdict_of(left.columns)
    assert found is not None
    return left, found


def test_the_bare_server_refuses_nobody_and_the_wait_grows_without_bound(tmp_path: Path, runtime: str) -> None:
    left, told = overload(tmp_path, runtime)
    assert told.verdict == "queues_without_bound", told
    assert told.figures["refused"].value == 0
    assert told.figures["wait_growth_at_least"].value > 0.1
    assert told.figures["recovery"].value is None or told.figures["recovery"].value > 1
    assert Outcome.REJECTED not in left.outcomes
    assert left.summary.conserved


def test_behind_a_bounded_queue_the_same_probe_is_refused_clearly(tmp_path: Path, runtime: str) -> None:
    with in_front_of(runtime, "--active", str(SLOTS), "--queue", str(QUEUE), "--retry-after", "3") as url:
        left, told = overload(tmp_path, url)
    assert told.verdict == "refused_clearly", told
    assert "HTTP 503" in told.reasons[0]
    assert 0.1 < told.figures["refused"].value < 0.9
    assert told.figures["time_to_reject_p95"].value < 0.5
    assert (told.figures["with_retry_after"].value, told.figures["retry_after"].value) == (1.0, 3.0)
    assert told.figures["recovery"].value is not None
    assert left.summary.conserved
