"""The p95 that the live page shows: nothing from too few, nothing finite among failures."""

import pytest

from benchmarks.engine.guard import Seen, recent_p95
from benchmarks.engine.terms import Outcome


def _seen(ok: int, failed: int = 0, ended_by_us: int = 0) -> list[Seen]:
    times = [(Outcome.OK, (n + 1) / 100) for n in range(ok)]
    times += [(Outcome.SERVER_ERROR, 0.001)] * failed + [(Outcome.CANCELLED, 0.001)] * ended_by_us
    return [Seen(class_name="short", outcome=outcome, e2e_s=time, ttft_s=time) for outcome, time in times]


@pytest.mark.parametrize(
    ("what", "seen", "p95_s"),
    [
        ("nineteen are too few", _seen(19), None),
        ("twenty are enough", _seen(20), 0.19),
        ("a hundred", _seen(100), 0.95),
        ("five failures of a hundred lie beyond it", _seen(95, failed=5), 0.95),
        ("six failures reach it", _seen(94, failed=6), None),
        ("what we ended ourselves does not count", _seen(19, ended_by_us=9), None),
    ],
)
def test_a_p95_to_show_needs_enough_requests_and_counts_failures_as_infinite(what, seen, p95_s):
    assert recent_p95(seen, lambda one: one.e2e_s) == p95_s
