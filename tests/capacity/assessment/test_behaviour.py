"""What behaviour probes say of a setting, on both sides of the objective's limits."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from benchmarks.engine.plan import GridLimits, ObjectiveTerms
from benchmarks.engine.probe_plan import (
    Cancellation,
    Fairness,
    LimitsProbe,
    Overload,
    Probe,
    Recovery,
    RetryStorm,
)
from capacity.assessment import behaviour
from capacity.assessment.choose import judge
from capacity.assessment.facts import CellFact, GridFacts, ProbeFact
from capacity.assessment.verdict import Answer, Gate, Kind
from tests.capacity import synthetic as made
from tests.capacity.assessment.probes import fact, unrun

HOLDS, FAILS, NOT_TESTED = Answer.HOLDS, Answer.FAILS, Answer.NOT_TESTED


def asked(**terms: object) -> GridLimits:
    return replace(made.limits(), terms=ObjectiveTerms(**terms))  # type: ignore[arg-type]


def facts(*probes: ProbeFact, classes: int = 2, **terms: object) -> GridFacts:
    weights = dict.fromkeys(("short", "long")[:classes], 1.0)
    return replace(made.four_and_eight(), probes=probes, class_weights=weights, limits=asked(**terms))


def gate(found: GridFacts, key: str, setting: int = 4) -> Gate:
    return next(gate for gate in behaviour.gates(found, setting) if gate.key == key)


@pytest.mark.parametrize(
    ("word", "p95_s", "answer"),
    [
        ("refused_clearly", 0.01, HOLDS),
        ("refused_clearly", 1.01, FAILS),  # the objective's limit, not the probe's, decides
        ("refused_without_retry_after", 0.01, HOLDS),
        ("refused_late", 2.0, FAILS),
        ("refused_late", None, FAILS),
        ("queues_without_bound", None, FAILS),
        ("fails", None, FAILS),
        ("kept_up", None, NOT_TESTED),
        ("not_judged", None, NOT_TESTED),
    ],
)
def test_overload_is_refused_clearly_or_the_deployment_fails_at_every_setting(
    word: str, p95_s: float | None, answer: Answer
) -> None:
    found = facts(fact(Overload(), word, "41 of 60 requests were refused (HTTP 503: 41).", time_to_reject_p95=p95_s))
    answers = {setting: gate(found, "overload", setting).answer for setting in (1, 2, 4, 8)}
    assert set(answers.values()) == {answer}
    at_four, at_eight = gate(found, "overload"), gate(found, "overload", 8)
    assert "Probed at" not in at_four.reason
    assert ("Probed at 4 in flight" in at_eight.reason) is (answer != NOT_TESTED)
    assert at_four.cells == (900,)
    assert bool(at_four.remedy) is (answer != HOLDS)


def test_what_does_not_say_when_to_come_back_holds_and_says_so() -> None:
    found = facts(
        fact(Overload(), "refused_without_retry_after", "41 of 41 refusals said nothing about when to come back.")
    )
    assert "without saying when to come back" in gate(found, "overload").reason


@pytest.mark.parametrize(
    ("word", "ratio", "answer"),
    [
        ("fair", 2.0, HOLDS),
        ("watch", 2.01, FAILS),  # above the objective's 2, below the probe's own 5
        ("unfair", 5.1, FAILS),
        ("unfair", None, FAILS),
        ("not_judged", None, NOT_TESTED),
    ],
)
def test_fairness_is_judged_by_the_objectives_slowdown(word: str, ratio: float | None, answer: Answer) -> None:
    assert gate(facts(fact(Fairness(), word, p95_ratio=ratio)), "fairness").answer == answer


@pytest.mark.parametrize(
    ("ratio", "n", "answer", "says"),
    [
        (1.1, 1, NOT_TESTED, "Only 1 short request was timed alone or beside, too few to believe a p95: needs 58 more"),
        (1.1, 58, NOT_TESTED, "needs 1 more, so probe it for longer"),
        (1.1, 59, HOLDS, "limit 2 (n = 59)"),  # p95 at 95 %: 59 without a miss
        (1.1, None, NOT_TESTED, "Only 0 short requests"),
        (6.0, 19, NOT_TESTED, "needs 1 more"),
        (6.0, 20, FAILS, "6.00 times"),  # fewer than 20 have no p95 below their maximum
    ],
)
def test_fairness_is_believed_only_of_as_many_requests_as_a_percentile_takes(
    ratio: float, n: int | None, answer: Answer, says: str
) -> None:
    found = gate(facts(fact(Fairness(), "fair" if ratio < 2 else "unfair", n=n, p95_ratio=ratio)), "fairness")
    assert (found.answer, says in found.reason) == (answer, True), found.reason
    assert found.caps_grade is (answer == NOT_TESTED)


def test_short_requests_that_the_full_runtime_refused_were_not_delayed_by_long_ones() -> None:
    """Three in flight where one is let in is overload: whether a setting of one is fair was not tried."""
    unfair = fact(Fairness(), "unfair", "100 of 100 short requests beside long ones failed.", p95_ratio=None)
    assert unfair.verdict is not None
    told = replace(unfair.verdict.evidence, outcomes={"short_beside": {"rejected": 100}})
    found = gate(facts(replace(unfair, verdict=replace(unfair.verdict, evidence=told))), "fairness")
    assert found.answer == NOT_TESTED
    assert "100 short requests beside long ones were refused" in found.reason


def test_fairness_speaks_for_its_own_load_only() -> None:
    """Probed at 4 with three in flight: a failure says nothing of two in flight, and what is fair nothing of eight."""
    unfair, fair = facts(fact(Fairness(), "unfair", p95_ratio=6.0)), facts(fact(Fairness(), "fair", p95_ratio=1.1))
    assert [gate(unfair, "fairness", s).answer for s in (1, 2, 4, 8)] == [NOT_TESTED, NOT_TESTED, FAILS, FAILS]
    assert [gate(fair, "fairness", s).answer for s in (1, 2, 4, 8)] == [HOLDS, HOLDS, HOLDS, NOT_TESTED]
    assert "with 1 short and 2 long in flight" in gate(fair, "fairness").reason
    assert "more in flight than this setting offers" in gate(unfair, "fairness", 2).reason


def test_one_class_cannot_show_what_short_requests_lose() -> None:
    found = gate(facts(classes=1), "fairness")
    assert (found.answer, found.blocks, found.caps_grade) == (NOT_TESTED, False, True)
    assert "one length class" in found.reason


def beside(setting: int, short_alone_s: float, short_mixed_s: float, *, n: int = 200) -> list[CellFact]:
    """Short alone, long alone and the mix of both at one setting."""
    short = made.class_summary("short", made.latencies(n, short_mixed_s))
    long = made.class_summary("long", made.latencies(n, 4.0))
    mixed = made.summary(setting, "mixed", [short, long])
    return [
        made.simple_cell(10 * setting, setting, p95_s=short_alone_s, n=n),
        made.simple_cell(10 * setting + 1, setting, p95_s=4.0, n=n, name="long"),
        made.cell(10 * setting + 2, setting, "mixed", mixed),
    ]


@pytest.mark.parametrize(("mixed_s", "answer"), [(0.3, HOLDS), (0.39, HOLDS), (0.41, FAILS)])
def test_the_mix_shows_per_setting_what_long_requests_do_to_short_ones(mixed_s: float, answer: Answer) -> None:
    found = made.facts([*beside(4, 0.2, 0.21), *beside(8, 0.2, mixed_s)], class_weights={"short": 1.0, "long": 1.0})
    at_four, at_eight = (gate(found, "fairness", setting) for setting in (4, 8))
    assert (at_four.answer, at_eight.answer) == (HOLDS, answer)
    assert at_eight.cells == (82, 80)
    assert f"{mixed_s / 0.2:.2f} times that alone" in at_eight.reason


def test_a_failure_of_either_kind_of_fairness_counts_and_an_indication_yields_to_the_probe() -> None:
    cells = [*beside(4, 0.2, 0.39), *beside(8, 0.2, 0.5)]
    found = made.facts(cells, class_weights={"short": 1.0, "long": 1.0})
    assert gate(found, "fairness").indicative
    probed = replace(found, probes=(fact(Fairness(), "fair", setting=8, p95_ratio=1.1),))
    assert [gate(probed, "fairness", s).answer for s in (4, 8)] == [HOLDS, FAILS]
    assert not gate(probed, "fairness").indicative


@pytest.mark.parametrize(
    ("word", "worst_s", "max_free_s", "answer"),
    [
        ("frees_in_time", 0.99, 1.0, HOLDS),
        ("frees_late", 1.01, 1.0, FAILS),
        ("frees_late", 1.01, 2.0, HOLDS),  # the objective allows more than the probe
        ("frees_in_time", 0.99, 0.5, FAILS),  # and less
        ("never_frees", None, 1.0, FAILS),
        ("not_judged", None, 1.0, NOT_TESTED),
    ],
)
def test_cancellation_frees_in_time_by_the_objective(
    word: str, worst_s: float | None, max_free_s: float, answer: Answer
) -> None:
    found = facts(fact(Cancellation(slots=4), word, stream_freed_worst=worst_s), max_free_s=max_free_s)
    assert {gate(found, "cancellation", s).answer for s in (1, 8)} == {answer}


@pytest.mark.parametrize(("word", "answer"), [("contained", HOLDS), ("amplifies", FAILS), ("kept_up", NOT_TESTED)])
def test_a_retry_storm_is_contained_fails_or_was_not_seen(word: str, answer: Answer) -> None:
    assert gate(facts(fact(RetryStorm(), word)), "retry").answer == answer


@pytest.mark.parametrize(
    ("word", "back_s", "after_s", "answer"),
    [
        ("recovers", 59.0, 60.0, HOLDS),
        ("recovers", 61.0, 90.0, FAILS),
        ("does_not_recover", None, 60.0, FAILS),
        ("does_not_recover", None, 30.0, NOT_TESTED),  # watched for less than the objective allows
        ("not_disturbed", 0.0, 60.0, NOT_TESTED),
    ],
)
def test_recovery_in_time_by_the_objective(word: str, back_s: float | None, after_s: float, answer: Answer) -> None:
    found = facts(fact(Recovery(after_s=after_s), word, back_to_latency=back_s))
    assert gate(found, "recovery").answer == answer


@pytest.mark.parametrize(
    ("calm_s", "recovery_s", "answer"), [(0.2, 12.0, HOLDS), (0.2, None, FAILS), (None, None, NOT_TESTED)]
)
def test_without_its_own_probe_recovery_is_what_the_overload_probe_timed(
    calm_s: float | None, recovery_s: float | None, answer: Answer
) -> None:
    found = facts(fact(Overload(), "refused_clearly", answer_time_calm_p95=calm_s, recovery=recovery_s))
    assert gate(found, "recovery").answer == answer


@pytest.mark.parametrize(
    ("prompt", "output", "answer"),
    [
        (400, 400, HOLDS),
        (413, 200, HOLDS),  # an answer that is asked too long ends where the context does
        (200, 400, FAILS),  # a prompt was cut in silence
        (400, 500, FAILS),
        (None, 400, FAILS),
    ],
)
def test_oversized_requests_are_refused_as_the_clients_error(prompt: int | None, output: int, answer: Answer) -> None:
    found = facts(fact(LimitsProbe(), "refuses_partly", long_prompt_status=prompt, long_output_status=output))
    assert gate(found, "limits").answer == answer


def test_where_the_context_is_not_known_limits_are_not_tested() -> None:
    found = facts(fact(LimitsProbe(), "accepts_everything", "The context is not known.", no_credentials_status=200))
    assert gate(found, "limits").answer == NOT_TESTED


@pytest.mark.parametrize(
    ("tenants", "status", "refused", "answer"),
    [
        (1, 200, 0, Answer.NOT_APPLICABLE),
        (3, 401, 2, HOLDS),
        (3, 200, 2, FAILS),
        (3, 401, 0, FAILS),
        (3, None, 2, NOT_TESTED),
    ],
)
def test_several_tenants_need_credentials_and_a_quota(
    tenants: int, status: int | None, refused: int, answer: Answer
) -> None:
    figures: dict[str, float | None] = {"rate_refused": refused}
    if status is not None:
        figures["no_credentials_status"] = status
    found = facts(fact(LimitsProbe(), "refuses_partly", **figures), tenants=tenants)
    assert gate(found, "tenancy").answer == answer


@pytest.mark.parametrize(
    ("probe", "key"),
    [
        (Fairness(), "fairness"), (Overload(), "overload"), (Cancellation(), "cancellation"), (RetryStorm(), "retry"),
        (Recovery(), "recovery"), (LimitsProbe(), "limits"),
    ],
)  # fmt: skip
def test_a_probe_that_did_not_run_says_why_and_empties_no_safe_set(probe: Probe, key: str) -> None:
    without, unrun_one = facts(), facts(unrun(probe, "Not safe to go on: GPU at 90 C."))
    for found, words in ((without, "was drawn"), (unrun_one, "GPU at 90 C")):
        one = gate(found, key)
        assert (one.answer, one.blocks, one.caps_grade) == (NOT_TESTED, False, True)
        assert words in one.reason
        assert one.remedy
        assert judge(found).recommended == 4


def test_the_worst_of_several_probes_counts() -> None:
    found = facts(
        fact(Recovery(), "recovers", cell_id=1, back_to_latency=5.0),
        fact(Recovery(after="restart"), "recovers", cell_id=2, back_to_latency=90.0),
        unrun(Recovery(after="cancel_storm")),
    )
    assert (gate(found, "recovery").answer, gate(found, "recovery").cells) == (FAILS, (2,))
    found = replace(found, probes=(found.probes[0], found.probes[2]))
    assert gate(found, "recovery").answer == HOLDS


def test_a_bare_server_that_queues_without_bound_has_no_safe_setting_and_behind_a_gateway_the_same_has() -> None:
    bare = judge(
        facts(fact(Overload(), "queues_without_bound", "Nothing was refused, and times grew by 0.4 s each second."))
    )
    assert (bare.kind, bare.recommended, bare.heading) == (Kind.NO_SAFE_SETTING, None, "No safe setting found")
    assert "Put a gateway with a bounded queue in front." in bare.summary
    assert bare.summary.count("Nothing was refused") == 1
    assert [row.good.value is not None for row in bare.rows] == [True] * 4
    fronted = judge(facts(fact(Overload(), "refused_clearly", time_to_reject_p95=0.01)))
    assert (fronted.kind, fronted.recommended) == (Kind.RECOMMENDED, 4)


def test_every_gate_gives_a_reason_and_every_failing_one_a_remedy() -> None:
    failing = facts(
        fact(Fairness(), "unfair", p95_ratio=9.0), fact(Overload(), "fails"), fact(Cancellation(), "never_frees"),
        fact(RetryStorm(), "amplifies"), fact(Recovery(), "does_not_recover"), fact(LimitsProbe(), "accepts_everything",
        long_prompt_status=200.0, no_credentials_status=200.0, rate_refused=0.0), tenants=2,
    )  # fmt: skip
    for found in (failing, facts()):
        gates = behaviour.gates(found, 4)
        assert all(one.reason for one in gates)
        assert all(one.remedy for one in gates if one.answer in (FAILS, NOT_TESTED))
    assert {one.answer for one in behaviour.gates(failing, 4)} == {FAILS}
