"""A request that waits for a slot of the server pays for it in its time to first token, headers early or late."""

from __future__ import annotations

import pytest

from benchmarks.engine.plan import Fixed
from benchmarks.engine.terms import Outcome
from tests.benchmarks.engine.plans import a_class, a_plan
from tests.benchmarks.engine.simulated import simulator, truths
from tests.benchmarks.engine.slots import at_once

DIALECTS = ["openai_chat", "openai_completions", "ollama_chat", "llamacpp_completion"]


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
