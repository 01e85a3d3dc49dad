"""A disk without room: a cell does not start on it, and one that fills up under a cell costs that attempt alone.

The full disk is a real one: a file system in memory that only the test's own processes see.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks import disk
from benchmarks.engine.load import Constant, OpenLoop, Replay, StaticBatch, Steps
from benchmarks.engine.plan import CellPlan, ClassPlan, Fixed
from tests.benchmarks.runs.installation import DRAW, MOST_WAIT_S, PROOF, PYTHON, ROOT, Installation

PLAN = CellPlan(
    label="a cell", base_url="http://127.0.0.1:1", model="m", runtime_kind="other", offered_concurrency=4, class_name="short",
    classes=(ClassPlan(name="short", weight=1, prompt_tokens=Fixed(8), output_tokens=Fixed(100)),), seed=1, warmup_s=0,
    window_s=10, max_requests=10_000_000, max_tokens=10**12, max_wall_s=60,
)  # fmt: skip
EACH = disk.COPIES * (disk.RECORD_BYTES + 100 * disk.TOKEN_BYTES)


@pytest.mark.parametrize(
    ("changes", "requests"),
    [
        ({}, 4 * 10 * disk.ANSWERS_PER_S),
        ({"warmup_s": 10.0}, 4 * 20 * disk.ANSWERS_PER_S),
        ({"max_requests": 7}, 7),
        ({"load": StaticBatch(items=50, batch_size=2, tries=3)}, 150),
        ({"load": OpenLoop(arrivals=Constant(rate_per_s=3.0))}, 60),
        ({"load": OpenLoop(arrivals=Steps(steps=((1.0, 2.0), (1.0, 5.0))))}, 100),
        ({"load": OpenLoop(arrivals=Replay(offsets_s=(0.0, 1.0, 2.0)))}, 30),
    ],
)
def test_what_a_cell_may_write_is_estimated_from_its_plan(changes: dict[str, Any], requests: int) -> None:
    assert disk.needed_bytes(msgspec.structs.replace(PLAN, **changes)) == disk.LEAST_BYTES + requests * EACH


def test_an_authorised_number_of_tokens_bounds_the_estimate() -> None:
    small = msgspec.structs.replace(PLAN, max_requests=2, max_tokens=10)
    tokens_of_one, of_all = 10 * disk.TOKEN_BYTES, 10 * disk.TOKEN_BYTES
    most = min(2 * (disk.RECORD_BYTES + tokens_of_one), 2 * disk.RECORD_BYTES + of_all)
    assert disk.needed_bytes(small) == disk.LEAST_BYTES + disk.COPIES * most


def test_a_host_with_room_refuses_nothing_and_says_nothing(settings: Any, tmp_path: Path) -> None:
    settings.VAR = tmp_path / "not" / "there" / "yet"
    assert (disk.refusal(PLAN), disk.full_words()) == (None, "")


def test_a_plan_that_no_disk_can_hold_is_refused_in_figures(settings: Any, tmp_path: Path) -> None:
    settings.VAR = tmp_path
    words = disk.refusal(
        msgspec.structs.replace(PLAN, load=StaticBatch(items=10**12, batch_size=1), max_requests=10**15)
    )
    assert words is not None
    assert f"free under {tmp_path}; the cell may need " in words
    assert words.endswith("Free some room, then resume the grid.")


RUN = """
import threading, time
from pathlib import Path
from django.conf import settings
from benchmarks import claims, probe, worker
from benchmarks.models import Attempt, Cell, Grid
cells = Path(settings.VAR) / "cells"

def fill():
    while not any(log.stat().st_size > 300 for log in cells.glob("*/log")):
        time.sleep(0.01)
    with (cells / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass

def step():
    taken = claims.claim_next_cell(hardware_slugs=[{host!r}], worker=probe.claimant())
    worker.run_cell(taken)
    attempt = Attempt.objects.order_by("pk").last()
    return [Cell.objects.get(pk=taken.cell_id).status, attempt.outcome, attempt.reason]

answer = [step()]
filling = threading.Thread(target=fill)
filling.start()
answer.append(step())
filling.join()
answer.append(step())
answer.append(Grid.objects.get().status)
(cells / "filler").unlink()
"""


@pytest.fixture
def house(tmp_path: Path):
    made = Installation(tmp_path)
    yield made
    made.close()


def inside_a_small_disk(house: Installation, megabytes: int, body: str) -> Any:
    """Runs it where the folder of running cells is a file system of so much room."""
    (house.folder / "cells").mkdir(exist_ok=True)
    text = f"import django, json\ndjango.setup()\nanswer = None\n{body}\nprint('ANSWER', json.dumps(answer))\n"
    mount = f'mount -t tmpfs -o size={megabytes}m tmpfs "$HEADROOM_VAR/cells" && exec "$0" "$@"'
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", mount, PYTHON, "-c", text], cwd=ROOT, env=house.environment, capture_output=True,
        text=True, timeout=MOST_WAIT_S, check=False,
    )  # fmt: skip
    if done.returncode and "ANSWER" not in done.stdout and ("unshare" in done.stderr or "mount:" in done.stderr):
        pytest.skip(f"no file system of one's own here: {done.stderr.strip()[-100:]}")
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.rpartition("ANSWER ")[2])


@pytest.mark.slow
@pytest.mark.needs("unshare", "apt install util-linux")
def test_a_disk_that_fills_up_under_a_cell_costs_that_attempt_and_the_next_cell_does_not_start(house) -> None:
    house.migrate()
    drawn = house.script(DRAW.format(endpoint=house.start_simulator(), settings=(1, 2), window_s=8.0))
    first, second, third, status = inside_a_small_disk(house, 300, RUN.format(host=drawn["host"]))
    assert first[:2] == ["measured", "measured"]
    assert second[:2] == ["queued", "interrupted"]
    assert second[2].startswith("This host's disk is full (0.0 MiB free under ")
    assert third[:2] == ["not_run", "stopped"]
    assert third[2].startswith("This host's disk has 0 MiB free under ")
    assert status == "stopped"
    proof = house.script(PROOF.format(grid=drawn["grid"]).replace('order_by("position")', 'filter(status="measured")'))
    assert [(cell["digest"], cell["summary"]) for cell in proof["cells"]] == [(True, True)]
    assert proof["broken"] == 0
