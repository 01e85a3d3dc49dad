"""A static batch whose engine is killed again and again at random moments, and what its ledger says then.

`python -m tests.benchmarks.engine.loads.kills --items 2000 --kills 20` runs the whole claim and prints what it saw.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine.load import StaticBatch
from benchmarks.engine.plan import CellPlan
from benchmarks.engine.static_batch import ledger_of
from benchmarks.engine.terms import Outcome
from tests.benchmarks.engine.loads.running import MODEL, NO_ERROR_LIMIT, Left, finish_program, simulator, start_program
from tests.benchmarks.engine.plans import a_plan

FAULTS = ("http_500=0.04", "http_503=0.02", "truncated=0.03", "reset=0.03", "malformed=0.02")


@dataclass(frozen=True)
class Killed:
    """`kills` that hit a running engine, and how many items had ended at each."""

    left: Left
    kills: int
    ended_at: tuple[int, ...]
    wall_s: float


def batch_plan(url: str, items: int, **changes) -> CellPlan:
    load = StaticBatch(items=items, batch_size=10, tries=6)
    defaults = {
        "base_url": url, "model": MODEL, "load": load, "offered_concurrency": 2, "max_requests": 20 * items,
        "max_tokens": 10**9, "max_wall_s": 600.0, "window_s": 600.0, "guard": NO_ERROR_LIMIT, "idle_timeout_s": 1.0,
    }  # fmt: skip
    return a_plan(**(defaults | changes))


def killed_again_and_again(plan: CellPlan, folder: Path, *, kills: int, seed: int, most_s: float) -> Killed:
    """SIGKILL to the engine at a random moment of its first `most_s` seconds, `kills` times; then it may finish."""
    dice, done, began_s = random.Random(seed), 0, time.monotonic()
    ended: list[int] = []
    while done < kills:
        child = start_program(plan, folder, "--resume")
        time.sleep(dice.uniform(0.0, most_s))
        if child.poll() is not None:
            raise AssertionError(
                f"the batch ended before kill {done + 1} of {kills}: {finish_program(child, folder)[1]}"
            )
        child.kill()
        left = finish_program(child, folder)[2]
        done += 1
        ended.append(len(ledger_of(left.frames, tries=plan.load.tries, wall_ns=0, monotonic_ns=0).ended))
    code, words, left = finish_program(start_program(plan, folder, "--resume"), folder, timeout_s=600)
    assert (code, words) == (0, "")
    return Killed(left, done, tuple(ended), time.monotonic() - began_s)


def faults_of(left: Left) -> list[str]:
    """What is wrong with a finished ledger; empty where each item is in it once."""
    plan, wrong = left.columns.plan, []
    load = plan.load
    assert isinstance(load, StaticBatch)
    tries: dict[int, list[Outcome]] = {}
    for record in left.records:
        found = tries.setdefault(record.index, [])
        found.append(record.outcome)
        if record.attempt != len(found):
            wrong.append(f"item {record.index}: attempt {record.attempt} is record {len(found)}")
    if sorted(tries) != list(range(load.items)):
        wrong.append(f"{len(tries)} items of {load.items}")
    for index, outcomes in tries.items():
        if outcomes.count(Outcome.OK) > 1 or Outcome.OK in outcomes[:-1]:
            wrong.append(f"item {index} was asked again after it had succeeded: {outcomes}")
        if outcomes[-1] is not Outcome.OK and len(outcomes) < load.tries:
            wrong.append(f"item {index} was given up after {len(outcomes)} of {load.tries} tries")
    numbers = [batch.batch for batch in left.batches]
    if len(set(numbers)) != len(numbers):
        wrong.append("two rounds of one number")
    if not left.columns.end.complete or not left.summary.conserved:
        wrong.append(f"end: {left.columns.end}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dialect", default="openai_chat")
    parser.add_argument("--most-s", type=float, default=1.5)
    options = parser.parse_args()
    faults = [word for fault in FAULTS for word in ("--fault", fault)]
    with tempfile.TemporaryDirectory() as folder, simulator(*faults) as url:
        stream = options.dialect == "openai_chat"
        plan = batch_plan(url, options.items, dialect=options.dialect, stream=stream)
        killed = killed_again_and_again(
            plan, Path(folder), kills=options.kills, seed=options.seed, most_s=options.most_s
        )  # fmt: skip
    found = killed.left.summary.static_batch
    print(f"{killed.kills} kills in {killed.wall_s:.0f} s; items ended at each: {killed.ended_at}")
    print(f"records {len(killed.left.records)}, {dict(Counter(r.outcome.value for r in killed.left.records))}")
    print(f"{found}")
    wrong = faults_of(killed.left)
    print("\n".join(wrong) or f"each of {options.items} items is in the ledger once")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
