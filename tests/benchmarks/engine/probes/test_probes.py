"""What all probes share: plain data in a plan, words from a closed vocabulary, verdicts that the evidence gives again."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import msgspec
import pytest

from benchmarks.engine import plan as plans
from benchmarks.engine.plan import Guard
from benchmarks.engine.probe_plan import (
    BY_NAME,
    Cancellation,
    Fairness,
    Idle,
    LimitsProbe,
    Recovery,
    for_endpoint,
    longest_s,
    name_of,
    named,
)
from benchmarks.engine.probes.cells import probe_cell
from benchmarks.engine.probes.table import TABLE
from benchmarks.engine.usable import BadPlanError, check
from benchmarks.engine.verdicts import NOT_JUDGED, WORDS, ProbeVerdict, said, verdict_of, words_of
from benchmarks.records.parquet import read, write
from tests.benchmarks.engine.plans import a_plan
from tests.benchmarks.engine.probes.evidence import LONG, SHORT, evidence, request, run_probe
from tests.benchmarks.engine.simulated import simulator

PROBES = sorted(BY_NAME)


@pytest.mark.parametrize("name", PROBES)
def test_every_probe_is_plain_data_that_a_plan_carries_and_a_module_tries(name):
    probe = named(name)
    assert name_of(probe) == name
    plan = probe_cell(a_plan(classes=(SHORT, LONG)), probe)
    assert plans.decode(plans.encode(plan)) == plan
    assert plans.decode(plans.encode(plan)).probe == probe
    assert type(probe) in TABLE
    assert 0 < longest_s(probe) < 1000
    assert set(WORDS) == set(PROBES)
    check(plan)


@pytest.mark.parametrize("name", PROBES)
def test_without_a_single_request_nothing_is_judged_and_the_reason_is_a_sentence(name):
    verdict = verdict_of(evidence(named(name)))
    assert verdict is not None
    assert (verdict.probe, verdict.verdict, verdict.simulated) == (name, NOT_JUDGED, True)
    assert verdict.reasons
    assert all(reason[0].isupper() or reason[0].islower() for reason in verdict.reasons)
    assert all(reason.endswith(".") for reason in verdict.reasons)
    assert words_of(verdict) == "It could not be judged."


@pytest.mark.parametrize(
    ("context", "prompt", "output"), [(None, 1500, 1024), (8192, 1500, 1024), (4096, 1500, 1024), (2048, 744, 496)]
)
def test_lengths_that_fill_slots_fit_the_context_even_at_two_tokens_a_word(context, prompt, output):
    made = for_endpoint(Cancellation(), slots=4, context_tokens=context)
    assert made == Cancellation(slots=4, prefill_prompt_tokens=prompt, fill_output_tokens=output)
    assert context is None or 2 * prompt + output + 64 <= context


def test_what_is_known_of_the_runtime_goes_to_the_probe_that_needs_it():
    assert for_endpoint(LimitsProbe(), slots=4, context_tokens=2048) == LimitsProbe(context_tokens=2048)
    assert for_endpoint(Idle(), slots=4, context_tokens=2048) == Idle()


def test_a_word_outside_the_vocabulary_is_refused():
    with pytest.raises(ValueError, match="splendid is no verdict of idle"):
        said(evidence(Idle()), "splendid", {})


def test_a_plan_without_a_probe_reads_as_before():
    fields = msgspec.json.decode(plans.encode(a_plan()))
    assert fields.pop("probe") is None
    assert plans.decode(msgspec.json.encode(fields)) == plans.decode(plans.encode(a_plan()))


@pytest.mark.parametrize("changes", [{"processes": 2, "offered_concurrency": 2}])
def test_a_probe_runs_in_one_process(changes):
    plan = msgspec.structs.replace(probe_cell(a_plan(), Idle()), **changes)
    with pytest.raises(BadPlanError, match="offers its own load"):
        check(plan)


def test_the_cell_of_a_probe_keeps_the_targets_limits_and_what_protects_the_host():
    plan = a_plan(guard=Guard(max_temperature_c=70.0), metrics_every_s=0.5, max_requests=77, window_s=3.0)
    cell = probe_cell(plan, Fairness())
    assert (cell.max_requests, cell.max_tokens, cell.max_wall_s) == (77, plan.max_tokens, plan.max_wall_s)
    assert (cell.guard.max_temperature_c, cell.guard.max_vram_share) == (70.0, plan.guard.max_vram_share)
    assert (cell.guard.max_error_share, cell.guard.max_p95_over_objective) == (None, None)
    assert cell.metrics_every_s == 2.0
    assert cell.classes == plan.classes
    assert [one.name for one in probe_cell(plan, Cancellation()).classes] == ["probe"]


def test_the_stored_file_gives_the_verdict_again(tmp_path):
    probe = Recovery(
        before_s=0.3, least_after_s=0.0, storm_s=0.3, after_s=2.0, least_requests=3, storm_clients=4, light_every_s=0.01
    )
    with simulator() as (url, model):
        left, verdict = run_probe(tmp_path, url, model, probe)
    again = verdict_of(read(write(left.columns)))
    assert again == verdict
    assert msgspec.json.decode(msgspec.json.encode(again), type=ProbeVerdict) == verdict


def test_a_killed_engine_leaves_a_verdict_that_says_so():
    columns = evidence(Idle(), request("before", 0.0, 0.1))
    verdict = verdict_of(replace(columns, end=None))
    assert verdict is not None
    assert verdict.verdict == NOT_JUDGED
    assert verdict.reasons[0] == "The load engine was killed before the probe was through."
    assert verdict.evidence.complete is False


STOPPED = {
    "fairness": Fairness(alone_s=20.0),
    "cancellation": Cancellation(slots=2, fill_output_tokens=2000),
    "recovery": Recovery(before_s=0.2, least_requests=1, storm_s=20.0, storm_output_tokens=100),
    "idle": Idle(idle_s=20.0),
}


@pytest.mark.parametrize("name", STOPPED)
@pytest.mark.parametrize("command", ["cancel", "drain"])
def test_a_stop_ends_any_probe_within_seconds_and_loses_no_request(tmp_path, name, command):
    async def stop(cell, _server):
        await asyncio.sleep(1.0)
        cell.command(command)

    began_s = time.monotonic()
    with simulator("--profile", "calibrate", "--active", "2") as (url, model):
        left, verdict = run_probe(tmp_path, url, model, STOPPED[name], at_work=stop, max_wall_s=120.0)
    took_s = time.monotonic() - began_s
    assert took_s < (12 if command == "cancel" or name != "recovery" else 45), took_s
    assert verdict.verdict in ((NOT_JUDGED, "frees_in_time") if name == "cancellation" else (NOT_JUDGED,))
    assert verdict.evidence.end_reason == f"stopped: {command} was asked for"
    assert left.summary.conserved is True
    assert f"The probe was stopped: stopped: {command} was asked for." in verdict.reasons
