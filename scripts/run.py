"""`make run`: everything on this machine, with a finished demonstration grid, until Ctrl-C.

The data stay in var/ (or HEADROOM_VAR); run again, it goes on with them, and a grid that was cut short is finished.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from scripts.demo_plan import GRID_WITHIN_S, demo_plan, register_all
from scripts.journey import Journey, JourneyError
from scripts.pages import PageError
from scripts.show import Bar, Steps
from scripts.stack import ROOT, Stack, StackError, end_on_signals, port_is_free

VERSION = "0.1.0"


@dataclass(frozen=True, slots=True)
class Kept:
    """What a later run must know, each a small file beside the data."""

    home: Path

    def read(self, name: str) -> str:
        file = self.home / name
        return file.read_text().strip() if file.exists() else ""

    def write(self, name: str, value: str) -> None:
        (self.home / name).write_text(value)


def prepare(stack: Stack) -> None:
    """Tables, static files, accounts, keys; what it prints (the passwords, once) is printed."""
    done = subprocess.run([sys.executable, "-m", "scripts.prepare"], cwd=ROOT, env=stack.env, check=False)
    if done.returncode:
        raise StackError("the data could not be prepared; the lines above say why")


def start_all(stack: Stack, simulator_port: int, say: Steps) -> str | None:
    """Web, worker and simulated runtime; the runtime's address, or None where its port belongs to another program."""
    stack.start_web()
    stack.start_worker("--schedule")
    if not port_is_free(simulator_port):
        say(f"port {simulator_port} of the simulated runtime is taken: SIMULATOR_PORT=8011 make run chooses another")
        return None
    return stack.start_simulator(simulator_port)


def outcome(measured: int, cells: int, address: str) -> str:
    """The last line about the demonstration grid. A busy machine may have stopped it, which is no finished grid."""
    if measured == cells:
        return f"the finished demonstration grid at {address}"
    return (
        f"the demonstration grid at {address}, which stopped with {measured} of {cells} cells measured. "
        f"{address}live/ says why; sign in there as operator to go on."
    )


def demonstration_grid(stack: Stack, kept: Kept, endpoint: str | None, say: Steps) -> str:
    """What there is to say of the demonstration grid, which is drawn, authorised and run the first time."""
    journey = Journey(stack.base_url, stack.home / "demo-accounts.txt", say)
    try:
        number = kept.read("demo-grid")
        if not number:
            if endpoint is None:
                raise StackError("the demonstration grid needs the simulated runtime; see the line above")
            number = str(register_all(journey, demo_plan(endpoint, VERSION)))
            kept.write("demo-grid", number)
        grid = int(number)
        if journey.is_draft(grid):
            journey.authorize(grid)
        if not journey.finished(grid):
            journey.wait(grid, within_s=GRID_WITHIN_S, tick=Bar("Running the demonstration grid", stack.check))
        states = journey.states(grid)
    finally:
        journey.close()
    return outcome(states.count("measured"), len(states), f"{stack.base_url}/grids/{grid}/")


def serve(stack: Stack) -> None:
    """Until Ctrl-C, or until a process ends by itself."""
    while True:
        stack.check()
        time.sleep(0.5)


def run(home: Path, port: int) -> None:
    say, kept = Steps(), Kept(home)
    if not port_is_free(port):
        raise StackError(f"port {port} is taken: stop what uses it, or choose another: PORT={port + 10} make run")
    with Stack(home, port) as stack:
        prepare(stack)
        simulator_port = int(os.environ.get("SIMULATOR_PORT") or kept.read("simulator-port") or port + 1)
        endpoint = start_all(stack, simulator_port, say)
        if endpoint:
            kept.write("simulator-port", str(simulator_port))
        told = demonstration_grid(stack, kept, endpoint, say)
        print(f"\nHeadroom is at {stack.base_url}/ and {told}")
        print(f"Accounts and passwords: {home / 'demo-accounts.txt'}. Ctrl-C ends everything.", flush=True)
        serve(stack)


def main() -> int:
    end_on_signals()
    # Web server, worker and runtime share this machine's cores with the load client.
    os.environ.setdefault("HEADROOM_CLIENT_REALTIME", "1")
    home = Path(os.environ.get("HEADROOM_VAR") or ROOT / "var")
    try:
        run(home, int(os.environ.get("PORT") or 8000))
    except KeyboardInterrupt:
        print("\nEnded. The data are kept; `make run` goes on with them.")
        return 0
    except (StackError, JourneyError, PageError) as error:
        print(f"headroom: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
