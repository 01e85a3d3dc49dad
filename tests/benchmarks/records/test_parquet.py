"""Evidence comes back from Parquet as it was, gives the same summary, and needs no pandas."""

from __future__ import annotations

import subprocess
import sys
from array import array

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.engine.columns import Columns, from_frames
from benchmarks.engine.summary import summarise
from benchmarks.engine.terms import ClientHealth, End, NotReported, Outcome, Phase, Reading, Window
from benchmarks.records.digest import sha256
from benchmarks.records.parquet import META_KEY, WrongSchemaError, read, write
from tests.benchmarks.engine.plans import FAILED, S, a_header, a_record

HEALTH = ClientHealth(loop_lag_p99_ms=1.0, cpu_share=None, send_late_p99_ms=1.0, client_limited=False)
READINGS = [
    Reading(t_ns=i, name=name, value=i + 0.5, source="nvml", device=f"GPU-{i % 2}")
    for i in range(9)
    for name in ("gpu_power_w", "gpu_temperature_c")
]
RECORDS = [
    a_record(i, gaps_us=array("I", range(i % 5)).tobytes(), detail="é\u2028" if i % 3 else "", resent=i % 7 == 0)
    for i in range(40)
] + [a_record(40, outcome=Outcome.REJECTED, phase=Phase.WARMUP, retry_after_s=1.5, **FAILED)]
WHOLE = [
    a_header(),
    NotReported(name="gpu_energy_j", source="nvml", reason="not supported"),
    *RECORDS,
    *READINGS,
    Window(start_ns=0, end_ns=S),
    HEALTH,
    End(t_ns=2 * S, complete=True, reason="window completed"),
]
CELLS = {
    "whole": WHOLE,
    "header alone": WHOLE[:1],
    "no readings": [f for f in WHOLE if not isinstance(f, Reading)],
    "no requests": [WHOLE[0], *READINGS, *WHOLE[-3:]],
    "one request without gaps": [WHOLE[0], a_record(0)],
}


@pytest.fixture(params=CELLS, name="columns")
def _columns(request) -> Columns:
    return from_frames(CELLS[request.param])


def test_the_summary_of_the_log_is_the_summary_of_its_parquet(columns):
    back = read(write(columns))
    assert summarise(back, back.plan) == summarise(columns, columns.plan)


def test_nothing_is_lost_on_the_way(columns):
    back = read(write(columns))
    assert write(back) == write(columns)
    assert (back.header, back.window, back.health, back.end) == (
        columns.header,
        columns.window,
        columns.health,
        columns.end,
    )
    assert back.not_reported == columns.not_reported
    assert {name: list(texts) for name, texts in back.requests.texts.items()} == {
        name: list(texts) for name, texts in columns.requests.texts.items()
    }
    assert back.requests.gaps_us.tolist() == columns.requests.gaps_us.tolist()
    assert back.requests.gap_offsets.tolist() == columns.requests.gap_offsets.tolist()
    for name, masked in columns.requests.masked.items():
        assert back.requests.masked[name].known.tolist() == masked.known.tolist()
        assert back.requests.masked[name].values.tolist() == masked.values.tolist()
    assert back.readings.labels == columns.readings.labels
    assert back.readings.value.tolist() == columns.readings.value.tolist()


def test_the_same_evidence_is_the_same_bytes_and_digest():
    first, second = (write(from_frames(WHOLE)) for _ in range(2))
    assert sha256(first) == sha256(second)
    assert len(sha256(first)) == 64


def test_any_reader_of_parquet_sees_plain_rows():
    rows = pq.read_table(pa.BufferReader(write(from_frames(WHOLE)))).to_pylist()
    last = next(r for r in rows if r["index"] == 40)
    assert (last["record"], last["outcome"], last["phase"], last["output_tokens"], last["retry_after_s"]) == (
        "request", "rejected", "warmup", None, 1.5,
    )  # fmt: skip
    assert rows[4]["chunk_gaps_us"] == [0, 1, 2, 3]
    assert sum(r["record"] == "reading" for r in rows) == len(READINGS)


def test_a_file_of_someone_else_is_refused():
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1]}), sink)
    with pytest.raises(WrongSchemaError, match="no headroom metadata"):
        read(sink.getvalue().to_pybytes())
    with pytest.raises(WrongSchemaError, match="not a Parquet file"):
        read(b"PAR1 but not really")


def test_a_newer_schema_is_refused_with_its_number():
    table = pq.read_table(pa.BufferReader(write(from_frames(WHOLE))))
    newer = table.schema.metadata[META_KEY].replace(b'"schema":2', b'"schema":9', 1)
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata({META_KEY: newer}), sink)
    with pytest.raises(WrongSchemaError, match="schema 9"):
        read(sink.getvalue().to_pybytes())


ROUND_TRIP = """
import sys
from benchmarks.records.parquet import read, write
from benchmarks.engine.columns import from_frames
from tests.benchmarks.records.test_parquet import WHOLE
before = set(sys.modules)
read(write(from_frames(WHOLE)))
print(sorted({"pandas", "django"} & set(sys.modules)))
"""


def test_writing_and_reading_load_neither_pandas_nor_django():
    done = subprocess.run([sys.executable, "-c", ROUND_TRIP], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
