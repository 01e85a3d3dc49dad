"""Reads what server.c and client.c write, as arrays. All times are CLOCK_MONOTONIC nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

MAGIC = b"HRBENCH1"
HEADER = np.dtype(
    [
        ("magic", "S8"), ("is_server", "<u4"), ("records", "<u4"), ("start_ns", "<i8"), ("end_ns", "<i8"),
        ("cpu_ns", "<i8"), ("rss_kib", "<i8"), ("gap_ns", "<i8"), ("reserved", "<i8"),
    ]
)  # fmt: skip
RECORD = np.dtype(
    [
        ("number", "<u4"), ("nth", "<u4"), ("port", "<u4"), ("events", "<u4"), ("t_request_ns", "<i8"),
        ("t_planned_ns", "<i8"), ("t_end_ns", "<i8"), ("status", "<u4"), ("done", "<u4"), ("id", "S48"),
        ("prompt", "S64"),
    ]
)  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """One side's account of a run: `rows` has shape (n,) and the fields of RECORD; request i's content events lie in
    `times_ns` from offsets[i] to offsets[i + 1]."""

    start_ns: int
    end_ns: int
    cpu_ns: int
    peak_rss_kib: int
    gap_ns: int
    rows: npt.NDArray[np.void]
    times_ns: Ints
    offsets: Ints

    def __len__(self) -> int:
        return len(self.rows)

    def times_of(self, row: int) -> Ints:
        return self.times_ns[self.offsets[row] : self.offsets[row + 1]]


def read(path: Path) -> Measured:
    """Raises ValueError where the file is not one of ours or is cut short."""
    data = path.read_bytes()
    if len(data) < HEADER.itemsize or not data.startswith(MAGIC):
        raise ValueError(f"{path.name} is not a file of this benchmark")
    head = np.frombuffer(data, HEADER, count=1)[0]
    rows = np.zeros(int(head["records"]), RECORD)
    pieces = []
    position = HEADER.itemsize
    for i in range(len(rows)):
        rows[i] = np.frombuffer(data, RECORD, count=1, offset=position)[0]
        position += RECORD.itemsize
        pieces.append(np.frombuffer(data, "<i8", count=int(rows[i]["events"]), offset=position))
        position += 8 * int(rows[i]["events"])
    return Measured(
        start_ns=int(head["start_ns"]),
        end_ns=int(head["end_ns"]),
        cpu_ns=int(head["cpu_ns"]),
        peak_rss_kib=int(head["rss_kib"]),
        gap_ns=int(head["gap_ns"]),
        rows=rows,
        times_ns=np.concatenate(pieces).astype(np.int64) if pieces else np.zeros(0, np.int64),
        offsets=np.concatenate(([0], np.cumsum(rows["events"], dtype=np.int64))).astype(np.int64),
    )
