"""A runtime that the worker starts for one cell, by a launch profile of the host's own file: started with the cell's setting,
waited for, asked what it really has, and ended with all that it forked before the result is kept.

It is started anew for every cell: each repeat begins with empty caches, and no runtime has to outlive a task. What ran
before comes back when the grid is over (leftovers.py).
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import os
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec
import psutil
from django.conf import settings
from django.db import DatabaseError

from benchmarks import claims, engine_child, host_file, leftovers, preflight, probe
from benchmarks.claims import Claim
from benchmarks.engine import nvml_calls
from benchmarks.engine.host import listener
from benchmarks.engine.keeper import Ended
from benchmarks.engine.kept import Kept
from benchmarks.engine.nvml import NvmlSource
from benchmarks.engine.plan import CellPlan, ReadBack
from benchmarks.engine.terms import Reading
from benchmarks.engine_child import Watch
from benchmarks.host_file import LaunchProfile
from benchmarks.leftovers import State
from benchmarks.models import Cell
from benchmarks.runtimes import launch, look
from benchmarks.runtimes.facts import facts_of
from benchmarks.runtimes.launch import Asked, Effective

log = logging.getLogger(__name__)

STOPS_WITHIN_S = 10.0
"""From SIGTERM to SIGKILL."""
PORT_FREE_WITHIN_S = 5.0
MEMORY_BACK_WITHIN_S = 20.0
VRAM_SLACK_BYTES = 128 * 1024 * 1024  # a driver keeps a little more after its first use than before
HEALTH_TIMEOUT = httpx.Timeout(2.0)
MOST_WORDS = 300
COUNTED = ("sent", "attempts", "tokens")  # of an engine's progress, against the authorisation
_TICK_S = 0.1
_Answer = TypeVar("_Answer")


class NotStartedError(RuntimeError):
    """The runtime is not up as asked; the words say why. Empty words: the attempt was taken over."""


class KilledError(NotStartedError):
    """Somebody else ended it while it started, a system short of memory for one: the cell is tried again."""


class Running:
    """The runtime of one cell. `ready` false: it is not up, and the attempt has ended."""

    def __init__(self, claim: Claim, cell: Cell) -> None:
        self._claim, self._cell, self._grid = claim, cell, cell.grid
        self._kept: Kept | None = None
        self._state: State | None = None
        self._beaten_at = 0.0
        self._effective: Effective | None = None
        self._counted: dict[str, object] = {}
        self.watch, self.ready = Watch(), True
        self.facts: dict[str, object] = {}

    # --- before the load ---------------------------------------------------------------------------------------------

    def start(self, folder: Path) -> None:
        """Up to a runtime that has what was asked for. Raises NotStartedError."""
        profile = self._profile()
        wanted = launch.asked(
            profile.kind, setting=self._cell.setting, context_per_sequence=profile.context_per_sequence
        )
        command, surroundings = _filled(profile, wanted)
        self.facts = {
            "profile": self._grid.runtime.launch_profile,
            "asked": msgspec.to_builtins(wanted),
            "command_sha256": hashlib.sha256(msgspec.json.encode([command, surroundings])).hexdigest(),
            "warnings": list(launch.warnings_about(profile.kind, profile.command, profile.environment)),
        }
        self._make_room(profile)
        self._launch(command, surroundings, folder)
        self._wait_until_healthy(profile)
        self._read_back(profile, wanted)

    def told(self, plan: CellPlan) -> CellPlan:
        """The plan with what was read back, so that the evidence holds it."""
        if self._effective is None:
            return plan
        found, profile = self._effective, self._grid.runtime.launch_profile
        return msgspec.structs.replace(
            plan,
            read_back=ReadBack(
                profile=profile,
                active_sequences=found.active_sequences,
                context_per_sequence_tokens=found.context_per_sequence_tokens,
                kv_capacity_tokens=found.kv_capacity_tokens,
            ),
        )

    # --- after it ----------------------------------------------------------------------------------------------------

    def finish(self, watch: Watch) -> str:
        """Ends the runtime and adds to the progress what was seen of it. Words where it had ended by itself before."""
        if self._kept is None:
            return ""
        # Else the beats while it ends would take back what the load has spent.
        self._counted = {name: watch.progress[name] for name in COUNTED if name in watch.progress}
        died = not self._kept.alive
        last = _last(self._kept.tail())
        self.end()
        watch.out_of_touch |= self.watch.out_of_touch
        watch.progress = watch.progress | {"runtime": self.facts}
        if not died or watch.pulse.stop:
            return ""
        return f"The runtime ended during the cell. It said: {last}"[:MOST_WORDS]

    def end(self) -> None:
        """Ends it once: the process group, what it forked, and a wait until its port and its memory are free."""
        kept, self._kept = self._kept, None
        if kept is None:
            return
        began = self.watch.heard_at = time.monotonic()  # the engine's own watch beat meanwhile
        ended = self._meanwhile(kept.end)
        if self._state is not None and (ended is None or ended.left):
            leftovers.end_processes(self._state)
        self.facts["ended"] = _ended_facts(ended) | {
            "seconds": round(time.monotonic() - began, 2),
            "port_free": self._wait(lambda: _holder(self._grid.runtime.endpoint) is None, PORT_FREE_WITHIN_S),
            "vram_returned": self._vram_returned(),
        }
        if self._state is not None:
            self._state = leftovers.write(msgspec.structs.replace(self._state, pid=0, started="", mark=""))

    # --- steps -------------------------------------------------------------------------------------------------------

    def _profile(self) -> LaunchProfile:
        """The profile, where the host's file still offers it for this runtime and setting."""
        runtime, setting = self._grid.runtime, self._cell.setting
        name = runtime.launch_profile
        try:
            hostfile = host_file.read()
        except host_file.HostFileError as error:
            raise NotStartedError(str(error)) from error
        profile = hostfile.profiles.get(name)
        if profile is None:
            raise NotStartedError(f"The host's file {hostfile.path} has no launch profile called {name}.")
        if (profile.kind, profile.endpoint.rstrip("/")) != (runtime.kind, runtime.endpoint.rstrip("/")):
            raise NotStartedError(
                f"Launch profile {name} starts {facts_of(profile.kind).name} at {profile.endpoint}; the registered runtime is "
                f"{runtime.get_kind_display()} at {runtime.endpoint}."
            )
        least, most = profile.settings
        if not least <= setting <= most:
            raise NotStartedError(
                f"Launch profile {name} allows {least} to {most} active sequences, the cell asks for {setting}."
            )
        return profile

    def _make_room(self, profile: LaunchProfile) -> None:
        """Stops what ran before, at the first cell; the port must be free then, and the memory of the last runtime back."""
        old, name = leftovers.read(), self._grid.runtime.launch_profile
        state = leftovers.settle(old, goes_on=self._grid.pk) if old is not None else None
        if state is not None and state.grid != self._grid.pk:
            raise NotStartedError(f"What ran before grid {state.grid} could not be started again: {state.told}")
        if state is None:
            state = leftovers.write(State(grid=self._grid.pk, profile=name, owed=bool(profile.previous)))
        if not state.cleared:
            if profile.stop_previous and (fault := leftovers.run(profile.stop_previous, meanwhile=self._beat)):
                raise NotStartedError(f"What runs on the host could not be stopped: {fault}")
            state = leftovers.write(msgspec.structs.replace(state, cleared=True, vram_used_bytes=_vram_used()))
        self._state = state
        if not self._wait(lambda: _holder(self._grid.runtime.endpoint) is None, PORT_FREE_WITHIN_S):
            raise NotStartedError(
                f"{self._grid.runtime.endpoint} is taken by {_holder(self._grid.runtime.endpoint)}. Stop it, or say in "
                f"profile {name} how: stop_previous, and previous to start it again."
            )
        if self._vram_returned() is False:
            raise NotStartedError(
                "The memory of the last runtime did not return: "
                f"{_excess_bytes(state) / 2**20:,.0f} MiB more than before it ran."
            )

    def _launch(self, command: list[str], surroundings: dict[str, str], folder: Path) -> None:
        assert self._state is not None
        mark = uuid.uuid4().hex
        # Written before the start: who comes after a crash finds the process by its mark.
        self._state = leftovers.write(msgspec.structs.replace(self._state, mark=mark, boot=probe.boot_id()))
        self._kept = Kept(
            command,
            leftovers.environment() | surroundings | {leftovers.MARK: mark},
            log=folder / "runtime.log",
            grace_s=STOPS_WITHIN_S,
            root=Path(settings.BASE_DIR),
        )
        began = self._kept.began
        if not began.pid:
            refused = KilledError if self._kept.was_killed else NotStartedError
            raise refused(f"The runtime could not be started: {began.error}")
        self._state = leftovers.write(msgspec.structs.replace(self._state, pid=began.pid, started=began.started))

    def _wait_until_healthy(self, profile: LaunchProfile) -> None:
        assert self._kept is not None
        kept, page = self._kept, launch.line_of(profile.kind).health
        url = f"{self._grid.runtime.endpoint.rstrip('/')}{page}"
        began = time.monotonic()
        with health_client() as client:
            healthy = self._wait(lambda: not kept.alive or answers(client, url), profile.ready_within_s)
        self.facts["ready_after_s"] = round(time.monotonic() - began, 2)
        if healthy and kept.alive:
            return
        tail = kept.tail()
        self.facts["log_tail"] = tail
        what = f"did not answer {page} within {profile.ready_within_s:g} s" if kept.alive else "ended while it started"
        refused = KilledError if kept.was_killed else NotStartedError
        raise refused(f"The runtime {what}. It said: {_last(tail)}")

    def _read_back(self, profile: LaunchProfile, wanted: Asked) -> None:
        assert self._kept is not None
        runtime = self._grid.runtime
        key = os.environ.get(host_file.key_variable(runtime.api_key_name), "") if runtime.api_key_name else ""
        found = launch.effective(profile.kind, look.look_at(runtime.endpoint, profile.kind, api_key=key))
        self._effective = found
        self.facts["effective"] = msgspec.to_builtins(found)
        if wrong := launch.difference(profile.kind, wanted, found) or preflight.refusal(self._grid):
            self.facts["log_tail"] = self._kept.tail()
            raise NotStartedError(wrong)

    # --- time --------------------------------------------------------------------------------------------------------

    def _wait(self, done: Callable[[], bool], seconds: float) -> bool:
        """Beats until it is done; whether it was done in time. Raises NotStartedError where the cell is to stop first."""
        until = time.monotonic() + seconds
        while not done():
            if time.monotonic() > until:
                return False
            time.sleep(_TICK_S)
            self._beat()
            if self._kept is not None and (self.watch.pulse.lost or self.watch.pulse.stop):
                raise NotStartedError(self.watch.pulse.reason)
        return True

    def tell(self) -> None:
        """Leaves what is known with the cell."""
        self._beaten_at = 0.0
        self._beat()

    def wait_a_tick(self) -> None:
        time.sleep(_TICK_S)
        self._beat()

    def _meanwhile(self, work: Callable[[], _Answer]) -> _Answer:
        """Does it in a thread and beats meanwhile."""
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(work)
            while not future.done():
                time.sleep(_TICK_S / 2)
                self._beat()
            return future.result()

    def _beat(self) -> None:
        """Says that the attempt lives, every HEARTBEAT_S; nothing once it has ended."""
        if time.monotonic() - self._beaten_at < settings.HEARTBEAT_S or self.watch.pulse.lost:
            return
        self._beaten_at = time.monotonic()
        self.watch.progress = {"phase": "runtime", "runtime": self.facts} | self._counted
        engine_child.beat(self._claim, self.watch)

    def _vram_returned(self) -> bool | str:
        """Whether each GPU holds no more than before the first start; words where that cannot be known."""
        if self._state is None or not self._state.vram_used_bytes:
            return "no VRAM could be read on this host"
        state = self._state
        if self._wait(lambda: _excess_bytes(state) <= VRAM_SLACK_BYTES, MEMORY_BACK_WITHIN_S):
            return True
        silent = sorted(state.vram_used_bytes.keys() - _vram_used().keys())
        return f"the memory of {', '.join(silent)} cannot be read any more" if silent else False


@contextlib.contextmanager
def runtime(claim: Claim, cell: Cell, folder: Path) -> Iterator[Running]:
    """The runtime of this cell, while the block runs. One that is not managed only gets the host back to itself."""
    running = Running(claim, cell)
    with _alone(running):
        try:
            running.ready = _up(running, claim, cell, folder)
            yield running
        finally:
            running.end()
            _over(cell.grid.pk)


@contextlib.contextmanager
def _alone(running: Running) -> Iterator[None]:
    """Holds the lock of leftovers.py, which tidying may have for a moment."""
    while True:
        with leftovers.held() as free:
            if free:
                yield
                return
        running.wait_a_tick()


def _up(running: Running, claim: Claim, cell: Cell, folder: Path) -> bool:
    """Whether the cell may be loaded now. Where not, its attempt has ended with the reason."""
    if not cell.grid.managed:
        if (state := leftovers.read()) is not None:
            leftovers.settle(state, goes_on=cell.grid.pk)
        return True
    try:
        running.start(folder)
    except NotStartedError as refused:
        running.end()
        running.tell()
        if isinstance(refused, KilledError):
            claims.interrupt(claim=claim, reason=str(refused))
        elif not running.watch.pulse.lost:
            claims.give_back(claim=claim, reason=str(refused))
        return False
    return True


def _over(grid_id: int) -> None:
    """Restores what ran before, where this was the grid's last cell. A database that is away leaves it to the next look."""
    try:
        if (state := leftovers.read()) is not None:
            leftovers.settle(state)
    except DatabaseError as error:
        log.warning("grid %s: not yet looked whether it is over (%s)", grid_id, error)


def _filled(profile: LaunchProfile, wanted: Asked) -> tuple[list[str], dict[str, str]]:
    values = launch.values_of(wanted, port=profile.port)
    surroundings = {name: host_file.filled(text, values) for name, text in profile.environment.items()}
    return [host_file.filled(word, values) for word in profile.command], surroundings


def health_client() -> httpx.Client:
    return httpx.Client(trust_env=False, follow_redirects=False, timeout=HEALTH_TIMEOUT)


def answers(client: httpx.Client, url: str) -> bool:
    try:
        return client.get(url).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def _holder(endpoint: str) -> str | None:
    """Who accepts connections there, in words; None where nobody does."""
    parts = urlsplit(endpoint)
    host, port = parts.hostname or "", parts.port or 0
    try:
        socket.create_connection((host, port), timeout=1.0).close()
    except OSError:
        return None
    pid = listener(port)
    try:
        return "another process" if pid is None else f"process {pid} ({psutil.Process(pid).name()})"
    except psutil.Error:
        return f"process {pid}"


def _ended_facts(ended: Ended | None) -> dict[str, object]:
    return {"known": False} if ended is None else {"known": True} | msgspec.structs.asdict(ended)


def _vram_used() -> dict[str, float]:
    """Bytes of each GPU, by UUID; empty where none can be read."""
    import pynvml

    readings = NvmlSource(pynvml).read(0)
    nvml_calls.close_cards(pynvml)
    return {r.device: r.value for r in readings if isinstance(r, Reading) and r.name == "vram_used_bytes"}


def _excess_bytes(state: State) -> float:
    """By how much the fullest GPU holds more than before the first start; infinite where one does not say what it holds."""
    now = _vram_used()
    return max(now.get(uuid, math.inf) - before for uuid, before in state.vram_used_bytes.items())


def _last(tail: str) -> str:
    return tail[-200:].replace("\n", " / ") or "nothing"
