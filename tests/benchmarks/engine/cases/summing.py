"""A summary of records as one cell's window, as if they were all that it had."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.engine.columns import from_frames
from benchmarks.engine.plan import CellPlan
from benchmarks.engine.summary import summarise
from benchmarks.engine.summary_types import CellSummary, ClassSummary
from benchmarks.engine.terms import End, RequestRecord, Window
from tests.benchmarks.engine.plans import S, a_header, a_plan


def summary_of(records: Sequence[RequestRecord], plan: CellPlan | None = None, **plan_changes) -> CellSummary:
    """The window is ten seconds from the first request on."""
    plan = plan or a_plan(**plan_changes)
    began_ns = min((record.t_scheduled_ns for record in records), default=0)
    window = Window(start_ns=began_ns, end_ns=began_ns + 10 * S)
    end = End(t_ns=began_ns + 10 * S, complete=True, reason="window completed", sent=len(records))
    return summarise(from_frames([a_header(plan), *records, window, end]), plan)


def short_of(records: Sequence[RequestRecord], **plan_changes) -> ClassSummary:
    """Of the one class that a plan of tests has."""
    found = summary_of(records, **plan_changes).of_class("short")
    assert found is not None
    return found
