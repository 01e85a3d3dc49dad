"""What has happened to a grid, newest first: people's steps, the worker's, and how each cell ended. Computed from rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _

from benchmarks.gates import NOT_SAFE
from benchmarks.live_tables import p95_words
from benchmarks.models import Attempt, Cell, Event, Grid
from benchmarks.records.modes import Mode
from benchmarks.records.probes import WORDS as PROBES

MOST = 40
_SHOWN = (Cell.Status.MEASURED, Cell.Status.STOPPED, Cell.Status.RUNNING, Cell.Status.INTERRUPTED)


@dataclass(frozen=True, slots=True)
class Happened:
    """One line. `kind` is a pill's kind, for what a reader should not pass over."""

    at: datetime
    text: str
    kind: str = ""


def of_grid(grid: Grid, cells: Sequence[Cell]) -> list[Happened]:
    """At most MOST lines in two queries, or three where a cell was tried again."""
    every = [*_of_people(grid), *_of_cells(grid, cells), *_of_gates(grid, cells), *_of_attempts(cells)]
    return sorted(every, key=lambda one: one.at, reverse=True)[:MOST]


def _of_people(grid: Grid) -> Iterator[Happened]:
    found = Event.objects.filter(subject=f"grid {grid.pk}").exclude(verb__startswith="recorded")
    for event in found.exclude(verb="interrupted cell").order_by("-sequence")[:MOST]:
        reason = f": {event.reason}" if event.reason else ""
        kind = "warn" if event.verb.startswith(("stopped", "revoked", "paused")) else ""
        what = "" if " " in event.verb else _(" the grid")
        yield Happened(event.at, f"{event.actor} {event.verb}{what}{reason}", kind)


def _of_cells(grid: Grid, cells: Sequence[Cell]) -> Iterator[Happened]:
    for cell in cells:
        if cell.status not in _SHOWN or cell.started_at is None:
            continue
        if cell.finished_at is None:
            yield Happened(cell.started_at, _("%(cell)s: started") % {"cell": _name(grid, cell)})
        else:
            yield Happened(cell.finished_at, f"{_name(grid, cell)}: {_ended(cell)}", _kind(cell))


def _of_gates(grid: Grid, cells: Sequence[Cell]) -> Iterator[Happened]:
    """A stage above another starts only when its gate has let it; a search goes where its own rule leads."""
    if grid.mode == Mode.SEARCH:
        return
    started = [(c.started_at, c.setting, c.stage) for c in cells if c.started_at is not None and not c.probe]
    highest: int | None = None
    for at, setting, stage in sorted(started):
        if highest is not None and setting > highest:
            yield Happened(at, _("The gate let %(at)s start") % {"at": stage})
        highest = setting if highest is None else max(highest, setting)


def _of_attempts(cells: Sequence[Cell]) -> Iterator[Happened]:
    again = {cell.pk: cell for cell in cells if cell.attempt > 1}
    if not again:
        return
    for attempt in Attempt.objects.filter(cell__in=again, outcome=Cell.Status.INTERRUPTED):
        cell = again[attempt.cell_id]
        if attempt.ended_at is None:
            continue
        words = _("%(cell)s: attempt %(n)s was interrupted. %(why)s") % {
            "cell": _name(cell.grid, cell), "n": attempt.number, "why": attempt.reason,
        }  # fmt: skip
        yield Happened(attempt.ended_at, words.strip(), "warn")


def _name(grid: Grid, cell: Cell) -> str:
    repeat = _(", repeat %(n)s") % {"n": cell.repeat} if grid.repeats > 1 and not cell.probe else ""
    what = PROBES[cell.probe].name if cell.probe else cell.class_name
    return f"{cell.stage}, {what}{repeat}"


def _ended(cell: Cell) -> str:
    if cell.status != Cell.Status.MEASURED:
        return f"{cell.get_status_display().lower()}. {cell.reason.removeprefix(NOT_SAFE)}"
    summary = cell.read_summary
    if summary is None:
        return _("finished")
    failed = summary.scheduled - summary.outcomes.get("ok", 0)
    return _("measured, p95 %(p95)s, %(failed)s of %(n)s failed") % {
        "p95": p95_words(summary), "failed": f"{failed:,}", "n": f"{summary.scheduled:,}",
    }  # fmt: skip


def _kind(cell: Cell) -> str:
    return "" if cell.status == Cell.Status.MEASURED else "bad"
