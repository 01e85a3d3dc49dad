"""A spinning process on the client's core makes the window client-limited, not slow; a client's own work does not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benchmarks.engine.health import SCHEDSTAT, Seen, scheduled, verdict, wait_share
from benchmarks.engine.plan import Fixed
from tests.benchmarks.engine.loads.running import MODEL, run_program, simulator
from tests.benchmarks.engine.plans import a_class, a_plan

SPIN = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])}); print('spinning', flush=True)\nwhile True: pass"
COUNTS_WAITS = SCHEDSTAT.exists() and hasattr(os, "sched_setaffinity") and (os.cpu_count() or 1) > 1


@contextmanager
def neighbours(core: int, count: int) -> Iterator[None]:
    """So many processes that do nothing but run, on this core."""
    command = [sys.executable, "-c", SPIN, str(core)]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(count)]
    try:
        for child in children:
            child.stdout.readline()
        yield
    finally:
        for child in children:
            child.kill()
            child.communicate()


@pytest.mark.skipif(not COUNTS_WAITS, reason="the system counts no waits for a core, or has only one")
def test_neighbours_on_the_clients_core_make_its_window_client_limited(tmp_path):
    core = min(os.sched_getaffinity(0))
    with simulator() as url, neighbours(core, 6):
        plan = a_plan(
            base_url=url, model=MODEL, offered_concurrency=8, warmup_s=0.2, window_s=3.0, max_requests=10_000,
            client_cpus=(core,), classes=(a_class(output_tokens=Fixed(8)),),
        )  # fmt: skip
        code, words, left = run_program(plan, tmp_path)
    assert (code, words) == (0, "")
    health = left.columns.health
    assert health.cpu_wait_share > 1 / 3
    assert health.client_limited
    assert "event-loop lag" in health.why or "others had its core" in health.why
    assert left.summary.client == health
    assert left.summary.conserved


@pytest.mark.parametrize(
    ("pinned", "others", "lag_ms", "limited"),
    [
        (True, None, 4.9, False),
        (True, 0.33, 4.9, False),  # a client's own work: a burst of answers
        (True, 0.34, 2.0, False),  # a neighbour who does not matter
        (True, 0.34, 2.1, True),
        (True, 0.9, 0.3, False),
        (False, 0.6, 4.9, False),  # cores that are anybody's
        (False, 0.67, 2.1, True),
        (False, 0.1, 5.1, True),
    ],
)
def test_beside_a_neighbour_the_limit_of_lag_is_lower(pinned, others, lag_ms, limited):
    plan = a_plan(client_cpus=(0,) if pinned else ())
    seen = Seen(lags_ms=[lag_ms] * 100, cpu_share=0.1, send_late_ms=[0.1] * 100, cpu_wait_share=others)
    found = verdict(plan, seen, sends_are_due=True)
    assert (found.client_limited, found.cpu_wait_share) == (limited, others)


def test_the_stamp_says_who_it_was_and_where_the_limits_are():
    seen = Seen(lags_ms=[3.5] * 100, cpu_share=0.1, send_late_ms=[], cpu_wait_share=0.47)
    why = verdict(a_plan(client_cpus=(1,)), seen, sends_are_due=False).why
    assert why == "others had its core for 47\u00a0% of its work, event-loop lag p99 3.5 ms, limit 2 ms above 33\u00a0%"


@pytest.mark.parametrize(
    ("begin", "end", "share"),
    [
        ((10, 10), (110, 10), 0.0),
        ((10, 10), (110, 60), 1 / 3),
        ((10, 10), (10, 60), None),  # nothing was counted
        (None, (1, 1), None),
        ((1, 1), None, None),
    ],
)
def test_the_share_is_of_the_time_in_which_there_was_work(begin, end, share):
    assert wait_share(begin, end) == (None if share is None else pytest.approx(share))


@pytest.mark.skipif(not COUNTS_WAITS, reason="the system counts no waits for a core")
def test_the_counts_of_this_thread_grow_with_its_work():
    before = scheduled()
    sum(range(3_000_000))
    after = scheduled()
    assert after[0] > before[0]
    assert after[1] >= before[1]
