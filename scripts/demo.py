"""`make demo`: the whole path over HTTP in a folder of its own, from registration to a verified statement.

Ends with the statement's JSON and PDF in var/demo/, and exits 0 only when `manage.py verify_statement` calls both valid
and a copy with one changed byte tampered.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scripts.demo_plan import GRID_WITHIN_S, demo_plan, draw, register_all
from scripts.journey import Journey, JourneyError, Plan
from scripts.pages import PageError
from scripts.run import VERSION, prepare
from scripts.show import Bar, Steps
from scripts.stack import ROOT, Stack, StackError, end_on_signals, free_port

# A demonstration never touches the data, keys or services of a real installation.
TRIES = 3
OWN = {"DATABASE_URL", "BROKER_URL", "HEADROOM_KEYS", "SECRET_KEY", "ALLOWED_HOSTS", "BEHIND_TLS", "DEBUG"}


def fresh_home(name: str) -> Path:
    """An empty folder under var/; what an earlier demonstration left there goes."""
    for variable in OWN:
        os.environ.pop(variable, None)
        os.environ.pop(f"{variable}_FILE", None)
    home = Path(os.environ.get("HEADROOM_VAR") or ROOT / "var") / name
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    return home


def verify(stack: Stack, file: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "manage.py", "verify_statement", str(file)]
    return subprocess.run(command, cwd=ROOT, env=stack.env, capture_output=True, text=True, check=False)


def prove(stack: Stack, files: list[Path], say: Steps) -> None:
    """Each file is valid; with one byte changed in the middle it is not. Two commands at a time: most of each is start-up."""
    changed = [with_one_byte_changed(stack, file) for file in files]
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda file: verify(stack, file), [*files, *changed]))
    for file, done, refused in zip(files, answers, answers[len(files) :], strict=False):
        if done.returncode:
            raise JourneyError(f"{file.name} does not verify: {(done.stdout + done.stderr).strip()}")
        say(f"verified: {file}\n          {' '.join(done.stdout.split())[:200]}")
        if refused.returncode == 0:
            raise JourneyError(f"{file.name} with one changed byte still verifies")
        words = " ".join((refused.stdout + refused.stderr).split())
        say(f"one byte changed: exit code {refused.returncode}, {words[:120]}")
    for file in changed:
        file.unlink()


def with_one_byte_changed(stack: Stack, file: Path) -> Path:
    changed = stack.home / f"changed-{file.name}"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    changed.write_bytes(content)
    return changed


def decide_and_state(stack: Stack, journey: Journey, grid: int, say: Steps) -> list[Path]:
    """Propose, refuse the wrong person, approve, sign, download, verify."""
    number = journey.propose(grid)
    journey.refused(lambda: journey.approve(number, "operator"), "approving one's own proposal")
    journey.approve(number)
    files = journey.download(journey.issue(number), stack.home)
    prove(stack, files, say)
    return files


def measured(stack: Stack, journey: Journey, plan: Plan, grid: int, say: Steps) -> int:
    """Runs the grid, and once or twice again where a busy machine left nothing to sign; returns the one that stands."""
    for left in reversed(range(TRIES)):
        journey.authorize(grid)
        journey.wait(grid, within_s=GRID_WITHIN_S, tick=Bar("Running the grid", stack.check))
        safe = journey.safe_settings(grid)
        if safe and not journey.unsignable(grid):
            return grid
        found = f"{safe[0]} in flight, and no key would sign that" if safe else "no safe setting"
        say(f"grid {grid}: {found}: {journey.finding(grid)}")
        if left:
            say("the machine is busy with something else; measuring again")
            grid = draw(journey, plan)
    raise JourneyError(f"nothing to sign in {TRIES} grids: end what else runs on this machine, then `make demo` again")


def demo(home: Path) -> list[Path]:
    say = Steps()
    with Stack(home, free_port()) as stack:
        prepare(stack)
        say("tables, static files, accounts and keys are ready")
        stack.start_web()
        stack.start_worker("--schedule")
        endpoint = stack.start_simulator()
        say(f"web server, worker with its scheduler and simulated runtime run: {stack.base_url}")
        journey = Journey(stack.base_url, home / "demo-accounts.txt", say)
        try:
            plan = demo_plan(endpoint, VERSION)
            grid = measured(stack, journey, plan, register_all(journey, plan), say)
            files = decide_and_state(stack, journey, grid, say)
        finally:
            journey.close()
    say("done")
    return files


def to_a_statement(journey: Callable[[Path], list[Path]], name: str) -> int:
    """Runs a journey in a folder of its own under var/; the exit code, with one line of what is wrong where it fails."""
    end_on_signals()
    try:
        files = journey(fresh_home(name))
    except KeyboardInterrupt:
        return 130
    except (StackError, JourneyError, PageError) as error:
        print(f"headroom: {error}", file=sys.stderr)
        return 1
    print("The verified statement: " + " and ".join(str(file) for file in files))
    return 0


def main() -> int:
    return to_a_statement(demo, "demo")


if __name__ == "__main__":
    sys.exit(main())
