"""The claim that killing a worker loses at most one attempt, for any database and broker."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import psutil

from tests.benchmarks.runs.installation import CLAIM_ALL, DRAW, MANY, PROOF, Installation, engines_under, kill, wait_for


def kill_a_worker_in_mid_cell_and_finish(house: Installation, *, after_s: float = 0.0) -> float:
    """Draws a grid of four cells, kills the worker while a later one runs, starts another, and checks what is left.

    `after_s`: how long that cell has run already, less than its window. Returns the seconds that its engine outlived the
    worker.
    """
    house.migrate()
    grid = house.script(DRAW.format(endpoint=house.start_simulator(), settings=(1, 2, 3, 4), window_s=4.0))["grid"]
    worker = house.start_worker()

    def in_a_later_cell() -> bool:
        assert worker.poll() is None, house.log("worker.log")
        states = _states(house)
        assert not {"stopped", "not_run"} & set(states), house.rows("SELECT reason FROM benchmarks_cell")
        return states[0] == "measured" and "running" in states

    wait_for("a later cell to run", in_a_later_cell)
    engines = wait_for("the engine of that cell", lambda: engines_under(worker.pid), every_s=0.05)
    time.sleep(after_s)
    family = psutil.Process(worker.pid).children(recursive=True)  # pool, scheduler, engine
    killed_at = time.monotonic()
    kill(worker.pid)
    worker.wait()
    _, alive = psutil.wait_procs(engines, timeout=5)
    outlived_s = time.monotonic() - killed_at
    assert not alive, "the engine outlived its worker"
    _, alive = psutil.wait_procs(family, timeout=5)
    assert not alive, "a process of the worker outlived it"

    house.start_worker()
    wait_for("the grid to finish", lambda: house.rows("SELECT id FROM benchmarks_grid WHERE finished_at IS NOT NULL"))
    assert _states(house) == ["measured"] * 4, house.rows("SELECT status, reason FROM benchmarks_cell")
    proof = house.script(PROOF.format(grid=grid))
    assert sorted(c["attempts"] for c in proof["cells"]) == [1, 1, 1, 2], proof
    assert (proof["interrupted"], proof["broken"]) == (1, 0)
    for cell in proof["cells"]:
        assert (cell["digest"], cell["summary"], cell["measured"]) == (True, True, 1), proof
        assert cell["requests"] == cell["kept"] > 0
    return outlived_s


def _states(house: Installation) -> list[str]:
    return [row[0] for row in house.rows("SELECT status FROM benchmarks_cell ORDER BY position")]


def claim_all_with_four_processes(house: Installation) -> None:
    """Four processes race for the cells of four hosts: each cell is claimed, recorded and kept exactly once."""
    house.migrate()
    house.script(MANY.format(hosts=4, cells=6))
    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(lambda _: house.script(CLAIM_ALL), range(4)))
    assert sum(taken) == 24
    assert house.rows("SELECT status, attempt, COUNT(*) FROM benchmarks_cell GROUP BY status, attempt") == [
        ("measured", 1, 24)
    ]
    assert house.rows("SELECT COUNT(*), COUNT(DISTINCT cell_id) FROM benchmarks_evidence") == [(24, 24)]
    assert house.rows("SELECT outcome, COUNT(*) FROM benchmarks_attempt GROUP BY outcome") == [("measured", 24)]
    assert house.rows("SELECT status, COUNT(*) FROM benchmarks_grid GROUP BY status") == [("measured", 4)]
