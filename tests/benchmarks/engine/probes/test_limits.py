"""Limits: what was answered to each is told, and the word says whether the refusals were clear."""

from __future__ import annotations

import pytest

from benchmarks.engine.probe_plan import LimitsProbe
from benchmarks.engine.terms import Outcome
from tests.benchmarks.engine.loads import running
from tests.benchmarks.engine.plans import FAILED
from tests.benchmarks.engine.probes.evidence import judged, request, run_probe
from tests.benchmarks.engine.simulated import simulator

PROBE = LimitsProbe(context_tokens=4096)
PLAIN = request("plain", 0.0, 0.1)


def refused(role: str, status: int, outcome: Outcome = Outcome.REFUSED, **more):
    return request(role, 1.0, 1.1, **(FAILED | {"http_status": status, "outcome": outcome, "detail": "told"} | more))


PROMPT, OUTPUT, NO_KEY = (refused(role, status) for role, status in
                          (("long_prompt", 400), ("long_output", 422), ("no_credentials", 401)))  # fmt: skip
FREE_ENTRY = request("no_credentials", 3.0, 3.1)
CUT = request("long_output", 3.0, 3.1, asked_output_tokens=5120, output_tokens=29)
LEFT = request("long_output", 3.0, None, at={"first": 3.1, "closed": 3.5}, asked_output_tokens=5120)


@pytest.mark.parametrize(
    ("found", "word"),
    [
        ((PROMPT, OUTPUT, NO_KEY), "refuses_clearly"),
        ((PROMPT, OUTPUT, FREE_ENTRY), "refuses_partly"),
        ((PROMPT, CUT, NO_KEY), "refuses_partly"),
        ((PROMPT, LEFT, NO_KEY), "refuses_partly"),
        ((refused("long_prompt", 500, Outcome.SERVER_ERROR), OUTPUT, NO_KEY), "refuses_partly"),
        ((request("long_prompt", 1.0, 1.1), CUT, FREE_ENTRY), "accepts_everything"),
    ],
)
def test_only_client_errors_are_clear_refusals(found, word):
    assert judged(PROBE, PLAIN, *found).verdict == word


def test_each_answer_is_told_in_a_sentence():
    verdict = judged(PROBE, PLAIN, refused("long_prompt", 400, intended_prompt_tokens=5120), CUT, FREE_ENTRY)
    assert verdict.reasons[:3] == (
        "A prompt of 5120 tokens was refused (HTTP 400: told).",
        "An answer of 5120 tokens was accepted and its answer cut short without an error (HTTP 200).",
        "A request without credentials was accepted (HTTP 200).",
    )
    assert verdict.figures["long_prompt_status"].value == 400
    assert verdict.figures["long_output_answered"].value == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("probe", "found", "reason"),
    [
        (PROBE, (refused("plain", 503, Outcome.REJECTED), PROMPT), "A plain small request was not answered"),
        (PROBE, (PLAIN,), "None of the limits was tried."),
        (PROBE, (), "A plain small request was not answered"),
    ],
)
def test_why_it_cannot_be_judged_is_said(probe, found, reason):
    verdict = judged(probe, *found)
    assert verdict.verdict == "not_judged"
    assert reason in verdict.reasons[0]


def test_a_rate_limit_is_told_with_its_request_and_its_wait():
    served = [request("rate", 5 + n / 10, 5.05 + n / 10) for n in range(7)]
    limited = [refused("rate", 429, Outcome.REJECTED, retry_after_s=2.0) for _ in range(3)]
    verdict = judged(PROBE, PLAIN, NO_KEY, *served, *limited)
    first, refusals, wait = (verdict.figures[f"rate_{name}"] for name in ("first_refused", "refused", "retry_after"))
    assert (first.value, refusals.value, refusals.n, wait.value) == (1.0, 3.0, 10, 2.0)


def test_without_a_known_context_no_oversized_length_is_asked_for():
    verdict = judged(LimitsProbe(), PLAIN, NO_KEY)
    assert verdict.verdict == "refuses_clearly"
    assert "The context is not known, so no oversized prompt or answer was asked for." in verdict.reasons


def test_the_simulator_refuses_what_is_beyond_its_context_and_asks_for_no_credentials(tmp_path):
    probe = LimitsProbe(context_tokens=4096, rate_requests=10)
    with simulator() as (url, model):
        left, verdict = run_probe(tmp_path, url, model, probe)
    assert verdict.verdict == "refuses_partly"
    assert [verdict.figures[f"{role}_status"].value for role in ("long_prompt", "long_output", "no_credentials")] == [
        400, 400, 200,
    ]  # fmt: skip
    assert verdict.figures["rate_refused"].value == 0
    assert verdict.evidence.requests["rate"] == 10
    assert left.summary.conserved is True


def test_a_server_with_a_key_refuses_who_has_none(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADROOM_KEY_TEST", "of-the-test")
    probe = LimitsProbe(context_tokens=4096, rate_requests=2)
    model = "headroom-simulated-demo"
    with running.simulator("--api-key-env", "HEADROOM_KEY_TEST") as url:
        _, verdict = run_probe(tmp_path, url, model, probe, api_key_env="HEADROOM_KEY_TEST")
    assert verdict.verdict == "refuses_clearly", verdict.reasons
    assert verdict.figures["no_credentials_status"].value == 401


def test_ceilings_keep_an_oversized_request_from_being_sent(tmp_path):
    with simulator() as (url, model):
        left, verdict = run_probe(tmp_path, url, model, LimitsProbe(context_tokens=4096), max_tokens=1000)
    assert (verdict.verdict, verdict.evidence.end_reason) == ("not_judged", "ceiling: 1000 tokens")
    assert [record.role for record in left.records] == ["plain"]
