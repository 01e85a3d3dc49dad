"""The claim that killing a worker loses at most one attempt, for any database and broker."""

from __future__ import annotations

import psutil

from tests.benchmarks.runs.installation import DRAW, LOOK, PROOF, Installation, engines_under, kill, wait_for


def kill_a_worker_in_mid_cell_and_finish(house: Installation) -> None:
    """Draws a grid of four cells, kills the worker while a later one runs, starts another, and checks what is left."""
    house.manage("migrate", "-v", "0")
    grid = house.script(DRAW.format(endpoint=house.start_simulator(), settings=(1, 2, 3, 4), window_s=4.0))["grid"]
    worker = house.start_worker()

    def in_a_later_cell() -> bool:
        assert worker.poll() is None, house.log("worker.log")
        found = house.script(LOOK.format(grid=grid))
        assert found["status"] in ("authorized", "running"), found
        states = [c[0] for c in found["cells"]]
        return states[0] == "measured" and "running" in states

    wait_for("a later cell to run", in_a_later_cell)
    engines = wait_for("the engine of that cell", lambda: engines_under(worker.pid), every_s=0.05)
    kill(worker.pid)
    worker.wait()
    _, alive = psutil.wait_procs(engines, timeout=5)
    assert not alive, "the engine outlived its worker"

    house.start_worker()
    found = wait_for("the grid to finish", lambda: _ended(house, grid))
    assert (found["status"], [c[0] for c in found["cells"]]) == ("measured", ["measured"] * 4), found
    proof = house.script(PROOF.format(grid=grid))
    assert sorted(c["attempts"] for c in proof["cells"]) == [1, 1, 1, 2], proof
    assert (proof["interrupted"], proof["broken"]) == (1, 0)
    for cell in proof["cells"]:
        assert (cell["digest"], cell["summary"], cell["measured"]) == (True, True, 1), proof
        assert cell["requests"] == cell["kept"] > 0


def _ended(house: Installation, grid: int) -> dict[str, object] | None:
    found: dict[str, object] = house.script(LOOK.format(grid=grid))
    return found if found["status"] in ("measured", "stopped") else None
