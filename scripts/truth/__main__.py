"""`make truth` (TRUTH=10 make truth): random grids, the judge's word on each, and whether it is true.

Right means: the chosen setting, what limits the next one up, and each of the seven diagnoses. Exit 0 only where at least
95 in a hundred are right in everything and none is wrong about the setting without calling itself indicative.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from scripts.truth.cases import draw
from scripts.truth.judging import Result, judged, told

GRIDS = 100
RIGHT_SHARE = 0.95
HEAD = (
    f"{'grid':>4} {'kind':<12} {'true':<9} {'chosen':<7} {'setting':<11} {'limited by':<34} {'diagnoses':<10} requests"
)


def one(number: int) -> Result:
    return judged(draw(number))[0]


def line(result: Result) -> str:
    state = ("right" if result.choice_right else "WRONG") + (" (ind.)" if result.indicative else "")
    cause = result.cause + ("" if result.cause_right else " WRONG")
    chosen = "none" if result.chosen is None else str(result.chosen)
    right = f"{sum(result.findings_right)} of 7"
    return (
        f"{result.number:>4} {result.kind:<12} {told(result.may_choose):<9} {chosen:<7} {state:<11} {cause:<34} {right:<10} "
        f"{result.requests:>8,}"
    )


def totals(results: Sequence[Result]) -> list[str]:
    n = len(results)
    settings, causes = sum(r.choice_right for r in results), sum(r.cause_right for r in results)
    diagnoses = [sum(r.findings_right[place] for r in results) for place in range(7)]
    confident = [r.number for r in results if not r.choice_right and not r.indicative]
    return [
        f"The setting is right in {settings} of {n}, what limits the next one up in {causes} of {n}.",
        f"The seven diagnoses are right in {', '.join(map(str, diagnoses))} of {n}.",
        f"Wrong and confident: {', '.join(map(str, confident)) or 'none'}.",
    ]


def holds(results: Sequence[Result]) -> bool:
    """At least 95 in a hundred in each of the nine, and none wrong that is confident."""
    least = math.ceil(RIGHT_SHARE * len(results))
    counts = [sum(r.choice_right for r in results), sum(r.cause_right for r in results)]
    counts += [sum(r.findings_right[place] for r in results) for place in range(7)]
    return min(counts) >= least and all(r.choice_right or r.indicative for r in results)


def main() -> int:
    count = int(os.environ.get("TRUTH") or GRIDS)
    began = time.monotonic()
    print(HEAD)
    results = []
    with ProcessPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        for result in pool.map(one, range(count)):
            results.append(result)
            print(line(result), flush=True)
            for words in result.wrong:
                print(f"       {words}")
    print("\n".join(totals(results)))
    print(f"{count} grids, {sum(r.requests for r in results):,} requests, {time.monotonic() - began:.0f} s")
    return 0 if holds(results) else 1


if __name__ == "__main__":
    sys.exit(main())
