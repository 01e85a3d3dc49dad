"""A real worker on a host whose GPU grows hot: it cools down between stages, stops before the limit, and goes no higher."""

from __future__ import annotations

import json
import re

import pytest

from tests.benchmarks.engine.nvml_stub import Stub
from tests.benchmarks.runs.installation import DRAW, Installation, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.needs("gcc", "apt install gcc")]


@pytest.fixture
def stub(tmp_path):
    folder = tmp_path / "nvml"
    folder.mkdir()
    return Stub(folder)


@pytest.fixture
def house(tmp_path, stub):
    folder = tmp_path / "house"
    folder.mkdir()
    made = Installation(folder, LD_LIBRARY_PATH=str(stub.folder))
    yield made
    made.close()


def test_a_card_that_grows_hot_ends_its_stage_and_all_higher_ones(house, stub):
    stub.set(gpu0_temp=40, gpu0_mw=60_000)
    house.migrate()
    house.script(DRAW.format(endpoint=house.start_simulator(), settings=(1, 2, 4), window_s=8.0))
    worker = house.start_worker()

    def first_is_measured() -> bool:
        assert worker.poll() is None, house.log("worker.log")
        return house.rows("SELECT status FROM benchmarks_cell ORDER BY position")[0] == ("measured",)

    wait_for("the first stage", first_is_measured, every_s=0.05)
    stub.set(gpu0_temp=60, gpu0_temp_step=10, gpu0_mw=60_000)  # of each process that reads it
    wait_for("the grid to finish", lambda: house.rows("SELECT id FROM benchmarks_grid WHERE finished_at IS NOT NULL"))
    cells = house.rows("SELECT status, reason FROM benchmarks_cell ORDER BY position")
    assert [status for status, _ in cells] == ["measured", "stopped", "not_run"], cells
    assert re.match(r"guard: GPU-stub-0 at [4-8]0 °C and rising: ", cells[1][1]), cells
    assert cells[2][1].startswith("Not safe to go on: the guard stopped 2 offered, short: GPU-stub-0 at "), cells

    ((baseline,),) = house.rows("SELECT baseline FROM benchmarks_grid")
    idle = json.loads(baseline)["gpus"]["GPU-stub-0"]
    assert (idle["temperature_c"], idle["power_w"]) == (40.0, 60.0)
    told = [json.loads(row[0])["cooling"]["words"] for row in house.rows(
        "SELECT a.conditions FROM benchmarks_attempt a JOIN benchmarks_cell c ON c.id = a.cell_id ORDER BY c.position"
    )]  # fmt: skip
    assert told[0].startswith("The idle host was read: 1 GPU."), told
    assert told[1].startswith("Not cool after 2 s, the longest wait: GPU-stub-0 at "), told
