"""Fairness: the ratio is what the schedule makes it, the index what each client is entitled to, and too little says
nothing."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.engine.plan import ClassPlan, Fixed
from benchmarks.engine.probe_plan import Fairness
from benchmarks.engine.probes.fairness import entitled, jain
from benchmarks.engine.terms import Outcome
from tests.benchmarks.engine.plans import FAILED
from tests.benchmarks.engine.probes.evidence import SHORT, judged, request, run_probe
from tests.benchmarks.engine.simulated import simulator, truths

PROBE = Fairness(least_requests=20)


def steady(role: str, count: int, took_s: float, *, from_s: float = 0.0, **changes):
    return [request(role, from_s + n * took_s, from_s + (n + 1) * took_s, **changes) for n in range(count)]


def both(alone_s: float, beside_s: float, count: int = 20):
    return (
        *steady("short_alone", count, alone_s),
        *steady("short_beside", count, beside_s, from_s=50.0),
        *steady("long", 3, count * beside_s / 3, from_s=50.0, slot=1),
    )


@pytest.mark.parametrize(
    ("beside_s", "ratio", "word"),
    [(0.1, 1.0, "fair"), (0.19, 1.9, "fair"), (0.3, 3.0, "watch"), (0.49, 4.9, "watch"), (0.6, 6.0, "unfair")],
)
def test_the_ratio_of_the_p95_decides_by_the_stated_limits(beside_s, ratio, word):
    verdict = judged(PROBE, *both(0.1, beside_s))
    assert verdict.verdict == word
    assert verdict.figures["p95_ratio"].value == pytest.approx(ratio)
    assert verdict.figures["p95_ratio"].n == 20
    assert verdict.figures["blocked_share"].value == pytest.approx(1 - 1 / ratio, abs=1e-6)


def test_a_short_request_that_fails_beside_long_ones_is_infinite():
    failing = [request("short_beside", 60 + n, 61 + n, outcome=Outcome.SERVER_ERROR, **FAILED) for n in range(5)]
    verdict = judged(PROBE, *both(0.1, 0.1), *failing)
    assert (verdict.verdict, verdict.figures["p95_ratio"].value) == ("unfair", None)
    assert verdict.reasons == ("5 of 25 short requests beside long ones failed, so their p95 is not finite.",)


@pytest.mark.parametrize(
    ("beside_s", "count", "word"), [(2.0, 7, "unfair"), (2.0, 4, "not_judged"), (0.3, 7, "not_judged")]
)
def test_a_few_requests_say_enough_where_the_quickest_was_held_up_beyond_the_limit(beside_s, count, word):
    found = (*both(0.1, 0.1)[:20], *both(0.1, beside_s, count)[count:])
    verdict = judged(PROBE, *found)
    assert verdict.verdict == word
    assert verdict.figures["p95_ratio"].value is None
    assert f"Only {count} short requests" in verdict.reasons[0]


@pytest.mark.parametrize(
    ("found", "changes", "reason"),
    [
        (both(0.1, 0.2, 19), {}, "Only 19 short requests were asked alone; 20 are needed."),
        (both(0.1, 0.2)[:-3], {}, "No long request came to its end."),
        (both(0.1, 0.2), {"classes": (SHORT,)}, "no second class"),
        (both(0.1, 0.2), {"stopped": "ceiling: 40 requests"}, "The probe was stopped: ceiling: 40 requests."),
        (
            (*steady("short_alone", 9, 0.1), *both(0.1, 0.2), *(
                request("short_alone", 9.0, 9.1, outcome=Outcome.REJECTED, **FAILED) for _ in range(9)
            )),
            {},
            "Short requests failed even alone",
        ),
    ],
)  # fmt: skip
def test_why_it_cannot_be_judged_is_said(found, changes, reason):
    verdict = judged(PROBE, *found, **changes)
    assert verdict.verdict == "not_judged"
    assert reason in " ".join(verdict.reasons)


@pytest.mark.parametrize(
    ("total", "wanted", "weights", "shares"),
    [
        (12.0, [np.inf, np.inf, np.inf], [1, 1, 1], [4, 4, 4]),
        (12.0, [2.0, np.inf, np.inf], [1, 1, 1], [2, 5, 5]),
        (12.0, [np.inf, np.inf], [1, 2], [4, 8]),
        (12.0, [1.0, 5.0, np.inf], [1, 1, 1], [1, 5, 6]),
        (0.0, [1.0, np.inf], [1, 1], [0, 0]),
    ],
)
def test_nobody_is_entitled_to_more_than_it_wants_and_the_rest_is_the_others(total, wanted, weights, shares):
    assert entitled(total, np.array(wanted), np.array(weights, dtype=float)).tolist() == shares


@pytest.mark.parametrize(
    ("values", "index"), [([1, 1, 1], 1.0), ([1, 0, 0, 0], 0.25), ([2, 1], 0.9), ([], None), ([0, 0], None)]
)
def test_jains_index_is_one_where_all_are_equal_and_one_nth_where_one_has_all(values, index):
    assert jain(np.array(values, dtype=float)) == index


def p95(values: list[float]) -> float:
    return sorted(values)[int(np.ceil(0.95 * len(values))) - 1]


@pytest.mark.parametrize(
    ("active", "tokens", "low", "high", "word"),
    [("1", (3, 9), 4.5, 5.5, "unfair"), ("1024", (6, 21), 1.0, 1.6, "fair")],
)
def test_on_a_known_schedule_the_known_ratio_comes_out(tmp_path, active, tokens, low, high, word):
    """A token each 20 ms, the first at once. One sequence at a time: a short answer of 3 tokens takes 40 ms alone, and
    beside one long client it waits for a whole long answer, 160 ms, each time: 5 times as long. With room for all it
    waits for at most the two steps that it falls into, 40 ms to its 100. The server's own stamps say the same."""
    probe = Fairness(alone_s=0.9, beside_s=2.0, long_clients=1, fair_ratio=2.5, unfair_ratio=3.0)
    classes = tuple(
        ClassPlan(name=name, weight=1.0, prompt_tokens=Fixed(8), output_tokens=Fixed(count))
        for name, count in zip(("short", "long"), tokens, strict=True)
    )
    with simulator("--profile", "calibrate", "--active", active) as (url, model):
        left, verdict = run_probe(tmp_path, url, model, probe, classes=classes)
        server = truths(url)
    assert verdict.verdict == word, verdict
    assert low <= verdict.figures["p50_ratio"].value <= high
    took = {one.prompt_digest: (one.t_end_ns - one.t_received_ns) / 1e9 for one in server}
    alone, beside = (
        [took_of for took_of, record in zip(took.values(), by_time(left.records), strict=True) if record.role == role]
        for role in ("short_alone", "short_beside")
    )
    assert verdict.figures["p95_ratio"].value == pytest.approx(p95(beside) / p95(alone), rel=0.10)
    assert left.summary.conserved is True
    assert verdict.evidence.requests["short_beside"] >= 20
    assert (verdict.simulated, verdict.probe) == (True, "fairness")


def test_without_a_second_class_nothing_is_asked(tmp_path):
    with simulator() as (url, model):
        left, verdict = run_probe(tmp_path, url, model, Fairness(), classes=(SHORT,))
    assert (verdict.verdict, verdict.evidence.complete, left.records) == ("not_judged", True, [])


def by_time(records):
    return sorted(records, key=lambda record: record.t_sent_ns)
