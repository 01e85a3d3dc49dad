"""The program runs every kind of load on uvloop and, where that is not there, on asyncio's own loop."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.engine import plan as plans
from benchmarks.engine.load import Closed, MicroBatch, OpenLoop, Poisson, StaticBatch
from benchmarks.engine.log import read_frames
from benchmarks.engine.terms import Outcome
from tests.benchmarks.engine.loads.running import MODEL, ROOT, Left, simulator
from tests.benchmarks.engine.plans import a_plan

WITHOUT_UVLOOP = "import sys; sys.modules['uvloop'] = None; from benchmarks.engine.__main__ import main; "
WITHOUT_UVLOOP += "sys.exit(main(sys.argv[1:]))"
LOADS = {
    "closed": Closed(),
    "open": OpenLoop(Poisson(60.0)),
    "micro-batches": MicroBatch(arrivals=Poisson(60.0), max_items=4, max_wait_ms=20.0),
    "static": StaticBatch(items=20, batch_size=5),
}


@pytest.fixture(scope="module")
def url():
    with simulator() as address:
        yield address


@pytest.mark.parametrize("load", LOADS)
def test_without_uvloop_the_loads_are_the_same(tmp_path, url, load):
    lists = load == "micro-batches"
    plan = a_plan(
        base_url=url, model=MODEL, load=LOADS[load], offered_concurrency=4, max_requests=10_000,
        dialect="openai_embeddings" if lists else "openai_chat", stream=not lists,
    )  # fmt: skip
    (tmp_path / "plan.json").write_bytes(plans.encode(plan))
    command = [sys.executable, "-c", WITHOUT_UVLOOP, str(tmp_path / "plan.json"), str(tmp_path / "cell.log")]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.read()
        assert child.wait(30) == 0
    left = Left(tuple(read_frames(tmp_path / "cell.log")))
    assert left.outcomes == {Outcome.OK: len(left.records)}
    assert len(left.records) >= 15
    assert (left.columns.end.complete, left.summary.conserved) == (True, True)
    assert left.columns.health.loop_lag_p99_ms is not None
