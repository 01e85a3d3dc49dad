"""The one door for asking: order of cells, the digest an authorisation is bound to, refusals in words."""

import pytest

from benchmarks.drafts import DraftRefused
from benchmarks.models import Cell, Conditions, Event, Grid
from benchmarks.queries import digest_of_grid
from tests.factories import make_grid, make_limits, make_runtime, make_workload

pytestmark = pytest.mark.django_db


def test_stages_ascend_and_classes_keep_the_order_of_the_workload() -> None:
    grid = make_grid(settings=(4, 1), class_names=["short", "long"], repeats=2)
    drawn = [(c.setting, c.repeat, c.class_name) for c in grid.cells.order_by("position")]
    assert drawn == [
        (1, 1, "short"), (1, 1, "long"), (1, 2, "short"), (1, 2, "long"),
        (4, 1, "short"), (4, 1, "long"), (4, 2, "short"), (4, 2, "long"),
    ]  # fmt: skip
    assert set(grid.cells.values_list("status", flat=True)) == {Cell.Status.PLANNED}


def test_a_draft_waits_for_a_person_and_leaves_an_event_and_its_conditions() -> None:
    grid = make_grid()
    assert grid.status == Grid.Status.DRAFT
    assert Event.objects.get(subject=f"grid {grid.pk}", verb="drew").actor == grid.drawn_by.get_username()
    assert grid.conditions.get().phase == Conditions.Phase.BEFORE


@pytest.mark.parametrize(
    ("field", "value"),
    [("setting_values", [1, 2]), ("window_s", 6.0), ("repeats", 3), ("limits", {}), ("objective_digest", "1" * 64)],
)
def test_an_edit_of_anything_that_runs_changes_the_digest(field: str, value: object) -> None:
    grid = make_grid()
    assert digest_of_grid(grid) == grid.digest
    setattr(grid, field, value)
    assert digest_of_grid(grid) != grid.digest


def test_the_name_of_a_grid_is_not_part_of_what_is_authorised() -> None:
    grid = make_grid()
    grid.name = "Another name"
    assert digest_of_grid(grid) == grid.digest


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"settings": []}, "Give at least one setting, each 1 or more."),
        ({"settings": [0, 1]}, "Give at least one setting, each 1 or more."),
        ({"class_names": ["huge"]}, "The workload has no length class called huge. It has long, median, short."),
        (
            {"limits": make_limits(classes=["short"]), "class_names": ["mixed"]},
            "The objective says nothing about long, median.",
        ),
    ],
)
def test_a_draft_that_cannot_be_measured_is_refused_in_words(fields: dict[str, object], sentence: str) -> None:
    runtime = make_runtime()
    with pytest.raises(DraftRefused, match=sentence.split(".")[0]):
        make_grid(runtime, make_workload(runtime.team), **fields)  # type: ignore[arg-type]
    assert Grid.objects.count() == 0
