"""The one door for asking: order of cells, the digest an authorisation is bound to, refusals in words."""

import pytest

from benchmarks.drafts import Confirms, DraftRefused
from benchmarks.models import Cell, Conditions, Event, Grid
from benchmarks.plans import mode_guard
from benchmarks.queries import digest_of_grid
from benchmarks.records.modes import ClosedTerms, OpenTerms, Terms
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


def confirming(grid: Grid, load: Terms | None = None, *, setting: int = 4, **fields: object) -> Grid:
    more = {"settings": (60,), "class_names": ["mixed"], "load": load or OpenTerms(max_in_flight=30)} | fields
    of = Confirms(grid=grid, setting=setting, queue_cap=8)
    return make_grid(grid.runtime, grid.workload, confirms=of, **more)  # type: ignore[arg-type]


def test_an_open_loop_keeps_what_it_confirms_and_is_authorised_as_that() -> None:
    """Its guard lets half of the last requests fail, so what it confirms is part of what a host owner allows."""
    grid = make_grid()
    found = confirming(grid)
    assert (found.confirms, found.confirms_setting, found.confirms_queue_cap) == (grid, 4, 8)
    plain = make_grid(
        grid.runtime, grid.workload, settings=(60,), class_names=["mixed"], load=OpenTerms(max_in_flight=30)
    )
    assert plain.confirms is None
    assert digest_of_grid(found) == found.digest != plain.digest
    for field, value in (("confirms", None), ("confirms_setting", 8), ("confirms_queue_cap", 9)):
        edited = Grid.objects.get(pk=found.pk)
        setattr(edited, field, value)
        assert digest_of_grid(edited) != found.digest, field
    assert list(grid.confirmations.all()) == [found]


def test_refusals_in_bursts_do_not_stop_a_confirmation_and_a_server_that_fails_does() -> None:
    assert mode_guard("open").max_error_share == 0.05
    assert mode_guard("open", confirms=True).max_error_share == 0.5


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"load": ClosedTerms(), "settings": (4,)}, "confirmed in an open loop"),
        ({"class_names": ["short"]}, "confirmed on the mix of all length classes"),
        ({"load": OpenTerms(max_in_flight=12)}, "nobody would be refused"),
        ({"setting": 3}, "has no setting 3 to confirm"),
    ],
)
def test_what_would_confirm_nothing_is_refused_in_words(fields: dict[str, object], sentence: str) -> None:
    grid = make_grid()
    with pytest.raises(DraftRefused, match=sentence):
        confirming(grid, **fields)  # type: ignore[arg-type]


def test_only_the_same_host_and_a_closed_loop_of_the_team_can_be_confirmed() -> None:
    grid, other = make_grid(), make_runtime()
    with pytest.raises(DraftRefused, match="Only a setting of a closed-loop grid"):
        make_grid(
            other, make_workload(other.team), settings=(60,), class_names=["mixed"], load=OpenTerms(),
            confirms=Confirms(grid=grid, setting=4, queue_cap=8),
        )  # fmt: skip
    with pytest.raises(DraftRefused, match="Only a setting of a closed-loop grid"):
        confirming(confirming(grid), setting=60)
