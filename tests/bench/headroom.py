"""Our engine as a tool: the program that the worker starts, with a plan and a log of its own."""

from __future__ import annotations

import sys

from benchmarks.engine import plan as plans
from benchmarks.engine.plan import CellPlan, ClassPlan, Fixed, Guard
from tests.bench import join
from tests.bench.join import Seen
from tests.bench.measurements import Measured
from tests.bench.tools import Task, Tool

PROMPT_TOKENS = 32
NO_LIMIT = 1_000_000_000


def tool(processes: int = 1) -> Tool:
    name = "Headroom" if processes == 1 else f"Headroom, {processes} processes"

    def command(task: Task) -> list[str]:
        path = task.folder / "plan.json"
        path.write_bytes(plans.encode(plan_of(task, processes)))
        return [sys.executable, "-m", "benchmarks.engine", str(path), str(task.folder / "log")]

    return Tool(name=name, version="this tree", command=command, seen=seen, keys=join.by_prompt)


def plan_of(task: Task, processes: int = 1) -> CellPlan:
    """A window from the first request on, no warm-up: the C client has none either."""
    shape = task.shape
    only = ClassPlan(
        name="only", weight=1.0, prompt_tokens=Fixed(tokens=PROMPT_TOKENS), output_tokens=Fixed(tokens=shape.tokens)
    )
    return CellPlan(
        label=f"bench {shape.name}",
        base_url=f"{task.base_url}/v1",
        model="bench",
        runtime_kind="simulated",
        offered_concurrency=shape.streams,
        class_name=only.name,
        classes=(only,),
        seed=task.seed,
        warmup_s=0.0,
        window_s=shape.seconds,
        max_requests=NO_LIMIT,
        max_tokens=NO_LIMIT * 1000,
        max_wall_s=60.0 + shape.seconds,
        burst_start=shape.burst,
        processes=processes,
        guard=Guard(max_error_share=None, max_p95_over_objective=None),
        simulated=True,
    )


def seen(task: Task, truth: Measured) -> Seen:
    return join.seen_by_engine(task.folder / "log")
