"""`python -m benchmarks.engine` as its parent sees it: exit codes, progress lines, commands, and no life without a parent."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import psutil
import pytest

from benchmarks.engine import plan as plans
from benchmarks.engine import progress
from benchmarks.engine.columns import from_log
from benchmarks.engine.plan import CellPlan, Guard, Quantiles
from benchmarks.engine.progress import Progress, Stage
from benchmarks.engine.summary import summarise
from tests.benchmarks.engine.plans import a_class, a_plan
from tests.benchmarks.engine.scripted import DONE, LAST_CHUNK, SSE_HEAD, Hang, Pause, Scripted, delta, finish, piece

ROOT = Path(__file__).parents[3]
SLOW_GOOD = [SSE_HEAD + piece(delta(content="a")), Pause(0.1), piece(finish() + DONE) + LAST_CHUNK]


def command_line(plan: CellPlan, folder: Path) -> list[str]:
    (folder / "plan.json").write_bytes(plans.encode(plan))
    return [sys.executable, "-m", "benchmarks.engine", str(folder / "plan.json"), str(folder / "cell.log")]


class Child:
    """The engine as a child process, with its progress lines as they come."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[Progress] = []

    @classmethod
    async def start(cls, plan: CellPlan, folder: Path) -> Child:
        pipe = asyncio.subprocess.PIPE
        return cls(await asyncio.create_subprocess_exec(*command_line(plan, folder), stdin=pipe, stdout=pipe, cwd=ROOT))

    async def read_lines(self) -> None:
        while line := await self.process.stdout.readline():
            self.lines.append(progress.parse(line))

    async def ends(self) -> int:
        await asyncio.wait_for(self.read_lines(), 30)
        return await asyncio.wait_for(self.process.wait(), 30)


def test_a_cell_runs_to_its_end_and_tells_its_progress(tmp_path):
    async def run() -> Child:
        async with Scripted([SLOW_GOOD]) as server:
            plan = a_plan(base_url=server.url, offered_concurrency=2, window_s=1.5, max_requests=500)
            child = await Child.start(plan, tmp_path)
            assert await child.ends() == 0
            return child

    child = asyncio.run(run())
    columns = from_log(tmp_path / "cell.log")
    assert columns.header.plan_sha256 == plans.sha256(columns.plan)
    found = summarise(columns, columns.plan)
    assert found.complete
    assert found.conserved
    assert set(found.outcomes) == {"ok"}
    assert child.lines[0].phase is Stage.STARTING
    assert child.lines[-1].phase is Stage.ENDED
    assert len(child.lines) >= 3
    assert child.lines[-1].finished == child.lines[-1].sent == len(columns.requests)
    assert "gpu_power_w" in {n.name for n in columns.not_reported} | {label[0] for label in columns.readings.labels}


@pytest.mark.parametrize("word, outcome", [("drain", "ok"), ("cancel", "cancelled_by_us")])
def test_a_line_on_stdin_ends_the_cell(tmp_path, word, outcome):
    slow = [SSE_HEAD + piece(delta(content="a")), Pause(1.5), piece(finish() + DONE) + LAST_CHUNK]

    async def run() -> int:
        async with Scripted([slow]) as server:
            child = await Child.start(a_plan(base_url=server.url, window_s=60.0, max_wall_s=60.0), tmp_path)
            while not server.requests:
                await asyncio.sleep(0.02)
            child.process.stdin.write(f"{word}\n".encode())
            return await child.ends()

    assert asyncio.run(run()) == 0
    columns = from_log(tmp_path / "cell.log")
    assert columns.end.reason == f"stopped: {word} was asked for"
    assert summarise(columns, columns.plan).outcomes == {outcome: 1}


def test_the_end_of_stdin_ends_the_process_at_once(tmp_path):
    async def run() -> int:
        async with Scripted([[SSE_HEAD, Hang()]]) as server:
            child = await Child.start(a_plan(base_url=server.url, window_s=60.0, max_wall_s=60.0), tmp_path)
            while not server.requests:
                await asyncio.sleep(0.02)
            child.process.stdin.close()
            return await child.ends()

    assert asyncio.run(run()) == 4


PARENT = "import subprocess, sys; p = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL);"
PARENT += "print(p.pid, flush=True); sys.stdin.read()"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's part is Linux only")
def test_when_the_parent_is_killed_the_engine_is_gone(tmp_path):
    async def run() -> None:
        async with Scripted([[SSE_HEAD, Hang()]]) as server:
            plan = a_plan(base_url=server.url, window_s=60.0, max_wall_s=60.0)
            parent = subprocess.Popen(
                [sys.executable, "-c", PARENT, *command_line(plan, tmp_path)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT,
            )  # fmt: skip
            engine = psutil.Process(int(parent.stdout.readline()))
            while not server.requests:
                await asyncio.sleep(0.02)
            parent.kill()
            parent.communicate()
            gone, _ = await asyncio.to_thread(psutil.wait_procs, [engine], 5)
            assert gone == [engine]

    asyncio.run(run())


def test_an_unreachable_target_is_exit_3_and_the_log_says_so(tmp_path):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        plan = a_plan(base_url=f"http://127.0.0.1:{held.getsockname()[1]}")
        done = subprocess.run(command_line(plan, tmp_path), cwd=ROOT, stdin=subprocess.PIPE, capture_output=True)
    assert done.returncode == 3
    columns = from_log(tmp_path / "cell.log")
    assert (columns.end.complete, columns.end.reason.startswith("target unreachable: 127.0.0.1:")) == (False, True)
    assert summarise(columns, columns.plan).scheduled == 0


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"task": "poetry"}, "task 'poetry' is not known"),
        ({"dialect": "smoke"}, "dialect 'smoke' is not spoken here"),
        ({"api_key_env": "NO_SUCH_KEY_HERE"}, "the environment holds no NO_SUCH_KEY_HERE"),
        ({"offered_concurrency": 0}, "above zero"),
        ({"base_url": "ftp://h"}, "is not an http or https address"),
        ({"base_url": "http://127.0.0.1:0"}, "names port 0"),
        ({"base_url": "http://127.0.0.1:65536"}, "is not an address: Port out of range"),
        ({"base_url": "http://.."}, "is not an address"),
        ({"class_name": "other"}, "no request can be made: class 'other' is not among the plan's classes"),
        ({"classes": (a_class(prompt_tokens=Quantiles(())),)}, "no request can be made"),
        ({"idle_timeout_s": 0.0}, "idle_timeout_s of 0 is not above zero"),
        ({"total_timeout_s": 1e10}, "total_timeout_s of 1e+10 is not above zero and at most"),
        ({"warmup_s": -0.1}, "warmup_s of -0.1 is not from zero"),
        ({"seed": 2**63}, "63 bits hold them"),
        ({"guard": Guard(error_share_over=0)}, "an error share is over one request or more"),
    ],
)
def test_a_plan_that_cannot_run_is_exit_2_with_the_reason(tmp_path, changes, words):
    done = subprocess.run(command_line(a_plan(**changes), tmp_path), cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert words in done.stderr
    assert not (tmp_path / "cell.log").exists()


def test_a_log_that_exists_is_not_written_over(tmp_path):
    (tmp_path / "cell.log").write_bytes(b"evidence")
    done = subprocess.run(command_line(a_plan(), tmp_path), cwd=ROOT, capture_output=True)
    assert done.returncode == 2
    assert (tmp_path / "cell.log").read_bytes() == b"evidence"


def test_the_engine_loads_no_framework_and_no_evidence_library():
    code = "import sys, benchmarks.engine.__main__, benchmarks.engine.summary;"
    code += "print(sorted({'django', 'celery', 'pandas', 'pyarrow', 'plotly', 'scipy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_cell_on_the_simulator_is_whole_valid_and_matches_its_own_counters(tmp_path):
    simulator = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.simulator", "--port", "0"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        url = next(word for word in simulator.stdout.readline().split() if word.startswith("http"))
        model = _model_of(url)
        plan = a_plan(
            base_url=url, model=model, offered_concurrency=4, warmup_s=0.5, window_s=2.0, max_requests=500,
            metrics_url=f"{url}/metrics", metrics_every_s=0.3,
        )  # fmt: skip
        assert asyncio.run(_run_to_the_end(plan, tmp_path)) == 0
    finally:
        simulator.terminate()
        simulator.communicate()
    columns = from_log(tmp_path / "cell.log")
    found = summarise(columns, columns.plan)
    short = found.of_class("short")
    assert found.complete
    assert found.conserved
    assert found.scheduled > 10
    assert short.success.hits == short.valid.hits == short.good.hits == found.scheduled
    assert (short.prompt_tokens_p50, short.output_tokens_p50, short.truncated_prompts) == (8.0, 2.0, 0)
    assert found.gauge("runtime_running").peak <= 4


async def _run_to_the_end(plan: CellPlan, folder: Path) -> int:
    return await (await Child.start(plan, folder)).ends()


def _model_of(url: str) -> str:
    return httpx.get(f"{url}/v1/models", trust_env=False).json()["data"][0]["id"]
