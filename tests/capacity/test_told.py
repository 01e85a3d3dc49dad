"""What the judge is told of lengths and memory, from rows; and the pages of the seven cases that a result links to."""

from __future__ import annotations

import csv
import dataclasses
import json
from html import unescape
from io import StringIO

import pytest
from django.test import Client
from django.urls import reverse
from msgspec.structs import replace

from benchmarks.engine.plan import Fixed, Uniform
from benchmarks.engine.summary_types import Counter
from benchmarks.queries import GridEvidence, evidence
from benchmarks.records.lengths import ClassLengths
from capacity import told
from capacity.assessment.diagnosis import KEYS
from capacity.docs_cases import CASES
from capacity.docs_rubric import CRITERIA
from capacity.queries import facts_of, result_of
from tests import factories
from tests.benchmarks.memory.test_held_back import drawn, measured, page, too_small

GIB = float(1 << 30)


def test_prompts_of_a_class_are_forty_quantiles_and_the_longest() -> None:
    one = ClassLengths("any", 2.0, Uniform(100, 500), Fixed(50))
    found = told.drawn_prompts(one, turns=1)
    assert told.at_share(found, 0.10) == pytest.approx(135)
    assert told.at_share(found, 0.90) == pytest.approx(455)
    assert max(found) == (500.0, 0.0)
    assert sum(weight for _, weight in found) == pytest.approx(2.0)


def test_a_later_turn_holds_the_earlier_ones_with_their_answers() -> None:
    one = ClassLengths("any", 1.0, Fixed(100), Fixed(50))
    assert {tokens for tokens, _ in told.drawn_prompts(one, turns=3)} == {100, 250, 400}


def test_pairs_are_taken_as_they_are_and_rank_by_weight() -> None:
    one = ClassLengths("any", 1.0, Fixed(1), Fixed(1), pairs=((10, 5), (20, 5), (30, 5), (40, 5)))
    rare = ClassLengths("rare", 0.1, Fixed(1), Fixed(1), pairs=((900, 5),))
    both = [*told.drawn_prompts(one, 1), *told.drawn_prompts(rare, 1)]
    assert [told.at_share(both, share) for share in (0.1, 0.5, 0.9, 0.95)] == [10, 30, 40, 900]
    assert told.at_share([], 0.5) is None


@pytest.mark.django_db
def test_a_grid_tells_its_lengths_its_pool_and_memory_beside_what_was_foreseen() -> None:
    gauges = {
        1: [("vram_used_bytes", 17.5 * GIB)],
        8: [("vram_used_bytes", 21.0 * GIB), ("runtime_kv_capacity_tokens", 2000.0)],
    }
    facts = facts_of(measured(drawn(too_small()), gauges))
    assert facts.lengths is not None
    assert (facts.lengths.repeated_share, facts.lengths.cached_share, facts.lengths.short_class) == (0.0, None, "short")
    memory = facts.memory
    assert memory.geometry_known
    assert memory.measured_bytes == {1: 17.5 * GIB, 8: 21.0 * GIB}
    assert set(memory.predicted_bytes) == {1, 2, 4, 8}
    assert (memory.pool_tokens, memory.all_long[8], memory.substitute) == (2000, 11, "")


@pytest.mark.django_db
def test_without_geometry_the_reason_is_told_and_what_stands_in_for_preemptions() -> None:
    runtime = factories.make_runtime(factories.make_hardware(), kind="llamacpp")
    memory = facts_of(measured(drawn(runtime), {})).memory
    assert not memory.geometry_known
    assert "geometry is not recorded" in memory.reason
    assert "outcomes count those" in memory.substitute


@pytest.mark.django_db
def test_the_cached_share_is_of_what_was_looked_up_over_all_cells() -> None:
    found: GridEvidence = evidence(measured(drawn(too_small()), {}))
    assert told.lengths_of(found).cached_share is None  # type: ignore[union-attr]
    counters = tuple(
        Counter(name=name, source="r", device="", increase=value, over_s=20.0, resets=0)
        for name, value in ((told.PREFIX_HITS, 30.0), (told.PREFIX_QUERIES, 120.0))
    )
    cells = tuple(
        dataclasses.replace(cell, summary=replace(cell.summary, counters=counters)) if cell.summary else cell
        for cell in found.cells
    )
    found = dataclasses.replace(found, cells=cells)
    assert told.lengths_of(found).cached_share == 0.25  # type: ignore[union-attr]


@pytest.mark.django_db
def test_the_result_page_shows_seven_cases_and_the_grade_with_links_to_pages_that_are_there() -> None:
    grid = measured(drawn(too_small()), {})
    shown = unescape(page(grid))
    verdict = result_of(grid).verdict
    for key in KEYS:
        assert f'href="{reverse("docs-page", args=[key])}"' in shown
    for one in verdict.rubric.open:
        assert f'href="{reverse("docs-page", args=[one.doc])}"' in shown
        assert one.next_cell in shown
    assert verdict.grade.capitalize() in shown
    client = Client()
    for each in (*CASES, *CRITERIA):
        answer = client.get(reverse("docs-page", args=[each.slug]))
        assert (answer.status_code, each.title in unescape(answer.content.decode())) == (200, True)
    assert client.get(reverse("docs-page", args=["no-such-case"])).status_code == 404


@pytest.mark.django_db
@pytest.mark.parametrize("fmt", ["csv", "json"])
def test_diagnosis_and_rubric_are_a_file_with_the_grade_and_where_it_was_measured(fmt: str) -> None:
    grid = measured(drawn(too_small()), {})
    client = Client()
    client.force_login(factories.make_user(grid.team, "viewer"))
    body = client.get(reverse("grid-rubric", args=[grid.pk, fmt])).content.decode()
    verdict = result_of(grid).verdict
    rows = list(csv.DictReader(StringIO(body))) if fmt == "csv" else json.loads(body)["rows"]
    assert [row["key"] for row in rows] == [*KEYS, *(one.key for one in verdict.rubric.criteria)]
    assert {row["grade"] for row in rows} == {verdict.grade}
    assert rows[0]["room"].startswith("Room 1")
