"""What a judge reads from the columns: times of the attempts of one role, and readings between two moments."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from benchmarks.engine.column_types import OUTCOMES, Bools, Columns, Floats, Ints, MaskedInts
from benchmarks.engine.terms import Outcome
from benchmarks.engine.verdicts import NS, Figure

RANK_SLACK = 1e-9  # 0.95 x 20 is 19, whatever binary fractions say
LEAST_FOR_P95 = 20
REFUSALS = [OUTCOMES.index(one) for one in (Outcome.REJECTED, Outcome.REFUSED, Outcome.SERVER_ERROR)]


@dataclass(frozen=True)
class Attempts:
    """Attempts of one role in the order in which they were due. Times in seconds on the header's clock; NaN where
    something never came. `ok` ended well; `refused` are answers of 4xx or 5xx, or an overload told otherwise."""

    rows: Ints
    due_s: Floats
    sent_s: Floats
    headers_s: Floats
    first_s: Floats
    end_s: Floats
    closed_s: Floats
    ok: Bools
    refused: Bools

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def took_s(self) -> Floats:
        """From due to the end, infinite where it did not end well: refusing never improves a figure."""
        return np.where(self.ok, self.end_s - self.due_s, np.inf)

    @property
    def ttft_s(self) -> Floats:
        return np.where(self.ok, self.first_s - self.due_s, np.inf)

    def last_before(self, moments_s: Floats) -> Attempts:
        """To each moment the last attempt due before it; nothing where there is none to the first."""
        places = np.searchsorted(self.due_s, moments_s) - 1
        places = places if len(places) and places[0] >= 0 else places[:0]
        return Attempts(**{part.name: getattr(self, part.name)[places] for part in fields(self)})


def of_role(columns: Columns, *roles: str) -> Attempts:
    requests = columns.requests
    wanted = np.zeros(len(requests), dtype=np.bool_)
    for role in roles:
        wanted |= requests.texts["role"].equal(role)
    rows = np.flatnonzero(wanted)
    rows = rows[np.argsort(requests.plain["t_scheduled_ns"][rows], kind="stable")]
    base_ns = columns.header.monotonic_ns

    def seconds(found: MaskedInts) -> Floats:
        return np.where(found.known[rows], (found.values[rows] - base_ns) / NS, np.nan)

    masked, outcome = requests.masked, requests.codes["outcome"][rows]
    return Attempts(
        rows=rows,
        due_s=(requests.plain["t_scheduled_ns"][rows] - base_ns) / NS,
        sent_s=seconds(masked["t_sent_ns"]),
        headers_s=seconds(masked["t_headers_ns"]),
        first_s=seconds(masked["t_first_ns"]),
        end_s=seconds(masked["t_end_ns"]),
        closed_s=seconds(masked["t_closed_ns"]),
        ok=outcome == OUTCOMES.index(Outcome.OK),
        refused=np.isin(outcome, REFUSALS),
    )


def quantile(values: Floats, share: float) -> float | None:
    """Nearest rank; None of nothing. Infinite where failures reach it."""
    if not len(values):
        return None
    return float(np.sort(values)[max(0, math.ceil(share * len(values) - RANK_SLACK) - 1)])


def p95(values: Floats) -> float | None:
    """None from fewer than 20."""
    return quantile(values, 0.95) if len(values) >= LEAST_FOR_P95 else None


def seconds_of(value: float | None, n: int | None = None) -> Figure:
    """In seconds; what is not finite is not known."""
    return Figure(value=value if value is not None and math.isfinite(value) else None, unit="s", n=n)


@dataclass(frozen=True)
class Series:
    """One reading of one device over time."""

    name: str
    source: str
    device: str
    t_s: Floats
    values: Floats


def series(columns: Columns, name: str, *, from_s: float = -math.inf, to_s: float = math.inf) -> list[Series]:
    """Every device's, between two moments in seconds after the header."""
    readings = columns.readings
    t_s = (readings.t_ns - columns.header.monotonic_ns) / NS
    inside = (t_s >= from_s) & (t_s <= to_s)
    found = []
    for code, (label, source, device) in enumerate(readings.labels):
        rows = inside & (readings.label == code)
        if label == name and rows.any():
            found.append(Series(label, source, device, t_s[rows], readings.value[rows]))
    return found


def why_absent(columns: Columns, name: str) -> str:
    """What the source said, else that nobody reported it."""
    told = next((one for one in columns.not_reported if one.name == name), None)
    return f"{told.source}: {told.reason}" if told else "not reported"


def window_s(columns: Columns) -> tuple[float, float] | None:
    """(start, end) in seconds after the header."""
    window, base_ns = columns.window, columns.header.monotonic_ns
    return None if window is None else ((window.start_ns - base_ns) / NS, (window.end_ns - base_ns) / NS)


def cut_short(columns: Columns) -> str:
    """Why the probe was not carried out to its end, as a sentence; empty where it was."""
    if columns.end is None:
        return "The load engine was killed before the probe was through."
    return "" if columns.end.complete else f"The probe was stopped: {columns.end.reason}."
