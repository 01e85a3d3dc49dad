"""What a finished attempt leaves, as one value: it is stored in one transaction, or lies in the host's spool until then."""

from __future__ import annotations

import hashlib

import msgspec

from benchmarks.engine.summary_types import CellSummary


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The Parquet file of an attempt and what was computed from it.

    Plain load has a summary, a behaviour probe a verdict and perhaps a summary. `finished_at` is when the engine ended, in
    seconds since the epoch by the host's clock. `signature` is Ed25519 in base64 by the key of enrolment `key_id`; both are
    empty on a host that never enrolled. `conditions` are what the worker read of power and room around the attempt.
    """

    parquet: bytes
    schema_version: int
    requests: int
    progress: dict[str, object]
    summary: CellSummary | None = None
    verdict: dict[str, object] | None = None
    conditions: dict[str, object] = {}
    finished_at: float | None = None
    signature: str = ""
    key_id: int | None = None

    @property
    def sha256(self) -> str:
        """The digest by which the evidence is known."""
        return hashlib.sha256(self.parquet).hexdigest()

    @property
    def complete(self) -> bool:
        """Whether it ran to its end: what a guard stopped, did not."""
        return self.summary.complete if self.summary else bool(self._told().get("complete", self.verdict is not None))

    @property
    def end_reason(self) -> str:
        return self.summary.end_reason if self.summary else str(self._told().get("end_reason", ""))

    def _told(self) -> dict[str, object]:
        """What the verdict says of how its cell ended."""
        told = (self.verdict or {}).get("evidence")
        return told if isinstance(told, dict) else {}
