"""`make fuzz`: seeded mutations of recorded streams through the parser of events and the whole answer machine.

    FUZZ_S=60 FUZZ_SEED=1 python -m scripts.fuzz

Whatever a server sends, an answer ends in exactly one outcome, events do not depend on how the network cut the bytes,
and memory does not grow. A case that breaks one of these is kept in var/fuzz/ and the exit code is 1.
"""

from __future__ import annotations

import os
import random
import resource
import sys
import time
import traceback
from array import array
from collections import Counter
from pathlib import Path

import msgspec

from benchmarks.engine.prompts import Prepared
from benchmarks.engine.sse import Event, Parser
from benchmarks.engine.terms import Outcome, Phase, RequestRecord
from benchmarks.engine.wire import Exchange, refusal
from scripts.stack import ROOT

STREAMS = ROOT / "tests" / "data" / "streams"
MOST_BYTES = 64 * 1024
MOST_GROWTH_MIB = 64.0
SETTLED_CASES = 2000  # allocator and interpreter have their working size by then
SNIPPETS = (
    b"\n\n", b"\r", b"\r\n", b"data: ", b"data:", b"event: error\n", b": c\n", b"[DONE]", b"\xef\xbb\xbf", b"\x00", b"\xff",
    b"\xe2\x80\xa8", b"null", b"{}", b"[]", b"{", b"}", b'"', b"\\ud800", b"1e999", b"-1", b"99999999999999999999",
    b'"finish_reason":"stop"', b'"finish_reason":7', b'"choices":[]', b'"choices":null', b'"content":""', b'"index":1',
    b'{"error":{"message":null}}', b'{"error":"queue full"}', b'"usage":{"completion_tokens":-5}', b'"usage":[]',
)  # fmt: skip
EXPECTED = {"words": "", "echo": "bebo teni", "sums": "42"}
ASKED = {
    task: Prepared(
        index=0,
        class_name="short",
        body=b"{}",
        intended_prompt_tokens=8,
        asked_output_tokens=4,
        task=task,
        expected=expected,
    )
    for task, expected in EXPECTED.items()
}


class BrokenError(Exception):
    """A claim that one mutated stream broke."""


def bodies() -> list[bytes]:
    """The recorded bodies, and each with its HTTP head and chunk sizes left in, which is a strange stream too."""
    found = []
    for path in sorted(STREAMS.iterdir()):
        raw = path.read_bytes()
        found += [raw, raw.partition(b"\r\n\r\n")[2] or raw]
    return found


def mutated(rng: random.Random, seeds: list[bytes]) -> bytes:
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 2, 3, 5, 8, 20))):
        at = rng.randrange(len(data) + 1)
        until = min(len(data), at + rng.choice((1, 2, 8, 64, 512)))
        match rng.randrange(7):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                del data[at:until]
            case 2:
                data[at:at] = rng.choice(SNIPPETS)
            case 3:
                data[at:until] = rng.choice(SNIPPETS)
            case 4:
                data[at:at] = data[at:until] * rng.choice((1, 2, 50))
            case 5:
                other = rng.choice(seeds)
                cut = rng.randrange(len(other) + 1)
                data[at:] = other[cut:]
            case _:
                del data[at:]
        del data[MOST_BYTES:]
    return bytes(data)


def pieces(rng: random.Random, data: bytes) -> list[bytes]:
    """The stream as a network would cut it."""
    longest = rng.choice((1, 3, 40, 1500, 65536))
    found, at = [], 0
    while at < len(data):
        step = rng.randint(1, longest)
        found.append(data[at : at + step])
        at += step
    return found


def as_stream(data: bytes, cut: list[bytes], asked: Prepared) -> RequestRecord:
    parser, exchange, t_ns = Parser(), Exchange(asked, 0), 0
    events: list[Event] = []
    for piece in cut:
        t_ns += 1_000_000
        for event in parser.feed(piece):
            events.append(event)
            exchange.answer.event(event, t_ns)
    exchange.answer.eof(t_ns)
    if events != Parser().feed(data):
        raise BrokenError("the events depend on how the stream was cut")
    return exchange.record(phase=Phase.WINDOW, slot=0)


def as_body(data: bytes, asked: Prepared) -> RequestRecord:
    exchange = Exchange(asked, 0)
    exchange.answer.whole_body(data, 1)
    return exchange.record(phase=Phase.WINDOW, slot=0)


def judge(record: RequestRecord) -> None:
    """What must hold for the record of any answer."""
    msgspec.json.encode(record)
    if record.outcome is Outcome.OK and not (record.finish_reason and record.t_end_ns is not None):
        raise BrokenError("ok without a finish_reason or an end")
    if record.outcome is Outcome.OK and record.valid is None:
        raise BrokenError("ok without a verdict on the answer")
    if record.outcome is not Outcome.OK and not record.detail:
        raise BrokenError(f"{record.outcome} without a word why")
    if any(gap < 0 for gap in array("I", record.gaps_us)):
        raise BrokenError("a gap below zero")


def one_case(rng: random.Random, seeds: list[bytes]) -> tuple[bytes, str]:
    """A mutated stream and what broke, with an empty text where nothing did."""
    data = mutated(rng, seeds)
    cut, asked = pieces(rng, data), ASKED[rng.choice(list(ASKED))]
    try:
        record = as_stream(data, cut, asked)
        judge(record)
        judge(as_body(data, asked))
        refusal(rng.choice((204, 302, 400, 429, 500, 503)), data, "")
    except Exception:  # noqa: BLE001 the person who fuzzes is told, with the case kept
        return data, traceback.format_exc()
    OUTCOMES[record.outcome] += 1
    return data, ""


OUTCOMES: Counter[Outcome] = Counter()


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def keep(folder: Path, number: int, data: bytes, why: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{number}.bin").write_bytes(data)
    (folder / f"{number}.txt").write_text(why)


def main() -> int:
    seconds, seed = float(os.environ.get("FUZZ_S") or 60), int(os.environ.get("FUZZ_SEED") or 1)
    rng, seeds = random.Random(seed), bodies()
    until = time.monotonic() + seconds
    cases, crashes, settled_mib = 0, 0, 0.0
    while time.monotonic() < until:
        data, why = one_case(rng, seeds)
        cases += 1
        if why:
            crashes += 1
            keep(ROOT / "var" / "fuzz", cases, data, why)
        if cases == SETTLED_CASES:
            settled_mib = peak_mib()
    grown = peak_mib() - settled_mib if settled_mib else 0.0
    told = ", ".join(f"{outcome} {n}" for outcome, n in OUTCOMES.most_common())
    print(f"{cases} cases in {seconds:g} s with seed {seed}: {crashes} crashes, peak memory {peak_mib():.0f} MiB")
    print(f"memory grew by {grown:.0f} MiB after the first {SETTLED_CASES} cases; outcomes: {told}")
    if crashes:
        print(f"headroom: the cases are in {ROOT / 'var' / 'fuzz'}", file=sys.stderr)
    if grown > MOST_GROWTH_MIB:
        print(f"headroom: memory grew by more than {MOST_GROWTH_MIB:.0f} MiB", file=sys.stderr)
    return 1 if crashes or grown > MOST_GROWTH_MIB else 0


if __name__ == "__main__":
    sys.exit(main())
