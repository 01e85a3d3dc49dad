"""A retry storm told by its evidence: immediate retries multiply the load that they answer, a budget does not.

In virtual time on the simulator's engine, so that a minute of double load takes a moment and gives the same figures on
any machine.
"""

from __future__ import annotations

import msgspec
import pytest

from benchmarks.engine.probe_plan import RetryStorm
from benchmarks.engine.probes.retry_storm import CLIENTS, judge, policy_of, roles
from benchmarks.engine.retrying import Retries, RetryPolicy
from benchmarks.engine.verdicts import NOT_JUDGED, ProbeVerdict
from tests.benchmarks.engine.probes.virtual import Server, World, capacity_of

CAPACITY = capacity_of()
SUSTAINED = RetryStorm(capacity_per_s=CAPACITY, load_s=60.0)
BURST = RetryStorm(capacity_per_s=CAPACITY, burst_s=10.0)
NO_BUDGET = RetryPolicy(tries=5, base_s=0.5, cap_s=20.0, full_jitter=True, honour_retry_after=True)


def storms(probe: RetryStorm, server: Server, seed: int, careful: RetryPolicy | None = None) -> ProbeVerdict:
    world = World(server, seed=seed, client_timeout_s=probe.client_timeout_s)
    for clients in CLIENTS:
        policy = careful if careful is not None and clients == "budgeted" else policy_of(probe, clients)
        world.storm(probe, Retries(policy, seed=seed), roles(clients), CAPACITY)
    return judge(world.columns(probe))


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("probe", [SUSTAINED, BURST], ids=["sustained", "burst"])
@pytest.mark.parametrize("status", [503, 429])
def test_immediate_retries_more_than_double_the_load_and_a_budget_keeps_it_below_a_fifth_more(probe, status, seed):
    verdict = storms(probe, Server(status=status), seed)
    told = {name: figure.value for name, figure in verdict.figures.items()}
    assert verdict.verdict == "contained"
    assert told["immediate_attempts_per_request"] > 2.5
    assert told["budgeted_attempts_per_request"] < 1.15
    assert told["immediate_attempts_per_success"] > 4
    assert told["budgeted_attempts_per_success"] < 2.4
    assert told["budgeted_goodput"] == pytest.approx(told["immediate_goodput"], rel=0.1)  # retries bought nothing
    assert told["budgeted_goodput"] == pytest.approx(CAPACITY, rel=0.1)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_backoff_without_a_budget_only_moves_sustained_load_to_later(seed):
    told = storms(SUSTAINED, Server(), seed, careful=NO_BUDGET)
    assert told.verdict == "amplifies"
    assert told.figures["budgeted_attempts_per_request"].value > 2


def test_where_nothing_is_refused_clients_that_give_up_make_the_storm():
    probe = msgspec.structs.replace(SUSTAINED, client_timeout_s=3.0)
    told = storms(probe, Server(queue_cap=None), 1)
    assert told.figures["immediate_attempts_per_request"].value > 2
    assert told.figures["budgeted_attempts_per_request"].value < 1.2
    assert told.figures["immediate_recovery"].value > told.figures["budgeted_recovery"].value


def test_a_load_that_is_not_beyond_capacity_makes_no_storm():
    probe = msgspec.structs.replace(SUSTAINED, times_capacity=0.7)
    told = storms(probe, Server(), 1)
    assert told.verdict == "kept_up"
    assert told.figures["immediate_attempts_per_request"].value == pytest.approx(1, abs=0.02)


def test_too_few_requests_are_not_judged():
    told = storms(msgspec.structs.replace(BURST, burst_s=0.2), Server(), 1)
    assert told.verdict == NOT_JUDGED
    assert "are needed" in told.reasons[0]


def test_every_scheduled_request_has_one_outcome_however_often_it_was_tried():
    world = World(Server(), seed=4)
    world.storm(BURST, Retries(policy_of(BURST, "immediate"), seed=4), roles("immediate"), CAPACITY)
    tries: dict[int, list[int]] = {}
    for record in world.records:
        tries.setdefault(record.index, []).append(record.attempt)
    assert all(sorted(found) == list(range(1, len(found) + 1)) for found in tries.values())
    assert max(len(found) for found in tries.values()) == BURST.tries
    told = judge(world.columns(BURST))
    assert sum(told.evidence.requests.values()) == len(world.records)
    assert told.figures["immediate_attempts_per_request"].n == sum(
        record.role == "immediate storm" and record.attempt == 1 for record in world.records
    )
