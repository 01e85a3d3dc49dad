"""`make real`: the whole path against llama.cpp's own server, on this host as it is: bare, then behind HAProxy.

A small seeded model, four slots, offered concurrency 1, 2, 4, 8. The objective, four times the p95 at 1, is set before
the grids from a calibration of its own. Bare, the server queues without bound, so no setting is safe; behind a gateway with
a bounded queue four is chosen and eight is refused. What must be so is said in one line each, or ends the run.
"""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from scripts.demo import decide_and_state, to_a_statement
from scripts.journey import Journey, JourneyError, LengthClass, Plan, Row
from scripts.run import prepare
from scripts.show import Bar, Steps
from scripts.stack import Stack, free_port
from tools import tiny_gguf

SLOTS, CONTEXT_TOKENS, THREADS = 4, 2048, "2"
SHAPE = tiny_gguf.Shape(width=768, heads=12)
"""270 MB of weights: more than processors keep near, so that a batch shares the reading of them on any machine."""
SETTINGS = (1, 2, 4, 8)
BARE_SETTINGS, BARE_WINDOW_S = (1, 8), 6.0
QUEUE = 4
OVERLOAD = {"overload": {"measure_s": "4", "calm_s": "4", "overload_s": "10"}}
TIMES_P95_AT_ONE = 4.0
TRIES = 4
CLIENT_UNTRUE = "The load client does not measure truly enough"
OBJECTIVE = "Four times the p95 at 1"
WITHIN_S = 400.0
FLAT = 1.15
"""Beyond the slots throughput must not rise by more than this factor; up to them it must rise by at least RISES."""
RISES = 1.10
GRIDS = 6


def start_server(stack: Stack, model: Path) -> str:
    """llama.cpp's server; returns its address. The load client shares the cores with its two threads and is woken first."""
    command = [sys.executable, "-m", "tools.llamacpp_server", str(model), "--slots", str(SLOTS)]
    return stack.start_announced(
        "llamacpp", [*command, "--context-per-slot", str(CONTEXT_TOKENS), "--threads", THREADS], within_s=120
    )


def real_plan(endpoint: str, model: Path) -> Plan:
    package = version("xllamacpp")
    return Plan(
        host="This host",
        notes="The machine that runs this demonstration, as it is.",
        runtime_name="llama.cpp server",
        runtime_kind="llamacpp",
        runtime_version=f"b{package.rpartition('.')[2]} (xllamacpp {package})",
        model=model.name,
        model_digest=hashlib.sha256(model.read_bytes()).hexdigest(),
        endpoint=endpoint,
        metrics_path="/metrics",
        flags=f"python -m tools.llamacpp_server {model.name} --slots {SLOTS} --context-per-slot {CONTEXT_TOKENS} "
        f"--threads {THREADS}",
        max_active=SLOTS,
        context_tokens=CONTEXT_TOKENS,
        # A prompt long enough that its work, which slots share, counts beside reading the weights, which a batch shares.
        classes=(LengthClass("words", 48, 12),),
        settings=SETTINGS,
        window_s=20.0,  # shorter ones vary by more than what is claimed of them
        warmup_s=2.0,
        grid_name="Real runtime",
    )


def behind_haproxy(stack: Stack, plan: Plan) -> Plan:
    """The same runtime with a gateway before it: as many with the server as it has slots, as many waiting, the rest refused."""
    arguments = [plan.endpoint, "--active", str(SLOTS), "--queue", str(QUEUE)]
    endpoint = stack.start_announced("haproxy", [sys.executable, "-m", "tools.haproxy_front", *arguments])
    return replace(plan, runtime_name="llama.cpp server behind HAProxy", endpoint=endpoint, probes=OVERLOAD)


def cell_at(rows: list[Row], setting: int) -> Row:
    """The one cell at this setting, before those of its probes; one that is not there ends the run."""
    for row in rows:
        if row["offered_concurrency"] == setting:
            return row
    raise JourneyError(f"no cell was measured at {setting} in flight")


def number(rows: list[Row], setting: int, column: str) -> float:
    """A column of the one cell at this setting; a value that is missing ends the run."""
    row = cell_at(rows, setting)
    value = row[column]
    if isinstance(value, int | float):
        return float(value)
    raise JourneyError(f"at {setting} in flight {column} is {value!r}, cell {row['status']}: {row['reason']}")


def must(holds: bool, claim: str, say: Steps) -> None:
    if not holds:
        raise JourneyError(f"this is not so on the real server: {claim}")
    say(f"seen: {claim}")


def measured_claims(rows: list[Row], say: Steps) -> None:
    """What four slots of a real continuous-batching server look like from outside."""
    tokens = {s: number(rows, s, "cell_output_tokens_per_s") for s in SETTINGS}
    p95 = {s: number(rows, s, "e2e_p95_s") for s in SETTINGS}
    shown = ", ".join(f"{tokens[s]:.0f} at {s}" for s in SETTINGS)
    must(tokens[4] >= RISES * tokens[1], f"throughput rises to {SLOTS} in flight (tokens/s: {shown})", say)
    must(tokens[8] <= FLAT * tokens[4], "and is flat beyond its slots", say)
    grows = ", ".join(f"{p95[s] * 1000:.0f} ms at {s}" for s in SETTINGS)
    must(p95[1] < p95[4] < p95[8], f"p95 end to end grows ({grows})", say)


def bare_claims(journey: Journey, grid: int, say: Steps) -> None:
    """What the page says of the server by itself."""
    waiting = number(journey.cells(grid), 8, "runtime_waiting_peak")
    must(waiting > 0, f"at 8 in flight the server itself reports up to {waiting:.0f} waiting requests", say)
    must(not journey.safe_settings(grid), "of the bare server no setting can be proposed", say)
    words = journey.as_("operator").get(f"/grids/{grid}/").words()
    must("No safe setting found" in words, "it ends in No safe setting found", say)
    must("nothing is refused" in words, "because beyond its capacity nothing is refused and the wait grows", say)
    must("gateway" in words, "with the remedy: a gateway with a bounded queue", say)


def judged_claims(journey: Journey, grid: int, say: Steps) -> None:
    """What the page says of the same server behind HAProxy."""
    operator = journey.as_("operator")
    offered = journey.safe_settings(grid)
    must(offered[:1] == ["4"], f"4 in flight is recommended (offered as safe: {', '.join(offered)})", say)
    must("8" not in offered, "8 in flight is refused", say)
    words = operator.get(f"/grids/{grid}/").words()
    refusal = between(words, "Why not 8", "Latency by request length").partition("Why not")[0]
    must("over the limit" in refusal, "8 in flight is refused: its p95 is over the objective", say)
    must("successful requests a minute" in refusal, "and for how much work it adds", say)
    gates = between(words, "What each setting was asked", "What was not tested")
    must("VRAM share not applicable" in gates, "memory on a host without GPU is not applicable", say)
    must("Judged by construction" in gates, "validity is named as being by construction", say)
    must("refuses at once" in words, "overload is refused at once by the gateway", say)


def between(words: str, start: str, end: str) -> str:
    """What stands on a page between two of its headings; empty where the first is missing."""
    return words.partition(start)[2].partition(end)[0]


def told_grid(
    stack: Stack, journey: Journey, plan: Plan, objective: str, say: Steps, tries: int = TRIES
) -> tuple[int, Plan]:
    """A grid, and the plan with a window that holds enough requests for a p95 on this machine: where it held too few the grid
    is run again for twice as long, and where the load client refused to measure, as where the machine stalls, again."""
    grid = run_grid(stack, journey, plan, objective)
    rows = journey.cells(grid)
    cells = [cell_at(rows, setting) for setting in plan.settings]
    few = any(cell["status"] == "measured" and cell["e2e_p95_s"] is None for cell in cells)
    untrue = any(CLIENT_UNTRUE in str(cell["reason"]) for cell in cells)
    if tries == 1 or not (few or untrue):
        return grid, plan
    say("too few requests for a p95; trying again for twice as long" if few else f"{CLIENT_UNTRUE}; trying again")
    again = replace(plan, window_s=plan.window_s * 2) if few else plan
    return told_grid(stack, journey, again, objective, say, tries - 1)


def measure(stack: Stack, journey: Journey, plan: Plan, say: Steps) -> int:
    """Calibrates at 1, sets the objective, runs the bare server, then the grid behind HAProxy; returns its number."""
    journey.register_host(plan)
    journey.register_runtime(plan)
    journey.register_workload(plan)
    class_name = plan.classes[0].name
    journey.register_objective("Calibration", {class_name: 60.0})
    first, scout = told_grid(stack, journey, replace(plan, settings=(1,)), "Calibration", say)
    p95_s, plan = number(journey.cells(first), 1, "e2e_p95_s"), replace(plan, window_s=scout.window_s)
    limit_s = TIMES_P95_AT_ONE * p95_s
    say(f"calibrated: p95 end to end at 1 in flight is {p95_s * 1000:.0f} ms; objective {limit_s * 1000:.0f} ms")
    journey.register_objective(OBJECTIVE, {class_name: limit_s})
    bare = replace(plan, window_s=BARE_WINDOW_S, settings=BARE_SETTINGS, probes=OVERLOAD)
    bare_claims(journey, told_grid(stack, journey, bare, OBJECTIVE, say)[0], say)
    guarded = behind_haproxy(stack, plan)
    journey.register_runtime(guarded)
    grid = undisturbed_grid(stack, journey, guarded, say)
    measured_claims(journey.cells(grid), say)
    judged_claims(journey, grid, say)
    return grid


def undisturbed_grid(stack: Stack, journey: Journey, plan: Plan, say: Steps) -> int:
    """The first grid in which nothing else on this machine held up the load client; where there is none, the one in which
    the fewest settings were."""
    disturbed: dict[int, int] = {}
    for _ in range(GRIDS):
        grid, plan = told_grid(stack, journey, plan, OBJECTIVE, say)
        held_up = [row["offered_concurrency"] for row in journey.cells(grid) if row["client_limited"] is True]
        if not held_up:
            return grid
        disturbed[grid] = len(held_up)
        say(f"something else on this machine held up the load client at {', '.join(map(str, held_up))} in flight")
    return min(disturbed, key=lambda grid: disturbed[grid])


def run_grid(stack: Stack, journey: Journey, plan: Plan, objective: str) -> int:
    name = f"{plan.grid_name}: {objective.lower()}"
    grid = journey.draw(plan, name=name, objective=objective, workload=plan.grid_name, settings=plan.settings)
    journey.authorize(grid)
    journey.wait(grid, within_s=WITHIN_S, tick=Bar(f"Running grid {grid}", stack.check))
    return grid


def real(home: Path) -> list[Path]:
    say = Steps()
    os.environ.setdefault("HEADROOM_CLIENT_REALTIME", "1")  # the server's threads are as many as small hosts have cores
    with Stack(home, free_port()) as stack:
        prepare(stack)
        model = home / "tiny-8x768-f32.gguf"
        tiny_gguf.write(model, SHAPE)
        endpoint = start_server(stack, model)
        stack.start_web()
        stack.start_worker("--schedule")
        say(f"llama.cpp's own server at {endpoint} with {SLOTS} slots; web server and worker at {stack.base_url}")
        journey = Journey(stack.base_url, home / "demo-accounts.txt", say)
        try:
            grid = measure(stack, journey, real_plan(endpoint, model), say)
            files = decide_and_state(stack, journey, grid, say)
        finally:
            journey.close()
    say("done")
    return files


def main() -> int:
    return to_a_statement(real, "real")


if __name__ == "__main__":
    sys.exit(main())
