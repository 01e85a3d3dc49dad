"""`make chaos`: one grid of 24 cells, and whatever runs it killed at random moments, on files and on PostgreSQL with Redis.

    CHAOS=50 CHAOS_SEED=7 CHAOS_ON=services python -m scripts.chaos

Killed are the worker, its children, the engine, the broker, the database, and all of them together, as a power cut
does; by SIGKILL, by a stop signal that another worker outruns, or by SIGTERM. Afterwards every cell must be measured once,
its evidence must have its digest, what was finished before a kill must be as it was, and no process may be left behind.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from scripts.services import Postgres, Redis, ServiceError, folder
from tests.benchmarks.runs.installation import PROOF, Installation, engines_under, wait_for
from tests.benchmarks.runs.managing import DRAW_MANAGED, free_port, write_profile

CELLS, REPEATS = 24, 3
WINDOW_S = 1.0
LATEST_S = (
    2.5  # a kill comes so long after an engine was seen: in its window, while the cell is stored, or before the next
)
AWAY_S = 2.0  # how long what was killed stays away
FROZEN_S = 7.0  # longer than a silent worker is waited for
WITHIN_S = 600.0
IN_A_ROW = 3
BEAT = {"HEADROOM_HEARTBEAT_S": "1", "HEADROOM_STALE_AFTER_S": "5"}
FINISHED = (
    "SELECT c.id, e.sha256, e.attempt FROM benchmarks_cell c JOIN benchmarks_evidence e ON e.cell_id = c.id "
    "WHERE c.status = 'measured' ORDER BY c.id"
)
EVERY = "SELECT status, attempt, reason FROM benchmarks_cell ORDER BY position"


class House:
    """An installation, its worker, and the services that it rests on: none of its own where it keeps all in files."""

    def __init__(self, home: Path, postgres: Postgres | None, redis: Redis | None) -> None:
        services = {"DATABASE_URL": postgres.url, "BROKER_URL": redis.url} if postgres and redis else {}
        self.postgres, self.redis = postgres, redis
        self.installation = Installation(home, **BEAT, **services)
        self.seen: dict[int, tuple[str, int]] = {}
        self.known: set[psutil.Process] = set()

    def begin(self) -> int:
        """The worker starts the runtime itself for each cell, so that there is one to leave behind."""
        house, port = self.installation, free_port()
        house.manage("migrate", "-v", "0")
        command = [sys.executable, "-m", "benchmarks.simulator", "--port", "{port}", "--active", "{setting}"]
        write_profile(house, "simulator", command, port=port, context=4096)
        words = DRAW_MANAGED.format(
            kind="simulator", endpoint=f"http://127.0.0.1:{port}", model="headroom-simulated-demo",
            settings=tuple(range(1, CELLS // REPEATS + 1)), window_s=WINDOW_S,
        )  # fmt: skip
        grid = int(house.script(words.replace("managed=True", f"managed=True, repeats={REPEATS}")))
        self.worker = house.start_worker()
        self.port = port
        return grid

    def family(self) -> list[psutil.Process]:
        """The worker and all below it."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return [psutil.Process(self.worker.pid), *psutil.Process(self.worker.pid).children(recursive=True)]
        return []

    def engines(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            return engines_under(self.worker.pid)
        return []

    def mend(self) -> None:
        """What a person or a service manager does: start again what is gone."""
        if self.worker.poll() is not None:
            self.worker = self.installation.start_worker()

    def is_over(self) -> bool:
        """Also keeps what is finished, which must never be seen otherwise again."""
        for cell, sha256, attempt in self.installation.rows(FINISHED):
            before = self.seen.setdefault(cell, (sha256, attempt))
            assert before == (sha256, attempt), f"cell {cell} was finished and is another now"
        found = self.installation.rows("SELECT status FROM benchmarks_grid")[0][0]
        assert found in ("authorized", "running", "measured"), self.installation.rows(EVERY)
        return bool(found == "measured")


def _kill(processes: list[psutil.Process], how: int = signal.SIGKILL) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(how)


def the_worker(house: House, _rng: random.Random) -> None:
    engines = house.engines()
    _kill(house.family()[:1])
    house.worker.wait()
    _, alive = psutil.wait_procs(engines, timeout=5)
    assert not alive, "the engine outlived its worker by five seconds"


def the_worker_asked(house: House, _rng: random.Random) -> None:
    """SIGTERM lets a worker finish its cell; a person who does not wait asks again."""
    for _ in range(2):
        _kill(house.family()[:1], signal.SIGTERM)
        with contextlib.suppress(psutil.TimeoutExpired):
            psutil.Process(house.worker.pid).wait(AWAY_S) if house.worker.poll() is None else None
    the_worker(house, _rng)


def a_child(house: House, rng: random.Random) -> None:
    """Pool, scheduler, engine, the runtime or its keeper, while the target is loaded."""
    _there("the load engine", house.engines)
    _kill([rng.choice(_there("a child", lambda: house.family()[1:]))])


def the_engine(house: House, _rng: random.Random) -> None:
    _kill(_there("the load engine", house.engines))


def _there(what: str, look: Callable[[], list[psutil.Process]]) -> list[psutil.Process]:
    """A kill of nothing is none."""
    found: list[psutil.Process] = wait_for(what, look, every_s=0.05)
    return found


def a_frozen_worker(house: House, _rng: random.Random) -> None:
    """It is silent, another takes over, and then it goes on as if nothing had been."""
    frozen, first = house.family(), house.worker
    _kill(frozen, signal.SIGSTOP)
    house.worker = house.installation.start_worker()
    time.sleep(FROZEN_S)
    _kill(frozen, signal.SIGCONT)
    time.sleep(AWAY_S)
    _kill([psutil.Process(first.pid)] if first.poll() is None else [], signal.SIGTERM)


def the_broker(house: House, _rng: random.Random) -> None:
    assert house.redis is not None
    house.redis.kill()
    time.sleep(AWAY_S)
    house.redis.start()


def the_database(house: House, _rng: random.Random) -> None:
    assert house.postgres is not None
    house.postgres.kill()
    time.sleep(AWAY_S)
    house.postgres.start()


def the_power(house: House, _rng: random.Random) -> None:
    _kill(house.family())
    house.worker.wait()
    for service in (house.postgres, house.redis):
        if service is not None:
            service.kill()
    time.sleep(AWAY_S)
    for service in (house.postgres, house.redis):
        if service is not None:
            service.start()


Fault = Callable[[House, random.Random], None]
OF_FILES: tuple[Fault, ...] = (the_worker, a_child, the_engine, the_worker_asked, a_frozen_worker, the_power)
OF_SERVICES: tuple[Fault, ...] = (
    the_broker, the_database, a_frozen_worker, the_power, the_worker, a_child, the_engine, the_worker_asked
)  # fmt: skip
"""The first four of both are all that there are, so that four of each miss none."""


def torment(house: House, times: int, rng: random.Random) -> str:
    """What was seen, in one line. Raises AssertionError where a claim does not hold."""
    grid, faults = house.begin(), OF_SERVICES if house.postgres else OF_FILES
    wait_for("the first cell to run", lambda: house.installation.rows("SELECT 1 FROM benchmarks_attempt"))
    order = list(itertools.islice(itertools.cycle(faults), times))
    rng.shuffle(order)
    for number, fault in enumerate(order, start=1):
        wait_for("the load engine", lambda: house.engines() or _mended(house), every_s=0.05)
        time.sleep(rng.uniform(0.0, LATEST_S))
        assert not house.is_over(), f"the grid was over before kill {number} of {times}: ask for fewer"
        house.known |= set(house.family())
        fault(house, rng)
        house.mend()
        if number % IN_A_ROW == 0:  # a cell that was interrupted five times in a row waits for a person
            wait_for("a cell to be finished", functools.partial(_got_further, house, len(house.seen)), most_s=WITHIN_S)
    wait_for("the grid to finish", lambda: _mended(house), most_s=WITHIN_S)
    house.known |= set(house.family())
    counted = Counter(fault.__name__.replace("_", " ") for fault in order)
    return f"{times} kills ({', '.join(f'{n} x {what}' for what, n in sorted(counted.items()))}): {proved(house, grid)}"


def _got_further(house: House, than: int) -> bool:
    return _mended(house) or len(house.seen) > than


def _mended(house: House) -> bool:
    house.mend()
    return house.is_over()


def proved(house: House, grid: int) -> str:
    proof = house.installation.script(PROOF.format(grid=grid))
    cells = proof["cells"]
    assert len(cells) == CELLS, f"{len(cells)} cells of {CELLS}"
    for cell in cells:
        assert (cell["digest"], cell["summary"], cell["measured"]) == (True, True, 1), cell
        assert cell["requests"] == cell["kept"] > 0, cell
    assert proof["broken"] == 0, "the audit chain is broken"
    once = house.installation.rows("SELECT COUNT(*), COUNT(DISTINCT cell_id) FROM benchmarks_evidence")
    assert once == [(CELLS, CELLS)], once
    left = house.installation.rows("SELECT COUNT(*) FROM benchmarks_supersededevidence")[0][0]
    attempts = sum(cell["attempts"] for cell in cells)
    return f"{CELLS} cells measured once in {attempts} attempts, {left} late ones kept aside, every digest holds"


def left_behind(house: House) -> list[str]:
    """Command lines of processes that were the worker's or its children's, or use the runtime's port, and still run."""
    runtime = {"benchmarks.simulator", str(house.port)}
    found = {p for p in house.known if p.is_running()}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            found |= {process} if runtime <= set(process.cmdline()) else set()
    return [" ".join(process.cmdline()) for process in found if process.status() != psutil.STATUS_ZOMBIE]


@contextlib.contextmanager
def _services(wanted: bool) -> Iterator[tuple[Postgres | None, Redis | None]]:
    if not wanted:
        yield None, None
        return
    with folder() as home:
        postgres, redis = Postgres(home), Redis(home)
        postgres.start()
        redis.start()
        try:
            yield postgres, redis
        finally:
            redis.stop()
            postgres.stop()


def once(name: str, times: int, seed: int) -> str:
    with (
        tempfile.TemporaryDirectory(prefix="headroom-chaos-") as home,
        _services(name == "services") as (postgres, redis),
    ):
        house = House(Path(home), postgres, redis)
        try:
            told = torment(house, times, random.Random(seed))
        finally:
            house.installation.close()
        assert not (left := left_behind(house)), f"left behind: {left}"
        return told


def main() -> int:
    times, seed = int(os.environ.get("CHAOS") or 8), int(os.environ.get("CHAOS_SEED") or 1)
    where = [name for name in ("files", "services") if name in os.environ.get("CHAOS_ON", "files services").split()]
    failed = not where
    for name in where:
        began = time.monotonic()
        try:
            told = once(name, times, seed)
        except (AssertionError, ServiceError) as broken:
            failed, told = True, f"BROKEN: {broken}"
        words = {"files": "SQLite and files", "services": "PostgreSQL and Redis"}[name]
        print(f"{words}, seed {seed}, {time.monotonic() - began:.0f} s: {told}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
