"""Behaviour probes for pages and files: what is asked, how far it is, what it found. Computed from rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import msgspec
from django.utils.translation import gettext as _

from benchmarks import queries
from benchmarks.engine.probe_plan import Probe, name_of
from benchmarks.engine.verdicts import NOT_JUDGED, Figure, ProbeVerdict, words_of
from benchmarks.gates import NOT_SAFE
from benchmarks.models import Cell, Grid
from benchmarks.queries import CellEvidence, cell_evidence
from benchmarks.records import probes
from benchmarks.records.probes import ProbeWords

GIB = 2**30
UNITS = {
    "degC": "°C", "bytes": "GiB", "share": "%", "times": "×", "1/s": "a second", "requests/s": "requests a second",
    "s/s": "s each second", "index": "",
}  # fmt: skip
SCALES = {"bytes": 1 / GIB, "share": 100.0}
DIGITS = {"s": 3, "bytes": 2, "share": 1, "times": 2, "W": 1, "degC": 1, "1/s": 2, "s/s": 2, "index": 3, "attempts": 2}
WAITING = {
    Cell.Status.PLANNED: "Planned", Cell.Status.QUEUED: "Waits", Cell.Status.RUNNING: "Running",
    Cell.Status.NOT_RUN: "Not run", Cell.Status.STOPPED: "Stopped", Cell.Status.INTERRUPTED: "Interrupted",
    Cell.Status.MEASURED: "No verdict",
}  # fmt: skip
_SUFFIXES = ("_bytes", "_c", "_w", "_share", "_s")
_SHORTS = {"p50": "p50", "p95": "p95", "gpu": "GPU", "vram": "VRAM", "ttft": "TTFT", "cpu": "CPU", "jain": "Jain"}


@dataclass(frozen=True, slots=True)
class Shown:
    """One figure or parameter in words; `n` is empty where it means nothing."""

    name: str
    value: str
    unit: str = ""
    n: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One probe of a grid. `tone` is a pill's kind, `word` what it says; `sentence` the verdict in full."""

    cell: CellEvidence
    words: ProbeWords
    tone: str
    word: str
    sentence: str
    reasons: tuple[str, ...]
    figures: tuple[Shown, ...]
    parameters: tuple[Shown, ...]

    @property
    def judged(self) -> bool:
        return self.cell.verdict is not None and self.cell.verdict.verdict != NOT_JUDGED


@dataclass(frozen=True, slots=True)
class Asked:
    """A probe of a plan with what it may come to at most."""

    words: ProbeWords
    cost: probes.Cost
    parameters: tuple[Shown, ...]


def lines(cells: Sequence[Cell]) -> list[Line]:
    """Of cells that are probes; select their evidence with them."""
    return [line(cell_evidence(cell)) for cell in cells]


def line(cell: CellEvidence) -> Line:
    verdict = cell.verdict
    tone, word = _said(cell)
    return Line(
        cell=cell,
        words=probes.WORDS[cell.probe],
        tone=tone,
        word=word,
        sentence=words_of(verdict) if verdict else "",
        reasons=verdict.reasons if verdict else tuple(filter(None, [cell.reason.removeprefix(NOT_SAFE)])),
        figures=figures(verdict.figures) if verdict else (),
        parameters=parameters(verdict.parameters) if verdict else (),
    )


def asked(grid: Grid) -> list[Asked]:
    """The behaviour probes of a grid in running order, with what each may come to."""
    wanted = probes.read(grid.probes)
    return [
        Asked(probes.WORDS[name_of(probe)], cost, parameters(probe))
        for probe, cost in zip(wanted, queries.probe_costs(grid), strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Count:
    """Requests of one kind, and how they ended: "ok 90, rejected 6"."""

    name: str
    n: int
    outcomes: str


def told(cell: CellEvidence) -> list[Count]:
    """How the requests of a cell ended, by what they were there for or by their class; a probe's are attempts."""
    if cell.verdict is not None:
        outcomes = cell.verdict.evidence.outcomes
        return [Count(role.replace("_", " "), sum(found.values()), _ended(found)) for role, found in outcomes.items()]
    parts = cell.summary.classes if cell.summary else ()
    return [Count(part.class_name, part.scheduled, _ended(part.outcomes)) for part in parts]


def figures(found: Mapping[str, Figure]) -> tuple[Shown, ...]:
    return tuple(_figure(key, one) for key, one in found.items())


def parameters(probe: Probe) -> tuple[Shown, ...]:
    """Every parameter that the probe was given, in the order of its definition."""
    given = msgspec.structs.asdict(probe)
    return tuple(Shown(*_parameter(name, value)) for name, value in given.items())


def word_of(verdict: ProbeVerdict) -> str:
    """The word of a verdict for a pill."""
    plain = verdict.verdict.replace("_", " ")
    return _("Cannot be judged") if verdict.verdict == NOT_JUDGED else plain.capitalize()


def name_of_figure(key: str) -> str:
    """A figure's key in words: "p95_beside" reads "p95 beside"."""
    words = " ".join(_SHORTS.get(word, word) for word in _bare(key).replace("_", " ").split())
    return words if words.startswith("p") and words[1:2].isdigit() else words[:1].upper() + words[1:]


def _ended(found: Mapping[str, int]) -> str:
    kept = sorted(((name, n) for name, n in found.items() if n), key=lambda pair: -pair[1])
    return ", ".join(f"{name.replace('_', ' ')} {n:,}" for name, n in kept)


def _said(cell: CellEvidence) -> tuple[str, str]:
    if cell.verdict is not None:
        return probes.TONES.get(cell.verdict.verdict, "idle"), word_of(cell.verdict)
    tone = {Cell.Status.RUNNING: "info", Cell.Status.STOPPED: "warn"}.get(Cell.Status(cell.status), "idle")
    return tone, WAITING[Cell.Status(cell.status)]


def _figure(key: str, one: Figure) -> Shown:
    n = f"{one.n:,}" if one.n is not None else ""
    if one.value is None or not isfinite(one.value):
        return Shown(name_of_figure(key), _("not known"), "", n)
    unit = "index" if key.endswith("_index") else one.unit
    digits = DIGITS.get(unit, 0 if float(one.value).is_integer() else 2)
    value = f"{one.value * SCALES.get(unit, 1.0):,.{digits}f}"
    return Shown(name_of_figure(key), value, UNITS.get(unit, unit), n)


def _parameter(name: str, value: object) -> tuple[str, str, str]:
    unit = "s" if name.endswith("_s") and not name.endswith("_per_s") else ""
    words = _bare(name).replace("_", " ")
    label = words[:1].upper() + words[1:]
    if value is None:
        return label, _("not known before"), ""
    if isinstance(value, bool):
        return label, _("yes") if value else _("no"), ""
    if isinstance(value, float | int):
        return label, f"{value:,g}", unit
    return label, str(value).replace("_", " ") or _("the workload's own"), ""


def _bare(key: str) -> str:
    """Without the unit at its end; what follows a blank is a device."""
    head, blank, device = key.partition(" ")
    end = next((suffix for suffix in _SUFFIXES if head.endswith(suffix) and not head.endswith("_per_s")), "")
    return f"{head.removesuffix(end)}{blank}{device}"
