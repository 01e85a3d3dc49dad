"""The verdict: safe set, knee, headroom, why not the next one up."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from capacity.assessment.choose import KNEE_SHARE, judge
from capacity.assessment.facts import GridFacts
from capacity.assessment.headroom import headroom as measured_headroom
from capacity.assessment.verdict import Kind
from tests.capacity import synthetic as made
from tests.capacity.assessment.plain import as_json

# A busy machine draws slowly; that is not a fault of the claim.
QUIET = settings(derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def grid(rows: dict[int, tuple[float, int]], **more: object) -> GridFacts:
    """setting -> (p95 in s, n) of one class with a limit of 1 s."""
    cells = [made.simple_cell(i, s, p95_s=p95_s, n=n) for i, (s, (p95_s, n)) in enumerate(rows.items(), start=1)]
    return made.facts(cells, **more)


def test_four_is_recommended_and_eight_refused_with_its_reasons() -> None:
    verdict = judge(made.four_and_eight())
    assert verdict.kind == Kind.RECOMMENDED
    assert (verdict.recommended, verdict.rollback) == (4, 2)
    assert [row.safe for row in verdict.rows] == [True, True, True, False]
    assert verdict.heading == "4 requests in flight give the most useful work inside the limits"
    (why,) = verdict.why_not
    assert why.setting == 8
    text = " ".join(why.sentences)
    assert "\u00a0% fewer successful requests a minute, 3\u00a0% more completed" in text
    assert "over the limit of 1.00 s" in text
    assert "Up to 4 requests waited" in text


def worked_example() -> GridFacts:
    """One GPU with 40 GiB: setting -> work in 30 s, p95 of short in the mix (alone .2 s), VRAM, share of time busy."""
    shape = {1: (50, 0.22, 20.0, 0.21), 4: (105, 0.3, 30.0, 0.86), 8: (107, 0.62, 36.5, 0.93)}
    cells = []
    for setting, (n, short_s, gib, busy) in shape.items():
        read = [
            made.gauge("vram_used_bytes", gib * made.GIB), made.gauge("vram_total_bytes", 40 * made.GIB),
            made.gauge("gpu_utilization_share", busy),
        ]  # fmt: skip
        parts = [
            made.class_summary("short", made.latencies(n, short_s)),
            made.class_summary("long", made.latencies(n, 4.0)),
        ]
        mixed = made.cell(10 * setting, setting, "mixed", made.summary(setting, "mixed", parts, gauges=read))
        alone = made.simple_cell(10 * setting + 1, setting, p95_s=0.2, n=n, gauges=read)
        cells += [mixed, alone]
    return made.facts(cells, class_weights={"short": 1.0, "long": 1.0}, has_gpu=True)


def test_the_worked_example_four_is_chosen_one_is_idle_and_eight_has_its_three_reasons() -> None:
    verdict = judge(worked_example())
    assert verdict.recommended == 4
    (below,), (above,) = verdict.below, verdict.why_not
    assert below.sentences == (
        "One request in flight: 52\u00a0% fewer successful requests a minute, 52\u00a0% fewer completed.",
        "4 requests in flight do 2.1 times the work.",
        "The GPU is mostly idle: it is busy 21\u00a0% of the time, with 4 requests in flight 86\u00a0%.",
    )
    text = " ".join(above.sentences)
    assert "2\u00a0% more successful requests a minute" in text
    assert "VRAM is nearly full: 0.3 GiB of the 36.8 GiB allowed are left." in text
    assert "Long requests delay short ones: p95 of short in the mix is 3.1 times that alone, 1.5 times with 4" in text
    assert [gate.key for gate in verdict.rows[-1].gates if gate.blocks] == ["fairness"]


def test_of_repeats_the_marginal_work_has_its_interval() -> None:
    cells = [
        replace(made.simple_cell(10 * s + r, s, p95_s=0.3, n=n + r), repeat=r)
        for s, n in ((4, 100), (8, 102)) for r in (1, 2, 3)
    ]  # fmt: skip
    (above,) = judge(made.facts(cells)).why_not
    assert "between" in above.sentences[0]
    assert "by 3 repeats" in above.sentences[0]


@pytest.mark.parametrize(
    ("bounded", "expected"),
    [(False, "gateway with a bounded queue"), (None, "is not known"), (True, "no limit on waiting requests")],
)
def test_waiting_in_a_server_says_whether_its_queue_has_an_end(bounded: bool | None, expected: str) -> None:
    assert expected in judge(made.four_and_eight(queue_bounded=bounded)).queue_words


def test_without_waiting_nothing_is_said_of_the_queue() -> None:
    assert judge(grid({1: (0.2, 100)}, queue_bounded=False)).queue_words == ""


def test_memory_without_a_gpu_says_whose_it_is() -> None:
    row = judge(made.four_and_eight()).chosen
    assert row is not None
    assert row.memory.words == "Peak host RAM of the runtime (no GPU on this host)"
    assert {gate.key: gate.answer for gate in row.gates}["vram"] == "not applicable"


@pytest.mark.parametrize(("n_at_two", "recommended"), [(95, 2), (94, 4)])
def test_the_knee_is_the_lowest_setting_with_95_percent_of_the_best(n_at_two: int, recommended: int) -> None:
    verdict = judge(grid({1: (0.1, 60), 2: (0.3, n_at_two), 4: (0.6, 100)}))
    assert verdict.recommended == recommended


def test_an_unsafe_setting_does_not_raise_the_bar_of_the_knee() -> None:
    verdict = judge(grid({1: (0.3, 100), 2: (1.0, 90), 4: (1.4, 5000)}))
    assert verdict.recommended == 1


@pytest.mark.parametrize(
    ("reserves", "expected"),
    [
        ((0.0, 0.0, 0.0), "lower"),
        ((0.10, 0.05, 0.0), "reserves"),
        ((0.10, 0.05, 0.5), "reserves"),
    ],
)
def test_the_stated_rate_is_the_smaller_of_reserves_and_lower_bound(
    reserves: tuple[float, float, float], expected: str
) -> None:
    growth, variance, loss = reserves
    asked = made.limits(reserve_growth=growth, reserve_variance=variance, reserve_loss=loss)
    facts = grid({2: (0.5, 200)}, asked=asked)
    chosen = judge(facts).chosen
    assert chosen is not None
    room = measured_headroom(facts, chosen)
    after = 400.0 * (1 - growth) * (1 - variance) * (1 - loss)
    assert room.after_reserves_per_min == pytest.approx(after)
    assert room.lower_bound_per_min is not None
    wanted = room.lower_bound_per_min if expected == "lower" else after
    assert room.stated_per_min == pytest.approx(wanted)
    assert f"{room.stated_per_min:.1f}" in room.words


def test_zero_successes_is_no_safe_setting_and_not_a_recommendation() -> None:
    parts = [made.class_summary("short", [], failed=50)]
    cells = [made.cell(i, s, "short", made.summary(s, "short", parts)) for i, s in enumerate((1, 2), start=1)]
    verdict = judge(made.facts(cells))
    assert verdict.kind == Kind.NO_SAFE_SETTING
    assert verdict.recommended is None
    assert verdict.headroom is None
    assert verdict.rows[0].good.value == 0.0
    assert verdict.heading == "No safe setting found"
    assert len(verdict.reasons) == 2
    json.dumps(as_json(verdict), allow_nan=False)


def test_nothing_measured_says_so() -> None:
    cells = [made.cell(i, s, "short", None, status="planned") for i, s in enumerate((1, 2), start=1)]
    verdict = judge(made.facts(cells))
    assert verdict.kind == Kind.NOT_MEASURED
    assert all(row.good.value is None and row.worst is None for row in verdict.rows)


def test_stopped_and_missing_cells_keep_their_setting_out_and_say_why() -> None:
    cells = [
        made.simple_cell(1, 1, p95_s=0.3),
        made.simple_cell(2, 1, p95_s=3.0, name="long"),
        made.simple_cell(3, 2, p95_s=0.3),
        made.cell(4, 2, "long", None, status="stopped", reason="guard: GPU temperature 91 C"),
        made.cell(5, 4, "short", None, status="not_run", reason="a lower setting was stopped"),
        made.cell(6, 4, "long", None, status="not_run", reason="a lower setting was stopped"),
    ]
    verdict = judge(made.facts(cells))
    assert verdict.recommended == 1
    assert [row.word for row in verdict.rows] == ["Holds", "Fails", "Not tested"]
    assert "GPU temperature 91 C" in verdict.rows[1].reasons[0]
    assert "a lower setting was stopped" in verdict.rows[2].reasons[0]
    assert verdict.rows[1].good.value is None


def test_one_setting_is_not_called_the_best() -> None:
    verdict = judge(grid({2: (0.5, 100)}))
    assert verdict.heading == "2 requests in flight stay inside every limit tested"
    assert verdict.rollback is None
    assert "none to go back to" in verdict.rollback_words


def test_a_small_sample_is_indicative_and_says_what_it_lacks() -> None:
    verdict = judge(grid({1: (0.3, 30)}))
    row = verdict.chosen
    assert row is not None
    assert row.indicative
    assert row.word == f"Holds, indicative: needs {row.needs} more requests"
    assert any("Indicative" in caution for caution in verdict.cautions)
    assert any("too small for a proof" in one.reason for one in verdict.rubric.open)


def test_an_objective_set_after_the_run_is_a_caution_and_a_reason_of_the_grade() -> None:
    verdict = judge(grid({1: (0.3, 100)}, objective_before_run=False))
    assert any("after the measurement began" in caution for caution in verdict.cautions)
    assert "not set before the run" in verdict.grade_reason


def test_a_grid_of_load_alone_needs_revision_and_says_what_was_not_tested() -> None:
    verdict = judge(made.four_and_eight())
    assert verdict.grade == "needs revision"
    assert [text.split(":")[0] for text in verdict.not_tested][:6] == [
        "Overload", "Cancellation", "Fairness", "Retries", "Open-loop confirmation", "Recovery",
    ]  # fmt: skip


def test_a_lower_setting_that_fails_while_a_higher_holds_is_pointed_out() -> None:
    verdict = judge(grid({1: (2.0, 100), 2: (0.3, 100)}))
    assert verdict.recommended == 2
    assert any("measure both again" in caution for caution in verdict.cautions)


@settings(QUIET, max_examples=40)
@given(rows=st.lists(st.tuples(st.floats(0.05, 2.0), st.integers(1, 120), st.integers(0, 60)), min_size=1, max_size=4))
def test_failures_never_win_and_the_knee_keeps_its_promise(rows: list[tuple[float, int, int]]) -> None:
    cells = [
        made.simple_cell(i, i, p95_s=p95_s, n=n, failed=failed) for i, (p95_s, n, failed) in enumerate(rows, start=1)
    ]
    verdict = judge(made.facts(cells))
    best = max((row.good.value or 0.0 for row in verdict.rows if row.safe), default=0.0)
    if verdict.chosen is None:
        assert best == 0.0
        return
    _p95_s, n, failed = rows[verdict.chosen.setting - 1]
    assert n / (n + failed) >= 0.9
    assert (verdict.chosen.good.value or 0.0) >= KNEE_SHARE * best
    assert verdict.headroom is not None
    assert verdict.headroom.stated_per_min <= verdict.headroom.measured_per_min
    json.dumps(as_json(verdict), allow_nan=False)


@given(failed=st.integers(1, 200))
@settings(QUIET, max_examples=30)
def test_refusing_requests_never_improves_a_verdict(failed: int) -> None:
    """The same successes with failures added can only lose a gate or its proof, never gain one."""
    cells = [made.simple_cell(1, 2, p95_s=0.9, n=100), made.simple_cell(2, 4, p95_s=0.9, n=100, failed=failed)]
    without, with_failures = judge(made.facts(cells)).rows
    assert not (with_failures.safe and not without.safe)
    assert (with_failures.good.value or 0.0) <= (without.good.value or 0.0)


def test_cells_of_a_running_grid_are_judged_as_far_as_they_are() -> None:
    facts = made.four_and_eight()
    cells = tuple(replace(c, summary=None, status="queued") if c.setting == 8 else c for c in facts.cells)
    verdict = judge(replace(facts, cells=cells))
    assert verdict.recommended == 4
    assert verdict.rows[-1].word == "Not tested"


def test_the_shape_of_throughput_is_told_as_a_check_and_never_as_a_forecast() -> None:
    told = judge(made.four_and_eight()).rate_words
    assert "Throughput flattens, with the top of the fitted curve near 6 in flight" in told
    assert told.endswith("This is a check of its shape, not a forecast.")
    assert "check of its shape" not in judge(made.facts([made.simple_cell(1, 2, p95_s=0.5)])).rate_words
