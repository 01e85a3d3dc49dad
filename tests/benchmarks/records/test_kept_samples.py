"""A bounded sample of answers travels from the log through the evidence, word for word, and changes no number."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.engine.column_types import Columns
from benchmarks.engine.columns import from_frames
from benchmarks.engine.plan import Sessions
from benchmarks.engine.summary import summarise
from benchmarks.engine.summary_types import as_json
from benchmarks.engine.terms import Outcome, Phase, Sample
from benchmarks.records import kept_samples
from benchmarks.records.parquet import read, write
from tests.benchmarks.engine.plans import FAILED, a_header, a_plan, a_record

OLD = Path(__file__).resolve().parents[2] / "data" / "evidence"
ODD = 'x "quoted", é\u2028\n=1+1\x00'


def a_sample(index: int, answer: str = "579", *, attempt: int = 1, **changes: object) -> Sample:
    plain = {
        "index": index, "attempt": attempt, "prompt": f"prompt {index}", "prompt_characters": 8, "expected": "579",
        "answer": answer, "answer_characters": len(answer), "answer_sha256": hashlib.sha256(answer.encode()).hexdigest(),
    }  # fmt: skip
    return Sample(**(plain | changes))  # type: ignore[arg-type]


def columns_of(*frames: object, **plan: object) -> Columns:
    return from_frames([a_header(a_plan(task="arithmetic", **plan)), *frames])  # type: ignore[list-item]


SAMPLED = columns_of(
    a_record(0, phase=Phase.WARMUP), a_sample(0),
    a_record(1),
    a_record(2, valid=False), a_sample(2, ODD),
    a_record(3, outcome=Outcome.REJECTED, detail="queue is full", **FAILED), a_sample(3, ""),
    a_record(3, attempt=2), a_sample(3, "579", attempt=2),
)  # fmt: skip


def test_samples_come_back_from_parquet_word_for_word_and_the_bytes_stay() -> None:
    content = write(SAMPLED)
    back = read(content)
    assert back.samples == SAMPLED.samples
    assert len(back.samples) == 4
    assert write(back) == content


def test_samples_change_no_number_of_the_summary() -> None:
    without = from_frames([SAMPLED.header, a_record(0), a_record(1)])
    with_them = from_frames([SAMPLED.header, a_record(0), a_sample(0), a_record(1), a_sample(1)])
    assert as_json(summarise(with_them, with_them.plan)) == as_json(summarise(without, without.plan))


def test_any_reader_of_parquet_sees_the_texts_in_the_row_of_their_request() -> None:
    rows = pq.read_table(pa.BufferReader(write(SAMPLED))).to_pylist()
    assert [row["answer"] for row in rows] == ["579", None, ODD, "", "579"]
    assert [row["prompt_characters"] for row in rows] == [8, None, 8, 8, 8]


def test_what_is_kept_of_a_request_is_its_last_attempt_with_the_validators_word() -> None:
    kept = kept_samples.read(write(SAMPLED))
    assert kept is not None
    assert {number: (one.phase, one.outcome, one.valid) for number, one in kept.items()} == {
        0: (Phase.WARMUP, Outcome.OK, True), 2: (Phase.WINDOW, Outcome.OK, False), 3: (Phase.WINDOW, Outcome.OK, True),
    }  # fmt: skip
    assert (
        kept[0].verdict_words
        == "Valid: the validator of the task arithmetic expected 579 as the last number of the answer."
    )
    assert kept[2].verdict_words == (
        "Not valid: the validator of the task arithmetic expected 579 as the last number of the answer; its last number is 1."
    )


def test_an_answer_that_did_not_end_well_was_not_judged_and_says_why() -> None:
    kept = kept_samples.read(write(columns_of(a_record(3, outcome=Outcome.IDLE_TIMEOUT, **FAILED), a_sample(3, "57"))))
    assert kept is not None
    assert kept[3].verdict_words == "Not judged: the request ended as idle timeout."


def test_of_an_answer_that_was_cut_nothing_is_said_that_only_the_whole_would_tell() -> None:
    cut = a_sample(0, "5" * 10, answer_characters=9000)
    kept = kept_samples.read(write(columns_of(a_record(0, valid=False), cut)))
    assert kept is not None
    assert not kept[0].answer_is_whole
    assert kept[0].verdict_words.endswith("as the last number of the answer.")


def test_in_sessions_a_request_is_known_by_its_conversation_and_turn_not_by_the_order_of_asking() -> None:
    found = columns_of(a_record(9, session=2, turn=1), a_sample(9), sessions=Sessions(turns=3, think_s=0.0))
    assert list(kept_samples.read(write(found)) or {}) == [7]


@pytest.mark.parametrize("schema", [1, 2, 3])
def test_evidence_of_before_holds_no_sample_and_still_gives_its_numbers(schema: int) -> None:
    content = (OLD / f"schema{schema}_cell.parquet").read_bytes()
    columns = read(content)
    assert (kept_samples.read(content), columns.samples) == (None, ())
    again = read(write(columns))
    assert as_json(summarise(again, again.plan)) == as_json(summarise(columns, columns.plan))


def test_a_sample_whose_record_was_lost_is_lost_with_it() -> None:
    assert read(write(columns_of(a_record(0), a_sample(5)))).samples == ()
