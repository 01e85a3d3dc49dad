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
        """Whether it ran to its end: a verdict alone is whole, a load that a guard stopped is not."""
        return self.summary.complete if self.summary else self.verdict is not None

    @property
    def end_reason(self) -> str:
        return self.summary.end_reason if self.summary else ""
