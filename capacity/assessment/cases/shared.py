"""What the seven cases have in common: how a finding begins, which probes can be read, and how figures are written."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from benchmarks.engine.verdicts import NOT_JUDGED, Figure, ProbeVerdict
from benchmarks.stats.per_cent import per_cent
from capacity.assessment.facts import GridFacts, ProbeFact
from capacity.assessment.verdict import Answer, Finding, Found, Gate, SettingRow


def blank(key: str, title: str) -> Finding:
    """Not tested until something is known; each case has a page of its own under its key."""
    return Finding(key=key, title=title, found=Found.NOT_TESTED, evidence=(), doc=key)


def untested(finding: Finding, *evidence: str, next_cell: str, remedy: str = "") -> Finding:
    return replace(finding, found=Found.NOT_TESTED, evidence=evidence, next_cell=next_cell, remedy=remedy)


def judged(facts: GridFacts, probe: str) -> list[tuple[ProbeFact, ProbeVerdict]]:
    """The probes of this kind that gave a verdict, by setting, then repeat."""
    found = [
        (one, one.verdict)
        for one in facts.probes
        if one.probe == probe and one.verdict is not None and one.verdict.verdict != NOT_JUDGED
    ]
    return sorted(found, key=lambda pair: (pair[0].setting, pair[0].repeat, pair[0].cell_id))


def why_unjudged(facts: GridFacts, probe: str, missing: str) -> tuple[str, ...]:
    """What kept probes of this kind from a verdict, in their own words; `missing` where none was planned."""
    tried = [one for one in facts.probes if one.probe == probe]
    said = [
        f"The probe at {at(one.setting)} could not be judged: {' '.join(one.verdict.reasons)}".rstrip()
        if one.verdict is not None
        else f"The probe at {at(one.setting)} has no verdict{f': {one.reason}' if one.reason else ''}"
        for one in tried
    ]
    return tuple(sentence.rstrip(".:") + "." for sentence in said) or (missing,)


def value(verdict: ProbeVerdict, name: str) -> float | None:
    figure: Figure | None = verdict.figures.get(name)
    return figure.value if figure is not None else None


def count(verdict: ProbeVerdict, name: str) -> int:
    """How many stand behind a figure; 0 where nobody counted."""
    figure = verdict.figures.get(name)
    return figure.n or 0 if figure is not None else 0


def n_of(verdict: ProbeVerdict, name: str) -> str:
    """ " (n = 120)"; empty where the figure has no count."""
    figure = verdict.figures.get(name)
    return f" (n = {figure.n})" if figure is not None and figure.n is not None else ""


def touches(settings: Sequence[int], seen: Sequence[int], chosen: SettingRow | None) -> bool:
    """Whether what was found at `settings` is true of the chosen one. Where nobody looked at the chosen one (it is not in
    `seen`), what was found elsewhere is taken to be true of it too."""
    if chosen is None or not settings:
        return False
    return chosen.setting in settings or chosen.setting not in seen


def gate_of(row: SettingRow | None, key: str) -> Gate | None:
    return next((gate for gate in row.gates if gate.key == key), None) if row is not None else None


def holds(gate: Gate | None) -> bool:
    return gate is not None and gate.answer == Answer.HOLDS


def at(setting: int) -> str:
    return f"{setting} in flight"


def percent(share: float) -> str:
    """Two digits below ten: 4.7 %, 18 %."""
    return per_cent(share, 1 if share < 0.1 else 0)


def tokens(count: float) -> str:
    return f"{count:,.0f}"
