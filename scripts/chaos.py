"""`make chaos`: kills a worker in the middle of a cell, again and again, each time in an installation of its own.

    CHAOS=8 CHAOS_SEED=1 python -m scripts.chaos

The moment of the kill within the cell is drawn by the seed. Each time the claims of the test hold: the engine is gone
within five seconds, another worker finishes the grid, and no finished cell is run twice.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.runs.installation import Installation
from tests.benchmarks.runs.killing import kill_a_worker_in_mid_cell_and_finish

LATEST_S = 3.0  # the window of a cell is four seconds


def once(after_s: float) -> float:
    """Seconds that the engine outlived its worker; raises AssertionError when a claim does not hold."""
    with tempfile.TemporaryDirectory(prefix="headroom-chaos-") as folder:
        house = Installation(Path(folder))
        try:
            return kill_a_worker_in_mid_cell_and_finish(house, after_s=after_s)
        finally:
            house.close()


def main() -> int:
    times, seed = int(os.environ.get("CHAOS") or 8), int(os.environ.get("CHAOS_SEED") or 1)
    rng, outlived, failed = random.Random(seed), [], 0
    for number in range(1, times + 1):
        after_s, began = rng.uniform(0, LATEST_S), time.monotonic()
        try:
            outlived.append(once(after_s))
            told = f"engine gone after {outlived[-1]:.2f} s, grid finished"
        except AssertionError as broken:
            failed += 1
            told = f"BROKEN: {broken}"
        took = time.monotonic() - began
        print(f"{number} of {times}: killed {after_s:.1f} s into a cell: {told} ({took:.0f} s)", flush=True)
    longest = f", engine gone after {max(outlived):.2f} s at the latest" if outlived else ""
    print(f"{times - failed} of {times} kills lost one attempt and no finished cell (seed {seed}){longest}")
    return 1 if failed or not times else 0


if __name__ == "__main__":
    sys.exit(main())
