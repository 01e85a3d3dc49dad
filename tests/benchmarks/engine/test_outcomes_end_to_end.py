"""Every row of the outcome vocabulary that a server can cause: a real simulator, the real engine, one outcome each."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from benchmarks.engine import plan as plans
from benchmarks.engine.columns import OUTCOMES, from_log
from benchmarks.engine.plan import Fixed
from benchmarks.engine.summary import summarise
from benchmarks.engine.terms import Outcome
from benchmarks.simulator.faults import Fault
from tests.benchmarks.engine.loads.running import NO_ERROR_LIMIT, run_cell
from tests.benchmarks.engine.plans import a_class, a_plan
from tests.benchmarks.engine.scripted import plain

ROOT = Path(__file__).parents[3]
LIMITS = {"first_byte_timeout_s": 0.4, "idle_timeout_s": 0.4, "total_timeout_s": 3.0}

# fault (None: none), what the plan asks beside it, the one outcome, a word that the record's detail must hold
ROWS = [
    (None, {}, Outcome.OK, ""),
    (Fault.ROLE_EARLY, {}, Outcome.OK, ""),
    (Fault.MULTI_TOKEN, {}, Outcome.OK, ""),
    (Fault.BUFFERED, {}, Outcome.OK, ""),
    (Fault.HEADERS_LATE, {}, Outcome.OK, ""),
    (Fault.REASONING, {}, Outcome.OK, ""),
    (Fault.SHUFFLED, {"dialect": "openai_embeddings"}, Outcome.OK, ""),
    (Fault.HTTP_429, {}, Outcome.REJECTED, "HTTP 429"),
    (Fault.HTTP_503, {}, Outcome.REJECTED, "HTTP 503"),
    (Fault.HTTP_529, {}, Outcome.REJECTED, "HTTP 529"),
    (Fault.OVERLOAD_IN_STREAM, {}, Outcome.REJECTED, "queue is full"),
    (Fault.HTTP_400, {}, Outcome.REFUSED, "HTTP 400"),
    (None, {"model": "no-such-model"}, Outcome.REFUSED, "HTTP 404"),
    (Fault.HTTP_500, {}, Outcome.SERVER_ERROR, "HTTP 500"),
    (Fault.ERROR_IN_STREAM, {}, Outcome.IN_STREAM_ERROR, "on purpose"),
    (Fault.TRUNCATED, {}, Outcome.TRUNCATED, "without a terminal marker"),
    (Fault.RESET, {}, Outcome.TRUNCATED, "Error"),
    (Fault.MALFORMED, {}, Outcome.MALFORMED, "not understood"),
    (Fault.MISSING_ITEM, {"dialect": "openai_embeddings"}, Outcome.MALFORMED, "1 embeddings expected"),
    (Fault.NOT_FINITE, {"dialect": "openai_embeddings"}, Outcome.MALFORMED, "not finite"),
    (Fault.ERROR_IN_STREAM, {"dialect": "ollama_chat"}, Outcome.IN_STREAM_ERROR, "on purpose"),
    (Fault.ERROR_IN_STREAM, {"dialect": "llamacpp_completion"}, Outcome.IN_STREAM_ERROR, "on purpose"),
    (Fault.OVERLOAD_IN_STREAM, {"dialect": "ollama_chat"}, Outcome.REJECTED, "server busy"),
    (Fault.EMPTY, {}, Outcome.EMPTY, "without content"),
    (Fault.CLOSE, {}, Outcome.CONNECT_ERROR, "Error"),
    (Fault.SILENT, {}, Outcome.FIRST_BYTE_TIMEOUT, "to the first text"),
    (Fault.FIRST_BYTE_DELAY, {}, Outcome.FIRST_BYTE_TIMEOUT, "to the first text"),
    (Fault.STALL, {}, Outcome.IDLE_TIMEOUT, "without an event"),
    (Fault.ENDLESS, {"total_timeout_s": 0.6}, Outcome.TOTAL_TIMEOUT, "in total"),
]
NOT_BY_A_SERVER = {Outcome.CANCELLED, Outcome.UNFINISHED, Outcome.CLIENT_FAULT}


@contextmanager
def simulator(fault: Fault | None) -> Iterator[tuple[str, str]]:
    """The address and the model of a simulator that does this to each request."""
    options = [] if fault is None else ["--fault", f"{fault}=1"]
    command = [sys.executable, "-m", "benchmarks.simulator", "--with-parent", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        try:
            url = child.stdout.readline().split()[-1]
            model = httpx.get(f"{url}/v1/models", trust_env=False).json()["data"][0]["id"]
            yield url, model
        finally:
            child.terminate()


@pytest.mark.parametrize(
    "fault, asked, outcome, word", ROWS, ids=[f"{row[0] or 'none'}-{row[2]}-{n}" for n, row in enumerate(ROWS)]
)
def test_what_a_server_does_becomes_one_outcome(tmp_path, fault, asked, outcome, word):
    of_class = a_class(prompt_tokens=Fixed(8), output_tokens=Fixed(12))
    with simulator(fault) as (url, model):
        fields = {"base_url": url, "model": model, "classes": (of_class,), "window_s": 5.0, "max_requests": 1}
        plan = a_plan(**(fields | LIMITS | asked))
        (tmp_path / "plan.json").write_bytes(plans.encode(plan))
        command = [sys.executable, "-m", "benchmarks.engine", str(tmp_path / "plan.json"), str(tmp_path / "cell.log")]
        # Its stdin is held open, since the engine ends with it.
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as engine:
            assert engine.wait(60) == 0
    columns = from_log(tmp_path / "cell.log")
    found = summarise(columns, columns.plan)
    assert found.outcomes == {outcome.value: 1}
    assert (found.conserved, found.sent, found.recorded) == (True, 1, 1)
    detail = columns.requests.texts["detail"][0]
    assert word in detail
    assert bool(detail) == (outcome is not Outcome.OK)


def test_the_table_leaves_out_no_outcome_and_no_fault():
    assert {row[2] for row in ROWS} | NOT_BY_A_SERVER == {Outcome(value) for value in OUTCOMES}
    assert {row[0] for row in ROWS} - {None} == set(Fault)


def test_an_embedding_of_another_dimension_than_the_first_is_malformed(tmp_path):
    def vector(*values: float) -> list[bytes]:
        return [plain(200, json.dumps({"data": [{"index": 0, "embedding": values}]}).encode())]

    answers = [vector(0.5, 0.25), vector(1.0, 2.0), vector(1.0, 2.0, 3.0), vector(0.5, 0.5)]
    left = run_cell(
        tmp_path, *answers, dialect="openai_embeddings", stream=False, offered_concurrency=1, max_requests=4,
        guard=NO_ERROR_LIMIT,
    )  # fmt: skip
    assert [record.outcome for record in left.records] == [Outcome.OK, Outcome.OK, Outcome.MALFORMED, Outcome.OK]
    assert left.records[2].detail == "an embedding of dimension 3, the first had 2"
