"""The rubric as a total function: each band by a grid of facts, each criterion by what takes it away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from benchmarks.engine.probe_plan import Cancellation, LimitsProbe, Overload
from benchmarks.engine.verdicts import NOT_JUDGED
from capacity.assessment.choose import judge, rubric_at
from capacity.assessment.facts import ConditionFacts, GridFacts, MemoryFacts
from capacity.assessment.rubric import not_tested
from capacity.assessment.verdict import Answer, Criterion, Grade
from capacity.docs_cases import CASES
from capacity.docs_rubric import CRITERIA
from tests.capacity import fixtures_judge as fx
from tests.capacity import synthetic as made
from tests.capacity.assessment import probes

QUIET = settings(derandomize=True, max_examples=20, suppress_health_check=[HealthCheck.too_slow])
Make = Callable[[], GridFacts]
SLOW = {1: (1.2, 300), 2: (1.3, 540), 4: (1.4, 900), 8: (2.0, 930)}


def tenants(*, quotas: bool | None) -> GridFacts:
    """Three tenants; `quotas`: whether one client's rate met its limit, None where nobody asked."""
    facts = fx.with_terms(fx.complete(), tenants=3)
    if quotas is None:
        return facts
    told = {"no_credentials_status": 401.0, "rate_refused": 3.0 if quotas else 0.0, "long_prompt_status": 400.0}
    return replace(facts, probes=(*facts.probes, probes.fact(LimitsProbe(), "refuses_clearly", cell_id=906, **told)))


def silent_about_kv() -> GridFacts:
    found = []
    for cell in fx.cells():
        assert cell.summary is not None
        gauges = tuple(g for g in cell.summary.gauges if g.name != "runtime_preemptions_total")
        found.append(replace(cell, summary=replace(cell.summary, gauges=gauges)))
    return fx.complete(measured=tuple(found))


def windows(**of_summary: Any) -> GridFacts:
    """The complete grid, with this of every window of its settings."""
    found = fx.cells()
    return fx.complete(measured=tuple(replace(c, summary=replace(c.summary, **of_summary)) for c in found if c.summary))


def uncounted() -> GridFacts:
    """No answer tells its tokens, so nobody knows whether one had more than it was allowed."""
    found = []
    for cell in fx.cells():
        assert cell.summary is not None
        parts = tuple(replace(part, long_outputs=None) for part in cell.summary.classes)
        found.append(replace(cell, summary=replace(cell.summary, classes=parts)))
    return fx.complete(measured=tuple(found))


def open_criteria(facts: GridFacts) -> dict[str, Criterion]:
    return {one.key: one for one in judge(facts).rubric.open}


BANDS: list[tuple[Grade, Make]] = [
    (Grade.COMPLETE, fx.complete),
    (Grade.COMPLETE, lambda: tenants(quotas=True)),
    (Grade.NEEDS_REVISION, lambda: fx.complete(confirmations=())),
    (Grade.NEEDS_REVISION, lambda: fx.complete(probes=())),
    (Grade.NEEDS_REVISION, lambda: made.four_and_eight()),
    (Grade.NOT_COMPLETE, lambda: fx.complete(objective_before_run=False)),
    (Grade.NOT_COMPLETE, lambda: fx.complete(asked=fx.limits(reserve_growth=0.0, reserve_variance=0.0))),
    (Grade.NOT_COMPLETE, lambda: fx.complete(measured=fx.cells({1: (0.25, 300), 4: (0.6, 900)}))),
    (Grade.NO_SAFE_SETTING, lambda: fx.complete(measured=fx.cells(SLOW))),
    (Grade.NO_SAFE_SETTING, lambda: fx.complete(measured=fx.cells(SLOW), probes=(), confirmations=())),
    (Grade.NOT_COMPLETE, lambda: fx.complete(measured=fx.cells(SLOW), objective_before_run=False)),
    (Grade.UNGRADED, lambda: made.facts([made.cell(1, 4, "short", None, status="planned")])),
]


@pytest.mark.parametrize(("grade", "make"), BANDS)
def test_each_band_is_reached_by_facts(grade: Grade, make: Make) -> None:
    found = judge(make())
    assert found.rubric.grade == grade, found.rubric.reason
    assert found.grade == grade
    assert found.rubric.reason
    assert (found.rubric.grade == Grade.COMPLETE) is (found.rubric.criteria != () and not found.rubric.open) or (
        grade == Grade.NO_SAFE_SETTING
    )


def test_a_closed_loop_alone_needs_revision_and_names_the_cell_after_which_it_is_complete() -> None:
    before = judge(fx.complete(confirmations=()))
    assert before.grade == Grade.NEEDS_REVISION
    (missing,) = before.rubric.open
    assert (missing.key, missing.answer) == ("confirmation", Answer.NOT_TESTED)
    assert "an open loop of the mix at" in missing.next_cell
    assert missing.next_cell[1:] in before.rubric.reason
    assert not_tested(before.rubric)[0].startswith("Open-loop confirmation:")
    after = judge(fx.complete())
    assert after.grade == Grade.COMPLETE
    assert not_tested(after.rubric) == ()


OPEN: list[tuple[str, Answer, Make, str]] = [
    ("fairness", Answer.NOT_TESTED, lambda: fx.complete(probes=fx.without("fairness")), "one length class"),
    ("cancellation", Answer.NOT_TESTED, lambda: fx.complete(probes=fx.without("cancellation")), "cancellation probe"),
    ("cancellation", Answer.NOT_TESTED,
     lambda: fx.complete(probes=fx.instead(probes.fact(Cancellation(), NOT_JUDGED, "No slot is known."))), "No slot is known"),
    ("retry", Answer.NOT_TESTED, lambda: fx.complete(probes=fx.without("retry_storm")), "retry storm probe"),
    ("overload", Answer.NOT_TESTED, lambda: fx.complete(probes=fx.without("overload")), "overload probe"),
    ("overload", Answer.NOT_TESTED,
     lambda: fx.complete(probes=fx.instead(probes.fact(Overload(), "kept_up", offered=99.0, refused=0.0))), "more load"),
    ("recovery", Answer.NOT_TESTED, lambda: fx.complete(probes=(fx.FAIR, fx.FREES, fx.CONTAINED)), "recovery probe"),
    ("conditions", Answer.NOT_TESTED, lambda: fx.complete(conditions=ConditionFacts()), "not recorded"),
    ("confirmation", Answer.NOT_TESTED, lambda: fx.complete(confirmations=()), "no queue formed"),
    ("confirmation", Answer.FAILS, lambda: fx.complete(confirmations=(fx.confirming(late=90),)), "over the limit of 1.00 s"),
    ("conditions", Answer.NOT_TESTED,
     lambda: fx.complete(confirmations=(replace(fx.confirming(), recorded=False),)), "Room and power of grid 70"),
    ("cap", Answer.NOT_TESTED,
     lambda: fx.complete(confirmations=(replace(fx.confirming(), probed=()),)), "a queue in which 8 may wait was in force"),
    ("tenancy", Answer.NOT_TESTED, lambda: tenants(quotas=None), "limits probe"),
    ("readings", Answer.NOT_REPORTED, silent_about_kv, "KV preemptions"),
    ("sample", Answer.NOT_TESTED,
     lambda: fx.complete(measured=fx.cells({1: (0.25, 10), 2: (0.33, 18), 4: (0.6, 25), 8: (1.4, 31)})), "more in the class"),
    ("window", Answer.NOT_REPORTED, uncounted, "nothing stands in for it: answers within their token limit"),
    ("window", Answer.NOT_REPORTED, lambda: windows(mean_e2e_s=None), "Little's law"),
    ("window", Answer.NOT_REPORTED, lambda: windows(client=replace(made.STEADY, loop_lag_p99_ms=None)), "no loop lag"),
    ("window", Answer.NOT_REPORTED, lambda: fx.complete(measured=fx.cells(repeats=2)), "steady over the window"),
    ("window", Answer.NOT_REPORTED, lambda: fx.complete(confirmations=(fx.confirming(mean_e2e_s=None),)), "Little's law"),
    ("diagnosis", Answer.NOT_TESTED, lambda: fx.complete(memory=MemoryFacts()), "KV accounting"),
    ("diagnosis", Answer.FAILS, lambda: fx.complete(memory=replace(fx.MEMORY, all_long={4: 2, 8: 2})), "Found of this setting"),
    ("not-highest", Answer.FAILS, lambda: fx.complete(measured=fx.cells({2: (0.33, 540), 4: (0.6, 900)})), "highest setting"),
    ("headroom", Answer.FAILS, lambda: fx.complete(asked=fx.limits(reserve_growth=0.0, reserve_variance=0.0)), "No reserve"),
    ("objective", Answer.FAILS, lambda: fx.complete(objective_before_run=False), "not set before the run"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "answer", "make", "says"), OPEN)
def test_each_criterion_is_open_for_its_own_reason_and_says_what_to_run(
    key: str, answer: Answer, make: Make, says: str
) -> None:
    facts = make()
    one = open_criteria(facts)[key]
    assert (one.answer, says in one.reason) == (answer, True), one.reason
    assert one.next_cell
    assert judge(facts).grade == one.band


def test_what_stands_in_for_a_check_that_nobody_could_make_is_named_and_lets_the_grade_be_complete() -> None:
    facts = fx.complete()
    assert facts.at(4)[0].summary is not None
    found = judge(facts)
    (window,) = [one for one in found.rubric.criteria if one.key == "window"]
    assert (window.answer, found.grade) == (Answer.HOLDS, Grade.COMPLETE)
    assert (
        "For steady over the window stands in: Throughput from the first repeat to the last: +0\u00a0% for short over 3."
        in window.reason
    )
    assert (
        "For server's counts agree stands in: The server's own count of tokens in each of 2,700 answers."
        in window.reason
    )


def test_tenants_without_quotas_make_every_setting_unsafe() -> None:
    found = judge(tenants(quotas=False))
    assert found.grade == Grade.NO_SAFE_SETTING
    assert "met no limit" in found.rubric.reason


def test_what_stands_in_for_a_reading_that_is_not_there_is_named() -> None:
    facts = silent_about_kv()
    told = replace(facts, memory=replace(facts.memory, substitute="Overflow errors were counted: none of 2,700."))
    assert judge(told).grade == Grade.COMPLETE
    readings = next(one for one in judge(told).rubric.criteria if one.key == "readings")
    assert "none of 2,700" in readings.reason


def test_no_safe_setting_is_not_claimed_while_one_is_not_measured() -> None:
    cells = fx.cells(SLOW)
    missing = [replace(cell, status="planned", summary=None) if cell.setting == 1 else cell for cell in cells]
    found = judge(fx.complete(measured=tuple(missing)))
    assert found.grade == Grade.NEEDS_REVISION
    assert "At 1 in flight" in found.rubric.reason


def test_what_failed_cannot_be_waived_and_what_was_not_tested_can() -> None:
    assert judge(fx.complete(confirmations=())).rubric.waivable
    assert not judge(fx.complete(confirmations=(fx.confirming(late=90),))).rubric.waivable
    assert not judge(fx.complete()).rubric.waivable
    assert not judge(fx.complete(objective_before_run=False)).rubric.waivable


def test_another_safe_setting_is_held_to_the_same_criteria_and_not_confirmed_by_what_confirmed_this_one() -> None:
    facts = fx.complete()
    found = judge(facts)
    assert rubric_at(facts, found, 4) == found.rubric
    other = rubric_at(facts, found, 2)
    assert other.grade == Grade.NEEDS_REVISION
    assert [one.key for one in other.open] == ["confirmation"]


def test_every_case_and_criterion_has_its_page_under_the_same_title() -> None:
    pages = {page.slug: page.title for page in (*CASES, *CRITERIA)}
    found = judge(fx.complete())
    lost = judge(fx.complete(measured=fx.cells(SLOW))).rubric.criteria
    for one in (*found.findings, *found.rubric.criteria, *lost):
        assert pages[one.doc] == one.title
    assert len(pages) == 7 + len({one.key for one in (*found.rubric.criteria, *lost)})


@st.composite
def grids(draw: st.DrawFn) -> GridFacts:
    """Any mixture: settings that hold or fail, probes there or not, an objective in time or not, and so on."""
    times = draw(st.dictionaries(st.sampled_from([1, 2, 4, 8]), st.sampled_from([0.3, 0.6, 0.97, 1.4]), min_size=1))
    n = draw(st.sampled_from([12, 300]))
    shape = {setting: (p95_s, n * min(setting, 4)) for setting, p95_s in times.items()}
    cells = fx.cells(shape, repeats=draw(st.sampled_from([1, 3])))
    dropped = draw(st.sampled_from([0, 0, 1, len(cells)]))
    cells = tuple(replace(c, status="planned", summary=None) if i < dropped else c for i, c in enumerate(cells))
    more: dict[str, Any] = {
        "probes": tuple(one for one in fx.PROBES if draw(st.booleans())),
        "confirmations": draw(st.sampled_from([(), (fx.confirming(),), (fx.confirming(late=90),)])),
        "conditions": draw(st.sampled_from([ConditionFacts(), ConditionFacts(recorded=True)])),
        "memory": draw(st.sampled_from([MemoryFacts(), fx.MEMORY])),
        "lengths": draw(st.sampled_from([None, fx.LENGTHS])),
        "objective_before_run": draw(st.booleans()),
        "asked": fx.limits(reserve_growth=draw(st.sampled_from([0.0, 0.1])), reserve_variance=0.0),
    }
    return fx.complete(measured=cells, **more)


@QUIET
@given(grids())
def test_every_grid_has_one_grade_and_complete_means_that_nothing_is_open(facts: GridFacts) -> None:
    found = judge(facts)
    graded = found.rubric
    assert graded.grade in Grade
    assert found.grade == graded.grade
    keys = [one.key for one in graded.criteria]
    assert len(keys) == len(set(keys))
    if graded.grade == Grade.COMPLETE:
        assert graded.open == ()
        assert found.chosen is not None
    else:
        assert graded.open or graded.grade in (Grade.UNGRADED, Grade.NO_SAFE_SETTING)
    assert all(one.next_cell for one in graded.open)
    assert not (graded.grade == Grade.NO_SAFE_SETTING and found.recommended)


@QUIET
@given(grids(), st.randoms(use_true_random=False))
def test_the_order_in_which_facts_are_told_changes_no_grade(facts: GridFacts, dice: Any) -> None:
    cells, probed = list(facts.cells), list(facts.probes)
    dice.shuffle(cells)
    dice.shuffle(probed)
    settings_told = list(facts.setting_values)
    dice.shuffle(settings_told)
    turned = replace(facts, cells=tuple(cells), probes=tuple(probed), setting_values=tuple(settings_told))
    one, other = judge(facts), judge(turned)
    assert (one.grade, one.recommended) == (other.grade, other.recommended)
    assert [c.answer for c in one.rubric.criteria] == [c.answer for c in other.rubric.criteria]
    assert [f.found for f in one.findings] == [f.found for f in other.findings]


def test_evidence_of_a_criterion_is_of_this_grid_but_for_the_confirmation_itself() -> None:
    """Pages link a criterion's cells under this grid's address; those that confirm stand under another one."""
    silent = replace(fx.confirming(mean_e2e_s=None), recorded=False, probed=())
    for confirming in (fx.confirming(), silent, replace(fx.confirming(), probed=())):
        facts = fx.complete(confirmations=(confirming,))
        own = {cell.cell_id for cell in facts.cells} | {probe.cell_id for probe in facts.probes}
        linked = {cell for one in judge(facts).rubric.criteria if one.key != "confirmation" for cell in one.cells}
        assert linked <= own
