"""`make fuzz`: seeded mutations of answers through the parsers of events and through the whole answer machine.

    FUZZ_S=60 FUZZ_SEED=1 python -m scripts.fuzz

Two kinds of case take turns. *pure*: bytes through a parser, a dialect and an answer, some thousands a second. *wire*:
whole HTTP answers, in pieces, over a socket pair into the engine's own connection, slot and exchange, on asyncio's loop
and on uvloop's. Whatever a server sends, each item asked ends in exactly one outcome that the log and the summary can
hold, nothing reaches the loop's exception handler, nothing waits past the limits, the record does not depend on how the
network cut the bytes, and memory does not grow. A case that breaks one of these is kept in var/fuzz/ and the exit code
is 1.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from benchmarks.engine import ndjson, sse
from benchmarks.engine.answer import Answer
from benchmarks.engine.dialects.base import Dialect, Framing
from benchmarks.engine.dialects.table import DIALECTS
from benchmarks.engine.heads import refusal, retry_after_s
from benchmarks.engine.terms import Outcome
from scripts import fuzz_answers as answers
from scripts.fuzz_wire import BrokenError, Case, Wire
from scripts.stack import ROOT

MOST_GROWTH_MIB = 64.0
SETTLED_CASES = 2000  # allocator and interpreter have their working size by then
PURE_AT_ONCE, WIRE_AT_ONCE = 20, 8
NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
STATUSES = (204, 302, 400, 429, 500, 503)
OUTCOMES: Counter[Outcome] = Counter()


class Tally:
    """What was done so far, of each kind; broken cases are kept for whoever looks into them."""

    def __init__(self, folder: Path) -> None:
        self.cases: Counter[str] = Counter()
        self.crashes = 0
        self.settled_mib = 0.0
        self._folder = folder

    def note(self, kind: str, data: bytes, why: str) -> None:
        self.cases[kind] += 1
        if why:
            self.crashes += 1
            self._folder.mkdir(parents=True, exist_ok=True)
            name = f"{kind}-{self.cases[kind]}"
            (self._folder / f"{name}.bin").write_bytes(data)
            (self._folder / f"{name}.txt").write_text(why)
        if self.cases.total() == SETTLED_CASES:
            self.settled_mib = peak_mib()

    @property
    def grown_mib(self) -> float:
        return peak_mib() - self.settled_mib if self.settled_mib else 0.0


def heard(dialect: Dialect, cut: Sequence[bytes]) -> tuple[list[sse.Event], Answer]:
    """A stream in these pieces, a millisecond apart."""
    parser = sse.Parser() if dialect.FRAMING is Framing.SSE else ndjson.Parser()
    answer, events, t_ns = Answer(), [], 0
    for piece in cut:
        t_ns += 1_000_000
        for event in parser.feed(piece):
            events.append(event)
            dialect.event(answer, event.data, event.kind, t_ns)
    for event in parser.end():
        events.append(event)
        dialect.event(answer, event.data, event.kind, t_ns)
    answer.eof(t_ns)
    return events, answer


def judge(answer: Answer) -> Outcome:
    """What must hold of any answer."""
    outcome = answer.outcome()
    if answer.outcome() is not outcome:
        raise BrokenError("a second outcome")
    if (outcome is Outcome.OK) == bool(answer.detail):
        raise BrokenError(f"{outcome} with the words {answer.detail!r}")
    if list(answer.stamps) != sorted(answer.stamps):
        raise BrokenError("stamps out of order")
    return outcome


def pure_case(rng: random.Random, seeds: answers.Seeds) -> tuple[bytes, str]:
    """A mutated stream and what broke, with an empty text where nothing did."""
    dialect = rng.choice(tuple(DIALECTS.values()))
    data = answers.mutated(rng, seeds[dialect.NAME if rng.random() < 0.5 else answers.EVERY])
    try:
        events, answer = heard(dialect, answers.pieces(rng, data))
        whole_events, whole = heard(dialect, [data])
        said = (len(answer.stamps), answer.answer_text, answer.outcome(), answer.detail)
        if events != whole_events or said != (len(whole.stamps), whole.answer_text, whole.outcome(), whole.detail):
            raise BrokenError("the events depend on how the stream was cut")
        OUTCOMES[judge(answer)] += 1
        items = [Answer() for _ in range(rng.randint(1, 3) if dialect.LISTS else 1)]
        dialect.whole(items, data, 1)
        for item in items:
            judge(item)
        refusal(rng.choice(STATUSES), dialect.failure(data), "")
        wait_s = retry_after_s(data[:40], NOW)
        if wait_s is not None and not 0 <= wait_s < float("inf"):
            raise BrokenError(f"a wait of {wait_s} s")
    except Exception:  # noqa: BLE001 the person who fuzzes is told, with the case kept
        return data, traceback.format_exc()
    return data, ""


async def fuzz(tally: Tally, *, until_s: float, seed: str) -> None:
    """Both kinds in turns until the time is over."""
    seeds, wire, number = answers.bodies(), Wire(OUTCOMES), 0
    while time.monotonic() < until_s:
        number += 1
        rng = random.Random(f"{seed} {number}")
        for _ in range(PURE_AT_ONCE):
            tally.note("pure", *pure_case(rng, seeds))
        cases = [Case.draw(random.Random(f"{seed} {number} {n}"), seeds) for n in range(WIRE_AT_ONCE)]
        for case, why in zip(cases, await asyncio.gather(*map(wire.broken, cases)), strict=True):
            tally.note("wire", case.as_bytes(), why)


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> int:
    seconds, seed = float(os.environ.get("FUZZ_S") or 60), int(os.environ.get("FUZZ_SEED") or 1)
    tally, began_s = Tally(ROOT / "var" / "fuzz"), time.monotonic()
    for part, factory in enumerate((None, uvloop.new_event_loop), 1):
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(fuzz(tally, until_s=began_s + seconds * part / 2, seed=f"{seed} {part}"))
    told = ", ".join(f"{outcome} {n}" for outcome, n in OUTCOMES.most_common())
    kinds = ", ".join(f"{n} {kind}" for kind, n in tally.cases.items())
    print(f"{tally.cases.total()} cases ({kinds}) in {seconds:g} s with seed {seed}: {tally.crashes} crashes, "
          f"peak memory {peak_mib():.0f} MiB")  # fmt: skip
    print(f"memory grew by {tally.grown_mib:.0f} MiB after the first {SETTLED_CASES} cases; outcomes: {told}")
    if tally.crashes:
        print(f"headroom: the cases are in {ROOT / 'var' / 'fuzz'}", file=sys.stderr)
    if tally.grown_mib > MOST_GROWTH_MIB:
        print(f"headroom: memory grew by more than {MOST_GROWTH_MIB:.0f} MiB", file=sys.stderr)
    return 1 if tally.crashes or tally.grown_mib > MOST_GROWTH_MIB else 0


if __name__ == "__main__":
    sys.exit(main())
