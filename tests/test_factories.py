import pytest

from tests import factories

pytestmark = pytest.mark.django_db


def test_a_grid_of_four_settings_and_three_classes_has_twelve_planned_cells_in_ascending_order():
    grid = factories.make_grid()
    assert [(c.setting, c.class_name, c.status) for c in grid.cells.all()] == [
        (s, c, "planned") for s in (1, 2, 4, 8) for c in ("short", "median", "long")
    ]


def test_names_that_are_taken_get_a_number():
    team = factories.make_team()
    assert [factories.make_hardware(team).slug for _ in range(2)] == ["host", "host-2"]
    assert [factories.make_user(team, "operator").username for _ in range(2)] == ["operator", "operator-2"]
