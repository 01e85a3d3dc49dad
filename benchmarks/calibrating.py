"""Self-calibration: before a grid's first cell the load engine runs briefly against the built-in simulator, whose own
stamps say what is true. Above the limits the grid does not start.

Once a grid. What another grid found within the hour stands for this one too where host, boot, cores and engine are the
same and it offered at least as much; the page then says whose it is. The worker runs both processes; here is what is
needed, what counts, and what is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import msgspec
from django.conf import settings
from django.utils import timezone

from benchmarks import audit, plans, probe
from benchmarks.engine import columns as engine_columns
from benchmarks.engine.plan import CellPlan, Fixed
from benchmarks.models import Grid
from benchmarks.queries import terms
from benchmarks.records import kept_calibration, modes
from benchmarks.records.calibration import (
    Calibration,
    Limits,
    calibration_plan,
    compare,
    read_truths,
)
from benchmarks.records.kept_calibration import Kept, Need

TRIES = 3
GOOD_FOR = timedelta(hours=1)
MOST_OFFERED = 1024
"""What the simulator advances at once; a grid that offers more is calibrated at this."""
WARMUP_S, LEAST_WINDOW_S, MOST_WINDOW_S = 0.5, 2.0, 4.0
WANTED_REQUESTS = 105
"""Of 100 requests and more one may be off at the 99th percentile; of fewer none, so one hiccup of the host would decide."""
ANSWERS = ((15, 4), (63, 12), (255, 32), (MOST_OFFERED, 64))
"""(up to this much offered, tokens of an answer): few streams need short answers to make enough of them."""
STEP_S, WAIT_S = 0.02, 0.04
STARTS_WITHIN_S = 20.0
MOST_WHY = 80
_LOOKED_BACK = 20


class CalibrationFailedError(RuntimeError):
    """A try came to no comparison; the words say why."""


def need_of(grid: Grid) -> Need:
    """At the grid's highest setting: what the client has open at once there."""
    wanted, highest = terms(grid), max(grid.setting_values)
    return Need(
        host=socket.gethostname()[:80],
        boot=probe.boot_id(),
        client_cpus=plans.client_cpus(),
        client_realtime=settings.CLIENT_REALTIME,
        engine_sha256=engine_sha256(),
        processes=modes.processes(wanted, highest),
        offered_concurrency=min(MOST_OFFERED, modes.connections(wanted, highest)),
    )


def limits() -> Limits:
    """The errors allowed on this host: the method's, unless its operator stated others, which every page then shows."""
    return Limits(**settings.CALIBRATION_LIMITS_MS)


def engine_sha256() -> str:
    """SHA-256 over the engine's own source files."""
    whole = hashlib.sha256()
    for path in sorted((Path(settings.BASE_DIR) / "benchmarks" / "engine").rglob("*.py")):
        whole.update(path.name.encode() + b"\0" + path.read_bytes())
    return whole.hexdigest()


def settled(grid: Grid, need: Need, *, at: datetime) -> bool:
    """Whether the grid is calibrated already, or another one's calibration stands for it; that is kept then."""
    kept = kept_calibration.read(grid.calibration)
    if kept is not None and kept.agrees:
        return True
    found = _of_another(grid, need, at)
    if found is not None:
        _store(grid, found)
    return found is not None


def fits(kept: Kept, need: Need, *, at: datetime) -> bool:
    """Whether a calibration may stand for this need at that time."""
    same = msgspec.structs.replace(kept.need, offered_concurrency=need.offered_concurrency) == need
    enough = kept.need.offered_concurrency >= need.offered_concurrency
    strict = kept.limits == limits()
    return kept.agrees and same and enough and strict and timedelta(0) <= at - kept.at < GOOD_FOR


def keep(grid: Grid, need: Need, tries: Sequence[Calibration], *, engine_version: str, worker: str) -> Kept:
    """Stores what the tries found, on the grid and as an event. The last of them decides."""
    last = tries[-1]
    kept = Kept(
        agrees=last.ok, why=last.why, at=timezone.now(), need=need, engine_version=engine_version,
        limits=limits(), tries=tuple(tries),
    )  # fmt: skip
    _store(grid, kept)
    audit.record(
        actor=f"worker {probe.claimant_host(worker)}",
        verb="calibrated the client" if kept.agrees else "could not calibrate the client",
        subject=f"grid {grid.pk}",
        team=grid.team,
        reason=kept.why,
        changes={
            "offered": need.offered_concurrency,
            "tries": len(tries),
            "ttft_error_p99_ms": last.ttft_error_p99_ms,
            "gap_error_p99_ms": last.gap_error_p99_ms,
        },
    )
    return kept


def refusal(kept: Kept) -> str:
    """Why the grid does not start, and what to do, in the 300 letters that a reason may have."""
    why = kept.why if len(kept.why) <= MOST_WHY else f"{kept.why[:MOST_WHY]}…"
    return (
        f"The load client does not measure truly enough on this host: {why} ({len(kept.tries)} tries at "
        f"{kept.need.offered_concurrency} in flight). Free its cores of other work, pin it with HEADROOM_CLIENT_CPUS, or use "
        "more generator processes; then go on."
    )


def plan_for(need: Need, address: str) -> CellPlan:
    """Half a second of warm-up and as long a window as WANTED_REQUESTS take, between two and four seconds."""
    plan = calibration_plan(
        address, offered_concurrency=need.offered_concurrency, seed=int.from_bytes(os.urandom(4), "big"),
        processes=need.processes, client_cpus=need.client_cpus,
    )  # fmt: skip
    tokens = next(tokens for most, tokens in ANSWERS if need.offered_concurrency <= most)
    short = msgspec.structs.replace(plan.classes[0], output_tokens=Fixed(tokens))
    wanted_s = WANTED_REQUESTS * (WAIT_S + STEP_S * tokens) / need.offered_concurrency
    window_s = min(max(wanted_s, LEAST_WINDOW_S), MOST_WINDOW_S)
    return msgspec.structs.replace(
        plan, classes=(short,), warmup_s=WARMUP_S, window_s=window_s, client_realtime=need.client_realtime
    )


@contextlib.contextmanager
def simulator(folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """The address of a simulator of its own on a free loopback port; it ends with this block, or with this process."""
    command = [sys.executable, "-m", "benchmarks.simulator", "--profile", "calibrate", "--port", "0", "--with-parent"]
    with (folder / "simulator.stderr").open("wb") as stderr:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, cwd=settings.BASE_DIR, env=environment,
        )  # fmt: skip
    try:
        yield _address(child)
    finally:
        child.terminate()
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        if child.stdout:
            child.stdout.close()


def compared(log: Path, address: str) -> tuple[Calibration, str]:
    """What the engine's log says against the simulator's truth, and the engine's version.

    Raises CalibrationFailedError where one of the two cannot be read.
    """
    try:
        page = httpx.get(f"{address}/truth", timeout=10, trust_env=False).raise_for_status().content
        columns = engine_columns.from_log(log)
        return compare(columns, read_truths(page), limits()), columns.header.engine_version
    except (httpx.HTTPError, msgspec.DecodeError, ValueError, OSError) as error:
        raise CalibrationFailedError(f"nothing could be compared: {error}") from error


def failed(why: str) -> Calibration:
    """A try that came to no figures."""
    return Calibration(n=0, ttft_error_p50_ms=None, ttft_error_p99_ms=None, gap_error_p99_ms=None, ok=False, why=why)


def _of_another(grid: Grid, need: Need, at: datetime) -> Kept | None:
    others = Grid.objects.filter(calibration__need__boot=need.boot, calibration__agrees=True).exclude(pk=grid.pk)
    for pk, stored in others.order_by("-pk").values_list("pk", "calibration")[:_LOOKED_BACK]:
        kept = msgspec.convert(stored, Kept)
        if fits(kept, need, at=at):
            return msgspec.structs.replace(kept, reused_from=kept.reused_from or pk)
    return None


def _store(grid: Grid, kept: Kept) -> None:
    grid.calibration = msgspec.to_builtins(kept)
    Grid.objects.filter(pk=grid.pk).update(calibration=grid.calibration)


def _address(child: subprocess.Popen[bytes]) -> str:
    assert child.stdout is not None
    ready, _, _ = select.select([child.stdout], [], [], STARTS_WITHIN_S)
    line = child.stdout.readline().decode(errors="replace") if ready else ""
    found = next((word for word in line.split() if word.startswith("http://")), None)
    if found is None:
        raise CalibrationFailedError(f"the simulator did not start: {line.strip() or 'it said nothing'}")
    return found
