"""A capacity search as a grid: cells come one try after the other, each after what was measured, until there is an answer.

The search itself is `stats.search`, which sees only counts. Here: which cells make one measurement, what of them counts,
the rows of the next try, and the answer in words. One measurement is every length class, as often as the grid repeats.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchmarks import gates
from benchmarks.engine.summary_types import from_json
from benchmarks.models import Cell, Grid
from benchmarks.queries import limits_of, terms
from benchmarks.records.modes import Mode, SearchTerms
from benchmarks.records.search_answer import Answer
from benchmarks.stats.search import Found, Indeterminate, Observation, SearchSpec, Try, between, next_step

MOST_LIMITED = 2
"""So many measurements in a row whose client was the bottleneck end a search: they say nothing of the server."""
_ENDED = (Cell.Status.MEASURED, Cell.Status.STOPPED)


def spec_of(grid: Grid) -> SearchSpec:
    """From the lowest setting to the highest; a setting holds when the objective's share of requests is good."""
    wanted = terms(grid)
    assert isinstance(wanted, SearchTerms)
    share = limits_of(grid).percentile / 100
    budget = max(1, wanted.most_cells // _each(grid))
    return SearchSpec(start=grid.setting_values[0], limit=grid.setting_values[-1], attainment=share, budget=budget)


def advance(grid: Grid) -> bool:
    """After a cell, in its transaction: draws the cells of the next try, or keeps the answer. Whether cells were drawn."""
    if grid.mode != Mode.SEARCH or grid.answer is not None or grid.stop_requested:
        return False
    cells = list(grid.cells.order_by("position"))
    if stopped := _stopped(cells):
        close(grid, stopped)
        grid.cells.exclude(status__in=_ENDED).update(
            status=Cell.Status.NOT_RUN, reason=f"{gates.NOT_SAFE}{stopped}"[:300]
        )
        return False
    if any(cell.status not in _ENDED for cell in cells):
        return False
    seen, spec = observations(grid, cells), spec_of(grid)
    step = next_step(seen, spec)
    if not isinstance(step, Try):
        _keep(grid, _answer(step, seen, spec))
        return False
    if ended := _limited_too_often(_measurements(grid, cells), spec):
        close(grid, ended)
        return False
    _draw(grid, cells, step.setting)
    return True


def close(grid: Grid, reason: str) -> None:
    """Keeps that the search could not say, and why; an answer that is there already stays."""
    if grid.mode != Mode.SEARCH or grid.answer is not None:
        return
    spec = spec_of(grid)
    seen = observations(grid, list(grid.cells.order_by("position")))
    found = Indeterminate(reason=reason or "it was ended", between=between(seen, spec))
    _keep(grid, _answer(found, seen, spec))


def observations(grid: Grid, cells: Sequence[Cell]) -> list[Observation]:
    """One for each measurement whose cells have all ended, in running order, without those that the client limited."""
    return [_observed(group) for group in _measurements(grid, cells) if not _limited(group)]


def _measurements(grid: Grid, cells: Sequence[Cell]) -> list[Sequence[Cell]]:
    each = _each(grid)
    groups = [cells[start : start + each] for start in range(0, len(cells), each)]
    return [group for group in groups if len(group) == each and all(c.status in _ENDED and c.summary for c in group)]


def _limited(group: Sequence[Cell]) -> str:
    """Why the load client was the bottleneck in one of these windows; empty where it was not."""
    clients = [from_json(cell.summary).client for cell in group]
    return next((client.why or "no reason told" for client in clients if client.client_limited), "")


def _limited_too_often(groups: Sequence[Sequence[Cell]], spec: SearchSpec) -> str:
    """Why no further measurement is worth drawing: the client limited the last ones, or the budget went into such."""
    last = [_limited(group) for group in groups[-MOST_LIMITED:]]
    if len(last) == MOST_LIMITED and all(last):
        return f"the load client was the bottleneck at {groups[-1][0].setting} ({last[-1]})"
    return f"the budget of {spec.budget} measurements ended" if len(groups) >= spec.budget else ""


def _each(grid: Grid) -> int:
    return len(grid.class_names) * grid.repeats


def _stopped(cells: Sequence[Cell]) -> str:
    """Why the search must end: a cell that something else than failing requests stopped early. Empty when none was.

    Failing requests are what a search looks for: the guard stops such a cell to spare the server, and its counts stand.
    """
    for cell in cells:
        if cell.status == Cell.Status.STOPPED and not (
            cell.reason.startswith(gates.GUARD) and "requests failed" in cell.reason
        ):
            return f"the cell at {cell.setting} was stopped ({cell.reason.removeprefix(gates.GUARD).strip()})"
    return ""


def _observed(group: Sequence[Cell]) -> Observation:
    parts = [part for cell in group for part in from_json(cell.summary).classes]
    return Observation(
        setting=group[0].setting, hits=sum(part.good.hits for part in parts), n=sum(part.scheduled for part in parts)
    )


def _draw(grid: Grid, cells: Sequence[Cell], setting: int) -> None:
    """The cells of one more measurement, queued behind the others; repeats go on counting where the setting was before."""
    before = max((cell.repeat for cell in cells if cell.setting == setting), default=0)
    order = [(before + repeat, name) for repeat in range(1, grid.repeats + 1) for name in grid.class_names]
    Cell.objects.bulk_create(
        Cell(
            grid=grid, hardware_id=grid.hardware_id, position=len(cells) + i, setting=setting, repeat=repeat,
            class_name=name, status=Cell.Status.QUEUED,
        )
        for i, (repeat, name) in enumerate(order)
    )  # fmt: skip


def _answer(step: Found | Indeterminate, seen: Sequence[Observation], spec: SearchSpec) -> Answer:
    if isinstance(step, Indeterminate):
        held, failed = step.between
        return Answer(
            setting=None,
            reason=step.reason,
            held=held,
            failed=failed,
            attainment=spec.attainment,
            measurements=len(seen),
        )
    return Answer(
        setting=step.setting, at_limit=step.at_limit, attained=step.attained, refused=step.refused, held=step.setting,
        failed=None if step.at_limit else step.setting + 1, attainment=spec.attainment, measurements=len(seen),
    )  # fmt: skip


def _keep(grid: Grid, answer: Answer) -> None:
    kept = msgspec.to_builtins(answer)
    Grid.objects.filter(pk=grid.pk, answer__isnull=True).update(answer=kept)
    grid.answer = kept
