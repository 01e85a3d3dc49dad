"""Probe facts for the judge's tests: verdicts as the engine leaves them, without an engine."""

from __future__ import annotations

from benchmarks.engine.probe_plan import Probe, name_of
from benchmarks.engine.verdicts import Figure, ProbeVerdict, Told
from capacity.assessment.facts import ProbeFact

TOLD = Told(
    requests={"load": 40}, outcomes={"load": {"ok": 40}}, window_s=5.0, complete=True, end_reason="the probe is through"
)


def verdict(probe: Probe, word: str, *reasons: str, n: int | None = 60, **figures: float | None) -> ProbeVerdict:
    """Figures by name, each over `n`; a value of None is not known."""
    kept = {name: Figure(value=value, unit="", n=n) for name, value in figures.items()}
    return ProbeVerdict(
        probe=name_of(probe),
        verdict=word,
        reasons=reasons,
        figures=kept,
        parameters=probe,
        evidence=TOLD,
        simulated=True,
    )


def fact(
    probe: Probe,
    word: str,
    *reasons: str,
    cell_id: int = 900,
    setting: int = 4,
    n: int | None = 60,
    **figures: float | None,
) -> ProbeFact:
    return ProbeFact(
        cell_id=cell_id, probe=name_of(probe), setting=setting, repeat=1, status="measured", reason="",
        verdict=verdict(probe, word, *reasons, n=n, **figures),
    )  # fmt: skip


def unrun(probe: Probe, reason: str = "") -> ProbeFact:
    return ProbeFact(
        cell_id=901, probe=name_of(probe), setting=4, repeat=1, status="not_run", reason=reason, verdict=None
    )
