"""A window whose client was the bottleneck is stamped so, with the number that says it."""

from __future__ import annotations

import pytest

from benchmarks.engine.health import Seen, lag_limit_ms, verdict
from benchmarks.engine.plan import ClassLimits
from tests.benchmarks.engine.plans import a_class, a_plan


def judge(
    lag_ms: float = 1.0, cpu_share: float = 0.1, late_ms: float = 1.0, waited: int = 0, sends_are_due: bool = False
):
    late = [late_ms] * 100
    seen = Seen(lags_ms=[lag_ms] * 100, cpu_share=cpu_share, send_late_ms=late, waited_for_connection=waited)
    return verdict(a_plan(), seen, sends_are_due=sends_are_due)


@pytest.mark.parametrize(
    "numbers, why",
    [
        ({}, ""),
        ({"lag_ms": 5.0, "cpu_share": 0.8, "late_ms": 5.0, "waited": 1, "sends_are_due": True}, ""),
        ({"lag_ms": 5.1}, "event-loop lag p99 5.1 ms, limit 5 ms"),
        ({"cpu_share": 0.81}, "client used 81\u00a0% of a core, limit 80\u00a0%"),
        ({"late_ms": 50.0}, ""),
        ({"late_ms": 5.1, "sends_are_due": True}, "sends late by p99 5.1 ms, limit 5 ms"),
        ({"waited": 2}, "2.0\u00a0% of requests waited for a connection, limit 1\u00a0%"),
    ],
)
def test_each_limit_has_two_sides(numbers, why):
    found = judge(**numbers)
    assert (found.client_limited, found.why) == (bool(why), why)


@pytest.mark.parametrize("objective_s, limit_ms", [(None, 5.0), (2.0, 5.0), (0.02, 1.0)])
def test_a_tight_objective_tightens_the_lag_limit(objective_s, limit_ms):
    assert lag_limit_ms(a_plan(classes=(a_class(limits=ClassLimits(ttft_s=objective_s)),))) == pytest.approx(limit_ms)


def test_what_was_not_watched_is_unknown():
    found = verdict(a_plan(), Seen(lags_ms=[], cpu_share=None, send_late_ms=[]), sends_are_due=True)
    assert (found.loop_lag_p99_ms, found.cpu_share, found.send_late_p99_ms) == (None, None, None)
