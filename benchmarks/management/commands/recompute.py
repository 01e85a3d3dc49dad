"""`manage.py recompute`: summaries and verdicts again from the stored evidence, beside those that are stored.

It only reads. A measured cell never changes, and a choice or statement may rest on its summary; so there is no way to
write a recomputed one back. `--json` gives it away instead.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.models import Q, QuerySet

from benchmarks import queries, signing
from benchmarks.engine.summary import summarise
from benchmarks.engine.summary_types import as_json
from benchmarks.engine.verdicts import verdict_of
from benchmarks.models import Cell, Grid
from benchmarks.records import parquet
from benchmarks.records.differences import Difference, Kind, differences
from benchmarks.records.digest import sha256
from benchmarks.records.probes import verdict_json


@dataclass(frozen=True, slots=True)
class Recomputed:
    """One cell. `wrong` says why there is nothing to compare with; `summary` is None then. Of a behaviour probe it is the
    verdict. `signed_by` is the worker's key, as it stands on pages; empty where nobody signed."""

    cell: Cell
    summary: dict[str, object] | None
    found: tuple[Difference, ...]
    wrong: str = ""
    signed_by: str = ""

    @property
    def changed(self) -> list[Difference]:
        return [one for one in self.found if one.kind is not Kind.GROWN]

    @property
    def grown(self) -> list[Difference]:
        return [one for one in self.found if one.kind is Kind.GROWN]


class Command(BaseCommand):
    help = "Recomputes summaries from the stored evidence and tells where they differ. Writes nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("grid", nargs="*", type=int, help="numbers of grids")
        parser.add_argument("--all", action="store_true", help="every grid")
        parser.add_argument(
            "--check", action="store_true", help="exit code 1 when a number differs or evidence is missing or altered"
        )
        parser.add_argument("--json", action="store_true", help="the recomputed summaries, as JSON lines")

    def handle(self, *, grid: list[int], check: bool, **options: Any) -> None:
        cells = _cells(grid, every=options["all"])
        bad = count = grown = signed = 0
        for one in _recomputed(cells):
            count += 1
            grown += bool(one.grown)
            signed += bool(one.signed_by)
            bad += bool(one.wrong or one.changed)
            if options["json"]:
                self.stdout.write(json.dumps(_line(one)))
            else:
                self._tell(one)
        if not options["json"]:
            self.stdout.write(
                f"{count} cells recomputed, {bad} differ, {grown} have fields that are newer than they are."
            )
            self.stdout.write(f"{signed} are signed by the key of their host's worker, {count - signed} are not.")
        if check and bad:
            sys.exit(1)

    def _tell(self, one: Recomputed) -> None:
        if one.wrong:
            self.stderr.write(f"{one.cell}: {one.wrong}")
        for difference in one.changed:
            self.stderr.write(f"{one.cell}: {difference}")


def _cells(numbers: list[int], *, every: bool) -> QuerySet[Cell]:
    if every == bool(numbers):
        raise CommandError("Name the grids, or say --all.")
    known = set(Grid.objects.filter(pk__in=numbers).values_list("pk", flat=True))
    if missing := [number for number in numbers if number not in known]:
        raise CommandError(f"There is no grid {missing[0]}.")
    told = Q(summary__isnull=False) | Q(verdict__isnull=False)
    cells = Cell.objects.filter(told).select_related("evidence__key", "grid").order_by("grid_id", "position")
    return cells if every else cells.filter(grid_id__in=numbers)


def _recomputed(cells: QuerySet[Cell]) -> Iterator[Recomputed]:
    """One after the other, so that no more than one cell's evidence is in memory."""
    for cell in cells.iterator(chunk_size=100):
        yield _recompute(cell)


def _recompute(cell: Cell) -> Recomputed:
    try:
        content = queries.evidence_bytes(cell.pk)
    except LookupError:
        return Recomputed(cell, None, (), wrong="its evidence is not here")
    if sha256(content) != cell.evidence.sha256:
        return Recomputed(cell, None, (), wrong="its evidence is not what was stored: the digest differs")
    # One row for both ways, so that neither asks for the grid again.
    cell.evidence.cell = cell
    if cell.evidence.signature and not signing.evidence_is_signed(cell.evidence):
        return Recomputed(cell, None, (), wrong="its signature is not by the key of its host's worker")
    signed_by = str(cell.evidence.key) if cell.evidence.signature else ""
    try:
        columns = parquet.read(content)
    except parquet.WrongSchemaError as error:
        return Recomputed(cell, None, (), wrong=f"its evidence cannot be read: {error}")
    verdict = verdict_of(columns)
    again = as_json(summarise(columns, columns.plan)) if verdict is None else verdict_json(verdict)
    return Recomputed(cell, again, differences(cell.summary or cell.verdict or {}, again), signed_by=signed_by)


def _line(one: Recomputed) -> dict[str, object]:
    return {
        "grid": one.cell.grid_id,
        "cell": one.cell.pk,
        "wrong": one.wrong,
        "signed_by": one.signed_by,
        "changed": [str(difference) for difference in one.changed],
        "grown": [difference.field for difference in one.grown],
        "summary": one.summary,
    }
