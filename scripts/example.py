"""`make example`: the worked example on the simulated runtime, from a closed-loop grid to a setting whose grade is Complete.

With one in flight the GPU is mostly idle, four is chosen, eight is refused for three reasons. Behaviour probes stand with
the grid, the finalist is confirmed in an open loop through the queue cap that the page proposes, and each step is a page.
What must be so is said in one line each, or ends the run. No limit is loosened where the machine disturbs it: what was
disturbed is measured again, and each such grid is said.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Collection
from dataclasses import replace
from math import ceil, floor
from pathlib import Path

from scripts.demo import decide_and_state, to_a_statement
from scripts.demo_plan import TERMS
from scripts.journey import Journey, JourneyError, LengthClass, Plan, Row
from scripts.run import VERSION, prepare
from scripts.show import Bar, Steps
from scripts.stack import Stack, free_port

PROFILE = "example"
SETTINGS = (1, 4, 8)
CHOSEN, REFUSED = 4, 8
QUEUE_CAP = 16
SHORT, LONG = LengthClass("short", 16, 8, 65), LengthClass("long", 128, 12, 35)
OBJECTIVE = "Short answers at once, long ones soon"
# Between what four and eight in flight take, nearer to eight: an open loop waits, a closed one does not.
E2E_LIMITS_S = {"short": 0.28, "long": 0.45}
# Four short windows rather than three longer ones: what repeats leave open shrinks faster than what requests do.
WINDOW_S, REPEATS = 6.0, 4
WITHIN_S = 600.0
TRIES = 3
CONFIRMED_SHARE = 0.6
CONFIRM_REPEATS = 8  # at 1 % the spread of three counts four times as much as it is wide, that of eight once
PROVED_BY = 440
"""Requests of the rarest class that the confirmation is long enough for: in simulation they are worth 150 to 200."""
LOAD_ALONE = {"sample", "window", "not-highest"}
"""Criteria that are settled before the probes run."""
STILL_TO_COME = {"confirmation", "cap", "conditions"}
# KV heads x (k + v) x layers x 2 bytes is the 200 KiB for each token of the simulated card.
GEOMETRY = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 50,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "torch_dtype": "bfloat16",
    "max_position_embeddings": 4096, "vocab_size": 32000, "intermediate_size": 11008,
}  # fmt: skip
PROBES = {
    "fairness": {"long_clients": "1", "alone_s": "8", "beside_s": "14"},
    "overload": {"measure_s": "3", "calm_s": "3", "overload_s": "8"},
    "cancellation": {"tries": "2"},
    "retry_storm": {"measure_s": "3", "calm_s": "3", "load": "burst"},
    "limits": {"rate_requests": "20"},
}
IN_FRONT = {"overload": PROBES["overload"]}
"""What shows that the queue cap of the confirming runtime is in force."""
MOST_WORDS = 600
GRADE = re.compile(r"(Complete|Needs revision|Not complete|No safe setting found) This grid")


def example_plan(endpoint: str) -> Plan:
    return Plan(
        host="Example host",
        notes="This machine. The runtime on it is simulated, so nothing measured here says anything about it.",
        runtime_name="Simulated runtime",
        runtime_kind="simulator",
        runtime_version=VERSION,
        model="headroom-simulated-example",
        geometry=json.dumps(GEOMETRY),
        weights_gib=10.4,
        endpoint=endpoint,
        metrics_path="/metrics",
        gpu_metrics_path="/gpu/metrics",
        flags=f"python -m benchmarks.simulator --profile {PROFILE}",
        max_active=REFUSED,
        context_tokens=4096,
        classes=(SHORT, LONG),
        class_names=("mixed", "short"),
        settings=SETTINGS,
        repeats=REPEATS,
        window_s=WINDOW_S,
        warmup_s=0.5,
        grid_name="Worked example",
        probes=PROBES,
    )


def register(journey: Journey, plan: Plan) -> None:
    journey.register_host(plan)
    journey.register_runtime(plan)
    journey.register_workload(plan)
    terms = TERMS | {
        "success_share": "95", "validity_share": "95",  # what windows of some seconds can prove
        "production_p10_tokens": "14", "production_p90_tokens": "140", "production_p95_tokens": "145",
        "production_source": "the example's own workload",
    }  # fmt: skip
    journey.register_objective(OBJECTIVE, E2E_LIMITS_S, terms)


def must(holds: bool, claim: str, say: Steps, instead: str = "") -> None:
    if not holds:
        raise JourneyError(f"this is not so: {claim}. {instead[:MOST_WORDS]}".strip())
    say(f"seen: {claim}")


def between(words: str, start: str, end: str) -> str:
    """What stands on a page between two of its headings; empty where the first is missing."""
    return words.partition(start)[2].partition(end)[0]


def grade_of(words: str) -> str:
    found = GRADE.search(words)
    return found[1] if found else "no grade"


def open_of(journey: Journey, grid: int) -> list[Row]:
    return [row for row in journey.rubric(grid).values() if row["answer"] not in ("holds", "not applicable")]


def run(stack: Stack, journey: Journey, grid: int) -> None:
    journey.authorize(grid)
    journey.wait(grid, within_s=WITHIN_S, tick=Bar(f"Running grid {grid}", stack.check))
    journey.record_after(grid)


def measured(stack: Stack, journey: Journey, plan: Plan, say: Steps) -> int:
    """The grid in which four is chosen and nothing but its confirmation is open; a busy machine may spoil one, which ends
    before its probes where its load shows it already."""
    for left in reversed(range(TRIES)):
        grid = journey.draw(
            plan, name=plan.grid_name, objective=OBJECTIVE, workload=plan.grid_name, settings=plan.settings
        )
        journey.authorize(grid)
        journey.wait(grid, within_s=WITHIN_S, tick=Bar(f"Load of grid {grid}", stack.check), load_only=True)
        spoiled = disturbed(journey, grid, LOAD_ALONE)
        if spoiled:
            journey.stop(grid)
        journey.wait(grid, within_s=WITHIN_S, tick=Bar(f"Probes of grid {grid}", stack.check))
        journey.record_after(grid)
        spoiled = spoiled or disturbed(journey, grid)
        if not spoiled:
            return grid
        say(f"grid {grid} is no ground for a decision: {spoiled[:MOST_WORDS]}")
        if left:
            say("the machine is busy with something else; measuring again")
    raise JourneyError(f"none of {TRIES} grids could be decided on: end what else runs on this machine, then try again")


def disturbed(journey: Journey, grid: int, keys: Collection[str] = ()) -> str:
    """What keeps this grid from a decision, of these criteria or of all that need no open loop; empty where nothing does."""
    safe = journey.safe_settings(grid)
    if not safe or safe[0] != str(CHOSEN):
        return f"it chose {safe[0] if safe else 'nothing'}. {journey.finding(grid)}"
    asked = [row for row in open_of(journey, grid) if (row["key"] in keys if keys else row["key"] not in STILL_TO_COME)]
    return " ".join(f"{row['title']}: {row['evidence']}" for row in asked)


def closed_loop_claims(journey: Journey, grid: int, say: Steps) -> None:
    """Why four, why not eight, and what is still to run."""
    words = journey.as_("operator").get(f"/grids/{grid}/").words()
    must("mostly idle" in words, "with one in flight the GPU is mostly idle", say)
    refusal = between(words, f"Why not {REFUSED}", "Latency by request length").partition("Why not")[0]
    must("successful requests a minute" in refusal, "eight is refused for how little it adds", say, refusal)
    must("nearly full" in refusal, "and because VRAM is nearly full", say, refusal)
    must("Long requests delay short ones" in refusal, "and because long requests delay short ones", say, refusal)
    grade, next_cell = grade_of(words), "Draw the confirm"
    must(grade == "Needs revision", "without its confirmation in an open loop the grade is Needs revision", say, grade)
    must(
        next_cell in words or "Draw this setting" in words or "open loop" in words,
        "and the page says which cell to run",
        say,
    )


def confirm(stack: Stack, journey: Journey, plan: Plan, grid: int, say: Steps) -> None:
    """The runtime again with four at once and the proposed queue cap, a probe that shows it in force, and the open loop
    through it. One that a busy machine spoiled is drawn again; after one that failed the page proposes a lower rate."""
    proposed = journey.confirmation(grid)
    most, cap = float(proposed["rate_per_min"]), int(proposed["queue_cap"])
    say(f"proposed: {proposed['setting']} at once, {cap} may wait, {most:g} requests a minute arrive")
    rate = floor(CONFIRMED_SHARE * most)
    say(f"operator confirms {rate}: at the most that fits, a proof with 1 % for error would need luck")
    in_front = with_cap(stack, journey, plan, cap)
    rarest = min(one.share_percent for one in plan.classes) / 100
    for tried in range(TRIES):
        window_s = ceil((1 + tried / 2) * PROVED_BY / (rate / 60 * rarest) / CONFIRM_REPEATS)
        drawn = journey.draw_confirmation(
            grid, runtime=in_front.runtime_name, rate_per_min=rate, window_s=window_s, repeats=CONFIRM_REPEATS
        )
        run(stack, journey, drawn)
        found = journey.rubric(grid)["confirmation"]
        if found["answer"] == "holds":
            return
        say(f"grid {drawn} did not confirm it, {found['answer']}: {str(found['evidence'])[:MOST_WORDS]}")
        rate = min(rate, int(float(journey.confirmation(grid)["rate_per_min"])))
        say(f"the page proposes {rate} requests a minute now")
    raise JourneyError(f"none of {TRIES} open loops confirmed it: end what else runs on this machine, then try again")


def with_cap(stack: Stack, journey: Journey, plan: Plan, cap: int) -> Plan:
    """Registered, and seen to refuse."""
    arguments = ("--profile", PROFILE, "--active", str(CHOSEN), "--queue-cap", str(cap))
    in_front = replace(
        plan, runtime_name=f"Simulated runtime, {CHOSEN} at once and {cap} waiting", max_active=CHOSEN,
        endpoint=stack.start_simulator(0, *arguments), grid_name="Queue cap in force", class_names=("mixed",), repeats=1,
        window_s=2.0, probes=IN_FRONT,
    )  # fmt: skip
    journey.register_runtime(in_front)
    run(
        stack,
        journey,
        journey.draw(
            in_front, name=in_front.grid_name, objective=OBJECTIVE, workload=plan.grid_name, settings=(CHOSEN,)
        ),
    )
    return in_front


def example(home: Path) -> list[Path]:
    say = Steps()
    os.environ.setdefault(
        "HEADROOM_CLIENT_REALTIME", "1"
    )  # web server, worker and runtime share two cores with the client
    with Stack(home, free_port()) as stack:
        prepare(stack)
        stack.start_web()
        stack.start_worker("--schedule")
        endpoint = stack.start_simulator(0, "--profile", PROFILE, "--queue-cap", str(QUEUE_CAP))
        say(f"web server, worker with its scheduler and simulated runtime run: {stack.base_url}")
        journey = Journey(stack.base_url, home / "demo-accounts.txt", say)
        try:
            plan = example_plan(endpoint)
            register(journey, plan)
            grid = measured(stack, journey, plan, say)
            closed_loop_claims(journey, grid, say)
            confirm(stack, journey, plan, grid, say)
            words = journey.as_("operator").get(f"/grids/{grid}/").words()
            grade = grade_of(words)
            must(
                grade == "Complete",
                "after that cell the grade is Complete",
                say,
                " ".join(f"{row['title']} {row['answer']}: {row['evidence']}" for row in open_of(journey, grid)),
            )
            files = decide_and_state(stack, journey, grid, say)
        finally:
            journey.close()
    say("done")
    return files


def main() -> int:
    return to_a_statement(example, "example")


if __name__ == "__main__":
    sys.exit(main())
