"""Every check of a window: one that holds, one that fails, one that nobody can tell; and what a failure keeps from being
concluded."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from benchmarks.engine.plan import ClassLimits, GridLimits
from benchmarks.engine.summary_types import ChunkGaps, Counter, OpenLoopSummary
from benchmarks.engine.terms import ClientHealth
from benchmarks.stats import steadiness
from benchmarks.stats.quantiles import tail
from benchmarks.stats.shares import share
from benchmarks.stats.steadiness import Steadiness, Steady
from capacity.assessment import validity
from capacity.assessment.choose import judge
from capacity.assessment.facts import CellFact, ConditionFacts, GridFacts
from capacity.assessment.verdict import Answer, Check, Gate, Kind
from tests.capacity import synthetic as made

STREAMED = GridLimits(success_share=0.9, classes={"short": ClassLimits(e2e_s=1.0, ttft_s=0.5)})
GAPS = ChunkGaps(n=40, p50=0.01, p95=0.02, p99=None, peak=0.02, exact=True, buckets_us=())
NO_TIMES = tail(np.zeros(0))
HEAT = Steadiness(verdict=Steady.DRIFTING, blocks=12, change_share=0.4, residual_sd_share=0.05)
WARMING = Steadiness(verdict=Steady.SETTLING, blocks=12, change_share=-0.3, residual_sd_share=0.03)
NOISE = Steadiness(verdict=Steady.DRIFTING, blocks=6, change_share=0.25, residual_sd_share=0.12)
STILL = Steadiness(verdict=Steady.STEADY, blocks=12, change_share=0.01, residual_sd_share=0.05)
SHORT = Steadiness(verdict=Steady.TOO_SHORT, blocks=2)


def cell_of(cell_id: int = 1, *, part: dict[str, object] | None = None, **of_cell: object) -> CellFact:
    """120 answers of *short* in 30 s at 2 in flight: 4 a second."""
    whole = replace(made.class_summary("short", [0.5] * 120), **(part or {}))
    summary = replace(made.summary(2, "short", [whole]), **of_cell)
    return made.cell(cell_id, 2, "short", summary)


def facts_of(*cells: CellFact, **more: object) -> GridFacts:
    return made.facts(cells, **more)


def check(key: str, facts: GridFacts) -> Check:
    return next(one for one in validity.checks(facts, facts.at(2)) if one.key == key)


def gate(facts: GridFacts) -> Gate:
    return next(one for one in judge(facts).rows[0].gates if one.key == "window")


def tokens(increase: float, *, over_s: float = 28.0) -> tuple[Counter, ...]:
    name = "runtime_generation_tokens_total"
    return (Counter(name=name, source="vllm", device="", increase=increase, over_s=over_s, resets=0),)


def refused(increase: float) -> tuple[Counter, ...]:
    name = "runtime_rejected_total"
    return (Counter(name=name, source="vllm", device="", increase=increase, over_s=28.0, resets=0),)


def arrivals(sent: float | None) -> OpenLoopSummary:
    late = tail(np.zeros(120))
    return OpenLoopSummary(
        planned=120, requested_per_s=4.0, sent_per_s=sent, on_time=share(120, 120), late_s=late, late_max_s=0.0
    )


SLOW_CLIENT = ClientHealth(
    loop_lag_p99_ms=9.0, cpu_share=0.95, send_late_p99_ms=9.0, client_limited=True, why="its event loop came to run 9 ms late"
)  # fmt: skip
CROSSED = {"ttft_ok_s": tail(np.full(120, 0.7)), "e2e_ok_s": tail(np.full(120, 0.5))}
CASES: list[tuple[str, Answer, dict[str, object], str]] = [
    ("conservation", Answer.HOLDS, {}, "120 sent in the windows = 120 ok."),
    ("conservation", Answer.FAILS, {"conserved": False}, "sent requests and recorded outcomes differ"),
    ("little", Answer.HOLDS, {"mean_in_flight": 1.94, "closed_per_s": 4.0, "mean_e2e_s": 0.5}, "are 2.00 (-3\u00a0%)"),
    ("little", Answer.FAILS, {"mean_in_flight": 3.0, "closed_per_s": 4.0, "mean_e2e_s": 0.5}, "would be 2.00 (+50\u00a0%)"),
    ("little", Answer.NOT_REPORTED, {"closed_per_s": 4.0, "mean_e2e_s": None}, "was not recorded"),
    ("times", Answer.HOLDS, {}, "No time is impossible"),
    ("times", Answer.FAILS, {"part": {"wrong_times": 2}}, "2 of 120 answers have times that cannot be"),
    ("times", Answer.FAILS, {"part": CROSSED}, "p50 of short is 0.70 s to the first token and 0.50 s to the end."),
    ("max_tokens", Answer.HOLDS, {"part": {"long_outputs": 0}}, "None of 120 answers"),
    ("max_tokens", Answer.FAILS, {"part": {"long_outputs": 3}}, "3 of 120 answers (short) have more tokens"),
    ("max_tokens", Answer.NOT_REPORTED, {}, "The server counted no tokens"),
    ("rate", Answer.HOLDS, {"open_loop": arrivals(3.9)}, "3.90 of 4.00 requests a second were sent, 97.5\u00a0%"),
    ("rate", Answer.FAILS, {"open_loop": arrivals(3.7)}, "92.5\u00a0%; at least 95\u00a0% is asked."),
    ("rate", Answer.NOT_REPORTED, {"open_loop": arrivals(None)}, "A window never opened"),
    ("rate", Answer.NOT_APPLICABLE, {}, "no rate was asked"),
    ("client", Answer.HOLDS, {}, "Event-loop lag p99 was at most 0.4 ms."),
    ("client", Answer.FAILS, {"client": SLOW_CLIENT}, "its event loop came to run 9 ms late"),
    ("steady", Answer.HOLDS, {"part": {"steadiness": {"e2e_s": STILL}}}, "end to end of short: no trend beyond chance."),
    ("steady", Answer.FAILS, {"part": {"steadiness": {"e2e_s": HEAT}}},
     "End to end of short drifts in 1 of 1 window: +40\u00a0%"),
    ("steady", Answer.FAILS, {"steadiness": {"completed_per_s": WARMING}}, "Throughput of short still settles"),
    ("steady", Answer.NOT_REPORTED, {"part": {"steadiness": {"e2e_s": SHORT}}}, "No window was long enough"),
    ("steady", Answer.HOLDS, {"part": {"steadiness": {"e2e_s": NOISE}}}, "moves in 1 of 1, no more than chance does"),
    ("steady", Answer.NOT_REPORTED, {"part": {"steadiness": {"tpot_s": HEAT}}}, "No window was long enough"),
    ("impossible_rates", Answer.HOLDS, {}, "No answer came faster"),
    ("impossible_rates", Answer.FAILS, {"part": {"impossible_rates": 1}}, "1 of 120 answers came faster than 10,000"),
    ("server_counts", Answer.HOLDS, {"counters": tokens(6900.0)}, "6,900 tokens generated in 28.0 s, the client 6,720."),
    ("server_counts", Answer.FAILS, {"counters": tokens(9000.0)}, "9,000 tokens"),
    ("server_counts", Answer.FAILS, {"counters": tokens(5000.0)}, "5,000 tokens"),
    ("server_counts", Answer.NOT_REPORTED, {"counters": tokens(100.0, over_s=0.8)}, "Too few for a word"),
    ("server_counts", Answer.NOT_REPORTED, {}, "The runtime reports no count"),
    ("server_counts", Answer.FAILS, {"counters": refused(40.0)}, "The server counted 40 refused, the client 0."),
    ("server_counts", Answer.HOLDS, {"counters": refused(1.0)}, "The server counted 1 refused, the client 0."),
    ("buffering", Answer.HOLDS, {"part": {"chunk_gap_s": GAPS}}, "Chunks came one after the other."),
    ("buffering", Answer.NOT_REPORTED, {"part": {"buffered": True}}, "Answers of short were held back"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "answer", "fields", "words"), CASES)
def test_each_check_holds_fails_and_says_by_what(
    key: str, answer: Answer, fields: dict[str, object], words: str
) -> None:
    found = check(key, facts_of(cell_of(**fields)))  # type: ignore[arg-type]
    assert (found.answer, words in found.evidence) == (answer, True), found.evidence
    assert found.cells == (1,)
    assert bool(found.remedy) or answer in (Answer.HOLDS, Answer.NOT_APPLICABLE, Answer.NOT_REPORTED)


@pytest.mark.parametrize(("key", "answer", "fields", "words"), [case for case in CASES if case[1] == Answer.FAILS])
def test_a_check_that_fails_keeps_its_setting_from_being_concluded_from(
    key: str, answer: Answer, fields: dict[str, object], words: str
) -> None:
    verdict = judge(facts_of(cell_of(**fields)))  # type: ignore[arg-type]
    assert verdict.kind == Kind.NO_SAFE_SETTING
    assert any(words in reason for reason in verdict.rows[0].reasons)
    assert sum(words in one.reason for one in verdict.rows[0].gates) == 1  # said once


def test_conditions_that_moved_spoil_the_cells_they_moved_for_and_no_other() -> None:
    told = ConditionFacts(recorded=True, differs=("x",), of_cells={1: ("power source was grid, is generator",)})
    found = check("conditions", facts_of(cell_of(), conditions=told))
    assert found.answer == Answer.FAILS
    assert found.evidence == "Not as with the first cell: power source was grid, is generator."
    assert check("conditions", facts_of(cell_of(2), conditions=told)).answer == Answer.HOLDS


def test_a_room_that_changed_between_the_two_records_spoils_every_cell() -> None:
    told = ConditionFacts(recorded=True, between=("room was 21.0 °C, is 28.0 °C",))
    assert "room was 21.0" in check("conditions", facts_of(cell_of(), conditions=told)).evidence
    assert judge(facts_of(cell_of(), conditions=told)).kind == Kind.NO_SAFE_SETTING


def test_conditions_nobody_recorded_are_not_reported() -> None:
    found = check("conditions", facts_of(cell_of()))
    assert (found.answer, found.remedy) == (Answer.NOT_REPORTED, "Record them on the grid's page.")
    assert check("conditions", facts_of(cell_of(), conditions=ConditionFacts(recorded=True))).answer == Answer.HOLDS


def test_a_stream_that_is_held_back_fails_where_its_first_token_has_a_limit_and_is_said_once() -> None:
    held = cell_of(part={"buffered": True, "ttft_s": NO_TIMES, "tpot_s": NO_TIMES, "ttft_ok_s": NO_TIMES})
    facts = facts_of(held, asked=STREAMED)
    assert check("buffering", facts).answer == Answer.FAILS
    row = judge(facts).rows[0]
    assert not row.safe
    assert sum("held back" in one.reason for one in row.gates) == 1


def test_a_class_that_was_held_back_is_not_told_again_as_an_impossible_rate() -> None:
    held = cell_of(part={"buffered": True, "impossible_rates": 120})
    assert check("impossible_rates", facts_of(held)).answer == Answer.HOLDS


def test_a_short_window_that_breaks_littles_law_by_less_than_its_edges_says_nothing() -> None:
    off = {"mean_in_flight": 2.3, "closed_per_s": 4.0, "mean_e2e_s": 0.5}
    assert check("little", facts_of(cell_of(**off))).answer == Answer.FAILS
    short = check("little", facts_of(cell_of(window_s=5.0, **off)))
    assert (short.answer, short.remedy) == (Answer.NOT_REPORTED, "Lengthen the window.")


def test_one_drifting_repeat_of_three_refuses_nothing_and_two_do() -> None:
    def with_repeats(*each: Steadiness) -> GridFacts:
        return facts_of(*(cell_of(i, part={"steadiness": {"e2e_s": one}}) for i, one in enumerate(each, start=1)))

    once = check("steady", with_repeats(HEAT, STILL, STILL))
    assert (once.answer, "moves in 1 of 3" in once.evidence) == (Answer.HOLDS, True)
    twice = check("steady", with_repeats(HEAT, HEAT, STILL))
    assert (twice.answer, "drifts in 2 of 3 windows" in twice.evidence) == (Answer.FAILS, True)
    assert check("steady", with_repeats(HEAT, WARMING)).answer == Answer.HOLDS  # two ways


def test_a_server_that_settles_asks_for_a_longer_warm_up() -> None:
    settling = check("steady", facts_of(cell_of(part={"steadiness": {"e2e_s": WARMING}})))
    assert settling.remedy == "Give it a longer warm-up and measure again."


def test_the_gate_counts_what_holds_and_names_what_nobody_reported() -> None:
    found = gate(facts_of(cell_of(part={"long_outputs": 0})))
    assert (found.answer, found.indicative) == (Answer.HOLDS, False)
    assert found.reason.startswith("3 checks of the window hold. Not reported: Little's law, steady over the window")


def test_without_a_measured_cell_there_is_nothing_to_check() -> None:
    facts = facts_of(made.cell(1, 2, "short", None, status="planned"))
    assert validity.checks(facts, facts.cells) == ()
    assert "window" not in [one.key for one in judge(facts).rows[0].gates]


def refusals(rng: np.random.Generator, *, drift: float, draws: int) -> int:
    """Of `draws` settings of three repeats, each of 120 lognormal times over 30 s, how many the check refuses."""
    at_s, found = np.linspace(0, 29.9, 120), 0
    for _ in range(draws):
        repeats = [rng.lognormal(0.0, 0.5, 120) * (1 + drift * at_s / 30) for _ in range(3)]
        told = [steadiness.of_values(at_s, values, length_s=30.0) for values in repeats]
        cells = [cell_of(i, part={"steadiness": {"e2e_s": one}}) for i, one in enumerate(told, start=1)]
        found += check("steady", facts_of(*cells)).answer == Answer.FAILS
    return found


def test_a_noisy_steady_server_is_seldom_refused_and_one_that_doubles_its_times_hardly_ever_passes() -> None:
    """The engine's word for one window of six blocks is wrong in about one of seven; of settings one in a hundred is."""
    rng = np.random.default_rng(7)
    assert refusals(rng, drift=0.0, draws=150) <= 4
    assert refusals(rng, drift=1.0, draws=20) >= 18


def repeats(*per_s: float, answers: int = 4000) -> list[CellFact]:
    """Short windows one after the other, with so many answers a second."""
    whole = replace(made.class_summary("short", [0.5] * 20), success=share(answers, answers))
    return [
        replace(made.cell(i, 2, "short", replace(made.summary(2, "short", [whole]), completed_per_s=rate)), repeat=i)
        for i, rate in enumerate(per_s, start=1)
    ]


@pytest.mark.parametrize(
    ("cells", "stands_in"),
    [
        (repeats(4.0, 4.1, 4.2), "+5\u00a0% for short over 3"),
        (repeats(4.0, 4.3, 4.6), "+14\u00a0% for short over 3"),
        (repeats(4.0, 4.4, 4.8), ""),  # 18 %: a drift
        (repeats(4.0, 4.4, 4.8, answers=20), ""),  # fewer answers make a drift no smaller
        (repeats(4.0, 4.1, 4.2, answers=40), "+5\u00a0% for short over 3"),  # as many as six blocks of twenty
        (repeats(4.0, 4.1, 4.2, answers=39), ""),
        (repeats(4.0, 4.0), ""),
    ],
)
def test_repeats_that_ran_one_after_the_other_stand_in_for_windows_too_short_to_show_a_trend(
    cells: list[CellFact], stands_in: str
) -> None:
    found = check("steady", facts_of(*cells))
    assert (found.answer, stands_in in found.substitute, bool(found.substitute)) == (
        Answer.NOT_REPORTED, True, bool(stands_in),
    )  # fmt: skip
    assert found.caps_grade is not bool(stands_in)


def test_where_a_time_to_the_first_token_is_limited_nothing_stands_in_for_a_stream_that_was_not_seen() -> None:
    whole, streamed = check("buffering", facts_of(cell_of())), check("buffering", facts_of(cell_of(), limits=STREAMED))
    assert (whole.caps_grade, streamed.caps_grade) == (False, True)
    assert "Only end-to-end times are limited" in whole.substitute
