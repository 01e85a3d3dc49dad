"""Latency gates on both sides of their edges: over all repeats together, and by the worst repeat where nothing was kept to
pool."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from benchmarks.engine.plan import ClassLimits, GridLimits
from benchmarks.stats.pools import pool
from benchmarks.stats.quantiles import tail
from capacity.assessment import latency
from capacity.assessment.facts import CellFact
from capacity.assessment.verdict import Answer, ClassRow, Gate
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


# ── all repeats together ───────────────────────────────────────────────────────────────────────────────────────────


def kept(*repeats: Sequence[float], failed: int = 0, r: float = 0.0, limit_s: float = 1.0) -> list[CellFact]:
    """One cell per repeat, with what it takes to pool them; failures are in the first. `r` is their correlation."""
    cells = []
    for number, values in enumerate(repeats, start=1):
        fell = failed if number == 1 else 0
        every = pool(np.array([*values, *([np.inf] * fell)]), limit_s)
        nothing = pool(np.zeros(0), None)
        pools = {"e2e_s": replace(every, autocorrelation=r, inefficiency=1.0), "ttft_s": nothing, "tpot_s": nothing}
        part = replace(made.class_summary("short", values, failed=fell), pools=pools)
        cells.append(made.cell(number, 2, "short", made.summary(2, "short", [part]), repeat=number))
    return cells


def row_of(cells: Sequence[CellFact]) -> ClassRow:
    (row,) = latency.rows(made.limits(), cells)
    return row


@pytest.mark.parametrize(
    ("values", "failed", "answer", "indicative"),
    [
        ([0.5] * 59, 0, Answer.HOLDS, False),
        ([0.5] * 58, 0, Answer.HOLDS, True),
        ([0.5] * 92 + [2.0], 0, Answer.HOLDS, False),
        ([0.5] * 91 + [2.0], 0, Answer.HOLDS, True),
        ([0.5] * 18 + [2.0] * 2, 0, Answer.FAILS, False),
        ([1.0] * 59, 0, Answer.HOLDS, False),
        ([1.0001] * 59, 0, Answer.FAILS, False),
        ([0.5] * 19, 0, Answer.HOLDS, True),
        ([0.5] * 18 + [2.0], 0, Answer.NOT_TESTED, False),
        ([0.5] * 92, 1, Answer.HOLDS, False),
        ([0.5] * 56, 4, Answer.FAILS, False),
        ([], 40, Answer.FAILS, False),
    ],
)
def test_one_repeat_of_independent_requests_is_judged_as_before(
    values: list[float], failed: int, answer: Answer, indicative: bool
) -> None:
    gate = gate_of(kept(values, failed=failed))
    assert (gate.answer, gate.indicative) == (answer, indicative), gate.reason


def test_repeats_that_are_each_too_short_prove_it_together() -> None:
    gate = gate_of(kept(*[[0.5] * 20] * 3))
    assert (gate.answer, gate.indicative, gate.needs) == (Answer.HOLDS, False, 0)
    assert gate.reason == (
        "p95 of short is 0.50 s, limit 1.00 s (n = 60 in 3 repeats); its upper bound of 0.50 s, by the number of requests, "
        "is under the limit too."
    )


def test_misses_of_all_repeats_count_together() -> None:
    two = [[0.5] * 40 + [2.0], [0.5] * 41, [0.5] * 41 + [2.0]]
    assert gate_of(kept(*two)).indicative is False  # 124 with two misses, were the repeats alike in their own p95
    assert gate_of(kept(two[0], two[1], two[2][1:])).indicative


def test_correlated_requests_need_more_of_them() -> None:
    gate = gate_of(kept([0.5] * 60, r=0.5))
    assert (gate.answer, gate.indicative, gate.needs) == (Answer.HOLDS, True, 117)
    assert "(n = 60, worth 20 independent ones)" in gate.reason
    assert "needs 117 more" in gate.reason
    assert not gate_of(kept([0.5] * 177, r=0.5)).indicative


def test_repeats_that_differ_leave_it_indicative_and_the_words_say_why() -> None:
    cells = kept(*[made.latencies(200, p95_s) for p95_s in (0.6, 0.75, 0.9)])
    gate = gate_of(cells)
    # mean 0.75, s = 0.15, t(2) = 2.920: 0.75 + 0.2529 = 1.00 s
    assert (gate.answer, gate.indicative, gate.needs) == (Answer.HOLDS, True, 0)
    assert "its upper bound is 1.00 s, by the spread of 3 repeats: indicative." in gate.reason
    assert gate.remedy.startswith("The repeats differ")
    row = row_of(cells)
    assert row.bound_words == "by the spread of 3 repeats"
    assert row.bound_s == pytest.approx(1.0029, abs=1e-4)
    assert row.spread_share == pytest.approx(0.2)


def test_one_bad_repeat_of_three_is_not_hidden_by_pooling() -> None:
    gate = gate_of(kept([0.2] * 400, [0.2] * 400, [0.2] * 40 + [1.5] * 5))
    assert (gate.answer, gate.indicative) == (Answer.HOLDS, True)
    assert "by the spread of 3 repeats" in gate.reason


def test_a_row_is_of_all_repeats_and_says_what_its_bound_covers() -> None:
    values = np.random.default_rng(2).permutation(np.linspace(0.2, 0.8, 300))
    row = row_of(kept(*np.split(values, 3)))
    assert (row.n, row.timed, row.repeats, row.n_effective) == (300, 300, 3, 300)
    assert row.p95_s == pytest.approx(np.sort(values)[284], abs=1e-6)
    assert row.p99_s is not None  # of 300; each repeat alone has 100
    assert row.p95_lower_s is not None
    assert row.p95_upper_s is not None
    assert row.p95_lower_s <= row.p95_s <= row.p95_upper_s
    assert row_of(kept(values)).bound_words == "by the number of requests; one repeat shows no spread"


def test_a_time_that_nobody_saw_is_not_graded_when_pooled_either() -> None:
    limits = GridLimits(percentile=95.0, classes={"short": ClassLimits(ttft_s=1.0)})
    (gate,) = latency.gates(limits, kept([0.5] * 60))
    assert (gate.answer, "none has a time to its first token" in gate.reason) == (Answer.NOT_TESTED, True)


def test_where_one_repeat_kept_nothing_to_pool_the_worst_repeat_decides() -> None:
    cells = [*kept([0.5] * 60), of([1.2] * 60, cell_id=2)]
    assert gate_of(cells).answer == Answer.FAILS
    row = row_of(cells)
    assert (row.bound_words, row.n_effective, row.bound_s) == ("of the worst repeat", None, 1.2)


def test_the_summary_counted_against_the_limit_of_its_plan_and_another_limit_is_counted_anew() -> None:
    cells = kept([0.5] * 90 + [1.2] * 10, limit_s=1.5)
    assert gate_of(cells).answer == Answer.FAILS
    assert gate_of(kept([0.5] * 90 + [1.2] * 10, limit_s=1.0)) == gate_of(cells)
