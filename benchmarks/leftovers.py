"""What a managed runtime leaves on its host until its grid is over: processes of a worker that died, and the service that
ran before, which has to come back.

One file in the worker's folder says it, under a lock that is held as long as a cell runs: the lock of a dead worker is free.
Only words of the host's own file are executed.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import psutil
from django.conf import settings

from benchmarks import audit, host_file, probe
from benchmarks.engine.keeper import started_tick
from benchmarks.models import Grid

log = logging.getLogger(__name__)

MARK = "HEADROOM_STARTED_AS"
"""Variable in the environment of a started runtime, by which what it forked is known again."""
COMMAND_WITHIN_S = 120.0
GRACE_S = 1.5
_TICK_S = 0.5
_PASSED_ON = frozenset(
    {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"}
)


class State(msgspec.Struct, frozen=True, kw_only=True):
    """`pid` 0: nothing runs. `cleared`: what ran before was stopped; `owed`: it has to come back. `vram_used_bytes`: by GPU,
    before the first start."""

    grid: int
    profile: str
    pid: int = 0
    started: str = ""
    boot: str = ""
    mark: str = ""
    cleared: bool = False
    owed: bool = False
    vram_used_bytes: dict[str, float] = {}
    told: str = ""


def environment() -> dict[str, str]:
    """What any process of a profile gets of this worker's surroundings: no address, no key, no secret."""
    return {name: value for name, value in os.environ.items() if name in _PASSED_ON}


@contextlib.contextmanager
def held() -> Iterator[bool]:
    """Whether nobody else here has a managed runtime now; it is this process's until the block ends."""
    folder = _folder()
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def tidy() -> None:
    """Ends what a dead worker's runtime left, and restores what ran before where its grid is over. Safe at any time."""
    with held() as free:
        if free and (state := read()) is not None:
            settle(state)


def settle(state: State, *, goes_on: int | None = None) -> State | None:
    """`goes_on` is the grid that is about to run: another one's service is restored first. What is left to remember."""
    if state.mark and (count := end_processes(state)):
        _record(state, "ended a runtime left behind", reason=f"{count} processes of profile {state.profile}")
    quiet = msgspec.structs.replace(state, pid=0, started="", mark="")
    # A paused grid may wait for hours: what ran before serves again meanwhile, and is cleared again when it goes on.
    is_open = Grid.objects.filter(pk=state.grid, status__in=Grid.OPEN, paused_at=None)
    keep = is_open.exists() if goes_on is None else goes_on == state.grid
    return write(quiet) if keep else restore(quiet)


def restore(state: State) -> State | None:
    """Starts what ran before, by the profile's `previous`. Where that fails it is tried again later, and said once."""
    fault = ""
    if state.owed:
        fault = _restored(state.profile)
    if not fault:
        if state.owed:
            _record(state, "restored what ran before", reason=f"profile {state.profile}")
        (_folder() / "state.json").unlink(missing_ok=True)
        return None
    log.error("profile %s: what ran before is not restored: %s", state.profile, fault)
    if fault != state.told:
        _record(state, "could not restore what ran before", reason=fault)
    return write(msgspec.structs.replace(state, told=fault))


def read() -> State | None:
    """None where nothing is left; a file that cannot be read says nothing either."""
    try:
        return msgspec.json.decode((_folder() / "state.json").read_bytes(), type=State)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        log.error("%s cannot be read (%s): what it said is lost", _folder() / "state.json", error)
        return None


def write(state: State) -> State:
    """On disk before this returns: whoever comes after a power cut must know."""
    beside = _folder() / "state.new"
    with beside.open("wb") as file:
        file.write(msgspec.json.encode(state))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(_folder() / "state.json")
    return state


def run(words: Sequence[str], *, meanwhile: Callable[[], None] = lambda: None) -> str:
    """Executes one command of the host file, in the root folder; why it failed, or nothing. It must end by itself."""
    output = _folder() / "command.log"
    try:
        with output.open("wb") as file:
            child = subprocess.Popen(
                list(words), stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd="/", env=environment(),
                start_new_session=True,
            )  # fmt: skip
    except OSError as error:
        return f"{words[0]}: {error.strerror or error}"
    until = time.monotonic() + COMMAND_WITHIN_S
    while child.poll() is None:
        if time.monotonic() > until:
            child.kill()
            child.wait()
            return f"{words[0]} did not end within {COMMAND_WITHIN_S:g} s"
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_TICK_S)
        meanwhile()
    if child.returncode == 0:
        return ""
    said = output.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"{words[0]} ended with {child.returncode}: {said[-1][:120] if said else 'it said nothing'}"


def end_processes(state: State) -> int:
    """Ends what is left of the runtime that the state names; how many processes. A reused process id is left alone."""
    if state.boot != probe.boot_id():
        return 0
    left = _processes(state)
    for process in left:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, alive = psutil.wait_procs(left, timeout=GRACE_S)
    for process in {*alive, *_processes(state)}:
        with contextlib.suppress(psutil.Error):
            process.kill()
    return len(left)


def _processes(state: State) -> list[psutil.Process]:
    """Those that carry the mark, and the session of the first process while that is the same process."""
    same = bool(state.pid) and started_tick(state.pid) == state.started
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            marked = process.environ().get(MARK) == state.mark
            if marked or (same and os.getsid(process.pid) == state.pid):
                found.append(process)
    return found


def _restored(name: str) -> str:
    try:
        profile = host_file.read().profiles.get(name)
    except host_file.HostFileError as error:
        return str(error)
    if profile is None:
        return f"the host file has no profile {name} any more"
    return run(profile.previous) if profile.previous else ""


def _record(state: State, verb: str, *, reason: str) -> None:
    grid = Grid.objects.select_related("team").filter(pk=state.grid).first()
    audit.record(
        actor=f"worker {probe.claimant_host(probe.claimant())}", verb=verb, subject=f"grid {state.grid}",
        team=grid.team if grid else None, reason=reason,
    )  # fmt: skip


def _folder() -> Path:
    folder: Path = settings.VAR / "managed"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder
