"""A request that waits for a slot of the server pays for it in its time to first token, headers early or late."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from benchmarks.engine.plan import Fixed
from benchmarks.engine.terms import Outcome
from benchmarks.records.calibration import read_truths
from benchmarks.simulator.truth import Truth
from tests.benchmarks.engine.plans import a_class, a_plan
from tests.benchmarks.engine.slots import at_once

DIALECTS = ["openai_chat", "openai_completions", "ollama_chat", "llamacpp_completion"]


@contextmanager
def simulator(*arguments: str) -> Iterator[tuple[str, str]]:
    command = [sys.executable, "-m", "benchmarks.simulator", "--with-parent", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            url = child.stdout.readline().split()[-1]
            yield url, httpx.get(url + "/v1/models", trust_env=False).json()["data"][0]["id"]
        finally:
            child.terminate()


def truths(url: str) -> list[Truth]:
    return read_truths(httpx.get(url + "/truth", trust_env=False).content)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("fault", ["", "headers_late"])
def test_the_time_in_the_servers_queue_is_in_the_ttft(dialect: str, fault: str) -> None:
    faults = ["--fault", f"{fault}=1"] if fault else []
    of_class = a_class(prompt_tokens=Fixed(8), output_tokens=Fixed(40))
    with simulator("--active", "1", *faults) as (url, model):
        plan = a_plan(base_url=url, model=model, dialect=dialect, classes=(of_class,))
        ahead, waited = at_once(plan, 2)
        truth_ahead, truth_waited = truths(url)
    assert [record.outcome for record in (ahead, waited)] == [Outcome.OK] * 2
    # sent while the other ran, its first text came after the other's last: the wait is in it, however early its headers
    assert waited.t_sent_ns < truth_ahead.t_last_ns < truth_waited.t_first_ns < waited.t_first_ns
    assert (waited.t_headers_ns < truth_ahead.t_last_ns) == (fault == "")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_token_of_every_dialect_has_a_stamp_no_earlier_than_its_sending(dialect: str) -> None:
    of_class = a_class(prompt_tokens=Fixed(8), output_tokens=Fixed(10))
    with simulator("--profile", "calibrate") as (url, model):
        records = at_once(a_plan(base_url=url, model=model, dialect=dialect, classes=(of_class,)), 8)
        known = truths(url)
    assert [record.outcome for record in records] == [Outcome.OK] * 8
    assert [(record.output_tokens, len(record.gaps_us) // 4) for record in records] == [(10, 9)] * 8
    assert [record.valid for record in records] == [True] * 8
    for record, truth in zip(records, sorted(known, key=lambda one: one.t_received_ns), strict=True):
        assert record.t_first_ns > truth.t_tokens_ns[0]
        assert record.t_last_ns > truth.t_tokens_ns[-1]
        assert record.t_headers_ns > truth.t_head_ns
        assert record.t_end_ns > truth.t_end_ns
