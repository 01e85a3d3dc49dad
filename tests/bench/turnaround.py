"""From the last token to a stored, summarised cell: 10,000 requests of 200 tokens, as the worker does it.

The log is written beforehand, frame by frame as the engine writes it, up to but without its last frames. Timed are: the
last frames and the log's fsync, reading it, the summary, the Parquet bytes, their digest, and the row in an SQLite
database with synchronous writes. Not timed: the worker's round trip with a database server.
"""

from __future__ import annotations

import gc
import itertools
import json
import sqlite3
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.engine import columns, summary
from benchmarks.engine.log import SCHEMA_VERSION, LogWriter
from benchmarks.engine.plan import CellPlan
from benchmarks.engine.terms import End, Header, Outcome, Phase, RequestRecord, TokenSource, Window
from benchmarks.records import parquet
from benchmarks.records.digest import sha256

REQUESTS, TOKENS, SEED = 10_000, 200, 1
NS, GAP_US, STREAMS = 1_000_000_000, 20_000, 256


@dataclass(frozen=True)
class Turnaround:
    """Seconds of each step and in all; `content_bytes` is the Parquet."""

    close_s: float
    read_s: float
    summarise_s: float
    parquet_s: float
    store_s: float
    content_bytes: int

    @property
    def total_s(self) -> float:
        return self.close_s + self.read_s + self.summarise_s + self.parquet_s + self.store_s


def records(count: int, tokens: int, *, seed: int) -> list[RequestRecord]:
    """As 256 streams would leave them: TTFT about 100 ms, gaps about 20 ms with a jitter of a tenth."""
    dice = np.random.default_rng(seed)
    made = []
    for index in range(count):
        start_ns = NS + index // STREAMS * tokens * GAP_US * 1000
        gaps_us = np.maximum(1, dice.normal(GAP_US, GAP_US / 10, tokens - 1)).astype(int)
        first_ns = start_ns + int(dice.lognormal(np.log(1e8), 0.3))
        last_ns = first_ns + int(gaps_us.sum()) * 1000
        made.append(
            RequestRecord(
                index=index, class_name="only", phase=Phase.WINDOW, slot=index % STREAMS, outcome=Outcome.OK,
                t_scheduled_ns=start_ns, t_sent_ns=start_ns + 50_000, t_headers_ns=first_ns, t_first_ns=first_ns,
                t_answer_ns=first_ns, t_last_ns=last_ns, t_end_ns=last_ns, t_closed_ns=last_ns, http_status=200,
                finish_reason="length", intended_prompt_tokens=32, asked_output_tokens=tokens, prompt_tokens=32,
                output_tokens=tokens, token_source=TokenSource.SERVER, valid=True,
                gaps_us=gaps_us.astype("<u4").tobytes(),
            )
        )  # fmt: skip
    return made


def measure(plan: CellPlan, *, requests: int = REQUESTS, tokens: int = TOKENS) -> Turnaround:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        writer = LogWriter(path)
        writer.append(_header(plan))
        made = records(requests, tokens, seed=SEED)
        end_ns = max(record.t_closed_ns or 0 for record in made)
        for record in made:
            writer.append(record)
        del made
        gc.collect()  # the engine and the worker are two processes: what the one held is not the other's to sweep
        return _timed(writer, path, plan, end_ns)


def _header(plan: CellPlan) -> Header:
    return Header(
        schema=SCHEMA_VERSION, plan_sha256="0" * 64, wall_ns=1_796_000_000 * NS, monotonic_ns=0,
        engine_version="bench", host="bench", client_cpus="1", simulated=True, plan=plan,
    )  # fmt: skip


def _timed(writer: LogWriter, path: Path, plan: CellPlan, end_ns: int) -> Turnaround:
    marks = [time.perf_counter()]

    def mark() -> None:
        marks.append(time.perf_counter())

    writer.append(Window(start_ns=NS, end_ns=end_ns + 1))
    writer.append(End(t_ns=end_ns, complete=True, reason="window completed", sent=None))
    writer.close()
    mark()
    cell = columns.from_log(path)
    mark()
    found = summary.summarise(cell, plan)
    mark()
    content = parquet.write(cell)
    mark()
    _store(path.with_name("db"), content, json.dumps(msgspec.to_builtins(found)))
    mark()
    spent = [after - before for before, after in itertools.pairwise(marks)]
    return Turnaround(
        close_s=spent[0], read_s=spent[1], summarise_s=spent[2], parquet_s=spent[3], store_s=spent[4],
        content_bytes=len(content),
    )  # fmt: skip


def _store(path: Path, content: bytes, words: str) -> None:
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA synchronous=FULL")
        database.execute("CREATE TABLE cell (sha256 TEXT, summary TEXT, content BLOB)")
        database.execute("INSERT INTO cell VALUES (?, ?, ?)", (sha256(content), words, content))
    database.close()
