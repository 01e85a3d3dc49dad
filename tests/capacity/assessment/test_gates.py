"""Gates besides latency, on both sides of their edges."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from benchmarks.engine.summary_types import CellSummary, Gauge
from benchmarks.engine.terms import ClientHealth
from capacity.assessment import accounting, gates
from capacity.assessment.facts import CellFact, GridFacts
from capacity.assessment.verdict import Answer
from tests.capacity import synthetic as made

GIB = made.GIB


def cell_of(*gauges: Gauge, failed: int = 0, invalid: int = 0, n: int = 100) -> CellFact:
    part = made.class_summary("short", [0.5] * n, failed=failed, invalid=invalid)
    return made.cell(1, 2, "short", made.summary(2, "short", [part], gauges=gauges))


def facts_for(cell: CellFact, **more: object) -> GridFacts:
    return made.facts([cell], **more)


@pytest.mark.parametrize(
    ("used_gib", "total_gib", "has_gpu", "answer"),
    [
        (9.2, 10.0, True, Answer.HOLDS),
        (9.21, 10.0, True, Answer.FAILS),
        (9.2, 10.0, None, Answer.HOLDS),  # what was read counts, whatever was declared
        (None, None, False, Answer.NOT_APPLICABLE),
        (None, None, True, Answer.NOT_REPORTED),
        (None, None, None, Answer.NOT_REPORTED),
    ],
)
def test_vram_is_judged_where_read_and_else_says_why_not(
    used_gib: float | None, total_gib: float | None, has_gpu: bool | None, answer: Answer
) -> None:
    read = []
    if used_gib is not None and total_gib is not None:
        read = [made.gauge("vram_used_bytes", used_gib * GIB), made.gauge("vram_total_bytes", total_gib * GIB)]
    cell = cell_of(*read)
    assert gates.vram(facts_for(cell, has_gpu=has_gpu), [cell]).answer == answer


def test_the_fullest_card_decides() -> None:
    cell = cell_of(
        made.gauge("vram_used_bytes", 5 * GIB, device="a"), made.gauge("vram_total_bytes", 40 * GIB, device="a"),
        made.gauge("vram_used_bytes", 4 * GIB, device="b"), made.gauge("vram_total_bytes", 4 * GIB, device="b"),
    )  # fmt: skip
    assert gates.vram_share(facts_for(cell), [cell]) == pytest.approx(1.0)


def test_a_declared_total_stands_in_for_one_that_was_not_read() -> None:
    cell = cell_of(made.gauge("vram_used_bytes", 5 * GIB))
    assert gates.vram_share(facts_for(cell, vram_total_bytes=10 * GIB), [cell]) == pytest.approx(0.5)
    assert gates.vram_share(facts_for(cell), [cell]) is None


def test_unread_vram_names_its_substitute() -> None:
    cell = cell_of(made.gauge("runtime_rss_bytes", 3 * GIB))
    gate = gates.vram(facts_for(cell, has_gpu=True), [cell])
    assert gate.substitute == "Host RAM of the runtime, 3.00 GiB at its peak."
    assert not gate.caps_grade


@pytest.mark.parametrize(("share", "answer"), [(0.90, Answer.HOLDS), (0.901, Answer.FAILS)])
def test_host_memory_may_reach_nine_tenths(share: float, answer: Answer) -> None:
    cell = cell_of(made.gauge("host_memory_used_bytes", share * 10), made.gauge("host_memory_total_bytes", 10))
    assert gates.host_memory([cell]).answer == answer


def test_host_memory_that_nobody_read_is_not_reported() -> None:
    assert gates.host_memory([cell_of()]).answer == Answer.NOT_REPORTED


@pytest.mark.parametrize(
    ("hottest", "has_gpu", "answer"),
    [
        (85.0, True, Answer.HOLDS),
        (85.1, True, Answer.FAILS),
        (None, True, Answer.NOT_REPORTED),
        (None, False, Answer.NOT_APPLICABLE),
    ],
)
def test_temperature(hottest: float | None, has_gpu: bool, answer: Answer) -> None:
    cell = cell_of(*([made.gauge("gpu_temperature_c", hottest)] if hottest else []))
    assert gates.temperature(facts_for(cell, has_gpu=has_gpu), [cell]).answer == answer


@pytest.mark.parametrize(
    ("low", "peak", "answer"),
    [(7.0, 7.0, Answer.HOLDS), (7.0, 8.0, Answer.FAILS), (0.0, 0.0, Answer.HOLDS)],
)
def test_only_a_moving_preemption_counter_fails(low: float, peak: float, answer: Answer) -> None:
    assert gates.preemptions([cell_of(made.gauge("runtime_preemptions_total", peak, low=low))]).answer == answer


@pytest.mark.parametrize(
    ("told_by", "failed", "caps"), [("", 0, True), ("It fails.", 0, False), ("It fails.", 1, True)]
)
def test_uncounted_preemptions_cap_the_grade_unless_overflows_show_elsewhere_and_none_did(
    told_by: str, failed: int, caps: bool
) -> None:
    gate = gates.preemptions([cell_of(failed=failed)], told_by)
    assert (gate.answer, gate.caps_grade) == (Answer.NOT_REPORTED, caps)
    assert ("None of 100 requests failed" in gate.substitute) is not caps


@pytest.mark.parametrize(
    ("ok", "failed", "answer", "indicative"),
    [
        (100, 0, Answer.HOLDS, False),
        (90, 10, Answer.HOLDS, True),  # exactly the share asked, not proved
        (89, 11, Answer.FAILS, False),
        (28, 0, Answer.HOLDS, True),
        (29, 0, Answer.HOLDS, False),  # 29 without a miss prove 90 % at alpha 5 %
    ],
)
def test_success_share(ok: int, failed: int, answer: Answer, indicative: bool) -> None:
    cell = cell_of(failed=failed, n=ok)
    gate = gates.success(facts_for(cell), [cell])
    assert (gate.answer, gate.indicative) == (answer, indicative), gate.reason


def test_a_share_of_all_requests_can_hold_but_never_be_proved() -> None:
    cell = cell_of(n=5000)
    gate = gates.success(facts_for(cell, asked=made.limits(success_share=1.0)), [cell])
    assert (gate.answer, gate.indicative, gate.needs) == (Answer.HOLDS, True, 0)


def test_one_class_below_its_share_is_not_hidden_by_another() -> None:
    parts = [made.class_summary("short", [0.1] * 900), made.class_summary("long", [1.0] * 5, failed=5)]
    cell = made.cell(1, 2, "mixed", made.summary(2, "mixed", parts))
    assert gates.success(facts_for(cell), [cell]).answer == Answer.FAILS


@pytest.mark.parametrize(("invalid", "answer"), [(0, Answer.HOLDS), (3, Answer.HOLDS), (4, Answer.FAILS)])
def test_validity_has_its_floor_and_names_how_it_was_judged(invalid: int, answer: Answer) -> None:
    cell = cell_of(invalid=invalid)
    gate = gates.validity(facts_for(cell), [cell])
    assert gate.answer == answer
    assert "by construction" in gate.reason


def test_without_a_validated_answer_validity_is_not_tested() -> None:
    part = made.class_summary("short", [], failed=30)
    cell = made.cell(1, 2, "short", made.summary(2, "short", [part]))
    assert gates.validity(facts_for(cell), [cell]).answer == Answer.NOT_TESTED


@pytest.mark.parametrize(
    ("status", "complete", "answer"),
    [
        ("measured", True, Answer.HOLDS),
        ("measured", False, Answer.FAILS),
        ("stopped", False, Answer.FAILS),
    ],
)
def test_a_window_must_be_complete(status: str, complete: bool, answer: Answer) -> None:
    whole = made.summary(2, "short", [made.class_summary("short", [0.5] * 100)], complete=complete)
    assert gates.completeness([made.cell(1, 2, "short", whole, status=status)]).answer == answer


@pytest.mark.parametrize("status", ["planned", "queued", "running", "interrupted", "not_run"])
def test_a_cell_that_did_not_finish_is_not_tested_and_gives_its_reason(status: str) -> None:
    gate = gates.completeness([made.cell(1, 2, "short", None, status=status, reason="stopped by guard")])
    assert gate.answer == Answer.NOT_TESTED
    assert "stopped by guard" in gate.reason


def changed(cell: CellFact, **fields: object) -> CellFact:
    found: CellSummary | None = cell.summary
    assert found is not None
    return replace(cell, summary=replace(found, **fields))


def test_requests_that_vanish_or_a_client_that_limits_make_the_evidence_useless() -> None:
    limited = ClientHealth(
        loop_lag_p99_ms=9.0, cpu_share=0.9, send_late_p99_ms=1.0, client_limited=True, why="CPU share 0.9"
    )
    silent = ClientHealth(loop_lag_p99_ms=None, cpu_share=None, send_late_p99_ms=None, client_limited=False)
    cell = cell_of()
    assert accounting.conservation([cell]).answer == Answer.HOLDS
    assert accounting.conservation([changed(cell, conserved=False)]).answer == Answer.FAILS
    assert accounting.conservation([changed(cell, conserved=None, sent=None)]).answer == Answer.NOT_REPORTED
    assert gates.client([cell]).answer == Answer.HOLDS
    assert gates.client([changed(cell, client=limited)]).answer == Answer.FAILS
    assert gates.client([changed(cell, client=silent)]).answer == Answer.NOT_REPORTED


def test_every_gate_gives_a_reason_and_every_failing_gate_a_remedy() -> None:
    parts = [made.class_summary("short", [2.0] * 30, failed=30, invalid=10)]
    hot = [made.gauge("gpu_temperature_c", 99.0), made.gauge("runtime_preemptions_total", 5, low=1)]
    cell = made.cell(1, 2, "short", made.summary(2, "short", parts, gauges=hot, conserved=False, complete=False))
    found = gates.gates_of(facts_for(cell), [cell])
    assert all(gate.reason for gate in found)
    failing = [gate for gate in found if gate.answer == Answer.FAILS]
    assert len(failing) >= 6
    assert [gate.key for gate in failing if not gate.remedy] == []
