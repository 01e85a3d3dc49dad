"""The list of grids with what was decided: the ratio at that setting, and the order by what a row shows."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from benchmarks import tasks
from benchmarks.models import Grid
from benchmarks.templatetags.headroom import f2
from capacity.models import Choice
from tests.capacity.stored import measure, summary_of
from tests.capacity.test_approvals import Office

pytestmark = pytest.mark.django_db


def rows(office: Office, query: str = "") -> dict[int, str]:
    """The row of each grid, in the order in which they stand."""
    client = Client()
    client.force_login(office.operator)
    html = client.get(f"/grids/{query}").content.decode()
    found = re.findall(r"<tr\b.*?</tr>", html.partition("<tbody")[2], re.DOTALL)
    return {int(re.search(r">(\d+) · ", row)[1]): row for row in found}  # type: ignore[index]


def test_a_decided_grid_shows_the_ratio_at_its_setting_above_the_worst_and_its_grade() -> None:
    office = Office()
    before = rows(office)[office.grid.pk]
    assert ">worst 1.40<" in re.sub(r"\s+", " ", before)
    assert "Measured" in before
    choice: Choice = office.approved()
    after = rows(office)[office.grid.pk]
    there = f2(choice.verdict["worst_ratio"])
    assert there == "0.60"
    assert f'{there}<span class="hr-sub-l">worst 1.40</span>' in after
    assert ">Measured<" not in after
    assert choice.grade.capitalize() in after


def test_grids_are_ordered_by_the_ratio_that_they_show_and_failures_come_last() -> None:
    office = Office()
    office.approved()
    lower: Grid = measure(office.drawn(), settings=[1, 2])
    Grid.objects.filter(pk=lower.pk).update(status=Grid.Status.STOPPED)
    failing: Grid = measure(office.drawn(), lambda cell: summary_of(cell, failed=30))
    tasks.keep_figures()
    assert list(rows(office, "?sort=ratio")) == [lower.pk, office.grid.pk, failing.pk]
    assert list(rows(office, "?sort=-ratio")) == [failing.pk, office.grid.pk, lower.pk]
