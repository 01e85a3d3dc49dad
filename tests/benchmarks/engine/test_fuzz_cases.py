"""What `make fuzz` feeds the engine is what it says: the same for a seed, cut without loss, and right where unharmed."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest
import uvloop

from benchmarks.engine.dialects.table import DIALECTS
from benchmarks.engine.terms import Outcome
from scripts import fuzz_answers as answers
from scripts.fuzz import Tally, fuzz, pure_case
from scripts.fuzz_wire import Case, Wire

LOOPS = {"asyncio": None, "uvloop": uvloop.new_event_loop}


@pytest.mark.parametrize("most", [1, 2, 300])
@pytest.mark.parametrize("length", [0, 1, 299, 5000])
def test_pieces_are_the_bytes_and_no_more_than_allowed(length, most):
    data = random.Random(length).randbytes(length)
    for seed in range(30):
        cut = answers.pieces(random.Random(seed), data, most=most)
        assert b"".join(cut) == data
        assert len(cut) <= most
        assert all(cut)


def test_the_same_seed_draws_the_same_cases_and_another_draws_others():
    seeds = answers.bodies()
    first, same, other = ([Case.draw(random.Random(f"{s} {n}"), seeds) for n in range(50)] for s in (1, 1, 2))
    assert first == same
    assert sum(a == b for a, b in zip(first, other, strict=True)) == 0
    assert {case.dialect for case in first} == set(DIALECTS)
    assert {answer.end for case in first for answer in case.answers} >= {answers.End.CLOSE, answers.End.NEXT}
    assert all(case.recut is None or case.recut.data == case.answers[0].data for case in first)


def test_recorded_bodies_are_taken_out_of_their_frames():
    raw = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n"
    assert answers.body_of(raw) == b"abc0123456789"
    assert answers.body_of(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}") == b"{}"
    assert answers.body_of(b"data: a\n\n") == b"data: a\n\n"
    assert all(answers.bodies()[dialect] for dialect in DIALECTS)


@pytest.mark.parametrize("loop_factory", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_an_unharmed_answer_in_any_frame_and_any_cut_is_a_success(dialect, loop_factory):
    body, outcomes = answers.MADE[dialect][0], Counter()
    items = 2 if dialect == "openai_embeddings" else 1

    async def play(seed: int) -> str:
        rng = random.Random(seed)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\n" % (answers.TYPES[3 if items == 2 else 0])
        data = head + b"transfer-encoding: chunked\r\n\r\n" + answers.chunked(rng, body)
        first, again = (answers.Served(answers.pieces(rng, data, most=300), answers.End.CLOSE) for _ in range(2))
        return await Wire(outcomes).broken(Case(dialect, "words", items, (first,), again))

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert {runner.run(play(seed)) for seed in range(10)} == {""}
    assert outcomes == {Outcome.OK: 10 * items}


def test_a_case_that_breaks_a_claim_is_kept_with_its_reason(tmp_path):
    tally = Tally(tmp_path / "fuzz")
    tally.note("pure", b"fine", "")
    assert not (tmp_path / "fuzz").exists()
    tally.note("wire", b"bad", "BrokenError: it did")
    assert (tmp_path / "fuzz" / "wire-1.bin").read_bytes() == b"bad"
    assert (tmp_path / "fuzz" / "wire-1.txt").read_text() == "BrokenError: it did"
    assert (tally.crashes, tally.cases.total()) == (1, 2)


def test_a_thousand_pure_cases_and_some_on_the_wire_break_nothing(tmp_path):
    seeds = answers.bodies()
    for number in range(1000):
        data, why = pure_case(random.Random(f"tests {number}"), seeds)
        assert why == "", data
    tally = Tally(tmp_path)
    asyncio.run(fuzz(tally, until_s=0.0, seed="tests"))  # no time at all is no case
    assert tally.cases.total() == 0

    async def on_the_wire() -> list[str]:
        wire = Wire(Counter())
        cases = [Case.draw(random.Random(f"tests {number}"), seeds) for number in range(100)]
        return [await wire.broken(case) for case in cases]

    assert set(asyncio.run(on_the_wire())) == {""}
