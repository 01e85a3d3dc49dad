"""Whether the memory of a GPU is seen to return after a managed runtime, over a stub of NVML."""

import sys

import pytest

from tests.benchmarks.engine.nvml_stub import Stub
from tests.benchmarks.runs.installation import Installation
from tests.benchmarks.runs.managing import DRAW_MANAGED, free_port, write_profile

TWO_CELLS = """
from pathlib import Path
from benchmarks import claims, managed
from benchmarks.models import Cell
from tests.benchmarks.runs.made import record
managed.MEMORY_BACK_WITHIN_S = 1.0
answer = []
for _ in range(2):
    taken = claims.claim_next_cell(hardware_slugs=[grid.hardware.slug], worker="w")
    cell = Cell.objects.select_related("grid__runtime", "grid__hardware").get(pk=taken.cell_id)
    with managed.runtime(taken, cell, Path({folder!r})) as running:
        if running.ready:
            running.finish(running.watch)
            record(taken, **running.watch.progress)
    cell.refresh_from_db()
    answer.append([cell.status, running.facts.get("ended", {{}}).get("vram_returned"), cell.reason])
"""


@pytest.mark.slow
@pytest.mark.needs("gcc", "apt install gcc")
@pytest.mark.parametrize("returns", [True, False])
def test_no_further_runtime_starts_before_the_memory_of_the_last_one_is_back(tmp_path, returns):
    stub = Stub(tmp_path)
    stub.set(gpu0_allocated=1_000_000_000)
    (tmp_path / "low").write_text((tmp_path / "state").read_text())
    (tmp_path / "high").write_text("0.allocated 9000000000\n")
    house = Installation(tmp_path, LD_LIBRARY_PATH=str(tmp_path))
    port = free_port()
    back = f"cp {tmp_path}/low {tmp_path}/state" if returns else ":"
    script = (
        f"cp {tmp_path}/high {tmp_path}/state; {sys.executable} -m benchmarks.simulator --port {{port}} --active {{setting}} &"
        f" trap 'kill $!; {back}; exit 0' TERM; wait"
    )
    write_profile(house, "simulator", ["/bin/sh", "-c", script], port=port, context=4096)
    house.migrate()
    drawn = DRAW_MANAGED.format(
        kind="simulator", endpoint=f"http://127.0.0.1:{port}", model="m", settings=(1, 2), window_s=3.0
    )
    first, second = house.script(drawn + TWO_CELLS.format(folder=str(tmp_path)))
    assert first == ["measured", returns, ""]
    if returns:
        assert second == ["measured", True, ""]
    else:
        assert second[:2] == ["not_run", None]
        assert second[2] == "The memory of the last runtime did not return: 7,629 MiB more than before it ran."
