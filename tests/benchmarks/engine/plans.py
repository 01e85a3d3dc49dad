"""Small plans and frames for tests of the engine."""

from __future__ import annotations

from typing import Any

from benchmarks.engine import plan as plans
from benchmarks.engine.plan import CellPlan, ClassPlan, Fixed
from benchmarks.engine.terms import Header, Outcome, Phase, RequestRecord, TokenSource

MS = 1_000_000
S = 1_000_000_000


def a_class(name: str = "short", **changes: Any) -> ClassPlan:
    fields = {"weight": 1.0, "prompt_tokens": Fixed(8), "output_tokens": Fixed(2)} | changes
    return ClassPlan(name=name, **fields)


def a_plan(**changes: Any) -> CellPlan:
    fields = {
        "label": "test",
        "base_url": "http://127.0.0.1:9",
        "model": "tiny",
        "runtime_kind": "simulated",
        "offered_concurrency": 1,
        "class_name": "short",
        "classes": (a_class(),),
        "seed": 1,
        "warmup_s": 0.0,
        "window_s": 1.0,
        "max_requests": 10,
        "max_tokens": 100_000,
        "max_wall_s": 20.0,
        "connect_timeout_s": 2.0,
        "simulated": True,
    } | changes
    return CellPlan(**fields)


def a_header(plan: CellPlan | None = None) -> Header:
    plan = plans.decode(plans.encode(plan or a_plan()))
    return Header(
        schema=1,
        plan_sha256=plans.sha256(plan),
        wall_ns=1_796_000_000 * S,
        monotonic_ns=0,
        engine_version="0.1.0",
        host="test",
        client_cpus="0",
        simulated=True,
        plan=plan,
    )


def a_record(index: int, **changes: Any) -> RequestRecord:
    """A good request: issued at index ms, first token after 10 ms, whole after 100 ms, 11 tokens."""
    at = index * MS
    fields = {
        "class_name": "short",
        "phase": Phase.WINDOW,
        "slot": 0,
        "outcome": Outcome.OK,
        "t_scheduled_ns": at,
        "t_sent_ns": at + MS,
        "t_headers_ns": at + 2 * MS,
        "t_first_ns": at + 10 * MS,
        "t_answer_ns": at + 10 * MS,
        "t_last_ns": at + 100 * MS,
        "t_end_ns": at + 100 * MS,
        "t_closed_ns": at + 100 * MS,
        "http_status": 200,
        "finish_reason": "stop",
        "intended_prompt_tokens": 8,
        "asked_output_tokens": 11,
        "prompt_tokens": 8,
        "output_tokens": 11,
        "token_source": TokenSource.SERVER,
        "valid": True,
    } | changes
    return RequestRecord(index=index, **fields)


FAILED = {
    "t_first_ns": None,
    "t_answer_ns": None,
    "t_last_ns": None,
    "t_end_ns": None,
    "finish_reason": None,
    "prompt_tokens": None,
    "output_tokens": None,
    "token_source": TokenSource.UNKNOWN,
    "valid": None,
}
