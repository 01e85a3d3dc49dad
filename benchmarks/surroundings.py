"""What the worker reads of power and room around each cell, and a watch on the power while one runs."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from types import TracebackType

import msgspec
from django.conf import settings
from django.utils import timezone

from benchmarks.claims import Claim
from benchmarks.conditions import clocks, snapshot
from benchmarks.conditions.snapshot import Power, Snapshot
from benchmarks.models import Attempt, Grid

POLL_S = 1.0
FRESH = timedelta(hours=1)


def read() -> Snapshot:
    """Power and room of this host now."""
    return snapshot.take(at=timezone.now().isoformat(), address=settings.NUT, asked_for=settings.NUT_ASKED_FOR)


def power() -> Power:
    """Where this host's power comes from now."""
    return snapshot.power(address=settings.NUT, asked_for=settings.NUT_ASKED_FOR)


def keep(claim: Claim, conditions: dict[str, object]) -> None:
    """Beside the attempt, whatever becomes of it."""
    Attempt.objects.filter(cell_id=claim.cell_id, number=claim.attempt).update(conditions=conditions)


def suggested(grid: Grid, *, at: datetime) -> dict[str, object]:
    """What a worker read on the grid's host within the last hour, as fields for a person to confirm; what it could not
    read is not there."""
    recent = Attempt.objects.filter(cell__hardware_id=grid.hardware_id, started_at__gt=at - FRESH).exclude(
        conditions={}
    )
    attempt = recent.order_by("-started_at").first()
    read_last = (attempt.conditions.get("after") or attempt.conditions.get("before")) if attempt else None
    if not read_last:
        return {}
    found = msgspec.convert(read_last, Snapshot)
    told: dict[str, object] = {"notes": f"Read by the worker at {found.at[:16]} UTC: power {snapshot.words(found)}."}
    if found.power_source is not None:
        told |= {"power_source": found.power_source, "ups_on_battery": found.power_source == "ups"}
    if found.room_c is not None:
        told |= {"ambient_c": found.room_c, "ambient_source": "sensor"}
    return told


class Around:
    """What surrounds one attempt from here to its end; a context within which the power is watched.

    `conditions` begins with what was read before it. `alarm` is empty until the power has changed.
    """

    def __init__(self, conditions: dict[str, object]) -> None:
        self.conditions = conditions
        self.alarm = ""
        self._was: Power | Snapshot | None = _told(conditions)
        self._clock = clocks.now()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="power", daemon=True)

    def __enter__(self) -> Around:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def ended(self) -> dict[str, object]:
        """The conditions with what is read now, after the attempt."""
        told: dict[str, object] = {"after": msgspec.to_builtins(read())}
        step = clocks.step_s(self._clock, clocks.now())
        if step is not None:
            told |= {"clock_step_s": round(step, 3), "clock": clocks.words(step)}
        if self.alarm:
            told["power_change"] = self.alarm
        return self.conditions | told

    def _watch(self) -> None:
        """One supply that falls silent says nothing; one that speaks of the other source does."""
        if self._was is None:
            now = power()
            if now.source is None and not settings.NUT_ASKED_FOR:
                return
            self._was = now
        while not self.alarm and not self._over.wait(POLL_S):
            self.look()

    def look(self) -> str:
        """The alarm as it is now; empty also where nothing here tells of the power."""
        if self._was is None or self.alarm:
            return self.alarm
        was, now = self._was, power()
        if was.on_battery is not None and now.on_battery is not None and now.on_battery != was.on_battery:
            self.alarm = (
                f"The power changed during the cell: it was {snapshot.words(was)}, it is {snapshot.words(now)}."
            )
        elif was.on_battery is None:
            self._was = now
        return self.alarm


def _told(conditions: dict[str, object]) -> Snapshot | None:
    """What was read before, where it tells of the power."""
    before = conditions.get("before")
    found = msgspec.convert(before, Snapshot) if before else None
    return found if found is not None and found.on_battery is not None else None
