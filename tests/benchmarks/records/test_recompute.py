"""A stored summary is the one that its evidence gives; where it is not, the cell and the field are named."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from benchmarks.engine.columns import from_frames
from benchmarks.engine.summary import SUMMARY_SCHEMA, summarise
from benchmarks.engine.summary_types import as_json
from benchmarks.engine.terms import End, Outcome, RequestRecord, Window
from benchmarks.models import Cell, Evidence, EvidenceChunk, Grid
from benchmarks.records.digest import sha256
from benchmarks.records.parquet import SCHEMA_VERSION, write
from tests.benchmarks.engine.plans import FAILED, S, a_header, a_record
from tests.benchmarks.runs import made

OLD = Path(__file__).resolve().parents[2] / "data" / "evidence"

pytestmark = pytest.mark.django_db


def evidence(*records: RequestRecord) -> tuple[bytes, dict[str, object]]:
    end = End(t_ns=2 * S, complete=True, reason="window completed", sent=len(records))
    columns = from_frames([a_header(), *records, Window(start_ns=0, end_ns=S), end])
    return write(columns), as_json(summarise(columns, columns.plan))


def keep(cell: Cell, content: bytes, summary: object, *, digest: str | None = None, chunk: int = 1000) -> Cell:
    """A measured cell with this evidence and this summary, whether they belong together or not."""
    Cell.objects.filter(pk=cell.pk).update(status=Cell.Status.MEASURED, summary=summary)
    kept = Evidence.objects.create(
        cell=cell,
        attempt=1,
        schema_version=SCHEMA_VERSION,
        sha256=digest or sha256(content),
        size_bytes=len(content),
        requests=1,
    )
    for number, start in enumerate(range(0, len(content), chunk)):
        EvidenceChunk.objects.create(evidence=kept, number=number, content=content[start : start + chunk])
    return cell


@pytest.fixture
def grid() -> Grid:
    return made.running_grid(settings=(1, 2), class_names=("short",))


def recompute(*arguments: object, **options: Any) -> tuple[int, str, str]:
    out, err, code = StringIO(), StringIO(), 0
    try:
        call_command("recompute", *map(str, arguments), stdout=out, stderr=err, **options)
    except SystemExit as end:
        code = int(str(end.code))
    return code, out.getvalue(), err.getvalue()


def test_what_a_worker_recorded_is_what_its_evidence_gives(grid):
    records = [a_record(0), a_record(1, outcome=Outcome.REJECTED, **FAILED)]
    end = End(t_ns=2 * S, complete=True, reason="window completed", sent=2)
    columns = from_frames([a_header(), *records, Window(start_ns=0, end_ns=S), end])
    assert made.record(made.claim(grid), summarise(columns, columns.plan), content=write(columns))
    words = "1 cells recomputed, 0 differ, 0 have fields that are newer than they are.\n"
    words += "0 are signed by the key of their host's worker, 1 are not.\n"
    assert recompute(grid.pk, "--check") == (0, words, "")


def test_a_changed_number_is_named_with_its_cell_and_its_field(grid):
    content, summary = evidence(a_record(0))
    summary["classes"][0]["e2e_s"]["p50"]["value"] = 0.05
    keep(grid.cells.first(), content, summary)
    code, _, err = recompute(grid.pk, "--check")
    assert code == 1
    assert err == f"c1-short-r1 of grid {grid.pk}: classes.short.e2e_s.p50.value: stored 0.05, recomputed 0.1\n"


def test_without_check_a_difference_is_told_and_is_no_failure(grid):
    content, summary = evidence(a_record(0))
    keep(grid.cells.first(), content, summary | {"scheduled": 9})
    code, _, err = recompute(grid.pk)
    assert (code, err) == (0, f"c1-short-r1 of grid {grid.pk}: scheduled: stored 9, recomputed 1\n")


def test_a_summary_of_an_older_schema_has_grown_and_does_not_differ(grid):
    stored = json.loads((OLD / "schema1_summary.json").read_text())
    keep(grid.cells.first(), (OLD / "schema1_cell.parquet").read_bytes(), stored)
    words = "1 cells recomputed, 0 differ, 1 have fields that are newer than they are.\n"
    words += "0 are signed by the key of their host's worker, 1 are not.\n"
    assert recompute("--all", "--check") == (0, words, "")


def test_a_changed_number_of_an_older_schema_still_differs(grid):
    stored = json.loads((OLD / "schema1_summary.json").read_text())
    keep(grid.cells.first(), (OLD / "schema1_cell.parquet").read_bytes(), stored | {"resent": 5})
    code, _, err = recompute("--all", "--check")
    assert (code, err) == (1, f"c1-short-r1 of grid {grid.pk}: resent: stored 5, recomputed 0\n")


WRONG = {
    "altered": ({"digest": "0" * 64}, "its evidence is not what was stored: the digest differs"),
    "not ours": ({"content": b"PAR1 but not really"}, "its evidence cannot be read: not a Parquet file"),
    "gone": ({"content": b""}, "its evidence is not here"),
}


@pytest.mark.parametrize("name", WRONG)
def test_evidence_that_proves_nothing_is_told(grid, name):
    changes, words = WRONG[name]
    content, summary = evidence(a_record(0))
    keep(grid.cells.first(), **({"content": content, "summary": summary} | changes))
    code, _, err = recompute(grid.pk, "--check")
    assert code == 1
    assert err.startswith(f"c1-short-r1 of grid {grid.pk}: {words}")


def test_recomputed_summaries_are_given_away_and_never_written(grid):
    content, summary = evidence(a_record(0))
    cell = keep(grid.cells.first(), content, summary | {"schema": 2, "scheduled": 9})
    before = Cell.objects.values_list("summary", flat=True).get(pk=cell.pk)
    _, out, _ = recompute(grid.pk, "--json")
    line = json.loads(out)
    assert (line["grid"], line["cell"], line["wrong"]) == (grid.pk, cell.pk, "")
    assert (line["changed"], line["grown"]) == (["scheduled: stored 9, recomputed 1"], ["schema"])
    assert (line["summary"]["schema"], line["summary"]["scheduled"]) == (SUMMARY_SCHEMA, 1)
    assert Cell.objects.values_list("summary", flat=True).get(pk=cell.pk) == before


def test_cells_that_measured_nothing_are_left_out(grid):
    assert recompute(grid.pk, "--check")[1].startswith("0 cells recomputed, 0 differ")


@pytest.mark.parametrize(
    "arguments, words", [((), "or say --all"), ((1, "--all"), "or say --all"), ((987,), "no grid 987")]
)
def test_what_is_to_be_recomputed_must_be_named(arguments, words):
    with pytest.raises(CommandError, match=words):
        recompute(*arguments)


@pytest.mark.parametrize("cells", [1, 2])
def test_the_number_of_queries_is_two_for_each_cell_at_most(grid, cells, django_assert_max_num_queries):
    content, summary = evidence(a_record(0))
    for cell in grid.cells.all()[:cells]:
        keep(cell, content, summary)
    with django_assert_max_num_queries(3 + 2 * cells, connection=connection):
        recompute(grid.pk)
