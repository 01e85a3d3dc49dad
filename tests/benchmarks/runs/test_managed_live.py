"""A real worker starts the simulator for each cell; the worker is killed in mid-cell."""

import sys
import time

import psutil
import pytest

from tests.benchmarks.runs.installation import Installation, kill, wait_for
from tests.benchmarks.runs.managing import (
    DRAW_MANAGED,
    PLANS,
    finish,
    free_port,
    started_by,
    told,
    write_profile,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def house(tmp_path):
    made = Installation(tmp_path)
    yield made
    made.close()


def test_the_runtime_ends_with_a_killed_worker_and_what_ran_before_comes_back_after_the_grid(house):
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.simulator", "--port", "{port}", "--active", "{setting}"]
    said = write_profile(house, "simulator", command, port=port, context=4096)
    house.migrate()
    drawn = DRAW_MANAGED.format(
        kind="simulator", endpoint=f"http://127.0.0.1:{port}", model="headroom-simulated-demo", settings=(1, 2, 4), window_s=3.0
    )  # fmt: skip
    grid = house.script(drawn)
    worker = house.start_worker()
    wait_for("the second cell to run", lambda: [s for s, _ in told(house)] == ["measured", "running", "queued"])
    runtimes = wait_for("its runtime", lambda: started_by(str(port)), every_s=0.05)
    kill(worker.pid)
    worker.wait()
    _, alive = psutil.wait_procs(runtimes, timeout=5)
    assert not alive, "the runtime outlived its worker by five seconds"
    house.start_worker()
    finish(house)
    assert [s for s, _ in told(house)] == ["measured"] * 3, told(house)
    cells = house.script(PLANS.format(grid=grid))
    assert [cell[:5] for cell in cells] == [[n, n, n, 4096, 8192] for n in (1, 2, 4)]
    assert wait_for("what ran before", lambda: said.read_text().split() == ["stopped", "started"])
    time.sleep(0.2)
    assert started_by(str(port)) == []
