"""The load engine as a child process: started, watched, told to stop, ended.

The child ends when its stdin closes, so it cannot outlive the worker. This process beats every HEARTBEAT_S, and passes
a stop on to the child: "drain" or "cancel" as a line on stdin.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings
from django.db import Error, close_old_connections

from benchmarks import claims
from benchmarks.claims import Claim, Pulse
from benchmarks.engine import plan as engine_plan
from benchmarks.engine.load import StaticBatch
from benchmarks.engine.plan import CellPlan
from benchmarks.models import Cell

log = logging.getLogger(__name__)

DRAIN_AT_MOST_S = 60.0
CANCEL_AT_MOST_S = 10.0


_PASSED_ON = frozenset(
    {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "LD_LIBRARY_PATH"}
)


@dataclass(slots=True)
class Watch:
    """What the watching loop knows about the child."""

    pulse: Pulse = field(default_factory=Pulse)
    progress: dict[str, object] = field(default_factory=dict)
    asked: str = ""
    asked_at: float = 0.0
    heard_at: float = field(default_factory=time.monotonic)
    out_of_touch: bool = False
    alarm: str = ""


def run(
    claim: Claim,
    plan: CellPlan,
    folder: Path,
    *,
    told: dict[str, object] | None = None,
    alarm: Callable[[], str] = lambda: "",
) -> tuple[Watch, int | None]:
    """Runs the engine as a child to its end; what was seen of it, and its exit code. `told` stands for its progress;
    `alarm` is asked with each beat why the cell should be interrupted, and is empty while it need not be."""
    (folder / "plan.json").write_bytes(engine_plan.encode(plan))
    ledger = ledger_of(claim) if isinstance(plan.load, StaticBatch) else None
    if ledger:
        remove_stored(ledger.parent)
    arguments = [str(folder / "plan.json"), str(ledger or folder / "log"), *(["--resume"] if ledger else [])]
    with (folder / "stderr").open("wb") as stderr:
        child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.engine", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=settings.BASE_DIR,
            env=environment(plan),
        )
    try:
        watch = watched(claim, child, told, alarm)
    finally:
        _end(child)
    return watch, child.returncode


def watched(
    claim: Claim,
    child: subprocess.Popen[bytes],
    told: dict[str, object] | None = None,
    alarm: Callable[[], str] = lambda: "",
) -> Watch:
    """Beats and passes stops on until the child ends, its attempt is lost, or it does not heed a stop."""
    watch = Watch(progress=told or {})
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    reader = threading.Thread(target=_read_lines, args=(child, lines), daemon=True)
    reader.start()
    while child.poll() is None and not watch.pulse.lost:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(settings.HEARTBEAT_S)
        if told is None:
            _take_progress(watch, lines)
        beat(claim, watch)
        watch.alarm = watch.alarm or alarm()
        _pass_on(watch, child)
        if _overdue(watch):
            break
    return watch


def beat(claim: Claim, watch: Watch) -> None:
    try:
        watch.pulse = claims.beat(claim=claim, progress=watch.progress)
        heard_at = time.monotonic()
    except Error as error:
        log.warning("cell %s: no heartbeat (%s)", claim.cell_id, error)
        close_old_connections()
        heard_at = watch.heard_at
    # A beat that came through late counts too: until then nobody knew that this worker lives.
    watch.out_of_touch |= time.monotonic() - watch.heard_at >= settings.STALE_AFTER_S / 2
    watch.heard_at = heard_at


def _pass_on(watch: Watch, child: subprocess.Popen[bytes]) -> None:
    wanted = "cancel" if watch.alarm else watch.pulse.stop
    if not wanted or wanted == watch.asked or watch.asked == "cancel":
        return
    watch.asked, watch.asked_at = wanted, time.monotonic()
    if child.stdin:
        with contextlib.suppress(OSError):
            child.stdin.write(f"{wanted}\n".encode())
            child.stdin.flush()


def _overdue(watch: Watch) -> bool:
    allowed_s = {"drain": DRAIN_AT_MOST_S, "cancel": CANCEL_AT_MOST_S}.get(watch.asked)
    return allowed_s is not None and time.monotonic() - watch.asked_at > allowed_s


def _end(child: subprocess.Popen[bytes]) -> None:
    """Closes stdin, which ends the child; kills it when that does not help."""
    if child.stdin:
        with contextlib.suppress(OSError):
            child.stdin.close()
    try:
        child.wait(CANCEL_AT_MOST_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    if child.stdout:
        child.stdout.close()


def _read_lines(child: subprocess.Popen[bytes], lines: queue.SimpleQueue[bytes]) -> None:
    # The file is closed by the other thread once the child has ended.
    with contextlib.suppress(ValueError, OSError):
        for line in child.stdout or ():
            lines.put(line)


def _take_progress(watch: Watch, lines: queue.SimpleQueue[bytes]) -> None:
    """Keeps the newest of the JSON lines that the child wrote."""
    with contextlib.suppress(queue.Empty):
        while True:
            line = lines.get_nowait()
            with contextlib.suppress(ValueError):
                found = json.loads(line)
                if isinstance(found, dict):
                    watch.progress = found


def environment(plan: CellPlan | None) -> dict[str, str]:
    """Only what the child needs: of all secrets of this worker it sees the one API key that its plan names."""
    wanted = set(_PASSED_ON)
    if plan is not None and plan.api_key_env:
        wanted.add(plan.api_key_env)
    return {name: value for name, value in os.environ.items() if name in wanted} | {"PYTHONUNBUFFERED": "1"}


def ledger_of(claim: Claim) -> Path:
    """The log of a static cell, kept from attempt to attempt: each goes on where the last one ended."""
    folder: Path = settings.VAR / "ledgers"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder / f"{claim.grid_id}-{claim.cell_id}.log"


def remove_stored(ledgers: Path) -> None:
    """Removes ledgers whose result is stored: a worker that died in between left them."""
    for path in ledgers.glob("*-*.log"):
        cell_id = path.stem.rpartition("-")[2]
        if cell_id.isdigit() and Cell.objects.filter(pk=cell_id, status=Cell.Status.MEASURED).exists():
            path.unlink(missing_ok=True)


def last_words(folder: Path) -> str:
    path = folder / "stderr"
    text = path.read_text(encoding="utf-8", errors="replace").strip() if path.exists() else ""
    return text.splitlines()[-1][:200] if text else "it said nothing"
