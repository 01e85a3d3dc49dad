"""The key that two grids must share, what differs of it, and the change of a cell in words with its interval."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from capacity.assessment import compare, compare_key
from capacity.assessment.compare import Cell, Change
from capacity.assessment.compare_key import Key
from capacity.assessment.facts import CellFact
from tests.capacity import synthetic as made

NAMES = ("grid 1", "grid 2")
CARD = {
    "uuid": "GPU-1", "name": "NVIDIA L40S", "driver": "570.124.06", "vbios": "95.02.66.00.0B", "power_limit_w": 350.0,
}  # fmt: skip
WHOLE = Key(
    model="Qwen3-8B", model_digest="a" * 64, runtime="vLLM", runtime_version="0.33.0", flags="--max-num-seqs 8",
    cpu="EPYC 9354", gpus="NVIDIA L40S", driver="570.124.06", power_cap_w="350", vbios="95.02.66.00.0B",
    workload_digest="b" * 64, method_version=2, summary_schema="5", power_source="Mains", ambient_c=22.0,
    objective_digest="c" * 64, mode="Closed loop", terms="",
)  # fmt: skip
OTHERS = {
    "model": "Qwen3-14B", "model_digest": "d" * 64, "runtime": "SGLang", "runtime_version": "0.32.0",
    "flags": "--max-num-seqs 16", "cpu": "EPYC 9454", "gpus": "NVIDIA H100", "driver": "580.10", "power_cap_w": "300",
    "vbios": "95.02.70.00.01", "workload_digest": "e" * 64, "method_version": 3, "summary_schema": "4",
    "power_source": "Generator", "ambient_c": 30.0, "objective_digest": "f" * 64, "mode": "Open loop", "terms": "Poisson",
}  # fmt: skip


def runs(setting: int, *e2e_s: Sequence[float], name: str = "short", failed: int = 0) -> list[CellFact]:
    """A cell a repeat."""
    parts = [made.class_summary(name, list(values), failed=failed) for values in e2e_s]
    return [
        made.cell(i, setting, name, made.summary(setting, name, [part]), repeat=i) for i, part in enumerate(parts, start=1)
    ]  # fmt: skip


def change(measure: str, left: list[CellFact], right: list[CellFact]) -> Change:
    (cell,) = compare.cells(left, right, names=NAMES)
    return next(one for one in cell.changes if one.measure == measure)


def test_every_field_of_the_key_is_compared_and_named_with_both_values() -> None:
    assert set(OTHERS) == set(compare_key.NAMES) == set(Key.__struct_fields__)
    for name, other in OTHERS.items():
        (field,) = compare_key.differing(WHOLE, replace(WHOLE, **{name: other}))
        assert field.name == compare_key.NAMES[name]
        assert field.left != field.right
    assert compare_key.differing(WHOLE, WHOLE) == ()
    assert compare_key.unknown(WHOLE, WHOLE) == ()


@pytest.mark.parametrize(("ambient_c", "differs"), [(27.0, 0), (17.0, 0), (27.1, 1), (None, 1)])
def test_rooms_within_five_degrees_are_alike_and_one_nobody_read_is_not(ambient_c: float | None, differs: int) -> None:
    assert len(compare_key.differing(WHOLE, replace(WHOLE, ambient_c=ambient_c))) == differs


def test_a_digest_is_shown_by_its_beginning_and_what_is_not_recorded_says_so() -> None:
    (field,) = compare_key.differing(WHOLE, replace(WHOLE, model_digest=None))
    assert (field.left, field.right) == ("a" * 12, "not recorded")


def test_what_neither_recorded_is_no_difference_and_is_told() -> None:
    bare = replace(WHOLE, driver=None, vbios=None)
    assert compare_key.differing(bare, bare) == ()
    assert compare_key.unknown(bare, bare) == ("GPU driver", "VBIOS")


def test_the_parts_that_a_worker_read_win_over_those_that_people_declared() -> None:
    declared = {"cpu": "EPYC", "gpu": "an L40S", "gpu_count": 2, "power_cap_w": 300.0}
    read = {"cpu": "AMD EPYC 9354", "gpus": [CARD, CARD | {"uuid": "GPU-2"}]}
    key = compare_key.key_of(declared=declared, read=read, model="m", flags="", ambient_c=21.0)
    assert (key.cpu, key.gpus, key.driver) == ("AMD EPYC 9354", "NVIDIA L40S, NVIDIA L40S", "570.124.06")
    assert (key.power_cap_w, key.vbios) == ("350, 350", "95.02.66.00.0B, 95.02.66.00.0B")
    assert (key.flags, key.summary_schema) == (None, None)
    told = compare_key.key_of(declared=declared, read={"gpus": "no NVIDIA GPU"})
    assert (told.gpus, told.power_cap_w, told.cpu) == ("2 × an L40S", 300.0, "EPYC")
    assert compare_key.key_of(declared={}, read={"gpus": "no NVIDIA GPU"}).gpus == "none"


def test_a_card_that_does_not_say_leaves_its_field_unknown() -> None:
    silent = CARD | {"uuid": "GPU-2", "vbios": "not reported: not supported"}
    assert compare_key.key_of(declared={}, read={"gpus": [CARD, silent]}).vbios is None


def test_repeats_that_are_apart_by_more_than_their_spread_are_faster_by_so_much() -> None:
    slow = runs(4, [1.00] * 100, [1.02] * 100, [0.98] * 100)
    fast = runs(4, [0.88] * 100, [0.89] * 100, [0.87] * 100)
    found = change("e2e_p95_s", slow, fast)
    assert found.clear
    assert found.words == "12 % faster (8.3 to 16 %)"
    assert (found.left_words, found.right_words) == ("1.00 s, n = 300 in 3 repeats", "0.88 s, n = 300 in 3 repeats")
    assert change("e2e_p95_s", fast, slow).words == "14 % slower (9.1 to 18 %)"


def test_repeats_that_overlap_are_no_clear_difference() -> None:
    one, other = runs(4, [1.0] * 100, [1.3] * 100), runs(4, [1.1] * 100, [1.25] * 100)
    found = change("e2e_p50_s", one, other)
    assert not found.clear
    assert found.words.startswith("no clear difference (")


def test_single_repeats_are_compared_by_counts_and_by_the_bounds_of_their_percentiles() -> None:
    left, right = runs(2, made.latencies(200, 0.5)), runs(2, made.latencies(340, 0.3))
    rate, p50 = change("good_per_min", left, right), change("e2e_p50_s", left, right)
    assert (rate.left_words, rate.change.how) == ("400.0, n = 200", "counts of one repeat")
    assert rate.clear
    assert rate.words.startswith("70 % more (")
    assert (p50.clear, p50.change.how) == (True, "bounds of one repeat each")
    assert "faster" in p50.words


def test_a_percentile_from_too_few_or_among_failures_is_not_compared() -> None:
    few, many = runs(2, [0.5] * 10), runs(2, [0.5] * 100)
    assert change("e2e_p95_s", few, many).words == "not comparable: too few requests"
    broken = runs(2, [0.5] * 80, failed=40)
    assert change("e2e_p95_s", many, broken).words == "not comparable: it falls among failed requests"
    assert change("success_share", many, broken).words == "33 points lower (25 to 42 points)"


def test_a_bound_that_one_side_lacks_is_no_clear_difference() -> None:
    few, many = runs(2, made.latencies(55, 0.5)), runs(2, made.latencies(150, 0.9))
    assert change("e2e_p95_s", few, many).words == "no clear difference: too few requests for both bounds"
    assert change("e2e_p95_s", many, few).words == "no clear difference: too few requests for both bounds"


def test_a_rate_of_nothing_has_no_ratio() -> None:
    none, some = runs(2, [], failed=60), runs(2, [0.5] * 60)
    assert change("good_per_min", none, some).words == "not comparable: one is 0"
    assert change("good_per_min", none, none).words == "no clear difference: both are 0"


def test_a_cell_that_one_grid_lacks_says_which() -> None:
    left, right = [*runs(1, [0.5] * 50), *runs(2, [0.5] * 50)], [*runs(2, [0.5] * 50), *runs(4, [0.5] * 50)]
    found = compare.cells(left, right, names=NAMES)
    assert [(cell.setting, cell.missing) for cell in found] == [
        (1, "Not measured in grid 2."),
        (2, ""),
        (4, "Not measured in grid 1."),
    ]
    planned = [made.cell(1, 8, "short", None, status="planned")]
    assert compare.cells(planned, planned, names=NAMES) == (
        Cell(setting=8, label="short", missing="Not measured in grid 1 and grid 2."),
    )


@settings(max_examples=25)
@given(st.lists(st.floats(min_value=0.01, max_value=20), min_size=20, max_size=60))
def test_a_cell_beside_itself_never_differs_clearly(values: list[float]) -> None:
    same = runs(2, values)
    (cell,) = compare.cells(same, same, names=NAMES)
    assert [one.words for one in cell.changes if one.clear] == []
