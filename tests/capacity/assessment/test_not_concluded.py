"""What nothing may be concluded from: invalid windows, windows that a person ended, readings that are no numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import nan

import pytest
from msgspec.structs import replace

from benchmarks.engine.plan import ClassLimits
from benchmarks.engine.terms import ClientHealth
from capacity.assessment.choose import judge
from capacity.assessment.facts import CellFact, ConditionFacts
from capacity.assessment.gates import GUARD
from capacity.assessment.validity import littles_law
from capacity.assessment.verdict import Answer, Found, Grade, Kind
from tests.capacity import fixtures_judge as fx
from tests.capacity import synthetic as made
from tests.capacity.assessment.plain import as_json

LIMITED = ClientHealth(
    loop_lag_p99_ms=50.0, cpu_share=1.0, send_late_p99_ms=50.0, client_limited=True, why="its event loop lagged"
)
Spoil = Callable[[CellFact], CellFact]


def told(cell: CellFact, **fields: object) -> CellFact:
    assert cell.summary is not None
    return replace(cell, summary=replace(cell.summary, **fields))


def limited(cell: CellFact) -> CellFact:
    return told(cell, client=LIMITED)


def miscounted(cell: CellFact) -> CellFact:
    return told(cell, conserved=False)


def piled_up(cell: CellFact) -> CellFact:
    """Little's law is far off."""
    return told(cell, closed_per_s=10.0, mean_e2e_s=0.4, mean_in_flight=50.0)


def ended_by(why: str) -> Spoil:
    return lambda cell: replace(told(cell, complete=False, end_reason=why), status="stopped", reason=why)


def fast(cell: CellFact) -> CellFact:
    """As if it held every limit and did more."""
    better = fx.cells({cell.setting: (0.6, 1500)}, repeats=1)[0]
    return replace(better, cell_id=cell.cell_id, repeat=cell.repeat)


def spoiled(spoil: Spoil, *settings: int) -> tuple[CellFact, ...]:
    return tuple(spoil(cell) if not settings or cell.setting in settings else cell for cell in fx.cells())


@pytest.mark.parametrize("spoil", [limited, miscounted, piled_up, ended_by("stopped: cancel was asked for")])
def test_a_grid_of_windows_that_say_nothing_finds_nothing_and_is_not_called_unsafe(spoil: Spoil) -> None:
    found = judge(fx.complete(measured=tuple(cell for cell in spoiled(spoil) if cell.setting < 8)))
    assert (found.kind, found.recommended) == (Kind.NO_SAFE_SETTING, None)
    assert found.grade == Grade.NEEDS_REVISION
    assert found.heading in ("No setting is validly measured yet", "No setting is fully measured yet")
    assert {row.word for row in found.rows} <= {"Not valid", "Not tested"}
    assert "nobody knows whether a setting is safe" in found.grade_reason
    assert all(one.next_cell for one in found.rubric.open)


def test_power_that_changed_is_no_failure_of_the_server() -> None:
    changed = ConditionFacts(recorded=True, between=("power source",), differs=("power source",))
    found = judge(fx.complete(conditions=changed))
    assert found.recommended is None
    assert found.grade == Grade.NEEDS_REVISION


@pytest.mark.parametrize("spoil", [limited, miscounted, piled_up, ended_by("stopped: cancel was asked for")])
def test_a_higher_setting_that_was_not_validly_measured_does_not_show_that_a_lower_one_is_best(spoil: Spoil) -> None:
    found = judge(fx.complete(measured=spoiled(lambda cell: spoil(fast(cell)), 8)))
    assert found.recommended == 4
    assert found.grade == Grade.NOT_COMPLETE
    one = next(one for one in found.rubric.open if one.key == "not-highest")
    assert "nothing shows that" in one.reason
    assert one.next_cell


def test_what_the_guard_ended_is_a_failure_of_that_setting() -> None:
    found = judge(fx.complete(measured=spoiled(ended_by(f"{GUARD} p95 over twice its limit"), 8)))
    assert (found.recommended, found.grade) == (4, Grade.COMPLETE)
    assert found.rows[-1].word == "Fails"


def test_some_failing_and_some_not_measured_is_said_alike_by_heading_and_grade() -> None:
    slow = fx.cells({1: (1.2, 300), 2: (1.3, 540)})
    cells = tuple(replace(cell, status="planned", summary=None) if cell.setting == 1 else cell for cell in slow)
    found = judge(fx.complete(measured=cells))
    assert (found.heading, found.grade) == ("No safe setting found so far", Grade.NEEDS_REVISION)


@pytest.mark.parametrize(
    ("name", "gate"),
    [
        ("vram_used_share", "vram"),
        ("gpu_temperature_c", "temperature"),
        ("host_memory_used_share", "host memory"),
        ("runtime_preemptions_total", "preemptions"),
    ],
)
def test_a_reading_that_is_no_number_holds_nothing_and_is_printed_nowhere(name: str, gate: str) -> None:
    def read(cell: CellFact) -> CellFact:
        assert cell.summary is not None
        others = [one for one in cell.summary.gauges if one.name != name]
        return told(cell, gauges=(*others, made.gauge(name, nan)))

    found = judge(fx.complete(measured=spoiled(read), has_gpu=True))
    answers = {one.key: one.answer for row in found.rows for one in row.gates}
    assert answers[gate] == Answer.NOT_REPORTED
    assert found.grade == Grade.NEEDS_REVISION
    assert "nan" not in json.dumps(as_json(found), allow_nan=False).split()


def test_two_repeats_show_too_little_of_how_runs_differ_for_a_statement() -> None:
    for repeats, word in ((1, "Measured once"), (2, "Measured twice")):
        found = judge(fx.complete(measured=fx.cells(repeats=repeats)))
        assert found.grade == Grade.NEEDS_REVISION
        (one,) = (one for one in found.rubric.open if one.key == "sample")
        assert (word in one.reason, "at least 3 repeats" in one.next_cell) == (True, True)


def test_a_class_that_nothing_is_asked_of_is_named_and_never_complete() -> None:
    limits = replace(fx.limits(), classes={"median": ClassLimits(e2e_s=1.0)})
    found = judge(fx.complete(asked=limits))
    assert found.grade == Grade.NOT_COMPLETE
    assert "limits nothing of short" in found.grade_reason


def test_one_length_class_shows_nothing_of_long_beside_short_whatever_a_probe_says() -> None:
    found = judge(fx.complete(lengths=replace(fx.LENGTHS, classes=1, short_class="")))
    assert found.grade == Grade.NEEDS_REVISION
    case = next(one for one in found.findings if one.key == "long-blocks-short")
    assert (case.found, "one length class only" in case.evidence[0]) == (Found.NOT_TESTED, True)


def test_a_window_that_breaks_littles_law_is_not_hidden_by_one_too_short_to_tell() -> None:
    first, second, *_ = fx.cells({4: (0.6, 900)})
    short = told(first, window_s=1.0, closed_per_s=10.0, mean_e2e_s=0.4, mean_in_flight=5.6)
    long = told(second, window_s=90.0, closed_per_s=10.0, mean_e2e_s=0.4, mean_in_flight=5.0)
    assert littles_law([short]).answer == Answer.NOT_REPORTED
    assert littles_law([short, long]).answer == Answer.FAILS
