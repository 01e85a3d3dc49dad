"""Verdicts of behaviour probes as the engine would have left them, without an engine."""

from __future__ import annotations

from typing import Any

from benchmarks import recording
from benchmarks.claims import Claim
from benchmarks.engine.probe_plan import Probe, name_of
from benchmarks.engine.verdicts import Figure, ProbeVerdict, Told
from benchmarks.models import Attempt, Cell, Evidence
from benchmarks.records.probes import verdict_json
from benchmarks.records.result import Result


def verdict(
    probe: Probe, word: str, *, complete: bool = True, end_reason: str = "the probe is through", **fields: Any
) -> ProbeVerdict:
    chosen: dict[str, Any] = {
        "reasons": (),
        "figures": {"p95_ratio": Figure(value=1.5, unit="times", n=120), "p95_alone": Figure(value=None, unit="s")},
        "simulated": True,
    } | fields
    told = Told(
        requests={"short alone": 40}, outcomes={"short alone": {"ok": 38, "rejected": 2}}, window_s=5.0, complete=complete,
        end_reason=end_reason,
    )  # fmt: skip
    return ProbeVerdict(probe=name_of(probe), verdict=word, parameters=probe, evidence=told, **chosen)


def record(taken: Claim, found: ProbeVerdict) -> bool:
    return recording.record(
        claim=taken,
        result=Result(parquet=b"p", schema_version=2, requests=40, verdict=verdict_json(found), progress={"sent": 40}),
    )


def give(cell: Cell, found: ProbeVerdict) -> None:
    """Fills a probe's cell as if it had run."""
    Cell.objects.filter(pk=cell.pk).update(status="measured", verdict=verdict_json(found), attempt=1)
    if leave := cell.grid.authorizations.first():
        Attempt.objects.create(
            cell=cell, number=1, authorization=leave, worker="w", started_at=leave.valid_from, outcome="measured"
        )
    Evidence.objects.create(cell=cell, attempt=1, schema_version=2, sha256="e" * 64, size_bytes=1234, requests=40)
