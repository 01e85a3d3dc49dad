"""`make soak`: people browse while a grid runs on the simulated runtime. Are the windows that they disturb stamped, and no other?

    SOAK_S=300 SOAK_PEOPLE="5 50" python -m scripts.soak

People are a process of their own (scripts/crowd.py) that polls the live page and opens others, over HTTP and signed in. What
happened is told by the simulated runtime, which stamps each answer right before it is written, on the clock that the load client
reads too: a window is disturbed where the client saw the first or last piece of its answers later than that by more than
the stamp's own limit, at p99. Exit 1 where, with the fewest people, a window is stamped, or where a stamped window was not
disturbed or a disturbed one is not stamped.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import django
import httpx
import numpy as np
import psutil

from scripts.crowd import Tally
from scripts.journey import Journey, JourneyError, LengthClass, Plan
from scripts.pages import PageError
from scripts.run import VERSION, prepare
from scripts.show import Bar, Steps
from scripts.stack import ROOT, Stack, StackError, end_on_signals, free_port

HOME = ROOT / "var" / "soak"
SETTINGS, REPEATS, WARMUP_S = (1, 2, 4), 2, 1.0
LATE_MS = 5.0
"""The event-loop lag at p99 from which on a window is stamped (engine/health.py)."""
CALM = {"HEADROOM_CALIBRATION_TTFT_MS": "500", "HEADROOM_CALIBRATION_GAP_MS": "500"}
"""The stamp on each window is asked for here, not whether a grid would begin."""
NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True)
class Window:
    people: int
    setting: int
    repeat: int
    n: int
    late_p99_ms: float | None
    """None: none of its answers was found in the server's truth."""
    stamped: str

    @property
    def disturbed(self) -> bool | None:
        return None if self.late_p99_ms is None else self.late_p99_ms > LATE_MS

    def line(self) -> str:
        late = "unknown" if self.late_p99_ms is None else f"{self.late_p99_ms:.2f}"
        told = {True: "yes", False: "no", None: "unknown"}[self.disturbed]
        return f"{self.people:>6} {self.setting:>7} {self.repeat:>6} {self.n:>6} {late:>12} {told:>9}  {self.stamped or 'no'}"


HEAD = f"{'people':>6} {'setting':>7} {'repeat':>6} {'n':>6} {'late p99, ms':>12} {'disturbed':>9}  stamped"


def plan(endpoint: str, people: int, seconds: float) -> Plan:
    window_s = max(seconds / (len(SETTINGS) * REPEATS) - WARMUP_S, 3.0)
    return Plan(
        host=f"Host beside {people}", runtime_name=f"Runtime beside {people}", runtime_kind="simulator",
        runtime_version=VERSION, model="headroom-simulated-demo", endpoint=endpoint, metrics_path="/metrics", flags="",
        max_active=8, context_tokens=4096, classes=(LengthClass("short", 24, 8),), settings=SETTINGS,
        window_s=round(window_s, 1), warmup_s=WARMUP_S, grid_name=f"Beside {people} people", repeats=REPEATS,
    )  # fmt: skip


def drawn(journey: Journey, chosen: Plan) -> int:
    objective = f"{chosen.grid_name}, inside two seconds"
    journey.register_host(chosen)
    journey.register_runtime(chosen)
    journey.register_workload(chosen)
    journey.register_objective(objective, {"short": 2.0})
    return journey.draw(
        chosen, name=chosen.grid_name, objective=objective, workload=chosen.grid_name, settings=chosen.settings
    )


def beside(stack: Stack, journey: Journey, grid: int, people: int, within_s: float) -> Tally:
    """Runs the grid while so many people browse; what they did."""
    told = HOME / f"people-{people}.json"
    command = [sys.executable, "-m", "scripts.crowd", stack.base_url, str(HOME), str(people), str(grid), str(told)]
    crowd = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert crowd.stdout is not None
        if crowd.stdout.readline().strip() != "ready":
            raise StackError("the people could not sign in")
        journey.authorize(grid)
        journey.wait(grid, within_s=within_s, tick=Bar(f"{people} people beside grid {grid}", stack.check))
    finally:
        crowd.send_signal(signal.SIGINT)
        crowd.wait(30)
    return Tally(**json.loads(told.read_text()))


def windows(grid_number: int, people: int, truths: Sequence[dict[str, Any]]) -> list[Window]:
    from benchmarks import queries
    from benchmarks.models import Grid
    from benchmarks.records import parquet

    known, found = by_prompt(truths), []
    for cell in queries.evidence(Grid.objects.get(pk=grid_number)).cells:
        if cell.summary is None:
            found.append(Window(people, cell.setting, cell.repeat, 0, None, f"not measured: {cell.reason}"))
            continue
        late = late_ms(parquet.read(queries.evidence_bytes(cell.cell_id)), known)
        health = cell.summary.client
        why = (health.why or "client-limited") if health.client_limited else ""
        p99 = float(np.quantile(late, 0.99)) if len(late) else None
        found.append(Window(people, cell.setting, cell.repeat, cell.summary.scheduled, p99, why))
    return found


def late_ms(columns: Any, truths: Mapping[str, Sequence[dict[str, Any]]]) -> Any:
    """How much later than written the client saw first and last pieces of the window's answers, both on one clock. A prompt
    names its request; where several cells sent it, the first that the server read after it was sent is meant."""
    from benchmarks.engine.prompts import Workload
    from benchmarks.records.calibration import good_rows
    from benchmarks.simulator.truth import prompt_digest

    stamps = {name: columns.requests.masked[f"t_{name}_ns"].values for name in ("sent", "first", "last")}
    workload, indexes = Workload(columns.plan), columns.requests.plain["index"]
    late = []
    for row in good_rows(columns):
        sent, first, last = (int(one[row]) for one in stamps.values())
        asked = truths.get(prompt_digest(workload.build(int(indexes[row])).text), ())
        truth = next((one for one in asked if sent <= one["t_received_ns"] <= last), None)
        if truth is not None and truth["t_first_ns"] and truth["t_last_ns"]:
            late += [(first - truth["t_first_ns"]) / NS_PER_MS, (last - truth["t_last_ns"]) / NS_PER_MS]
    return np.array(late)


def by_prompt(truths: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """In the order in which the server read them."""
    found: dict[str, list[dict[str, Any]]] = {}
    for one in sorted(truths, key=lambda one: int(one["t_received_ns"])):
        found.setdefault(one["prompt_digest"], []).append(one)
    return found


def faults(found: Sequence[Window]) -> list[str]:
    """What does not hold, one sentence each."""
    said = []
    for one in found:
        name = f"with {one.people} people, {one.setting} in flight, repeat {one.repeat}"
        if one.stamped and one.people == min(w.people for w in found):
            said.append(f"{name}: stamped ({one.stamped})")
        if one.disturbed is None:
            said.append(f"{name}: the server's truth says nothing of it")
        elif bool(one.stamped) != one.disturbed:
            said.append(f"{name}: {'stamped, not disturbed' if one.stamped else 'disturbed, not stamped'}")
    return said


def soak(levels: Sequence[int], seconds: float) -> list[Window]:
    shutil.rmtree(HOME, ignore_errors=True)
    grids: dict[int, int] = {}
    with Stack(HOME, free_port(), CALM) as stack:
        prepare(stack)
        stack.start_web()
        stack.start_worker("--schedule")
        journey = Journey(stack.base_url, HOME / "demo-accounts.txt", Steps())
        truths: dict[int, list[dict[str, Any]]] = {}
        for people in levels:
            endpoint = stack.start_simulator(0, "--truth-kept", "100000")
            grids[people] = drawn(journey, plan(endpoint, people, seconds))
            tally = beside(stack, journey, grids[people], people, within_s=seconds * 3 + 240)
            print(f"{people} people: {tally.words()}", flush=True)
            page = httpx.get(f"{endpoint}/truth", timeout=120, trust_env=False).raise_for_status()
            (HOME / f"truth-{people}.json").write_bytes(page.content)
            truths[people] = page.json()["requests"]
        journey.close()
    os.environ["HEADROOM_VAR"] = str(HOME)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "capacity.settings")
    django.setup()
    return [window for people in levels for window in windows(grids[people], people, truths[people])]


def machine() -> str:
    model = next(
        (line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "unknown: unknown"
    )
    return (
        f"{psutil.cpu_count()} cores ({model.partition(': ')[2]}). Web server, worker, load client, simulated runtime and the "
        "people share them; elsewhere people bring their own."
    )


def main() -> int:
    end_on_signals()
    os.environ.setdefault("HEADROOM_CLIENT_REALTIME", "1")  # as `make run` does on one machine
    levels = [int(word) for word in (os.environ.get("SOAK_PEOPLE") or "5 50").split()]
    seconds = float(os.environ.get("SOAK_S") or 300)
    print(f"{machine()}\n{seconds:g} s of windows for each number of people", flush=True)
    try:
        found = soak(levels, seconds)
    except (StackError, JourneyError, PageError) as error:
        print(f"headroom: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(HEAD)
    print("\n".join(window.line() for window in found))
    said = faults(found)
    print("\n".join(said) or "Every stamped window was disturbed, and no other.")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
