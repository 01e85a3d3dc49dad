"""Latency gates on both sides of their edges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from benchmarks.engine.plan import ClassLimits, GridLimits
from benchmarks.stats.quantiles import tail
from capacity.assessment import latency
from capacity.assessment.facts import CellFact
from capacity.assessment.verdict import Answer, Gate
from tests.capacity import synthetic as made


def gate_of(cells: Sequence[CellFact], percentile: float = 95.0) -> Gate:
    (gate,) = latency.gates(made.limits(percentile), cells)
    return gate


def of(values: Sequence[float], failed: int = 0, *, cell_id: int = 1) -> CellFact:
    part = made.class_summary("short", values, failed=failed)
    return made.cell(cell_id, 2, "short", made.summary(2, "short", [part]))


@pytest.mark.parametrize(
    ("values", "failed", "answer", "indicative"),
    [
        ([0.5] * 59, 0, Answer.HOLDS, False),  # 59 without a miss prove p95 at 5 %
        ([0.5] * 58, 0, Answer.HOLDS, True),  # one fewer does not
        ([0.5] * 92 + [2.0], 0, Answer.HOLDS, False),  # 93 with one miss
        ([0.5] * 91 + [2.0], 0, Answer.HOLDS, True),
        ([0.5] * 19 + [2.0], 0, Answer.HOLDS, True),  # p95 of 20 is the 19th
        ([0.5] * 18 + [2.0] * 2, 0, Answer.FAILS, False),
        ([1.0] * 59, 0, Answer.HOLDS, False),  # at the limit is inside it
        ([1.0001] * 59, 0, Answer.FAILS, False),
        ([0.5] * 19, 0, Answer.HOLDS, True),  # too few for a p95, but every one was inside
        ([0.5] * 18 + [2.0], 0, Answer.NOT_TESTED, False),  # too few, and one was not
        ([0.5] * 92, 1, Answer.HOLDS, False),  # a failure is a miss
        ([0.5] * 56, 4, Answer.FAILS, False),  # p95 falls among the failures
        ([], 40, Answer.FAILS, False),
        ([], 0, Answer.NOT_TESTED, False),
    ],
)
def test_a_percentile_holds_fails_or_needs_more(
    values: list[float], failed: int, answer: Answer, indicative: bool
) -> None:
    gate = gate_of([of(values, failed)])
    assert (gate.answer, gate.indicative) == (answer, indicative), gate.reason


@pytest.mark.parametrize(("n", "needs"), [(20, 39), (58, 1), (59, 0)])
def test_an_indicative_gate_says_how_many_requests_it_needs(n: int, needs: int) -> None:
    gate = gate_of([of([0.5] * n)])
    assert gate.needs == needs
    assert (f"needs {needs} more" in gate.reason) == (needs > 0)


@pytest.mark.parametrize(("percentile", "number"), [(50, 50), (90, 95), (95, 95), (96, 99), (99, 99)])
def test_the_next_kept_percentile_above_the_asked_one_decides(percentile: float, number: int) -> None:
    tail = made.class_summary("short", made.latencies(400, 0.5)).e2e_s
    found = latency.at_percentile(tail, percentile)
    assert found is not None
    assert found[1] == number


def test_a_percentile_above_the_kept_ones_is_not_tested() -> None:
    assert gate_of([of([0.5] * 400)], 99.9).answer == Answer.NOT_TESTED


def test_the_worst_repeat_decides_and_percentiles_are_not_averaged() -> None:
    gate = gate_of([of([0.1] * 60), of([1.2] * 60, cell_id=2)])
    assert gate.answer == Answer.FAILS
    assert gate.cells == (1, 2)


def test_every_limit_of_a_class_has_its_own_gate_and_the_row_takes_the_tightest() -> None:
    asked = GridLimits(classes={"short": ClassLimits(e2e_s=1.0, ttft_s=0.05, tpot_s=1.0)})
    cells = [of([0.5] * 100)]
    answers = {gate.key: gate.answer for gate in latency.gates(asked, cells)}
    assert answers == {
        "latency short e2e_s": Answer.HOLDS,
        "latency short ttft_s": Answer.FAILS,  # 0.2 x 0.5 s
        "latency short tpot_s": Answer.HOLDS,
    }
    (row,) = latency.rows(asked, cells)
    assert row.limit_name == "time to first token"
    assert row.ratio == pytest.approx(2.0)


def test_a_class_in_the_mix_is_judged_beside_the_class_alone() -> None:
    alone = of([0.2] * 100)
    parts = [made.class_summary("short", [1.5] * 100), made.class_summary("long", [4.0] * 100)]
    mix = made.cell(2, 2, "mixed", made.summary(2, "mixed", parts))
    answers = {gate.title: gate.answer for gate in latency.gates(made.limits(), [alone, mix])}
    assert answers == {
        "short: end to end": Answer.HOLDS,
        "short in the mix: end to end": Answer.FAILS,
        "long in the mix: end to end": Answer.HOLDS,
    }


def test_a_percentile_among_failures_is_said_in_words() -> None:
    assert "falls among failed requests" in gate_of([of([0.5] * 10, 40)]).reason


@pytest.mark.parametrize(
    ("key", "flags", "words", "remedy"),
    [
        ("ttft_s", {"buffered": True}, "were held back and came at once", "Switch response buffering off"),
        ("tpot_s", {"buffered": True}, "were held back and came at once", "Switch response buffering off"),
        (
            "tpot_s",
            {"mixed_token_sources": True},
            "counted in more than one way",
            "Let the server or one tokeniser count",
        ),
        (
            "ttft_s",
            {"mixed_token_sources": True},
            "none has a time to its first token",
            "Judge this class by another limit",
        ),
        ("tpot_s", {}, "has a time per output token", "Judge this class by another limit"),
    ],
)
def test_times_that_nobody_saw_are_not_graded_and_the_reason_says_why(
    key: str, flags: dict[str, bool], words: str, remedy: str
) -> None:
    nothing = tail(np.zeros(0))
    part = replace(made.class_summary("short", [0.5] * 60), ttft_s=nothing, tpot_s=nothing, **flags)
    limits = GridLimits(percentile=95.0, classes={"short": ClassLimits(**{key: 1.0})})
    (gate,) = latency.gates(limits, [made.cell(1, 2, "short", made.summary(2, "short", [part]))])
    assert (gate.answer, words in gate.reason, gate.remedy.startswith(remedy)) == (Answer.NOT_TESTED, True, True)
