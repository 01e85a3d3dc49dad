"""Evidence comes back from Parquet as it was, gives the same summary, and needs no pandas."""

from __future__ import annotations

import json
import subprocess
import sys
from array import array
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.engine.columns import Columns, from_frames
from benchmarks.engine.summary import summarise
from benchmarks.engine.summary_types import as_json
from benchmarks.engine.terms import (
    BatchRecord,
    ClientHealth,
    End,
    NotReported,
    Outcome,
    Phase,
    Reading,
    Resumed,
    Window,
)
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
BATCHED = [
    WHOLE[0],
    a_record(0, batch=3, session=1, turn=2, gathered_ns=5, connect_us=0, attempt=2),
    BatchRecord(
        batch=3, items=2, t_gathered_ns=5, t_sent_ns=None, t_end_ns=9, outcome=Outcome.TRUNCATED, prompt_tokens=7
    ),
    Resumed(wall_ns=1_796_000_100 * S, monotonic_ns=3),
    BatchRecord(batch=4, items=1, t_gathered_ns=6, t_sent_ns=7, t_end_ns=None, outcome=Outcome.OK, output_tokens=0),
    *READINGS,
    *WHOLE[-3:],
]
CELLS = {
    "whole": WHOLE,
    "batches and two runs": BATCHED,
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
    assert back.resumed == columns.resumed
    for name, values in columns.batches.plain.items():
        assert back.batches.plain[name].tolist() == values.tolist()
    for name, masked in columns.batches.masked.items():
        assert back.batches.masked[name].known.tolist() == masked.known.tolist()
        assert back.batches.masked[name].values.tolist() == masked.values.tolist()
    assert back.batches.outcome.tolist() == columns.batches.outcome.tolist()
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
    newer = table.schema.metadata[META_KEY].replace(b'"schema":4', b'"schema":9', 1)
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata({META_KEY: newer}), sink)
    with pytest.raises(WrongSchemaError, match="schema 9"):
        read(sink.getvalue().to_pybytes())


def test_batches_are_rows_of_their_own():
    rows = pq.read_table(pa.BufferReader(write(from_frames(BATCHED)))).to_pylist()
    assert [row["record"] for row in rows[:4]] == ["request", "batch", "batch", "reading"]
    first = rows[1]
    assert (first["batch"], first["items"], first["gathered_ns"], first["t_sent_ns"], first["t_end_ns"]) == (
        3,
        2,
        5,
        None,
        9,
    )
    assert (first["outcome"], first["prompt_tokens"], first["output_tokens"]) == ("truncated", 7, None)
    assert (first["index"], first["class_name"], first["chunk_gaps_us"], first["reading"]) == (None, None, None, None)
    assert (rows[0]["batch"], rows[0]["session"], rows[0]["turn"], rows[0]["connect_us"]) == (3, 1, 2, 0)


OLD = Path(__file__).resolve().parents[2] / "data" / "evidence"


def test_evidence_of_schema_1_still_opens_and_gives_its_numbers_again():
    columns = read((OLD / "schema1_cell.parquet").read_bytes())
    assert (len(columns.requests), len(columns.batches), len(columns.readings.t_ns), columns.resumed) == (
        240,
        0,
        30,
        (),
    )
    assert columns.requests.texts["detail"][5] == "queue is full \u2028 é"
    assert columns.requests.gaps_us.dtype == "uint32"
    assert not columns.requests.masked["connect_us"].known.any()
    again = as_json(summarise(columns, columns.plan))
    stored = json.loads((OLD / "schema1_summary.json").read_text())
    for old, new in zip(stored.pop("classes"), again["classes"], strict=True):
        assert old == {name: new[name] for name in old}
    client = stored.pop("client")
    assert client == {name: again["client"][name] for name in client}
    assert stored.pop("schema") < again["schema"]
    assert stored == {name: again[name] for name in stored}


def test_evidence_of_schema_1_written_again_is_of_the_newest():
    columns = read((OLD / "schema1_cell.parquet").read_bytes())
    again = write(columns)
    assert read(again).requests.gaps_us.tolist() == columns.requests.gaps_us.tolist()
    assert len(again) < (OLD / "schema1_cell.parquet").stat().st_size
    assert as_json(summarise(read(again), columns.plan)) == as_json(summarise(columns, columns.plan))


def test_evidence_of_schema_2_has_no_roles_and_is_else_the_same():
    columns = read((OLD / "schema2_cell.parquet").read_bytes())
    assert list(columns.requests.texts["role"]) == [None] * len(columns.requests) == [None] * 41
    assert columns.plan.probe is None
    again = read(write(columns))
    assert as_json(summarise(again, again.plan)) == as_json(summarise(columns, columns.plan))
    assert list(again.requests.texts["detail"]) == list(columns.requests.texts["detail"])


def test_the_role_of_a_request_in_a_probe_is_kept():
    frames = [WHOLE[0], a_record(0, role="fresh"), a_record(1), a_record(2, role="long")]
    assert list(read(write(from_frames(frames))).requests.texts["role"]) == ["fresh", None, "long"]


def test_words_of_a_vocabulary_nobody_knows_are_refused():
    table = pq.read_table(pa.BufferReader(write(from_frames(WHOLE))))
    place = table.schema.get_field_index("outcome")
    odd = pa.array(["fine"] * len(table), pa.utf8())
    sink = pa.BufferOutputStream()
    pq.write_table(table.set_column(place, "outcome", odd).replace_schema_metadata(table.schema.metadata), sink)
    with pytest.raises(WrongSchemaError, match="outcome holds a word"):
        read(sink.getvalue().to_pybytes())


def test_a_file_in_several_row_groups_by_another_writer_reads_the_same():
    content = write(from_frames(BATCHED))
    table, sink = pq.read_table(pa.BufferReader(content)), pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=7)
    assert write(read(sink.getvalue().to_pybytes())) == content


def test_the_order_in_which_words_came_does_not_change_the_bytes():
    pair = [a_record(0, detail="b"), a_record(1, detail="a")]
    once = from_frames([WHOLE[0], *pair])
    again = read(write(once))
    assert again.requests.texts["detail"].words == ("a", "b")
    assert write(again) == write(once)


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
    done = subprocess.run([sys.executable, "-c", ROUND_TRIP], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
