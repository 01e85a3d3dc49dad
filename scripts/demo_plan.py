"""What `make run` and `make demo` register and measure: the simulated runtime, four settings, three length classes."""

from __future__ import annotations

from scripts.journey import Journey, LengthClass, Plan

SETTINGS = (1, 2, 4, 8)
OBJECTIVE = "Short answers quickly, long ones soon"
# Between what four and eight in flight take on the simulated runtime, so that the grid has something to tell.
E2E_LIMITS_S = {"short": 0.18, "median": 0.28, "long": 0.42}
# Made up like everything else of the demonstration, and equal to the workload: prompts of its mix, none of them repeated.
TERMS: dict[str, str | list[str]] = {
    "demand_per_min": "300",
    "production_p10_tokens": "21",
    "production_p90_tokens": "90",
    "production_p95_tokens": "102",
    "production_source": "the demonstration's own workload",
    "tenants": "1",
    "retry_kind": "backoff",
    "retry_tries": "4",
    "retry_base_s": "0.5",
    "retry_most_s": "20",
    "retry_jitter": "on",
    "retry_honours_retry_after": "on",
    "retry_budget_share": "10",
}
GRID_WITHIN_S = 300.0


def demo_plan(endpoint: str, version: str) -> Plan:
    """Work so short that a window of five seconds holds enough requests to judge."""
    return Plan(
        host="Demonstration host",
        notes="This machine. The runtime on it is simulated, so nothing measured here says anything about it.",
        runtime_name="Simulated runtime",
        runtime_kind="simulator",
        runtime_version=version,
        model="headroom-simulated-demo",
        endpoint=endpoint,
        metrics_path="/metrics",
        gpu_metrics_path="/gpu/metrics",
        flags="python -m benchmarks.simulator --profile demo",
        max_active=8,
        context_tokens=4096,
        classes=(
            LengthClass("short", 24, 8, 50),
            LengthClass("median", 48, 12, 35),
            LengthClass("long", 96, 16, 15),
        ),
        settings=SETTINGS,
        window_s=5.0,
        warmup_s=0.5,
        grid_name="Demonstration",
        probes={"limits": {"rate_requests": "20"}},
    )


def register_all(journey: Journey, plan: Plan) -> int:
    """Host, runtime, workload, objective, in that order, then the grid; returns its number."""
    journey.register_host(plan)
    journey.register_runtime(plan)
    journey.register_workload(plan)
    journey.register_objective(OBJECTIVE, E2E_LIMITS_S, TERMS)
    return draw(journey, plan)


def draw(journey: Journey, plan: Plan) -> int:
    return journey.draw(plan, name=plan.grid_name, objective=OBJECTIVE, workload=plan.grid_name, settings=plan.settings)
