"""Why no setting is stated: from what failed, and never where something is safe or nothing was found."""

from __future__ import annotations

from msgspec.structs import replace

from benchmarks.engine.probe_plan import Overload
from capacity.assessment import none
from capacity.assessment.choose import judge
from capacity.assessment.verdict import Verdict
from tests.capacity import synthetic as made
from tests.capacity.assessment.probes import fact

LATE = "p95 of short is 1.50 s, over the limit of 1.00 s (n = 120)."


def late(*settings: int) -> Verdict:
    return judge(
        made.facts([made.simple_cell(number, setting, p95_s=1.5) for number, setting in enumerate(settings, 1)])
    )


def bare() -> Verdict:
    """Every latency limit holds to 4, and nothing is ever refused."""
    probe = fact(Overload(), "queues_without_bound", "Nothing was refused.")
    return judge(replace(made.four_and_eight(), probes=(probe,)))


def test_every_setting_failed_and_each_says_all_that_it_failed() -> None:
    verdict = late(1, 2)
    assert none.obstacle(verdict) == ""
    assert [none.reasons(row) for row in verdict.rows] == [(LATE,), (LATE,)]
    assert none.grade_reason(verdict) == "Each of 2 settings was tested and fails."
    assert none.grade_reason(late(4)) == "The only setting was tested and fails."


def test_each_remedy_stands_once_and_the_deployments_is_among_them() -> None:
    assert len(none.remedies(late(1, 2, 4))) == 1
    gateway, fewer = none.remedies(bare())
    assert gateway.startswith("Put a gateway with a bounded queue in front.")
    assert fewer.startswith("Keep fewer requests in flight")


def test_what_was_tested_is_not_called_untested_and_no_open_loop_ran() -> None:
    told = none.not_tested(bare())
    assert not [one for one in told if one.startswith("Overload refused clearly")]
    assert "Cancellation frees its place: No cancellation probe was drawn." in told
    assert told[-1] == none.CLOSED_LOOP


def test_it_is_not_said_where_something_is_safe_where_nothing_was_measured_or_nothing_failed() -> None:
    assert "a safe setting was found" in none.obstacle(judge(made.four_and_eight()))
    unrun = [made.cell(1, 1, "short", None, status="queued")]
    assert none.obstacle(judge(made.facts(unrun))) == (
        "Nothing is measured yet, so nothing can be said about its settings."
    )
    empty = made.summary(1, "short", [made.class_summary("short", [])])
    assert "nothing is found yet" in none.obstacle(judge(made.facts([made.cell(1, 1, "short", empty)])))


def test_a_setting_that_did_not_run_beside_one_that_failed_is_named_as_not_tested() -> None:
    cells = [made.simple_cell(1, 1, p95_s=1.5), made.cell(2, 2, "short", None, status="not_run", reason="The guard.")]
    verdict = judge(made.facts(cells))
    assert none.obstacle(verdict) == ""
    assert none.not_tested(verdict)[0] == "2 requests in flight: 1 of 1 cell not measured: The guard."
    assert none.grade_reason(verdict) == verdict.rubric.reason
    assert verdict.rubric.grade == "needs revision"
