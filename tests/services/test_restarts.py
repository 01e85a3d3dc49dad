"""PostgreSQL and Redis that go away in mid-cell and come back: the worker survives, and nothing is measured twice or lost."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from scripts.services import Postgres, Redis, ServiceError, folder
from tests.benchmarks.runs.installation import DRAW, PROOF, Installation, engines_under, kill, wait_for

pytestmark = [pytest.mark.service, pytest.mark.slow]


@dataclass(frozen=True)
class World:
    house: Installation
    postgres: Postgres
    redis: Redis

    def drawn(self, *, settings: tuple[int, ...], window_s: float) -> int:
        self.house.migrate()
        endpoint = self.house.start_simulator()
        grid: int = self.house.script(DRAW.format(endpoint=endpoint, settings=settings, window_s=window_s))["grid"]
        return grid

    def states(self) -> list[str]:
        return [row[0] for row in self.house.rows("SELECT status FROM benchmarks_cell ORDER BY position")]

    def loading(self, worker_pid: int) -> None:
        """Waits until the second cell's engine runs."""

        def second() -> bool:
            states = self.states()
            told = self.house.rows("SELECT status, attempt, reason FROM benchmarks_cell ORDER BY position")
            assert not {"stopped", "not_run", "interrupted"} & set(states), (told, self.house.log("worker.log"))
            return states[:2] == ["measured", "running"]

        wait_for("the second cell", second)
        wait_for("its engine", lambda: engines_under(worker_pid), every_s=0.05)
        time.sleep(1.0)

    def finished(self, grid: int) -> None:
        """Every cell is measured by its first attempt, once, and its evidence holds."""

        def over() -> bool:
            with contextlib.suppress(psycopg.OperationalError):
                return bool(self.house.rows("SELECT id FROM benchmarks_grid WHERE finished_at IS NOT NULL"))
            return False

        wait_for("the grid to finish", over)
        proof = self.house.script(PROOF.format(grid=grid))
        log = self.house.log("worker.log")
        assert [cell["attempts"] for cell in proof["cells"]] == [1] * len(proof["cells"]), log
        assert {(cell["digest"], cell["summary"], cell["measured"]) for cell in proof["cells"]} == {(True, True, 1)}
        assert (proof["broken"], proof["interrupted"]) == (0, 0)
        assert not list((self.house.folder / "spool").glob("*"))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with folder() as home:
        postgres, redis = Postgres(home), Redis(home)
        postgres.start()
        redis.start()
        house = Installation(tmp_path, DATABASE_URL=postgres.url, BROKER_URL=redis.url)
        try:
            yield World(house, postgres, redis)
        finally:
            house.close()
            redis.stop()
            with contextlib.suppress(ServiceError):  # a test that failed may have left it stopped
                postgres.stop()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_database_that_restarts_under_a_cell_costs_nothing(world, how):
    grid = world.drawn(settings=(1, 2, 3), window_s=8.0)
    worker = world.house.start_worker()
    world.loading(worker.pid)
    getattr(world.postgres, how)()
    time.sleep(3.0)
    world.postgres.start()
    world.finished(grid)
    assert worker.poll() is None


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_broker_that_restarts_under_a_cell_costs_nothing(world, how):
    grid = world.drawn(settings=(1, 2, 3), window_s=8.0)
    worker = world.house.start_worker()
    world.loading(worker.pid)
    getattr(world.redis, how)()
    time.sleep(3.0)
    world.redis.start()
    world.finished(grid)
    assert worker.poll() is None


def test_a_result_that_met_no_database_is_delivered_by_the_next_worker_and_not_measured_again(world):
    grid = world.drawn(settings=(1, 2), window_s=4.0)
    worker = world.house.start_worker()
    world.loading(worker.pid)
    world.postgres.stop()
    spool = world.house.folder / "spool"
    wait_for("the result in the spool", lambda: list(spool.glob("*.result")))
    kill(worker.pid)
    worker.wait()
    world.postgres.start()
    assert world.states() == ["measured", "running"]
    world.house.start_worker()
    world.finished(grid)


def test_a_result_that_the_worker_gave_up_storing_is_delivered_when_the_database_is_back(world):
    grid = world.drawn(settings=(1, 2, 3), window_s=4.0)
    worker = world.house.start_worker()
    world.loading(worker.pid)
    world.postgres.stop()
    log = world.house.folder / "worker.log"
    wait_for("the worker to give up", lambda: "tries; it lies at" in log.read_text(encoding="utf-8"))
    world.postgres.start()
    world.finished(grid)
    assert worker.poll() is None
