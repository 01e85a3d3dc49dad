"""Evidence of a probe made by hand: requests as (role, due, times), and what a run of one leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.engine.column_types import Columns
from benchmarks.engine.columns import from_frames
from benchmarks.engine.plan import ClassPlan, Fixed
from benchmarks.engine.probe_plan import Probe
from benchmarks.engine.probes.cells import probe_cell
from benchmarks.engine.terms import End, NotReported, Outcome, Reading, RequestRecord, Window
from benchmarks.engine.verdicts import ProbeVerdict, verdict_of
from tests.benchmarks.engine.loads.running import AtWork, Left, run_cell
from tests.benchmarks.engine.plans import FAILED, S, a_header, a_plan, a_record

SHORT = ClassPlan(name="short", weight=1.0, prompt_tokens=Fixed(8), output_tokens=Fixed(3))
LONG = ClassPlan(name="long", weight=1.0, prompt_tokens=Fixed(8), output_tokens=Fixed(8))


def request(role: str, due_s: float, end_s: float | None, **changes: Any) -> RequestRecord:
    """Sent when due, its headers at once; `end_s` of None: cancelled by us without an end."""
    at, end = round(due_s * S), None if end_s is None else round(end_s * S)
    times = {"t_scheduled_ns": at, "t_sent_ns": at, "t_headers_ns": at, "t_closed_ns": end or at}
    if end is None:
        times |= FAILED | {"outcome": Outcome.CANCELLED}
    else:
        times |= {"t_first_ns": end, "t_answer_ns": end, "t_last_ns": end, "t_end_ns": end}
    stamps = {f"t_{name}_ns": at_s if at_s is None else round(at_s * S) for name, at_s in changes.pop("at", {}).items()}
    return a_record(0, role=role, **(times | stamps | changes))


def evidence(
    probe: Probe, *found: RequestRecord | Reading | NotReported, window_s: float = 100.0, stopped: str = "",
    **plan_changes: Any,
) -> Columns:  # fmt: skip
    plan = probe_cell(a_plan(**({"classes": (SHORT, LONG), "class_name": "short"} | plan_changes)), probe)
    return from_frames(
        [
            a_header(plan),
            *found,
            Window(start_ns=0, end_ns=round(window_s * S)),
            End(t_ns=round(window_s * S), complete=not stopped, reason=stopped or "window completed", sent=len(found)),
        ]
    )


def judged(probe: Probe, *found: RequestRecord | Reading | NotReported, **more: Any) -> ProbeVerdict:
    verdict = verdict_of(evidence(probe, *found, **more))
    assert verdict is not None
    return verdict


def run_probe(
    folder: Path, url: str, model: str, probe: Probe, *, at_work: AtWork | None = None, **plan_changes: Any
) -> tuple[Left, ProbeVerdict]:  # fmt: skip
    """The probe as a cell in this process against a server that is there, and what it says."""
    made = a_plan(
        **(
            {
                "base_url": url, "model": model, "classes": (SHORT, LONG), "class_name": "short",
                "max_requests": 5000, "max_tokens": 10**7, "max_wall_s": 60.0,
            }
            | plan_changes
        )
    )  # fmt: skip
    plan = probe_cell(made, probe)
    changes = {name: getattr(plan, name) for name in plan.__struct_fields__}
    left = run_cell(folder, url=url, at_work=at_work, **changes)
    verdict = verdict_of(left.columns)
    assert verdict is not None
    return left, verdict
