"""The finalist in an open loop: what confirms it, what refutes it, and what is too little or too different to say."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
import pytest
from msgspec.structs import replace

from benchmarks.engine.summary_types import CellSummary, OpenLoopSummary
from benchmarks.stats.pools import pool
from benchmarks.stats.quantiles import tail
from benchmarks.stats.shares import share
from capacity.assessment import choose, confirm, queueing
from capacity.assessment.facts import ConfirmFact, GridFacts
from capacity.assessment.headroom import headroom
from capacity.assessment.verdict import Answer, Confirmation, Headroom
from tests.capacity import fixtures_judge as fx
from tests.capacity import synthetic as made
from tests.capacity.assessment.test_queueing import room, worked

RATE, CAP, SETTING = 36.0, 8, 4


def grid(**asked: float) -> GridFacts:
    return worked(1, 2, 3, 4, limit_s=12.0, **asked)


def window(n: int = 300, *, over: int = 0, refused: int = 0, seed: int = 1, **more: object) -> CellSummary:
    """n requests of long: `over` of them late, `refused` refused, the others well inside 12 s, in no order."""
    dice = np.random.default_rng(seed)
    times = np.concatenate((dice.uniform(3, 9, n - over - refused), np.full(over, 14.0)))
    every = dice.permutation(np.concatenate((times, np.full(refused, inf))))
    part = made.class_summary("long", times.tolist(), failed=refused)
    outcomes = {"ok": n - refused} | ({"rejected": refused} if refused else {})
    good = share(n - over - refused, n)
    part = replace(part, outcomes=outcomes, good=good, pools={"e2e_s": pool(every, 12.0)})
    window_s = n / (RATE / 60)
    opened = OpenLoopSummary(
        planned=n, requested_per_s=0.6, sent_per_s=0.6, on_time=share(n, n), late_s=tail(np.zeros(n)), late_max_s=0.0
    )
    found = made.summary(16, "mixed", [part], window_s=window_s)
    return replace(found, **{"open_loop": opened, "outcomes": outcomes, "mean_in_flight": 3.6, **more})  # type: ignore[arg-type]


def drawn(
    *summaries: CellSummary | None, grid_id: int = 7, differs: Sequence[str] = (), status: str = "", **more: object
) -> tuple[ConfirmFact, ...]:
    return tuple(
        ConfirmFact(**{
            "grid_id": grid_id, "cell_id": 100 * grid_id + number, "setting": SETTING, "queue_cap": CAP, "rate_per_min": RATE,
            "status": status or ("measured" if summary else "planned"), "reason": "", "summary": summary,
            "differs": tuple(differs), **more,
        })  # type: ignore[arg-type]
        for number, summary in enumerate(summaries)
    )  # fmt: skip


def judged(cells: Sequence[ConfirmFact], facts: GridFacts | None = None) -> Confirmation:
    facts = replace(facts or grid(), confirmations=tuple(cells))
    chosen = choose.row_of(facts, SETTING)
    at: Headroom = room(RATE)
    return confirm.confirmation(facts, chosen, at, queueing.queue_cap(facts, chosen, at))


def test_without_an_open_loop_it_is_not_tested_and_says_which_cell_to_run() -> None:
    found = judged(())
    assert found.answer == Answer.NOT_TESTED
    assert "no queue formed" in found.words
    assert found.next_cell == (
        "Draw the confirmation: an open loop of the mix at 36 requests a minute, 4 served at once, through a queue in which "
        f"{found.queue_cap} may wait."
    )


def test_three_repeats_inside_every_limit_confirm_at_one_per_cent_with_refusals_as_foretold() -> None:
    found = judged(drawn(*(window(refused=2, seed=seed) for seed in (1, 2, 3))))
    assert found.answer == Answer.HOLDS, found.words
    assert (found.rate_per_min, found.queue_cap, found.grid_id, found.cells) == (36.0, 8, 7, (700, 701, 702))
    assert found.refused is not None
    assert (found.refused.hits, found.refused.n) == (6, 900)
    assert found.accepted is not None
    assert found.accepted.value == 1
    claim = found.claims[0]
    assert (claim.n, claim.misses, claim.answer) == (900, 6, Answer.HOLDS)
    assert claim.bound_s is not None
    assert claim.bound_s <= 12
    assert found.predicted is not None
    assert confirm.predicted_right(found) is True
    assert "Refused: 0.67 % (6 of 900, 0.31 % to 1.4 %); foretold 0.44 %" in found.words
    assert "A refused request counts as no success and as late." in found.words
    assert found.next_cell == ""


def test_a_percentile_over_its_limit_refutes_it() -> None:
    found = judged(drawn(window(over=20)))
    assert found.answer == Answer.FAILS
    assert "p95 of long (end to end) is 14.00 s, over the limit of 12.00 s" in found.words
    assert found.next_cell.startswith("Draw the confirmation at 27 requests a minute")


def test_refusals_count_against_the_share_that_must_succeed_and_as_late() -> None:
    found = judged(drawn(window(refused=12)))
    assert found.answer == Answer.FAILS
    assert "288 of 300 scheduled requests succeeded in long" in found.words
    late = judged(drawn(window(refused=18)), grid(success_share=0.9))
    assert late.answer == Answer.FAILS
    assert "p95 of long (end to end) falls among refused or failed requests" in late.words


def test_too_few_for_a_statement_are_indicative_and_say_how_many_are_missing() -> None:
    found = judged(drawn(window(n=70)))
    assert (found.answer, found.indicative) == (Answer.NOT_TESTED, True)
    assert found.needs >= 20  # the law: 90 independent requests without a miss
    assert f"needs {found.needs} more" in found.words
    assert f"{found.needs} more requests of long would settle it" in found.next_cell


def test_summaries_without_pools_are_held_to_the_same_law_by_their_good_requests() -> None:
    def older(n: int, over: int = 0) -> CellSummary:
        found = window(n, over=over)
        return replace(found, classes=tuple(replace(part, pools={}) for part in found.classes))

    assert judged(drawn(older(90))).answer == Answer.HOLDS
    few = judged(drawn(older(89)))
    assert (few.answer, few.needs) == (Answer.NOT_TESTED, 1)
    assert judged(drawn(older(259, over=5))).answer == Answer.HOLDS
    assert judged(drawn(older(100, over=6))).answer == Answer.FAILS


@pytest.mark.parametrize(
    ("spoiled", "why"),
    [
        ({"complete": False, "end_reason": "stopped by a person"}, "stopped before the end of the window"),
        ({"mean_in_flight": 12.4}, "12.4 requests were in flight on average, more than the 12 that may be inside"),
        ({"gauges": (made.gauge("runtime_running", 9.0),)}, "served up to 9 at once, more than 4"),
        ({"gauges": (made.gauge("runtime_waiting", 11.0),)}, "Up to 11 waited in the runtime, more than the cap of 8"),
        (
            {
                "client": made.ClientHealth(
                    loop_lag_p99_ms=9.0, cpu_share=0.9, send_late_p99_ms=9.0, client_limited=True
                )
            },
            "nothing can be concluded",
        ),
    ],
)
def test_nothing_is_concluded_from_a_window_that_is_cut_or_not_of_this_setting(
    spoiled: dict[str, object], why: str
) -> None:
    found = judged(drawn(window(**spoiled)))
    assert found.answer == Answer.NOT_TESTED
    assert why in found.words
    assert found.next_cell.endswith("Then draw the confirmation again.")


def test_less_than_95_per_cent_of_the_rate_is_no_confirmation_of_it() -> None:
    opened = window().open_loop
    assert opened is not None
    found = judged(drawn(window(open_loop=replace(opened, sent_per_s=0.55))))
    assert found.answer == Answer.NOT_TESTED
    assert "91.7\u00a0%" in found.words


def test_a_guard_that_ended_the_open_loop_is_a_result() -> None:
    cut = window(n=40, complete=False, end_reason="guard: E2E p95 of class long at 26 s, more than 2 x 12 s")
    found = judged(drawn(cut, status="stopped"))
    assert found.answer == Answer.FAILS
    assert "guard" in found.words


def test_another_runtime_workload_or_objective_confirms_nothing_and_is_named() -> None:
    found = judged(drawn(window(), differs=("runtime version (0.24.0, not 0.23.1)", "objective")))
    assert found.answer == Answer.NOT_TESTED
    assert "not like this grid in runtime version (0.24.0, not 0.23.1), objective" in found.words


def test_what_is_drawn_or_half_run_says_so() -> None:
    found = judged(drawn(None, None))
    assert (found.answer, found.grid_id) == (Answer.NOT_TESTED, 7)
    assert "has not run" in found.words
    assert found.next_cell == "Have grid 7 authorised and run to its end."
    assert "1 of 2 cells of grid 7 have run" in judged(drawn(window(), None)).words


def test_the_newest_confirmation_decides_and_the_older_are_counted() -> None:
    good, bad = window(), window(over=20)
    assert judged((*drawn(good, grid_id=7), *drawn(bad, grid_id=9))).answer == Answer.FAILS
    found = judged((*drawn(bad, grid_id=7), *drawn(good, grid_id=9), *drawn(None, grid_id=11)))
    assert (found.answer, found.grid_id, found.earlier) == (Answer.HOLDS, 9, 1)


def test_of_several_rates_the_highest_that_holds_with_all_below_it_is_confirmed() -> None:
    cells = (*drawn(window(), rate_per_min=30.0), *drawn(window(over=20), rate_per_min=36.0))
    found = judged(cells)
    assert (found.answer, found.rate_per_min) == (Answer.HOLDS, 30.0)


def test_a_confirmation_of_another_setting_is_none_of_this_one() -> None:
    assert judged(drawn(window(), setting=2)).grid_id is None


def test_an_open_loop_that_hurt_the_host_or_the_cache_confirms_nothing() -> None:
    hurt = {
        made.gauge("vram_used_share", 0.99): "Peak VRAM was 99.0 %",
        made.gauge("gpu_temperature_c", 99.0): "Peak GPU temperature was 99.0",
        made.gauge("runtime_preemptions_total", 4.0, low=3.0): "from 1 running sequence.",
    }
    for gauge, words in hurt.items():
        found = judged(drawn(window(gauges=(gauge,))))
        assert (found.answer, words in found.words) == (Answer.FAILS, True), found.words


@pytest.mark.parametrize(("queue_cap", "open_loop"), [(None, True), (CAP, False)])
def test_without_a_queue_cap_or_without_arrivals_of_their_own_nothing_is_confirmed(
    queue_cap: int | None, open_loop: bool
) -> None:
    whole = window()
    found = judged(drawn(whole if open_loop else replace(whole, open_loop=None), queue_cap=queue_cap))
    assert (found.answer, "did not arrive at their own times" in found.words) == (Answer.NOT_TESTED, True)
    assert found.next_cell.startswith("Load it in an open loop")


def test_a_class_that_production_sends_and_the_open_loop_never_met_is_not_confirmed() -> None:
    facts = grid()
    limits = replace(facts.limits, classes={**facts.limits.classes, "short": facts.limits.classes["long"]})
    facts = replace(facts, limits=limits, class_weights={"long": 1.0, "short": 1.0})
    found = judged(drawn(*(window(seed=seed) for seed in (1, 2, 3))), facts)
    assert (found.answer, found.needs) == (Answer.NOT_TESTED, 90)
    assert "No request of short was met" in found.words


def test_no_more_is_stated_than_was_confirmed_and_the_policy_goes_through_the_confirmed_queue() -> None:
    facts = fx.complete(confirmations=(replace(fx.confirming(rate_per_min=100.0), queue_cap=2),))
    found = choose.judge(facts)
    assert found.headroom is not None
    assert found.headroom.stated_per_min == 100.0
    assert "Confirmed in an open loop are 100.0 a minute, so no more is stated." in found.headroom.words
    assert found.chosen is not None
    assert choose.headroom(facts, found.chosen) == found.headroom
    lines = {line.key: line for line in found.policy}
    assert (lines["queue_cap"].value, lines["client_rate"].number) == ("2", 100.0)
    assert lines["queue_cap"].source == "Confirmed in the open loop of grid 70."
    more = choose.judge(fx.complete(confirmations=(fx.confirming(rate_per_min=5000.0),)))
    assert more.chosen is not None
    assert more.headroom == headroom(facts, more.chosen)  # what reserves and the lower bound leave
    unconfirmed = choose.judge(fx.complete(confirmations=()))
    assert unconfirmed.headroom is not None
    assert unconfirmed.queue_cap is not None
    assert unconfirmed.headroom.stated_per_min <= unconfirmed.queue_cap.arrivals_per_min


def test_a_confirmed_queue_that_is_longer_than_leaves_the_objective_is_cautioned_against() -> None:
    found = choose.judge(fx.complete(confirmations=(replace(fx.confirming(), queue_cap=1000),)))
    assert found.queue_cap is not None
    assert found.queue_cap.cap is not None
    (said,) = (one for one in found.cautions if "confirmed with a queue" in one)
    assert ("1000 may wait" in said, f"{found.queue_cap.cap} is the most" in said) == (True, True)


def test_after_a_failure_the_highest_lower_rate_that_the_evidence_supports_is_proposed_with_its_reason() -> None:
    found = judged(drawn(window(over=20)))
    assert (found.answer, found.next_rate_per_min) == (Answer.FAILS, 27.0)
    why = (
        "2.4 times as many were late or refused at 36 requests a minute as foretold; if that stays so, 27 a minute is the "
        "highest rate that leaves a proof."
    )
    assert found.next_why == why
    assert found.next_cell == (
        f"Draw the confirmation at 27 requests a minute, 4 served at once, through a queue in which 8 may wait. {why}"
    )
    worse, worst = judged(drawn(window(over=40))), judged(drawn(window(over=80)))
    assert (worse.next_rate_per_min, worst.next_rate_per_min) == (24.0, 21.0)  # the more were late, the lower
    refused = judged(drawn(window(refused=12)))
    assert (refused.answer, refused.next_rate_per_min) == (Answer.FAILS, 29.0)


def test_a_lower_rate_that_an_older_open_loop_held_at_is_supported_too() -> None:
    older, newer = drawn(window(), rate_per_min=30.0, grid_id=5), drawn(window(over=80), grid_id=7)
    found = judged((*older, *newer))
    assert (found.answer, found.next_rate_per_min) == (Answer.FAILS, 30.0)
    assert found.next_why == "An earlier open loop held at 30 requests a minute."


def test_a_lower_rate_is_not_proposed_where_it_mends_nothing_or_nothing_is_known() -> None:
    hot = judged(drawn(window(gauges=(made.gauge("gpu_temperature_c", 99.0),))))
    assert (hot.answer, hot.next_rate_per_min) == (Answer.FAILS, None)
    assert hot.next_cell == "Cool the room or lower the power cap. Then draw the confirmation again."
    cut = judged(drawn(window(complete=False, end_reason="stopped by a person")))
    assert (cut.answer, cut.next_rate_per_min) == (Answer.NOT_TESTED, None)
    assert judged(drawn(window())).next_rate_per_min is None


def test_repeats_that_differ_too_much_for_a_proof_are_offered_more_of_them_or_a_lower_rate() -> None:
    def shifted(by: float, seed: int) -> CellSummary:
        found = window(seed=seed)
        times = np.random.default_rng(seed).uniform(3, 9, 300) * by
        return replace(found, classes=tuple(replace(p, pools={"e2e_s": pool(times, 12.0)}) for p in found.classes))

    found = judged(drawn(shifted(0.8, 1), shifted(1.0, 2), shifted(1.3, 3)))
    assert (found.answer, found.indicative, found.needs) == (Answer.NOT_TESTED, True, 0), found.words
    assert found.next_rate_per_min is not None
    assert found.next_rate_per_min < 36


def test_a_queue_cap_is_in_force_where_somebody_saw_it_refuse() -> None:
    assert judged(drawn(window())).in_force == ""
    assert judged(drawn(window(refused=2))).in_force == "2 of 300 requests of the open loop were refused by it."
    probed = judged(drawn(window(), probed=(31,)))
    assert probed.in_force == "An overload probe of the same runtime was answered with refusals."


FLAT = {1: (0.25, 300), 2: (0.33, 540), 4: (0.6, 900), 8: (0.9, 905)}
"""Eight holds too, and adds next to nothing."""


def offers(facts: GridFacts) -> dict[str, tuple[str, tuple[int, ...]]]:
    found = choose.judge(facts)
    assert found.recommended == 4
    return {one.key: (one.mode, one.settings) for one in found.outside}


def test_the_next_setting_up_that_holds_too_is_not_measured_in_an_open_loop_until_it_is_confirmed_or_refuted() -> None:
    neighbour = fx.complete(measured=fx.cells(FLAT))
    assert offers(neighbour)["neighbour"] == ("confirm", (8,))
    above = replace(fx.confirming(8), grid_id=71, cell_id=710)
    both = replace(neighbour, confirmations=(*neighbour.confirmations, above))
    refuted = replace(above, summary=fx.open_window(late=90))
    either = replace(neighbour, confirmations=(*neighbour.confirmations, refuted))
    for told in (both, either, fx.complete(), replace(neighbour, confirmations=())):
        assert "neighbour" not in offers(told)


def test_p99_is_proved_by_459_independent_requests_and_else_not() -> None:
    assert "p99" not in offers(fx.complete())
    few = fx.complete(confirmations=(fx.confirming(n=400),))
    assert offers(few)["p99"] == ("confirm", (4,))
    (told,) = [one.sentence for one in choose.judge(few).outside if one.key == "p99"]
    assert "a p99 takes 459 without a miss" in told
