"""One whole Headroom with real processes for all browser tests, and Debian's Chromium. Everything is thrown away."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from capacity.management.accounts import read_passwords
from scripts.big_house import PAGES, SMALL
from scripts.chromium import EXECUTABLE, launch
from scripts.journey import Journey, LengthClass, Plan
from scripts.run import VERSION, prepare
from scripts.stack import ROOT, Stack, free_port
from tests.browser.house import TRIES, House, States
from tests.browser.person import People


@pytest.fixture(scope="session")
def house() -> Iterator[House]:
    """Web server, worker with its scheduler and simulated runtime, on free ports and in a folder of their own."""
    if not Path(EXECUTABLE).exists():
        pytest.skip(f"no {EXECUTABLE} here: apt install chromium")
    home = Path(tempfile.mkdtemp(prefix="headroom-browser-"))
    # The product's own way of serving static files, hashed and compressed, not that of the other tests.
    # How true the load client is beside a browser is not what these tests ask.
    calm = {"HEADROOM_CALIBRATION_TTFT_MS": "500", "HEADROOM_CALIBRATION_GAP_MS": "500"}
    with Stack(home, free_port(), {"HEADROOM_PLAIN_STATIC": "0", **calm}) as stack:
        prepare(stack)
        stack.start_web()
        stack.start_worker("--schedule")
        endpoint = stack.start_simulator()
        yield House(stack, endpoint, read_passwords(home / "demo-accounts.txt"))
    shutil.rmtree(home, ignore_errors=True)


def _made(name: str, module: str, **fields: str) -> Iterator[States]:
    """A web server alone, of data that this module makes up."""
    if not Path(EXECUTABLE).exists():
        pytest.skip(f"no {EXECUTABLE} here: apt install chromium")
    home = Path(tempfile.mkdtemp(prefix=f"headroom-{name}-"))
    env = {**os.environ, **fields, "HEADROOM_VAR": str(home), "HEADROOM_PLAIN_STATIC": "0"}
    subprocess.run([sys.executable, "-m", module], cwd=ROOT, env=env, check=True)
    with Stack(home, free_port(), {"HEADROOM_PLAIN_STATIC": "0"}) as stack:
        stack.start_web()
        yield States(stack.base_url, read_passwords(home / "demo-accounts.txt"), json.loads((home / PAGES).read_text()))
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def states() -> Iterator[States]:
    """Of data with a grid in every state."""
    yield from _made("states", "scripts.big_house", **SMALL)


@pytest.fixture(scope="session")
def office() -> Iterator[States]:
    """Of hosts with GPUs, whose readings fill what stays empty elsewhere."""
    yield from _made("office", "scripts.office")


@pytest.fixture(scope="session")
def chromium(house: House) -> Iterator[Browser]:
    """Yields the processor to the worker and its load client, which were started before."""
    os.nice(10)
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture
def people(house: House, chromium: Browser) -> Iterator[People]:
    made = People(chromium, house.origin, house.passwords)
    yield made
    made.close()


@pytest.fixture(scope="session")
def journey(house: House) -> Iterator[Journey]:
    """The same accounts over HTTP, for what a test needs to find there already."""
    found = Journey(house.origin, house.stack.home / "demo-accounts.txt")
    yield found
    found.close()


@pytest.fixture(scope="session")
def measured(house: House, journey: Journey) -> int:
    """The number of a finished grid with one length class, and a setting that does not hold, so that a choice can be signed."""
    plan = Plan(
        host="Prepared host",
        runtime_name="Prepared runtime",
        runtime_kind="simulator",
        runtime_version=VERSION,
        model="headroom-simulated-demo",
        endpoint=house.endpoint,
        metrics_path="/metrics",
        flags="",
        max_active=8,
        context_tokens=4096,
        classes=[LengthClass("short", 20, 10)],
        settings=(1, 2, 16),
        window_s=2.0,
        warmup_s=0.5,
        grid_name="Prepared",
    )
    journey.register_host(plan)
    journey.register_runtime(plan)
    journey.register_workload(plan)
    journey.register_objective("Prepared objective", {"short": 0.3})
    for _ in range(TRIES):
        grid = journey.draw(
            plan, name=plan.grid_name, objective="Prepared", workload="Prepared", settings=plan.settings
        )
        journey.authorize(grid)
        journey.wait(grid, within_s=120, tick=lambda *_: house.stack.check())
        if journey.safe_settings(grid) and not journey.unsignable(grid):
            return grid
    raise AssertionError(f"no safe setting in {TRIES} grids: {journey.finding(grid)}")
