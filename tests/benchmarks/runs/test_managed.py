"""Runtimes that the worker starts itself: a real small process stands for the runtime."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from benchmarks import claims, leftovers, managed, runs, tasks
from benchmarks.engine.keeper import started_tick
from benchmarks.engine.plan import ReadBack
from benchmarks.engine_child import Watch
from benchmarks.leftovers import State
from benchmarks.models import Cell, Event, Grid
from benchmarks.permits import Permit
from benchmarks.plans import cell_plan
from tests import factories
from tests.benchmarks.runs.made import claim, record, running_grid

pytestmark = pytest.mark.django_db
FAKE = Path(__file__).with_name("fake_runtime.py")


class Host:
    """A host file with one profile `fake`, and a grid whose runtime names it."""

    def __init__(self, settings, folder: Path) -> None:
        self.folder, settings.VAR = folder, folder
        self.file = settings.HOST_FILE = folder / "worker.toml"
        settings.HEARTBEAT_S = 0.2
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.forked = folder / "forked"

    def offer(self, *misbehaviour: str, slots: str = "{setting}", ready_within_s: float = 20, **more: object) -> None:
        command = [sys.executable, str(FAKE), "{port}", slots, "{context}", *misbehaviour]
        profile = {
            "kind": "llamacpp", "command": command, "endpoint": self.endpoint, "settings": [1, 8],
            "context_per_sequence": 1000, "ready_within_s": ready_within_s, **more,
        }  # fmt: skip
        lines = [f"{name} = {json.dumps(value)}" for name, value in profile.items()]
        self.file.write_text(
            "\n".join(
                ["[profiles.fake]", *lines, f'environment = {{ FORKED = "{self.forked}", SLOTS = "{{setting}}" }}']
            )
        )

    def grid(self, **fields: object) -> Grid:
        offered = {"kind": "llamacpp", "endpoint": self.endpoint, "settings": [1, 8]}
        runtime = factories.make_runtime(
            factories.make_hardware(offers={"profiles": {"fake": offered}}), kind="llamacpp", endpoint=self.endpoint,
            launch_profile="fake", model_name="fake",
        )  # fmt: skip
        return running_grid(runtime=runtime, class_names=("short",), managed=True, **fields)

    def children(self) -> list[int]:
        return [int(line) for line in self.forked.read_text().split()] if self.forked.exists() else []


@pytest.fixture
def host(settings, tmp_path) -> Host:
    return Host(settings, tmp_path)


def one_cell(host: Host, grid: Grid, inside=lambda running: None) -> tuple[managed.Running, Cell]:
    """Runs one cell without a load; how the runtime was, and the cell as it stands then."""
    taken = claim(grid)
    cell = Cell.objects.select_related("grid__runtime", "grid__hardware").get(pk=taken.cell_id)
    with managed.runtime(taken, cell, host.folder) as running:
        if running.ready:
            inside(running)
            running.finish(running.watch)
            record(taken, **running.watch.progress)
    cell.refresh_from_db()
    return running, cell


def listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("setting", [1, 4, 8])
def test_the_runtime_runs_with_the_setting_and_says_so_while_the_cell_does_and_not_after(host, setting):
    host.offer()
    seen = []
    _, cell = one_cell(host, host.grid(settings=(setting,)), lambda running: seen.append(listens(host.port)))
    assert (seen, listens(host.port), cell.status) == ([True], False, "measured")
    kept = cell.progress["runtime"]
    assert kept["asked"] == {"active_sequences": setting, "context_per_sequence_tokens": 1024}
    assert kept["effective"]["active_sequences"] == setting
    assert kept["effective"]["context_per_sequence_tokens"] == 1024
    assert kept["effective"]["kv_capacity_tokens"] == 1024 * setting
    assert (kept["profile"], kept["ended"]["left"], kept["ended"]["port_free"]) == ("fake", 0, True)
    assert kept["ended"]["rss_bytes"] > 1_000_000


def test_what_was_read_back_goes_into_the_plan_that_the_evidence_holds(host):
    host.offer()
    grid = host.grid(settings=(2,))
    plans = []

    def keep(running: managed.Running) -> None:
        cell = grid.cells.get()
        leave = Permit(grid.authorizations.get(), requests_left=10, tokens_left=10, seconds_left=100.0)
        plans.append(running.told(cell_plan(cell=cell, permit=leave)))

    one_cell(host, grid, keep)
    assert plans[0].read_back == ReadBack(
        profile="fake", active_sequences=2, context_per_sequence_tokens=1024, kv_capacity_tokens=2048
    )


@pytest.mark.parametrize(
    ("misbehaviour", "more", "words"),
    [
        (("never",), {"ready_within_s": 1}, ["did not answer /health within 1 s", "the model for 2 slots"]),
        (("ends",), {}, ["ended while it started", "not enough memory for the KV cache"]),
        ((), {"slots": "4"}, ["was asked for 2 active sequences", "says it has 4"]),
        ((), {"settings": [1, 1]}, ["allows 1 to 1", "asks for 2"]),
        ((), {"kind": "vllm"}, ["starts vLLM", "registered runtime is llama.cpp"]),
        ((), {"command": ["/no/such/program", "{setting}"]}, ["/no/such/program: No such file"]),
        ((), {"stop_previous": ["/bin/false"]}, ["could not be stopped", "/bin/false ended with 1"]),
    ],
)  # fmt: skip
def test_a_runtime_that_is_not_up_as_asked_stops_the_grid_with_words(host, misbehaviour, more, words):
    host.offer(*misbehaviour, **more)
    running, cell = one_cell(host, host.grid(settings=(2,)))
    assert (running.ready, cell.status, cell.grid.status) == (False, "not_run", "stopped")
    assert all(word in cell.reason for word in words), cell.reason
    assert not listens(host.port)


def test_a_runtime_that_somebody_killed_while_it_started_is_tried_again(host):
    host.offer("shot")
    running, cell = one_cell(host, host.grid(settings=(2,)))
    assert (running.ready, cell.status, cell.grid.status) == (False, "queued", "running")
    assert [a.outcome for a in cell.attempts.all()] == ["interrupted"]
    assert "ended while it started" in cell.reason


def test_the_log_of_a_runtime_that_did_not_start_is_left_with_the_cell_without_control_characters(host):
    host.offer("ends")
    _, cell = one_cell(host, host.grid(settings=(2,)))
    assert cell.progress["runtime"]["log_tail"].splitlines()[-1] == "error: not enough memory for the KV cache"
    assert "\x1b" not in cell.progress["runtime"]["log_tail"]


def test_a_profile_that_the_host_does_not_have_starts_nothing(host):
    _, cell = one_cell(host, host.grid(settings=(2,)))
    assert "no launch profile called fake" in cell.reason


def test_a_taken_port_is_said_with_its_holder_and_what_to_do(host, monkeypatch):
    monkeypatch.setattr(managed, "PORT_FREE_WITHIN_S", 0.3)
    host.offer()
    with socket.socket() as other:
        other.bind(("127.0.0.1", host.port))
        other.listen()
        _, cell = one_cell(host, host.grid(settings=(2,)))
    assert f"is taken by process {os.getpid()}" in cell.reason
    assert "stop_previous" in cell.reason


@pytest.mark.parametrize("misbehaviour", [("forks",), ("away",), ("deaf", "forks", "away")])
def test_nothing_that_the_runtime_forked_is_left(host, monkeypatch, misbehaviour):
    if "deaf" in misbehaviour:
        monkeypatch.setattr(managed, "STOPS_WITHIN_S", 0.5)
    host.offer(*misbehaviour)
    _, cell = one_cell(host, host.grid(settings=(2,)))
    assert len(host.children()) == len([w for w in misbehaviour if w != "deaf"])
    assert not any(psutil.pid_exists(pid) for pid in host.children())
    ended = cell.progress["runtime"]["ended"]
    assert (ended["left"], ended["killed"] > 0) == (0, "deaf" in misbehaviour)


@pytest.mark.parametrize("victim", ["runtime", "keeper"])
def test_a_runtime_that_ends_during_the_cell_is_told_with_its_last_words_and_leaves_nothing(host, victim):
    host.offer("away")
    told = []

    def kill(running: managed.Running) -> None:
        process = psutil.Process(leftovers.read().pid)
        (process if victim == "runtime" else process.parent()).kill()
        time.sleep(0.5)
        told.append(running.finish(Watch(progress={"phase": "window", "sent": 7, "attempts": 9, "tokens": 180})))
        running.tell()  # a beat after the load: it may not take back what the load has spent

    _, cell = one_cell(host, host.grid(settings=(2,)), kill)
    assert told[0].startswith("The runtime ended during the cell. It said: loading")
    assert cell.progress["spent"] == {"requests": 9, "tokens": 180}
    assert [pid for pid in host.children() if started_tick(pid)] == []
    assert len(host.children()) == 1


def test_memory_of_a_card_that_is_no_longer_read_is_not_called_returned(host, monkeypatch):
    monkeypatch.setattr(managed, "MEMORY_BACK_WITHIN_S", 0.2)
    host.offer()

    def lose_the_card(running: managed.Running) -> None:
        """As if one had been read before the first start."""
        running._state = msgspec.structs.replace(running._state, vram_used_bytes={"GPU-1": 1e9})
        running.finish(Watch())

    running, _ = one_cell(host, host.grid(settings=(2,)), lose_the_card)
    assert running.facts["ended"]["vram_returned"] == "the memory of GPU-1 cannot be read any more"


def test_a_stop_while_the_runtime_starts_ends_it_at_once(host):
    host.offer("never", ready_within_s=60)
    grid = host.grid(settings=(2,))
    taken = claim(grid)
    runs.stop(grid=grid, how="cancel", by=factories.make_user(grid.team, "operator"))
    cell = Cell.objects.select_related("grid__runtime", "grid__hardware").get(pk=taken.cell_id)
    began = time.monotonic()
    with managed.runtime(taken, cell, host.folder) as running:
        assert not running.ready
    assert time.monotonic() - began < 15
    cell.refresh_from_db()
    assert (cell.status, "Stopped by" in cell.reason, listens(host.port)) == ("not_run", True, False)


def test_an_attempt_that_was_taken_over_ends_its_runtime_and_leaves_the_cell_alone(host):
    host.offer("never", ready_within_s=60)
    grid = host.grid(settings=(2,))
    taken = claim(grid)
    claims.interrupt(claim=taken, reason="silent")
    cell = Cell.objects.select_related("grid__runtime", "grid__hardware").get(pk=taken.cell_id)
    with managed.runtime(taken, cell, host.folder) as running:
        assert not running.ready
    cell.refresh_from_db()
    assert (cell.status, cell.grid.status, listens(host.port)) == ("queued", "running", False)


def test_what_ran_before_is_stopped_once_and_comes_back_when_the_grid_is_over(host):
    said = host.folder / "said"
    host.offer(
        previous=["/bin/sh", "-c", f"echo started >> {said}"],
        stop_previous=["/bin/sh", "-c", f"echo stopped >> {said}"],
    )
    grid = host.grid(settings=(1, 2))
    one_cell(host, grid)
    assert said.read_text().split() == ["stopped"]
    one_cell(host, grid)
    assert said.read_text().split() == ["stopped", "started"]
    assert leftovers.read() is None
    assert Event.objects.filter(verb="restored what ran before", subject=f"grid {grid.pk}").count() == 1


def test_what_ran_before_comes_back_within_a_minute_where_the_grid_is_stopped_between_two_cells(host):
    said = host.folder / "said"
    host.offer(previous=["/bin/sh", "-c", f"echo started >> {said}"])
    grid = host.grid(settings=(1, 2))
    one_cell(host, grid)
    tasks.probe_hardware(grid.hardware.slug)
    assert not said.exists()
    runs.stop(grid=Grid.objects.get(pk=grid.pk), how="drain", by=factories.make_user(grid.team, "operator"))
    tasks.probe_hardware(grid.hardware.slug)
    assert (said.read_text().split(), leftovers.read()) == (["started"], None)


def test_a_service_that_does_not_come_back_is_tried_again_and_said_once(host):
    door = host.folder / "door"
    host.offer(previous=["/bin/sh", "-c", f"test -e {door}"])
    one_cell(host, host.grid(settings=(1,)))
    leftovers.tidy()
    assert Event.objects.filter(verb="could not restore what ran before").count() == 1
    door.touch()
    leftovers.tidy()
    assert (leftovers.read(), Event.objects.filter(verb="restored what ran before").count()) == (None, 1)


def test_another_grid_gets_what_ran_before_back_first(host):
    said = host.folder / "said"
    host.offer(previous=["/bin/sh", "-c", f"echo started >> {said}"])
    first = host.grid(settings=(1, 2))
    one_cell(host, first)
    assert not said.exists()
    other = running_grid(settings=(1,), class_names=("short",))
    taken = claim(other)
    with managed.runtime(taken, other.cells.select_related("grid__runtime").get(), host.folder) as running:
        assert (running.ready, said.read_text().split()) == (True, ["started"])


def test_what_a_dead_worker_left_is_ended_and_a_reused_process_id_is_not(host):
    grid = host.grid(settings=(1, 2))
    marked = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env={leftovers.MARK: "m1"})
    innocent = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    time.sleep(0.3)
    leftovers.write(
        State(grid=grid.pk, profile="fake", pid=innocent.pid, started="1", boot=managed.probe.boot_id(), mark="m1")
    )
    try:
        leftovers.tidy()
        marked.wait(5)
        assert innocent.poll() is None
        assert leftovers.read() == State(grid=grid.pk, profile="fake", boot=managed.probe.boot_id())
    finally:
        innocent.kill()
        innocent.wait()


def test_nothing_is_tidied_while_a_cell_runs(host):
    host.offer()
    one_cell(
        host, host.grid(settings=(2,)), lambda running: (leftovers.tidy(), running.facts.update(up=listens(host.port)))
    )
    with leftovers.held() as free:
        assert free
