"""What a grid keeps of its self-calibration: for whom it stands, within which limits, and what each try found."""

from __future__ import annotations

from datetime import datetime

import msgspec

from benchmarks.records.calibration import Calibration, Limits


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """What must be the same for a calibration to stand: the place, the cores and priority, the engine; and at least as
    much offered."""

    host: str
    boot: str
    client_cpus: tuple[int, ...]
    engine_sha256: str
    processes: int
    offered_concurrency: int
    client_realtime: bool = False


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What a grid keeps. Errors are milliseconds; `reused_from` is the grid whose calibration this was."""

    agrees: bool
    why: str
    at: datetime
    need: Need
    engine_version: str
    limits: Limits
    tries: tuple[Calibration, ...]
    reused_from: int | None = None

    @property
    def last(self) -> Calibration | None:
        return self.tries[-1] if self.tries else None


def read(kept: object) -> Kept | None:
    """From the JSON of a row; None where the grid had none."""
    return msgspec.convert(kept, Kept) if kept else None
