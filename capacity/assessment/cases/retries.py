"""Timeouts retried at once: clients that ask again without waiting turn a short overload into a long one."""

from __future__ import annotations

from msgspec.structs import replace

from benchmarks.engine.plan import RetryPolicy
from benchmarks.stats.per_cent import per_cent
from capacity.assessment.cases.shared import at, blank, judged, untested, value
from capacity.assessment.facts import GridFacts
from capacity.assessment.verdict import Finding, Found, SettingRow

KEY = "immediate-retries"
TITLE = "Timeouts retried at once"
MOST_ATTEMPTS = 1.5
REMEDY = (
    "Have clients wait before they try again: exponential backoff with full jitter, Retry-After honoured, and a budget."
)
DECLARE = "State in the objective what clients do when they are refused, then draw the grid again."
STORM = "Run the retry-storm probe with the clients' own policy."


def finding(facts: GridFacts, chosen: SettingRow | None) -> Finding:
    found = blank(KEY, TITLE)
    policy = facts.terms.retry
    stormy = _multiplied(facts, policy)
    if stormy or (policy is not None and _at_once(policy)):
        declared = () if policy is None else (_words(policy),)
        return replace(
            found,
            found=Found.FOUND,
            evidence=(*declared, *stormy),
            remedy=REMEDY,
            next_cell=STORM,
            blocks=chosen is not None,
        )
    if policy is None:
        return untested(found, "Nobody declared what clients do when they are refused.", next_cell=DECLARE)
    evidence = (_words(policy), *_seen(facts))
    lacking = _lacking(policy)
    if lacking:
        said = f"It lacks {', '.join(lacking[:-1]) + ' and ' if lacking[1:] else ''}{lacking[-1]}."
        return replace(found, found=Found.WATCH, evidence=(*evidence, said), remedy=REMEDY, next_cell=STORM)
    return replace(found, found=Found.NOT_FOUND, evidence=evidence)


def retries(policy: RetryPolicy) -> bool:
    return policy.kind != "none" and policy.tries > 1


def _at_once(policy: RetryPolicy) -> bool:
    return retries(policy) and (policy.kind == "immediate" or policy.base_s <= 0)


def _lacking(policy: RetryPolicy) -> list[str]:
    if not retries(policy):
        return []
    known = (
        (policy.jitter, "jitter"),
        (policy.honours_retry_after, "respect for Retry-After"),
        (policy.budget_share is not None, "a retry budget"),
    )
    return [name for there, name in known if not there]


def _multiplied(facts: GridFacts, policy: RetryPolicy | None) -> list[str]:
    """More attempts than requests, where clients asked as those of this service do: under overload and in the open loop,
    and in the storm of clients with backoff and budget where that is what the service's own do."""
    found = []
    for one, verdict in judged(facts, "overload"):
        sent, due = verdict.evidence.requests.get("overload"), verdict.figures.get("offered")
        if sent and due is not None and due.n and sent / due.n > MOST_ATTEMPTS:
            found.append(
                f"The overload probe at {at(one.setting)} sent {sent / due.n:.2f} attempts per request (n = {due.n})."
            )
    for confirm in facts.confirmations:
        tries = confirm.summary.attempts_per_request if confirm.summary is not None else None
        if confirm.summary is not None and tries is not None and tries > MOST_ATTEMPTS:
            n = confirm.summary.scheduled
            found.append(
                f"In the open loop at {at(confirm.setting)} there were {tries:.2f} attempts per request (n = {n})."
            )
    if policy is not None and policy.kind == "backoff":
        for one, verdict in judged(facts, "retry_storm"):
            tries = value(verdict, "budgeted_attempts_per_request")
            if tries is not None and tries > MOST_ATTEMPTS:
                found.append(
                    f"Even with backoff and budget the storm at {at(one.setting)} made {tries:.2f} attempts per request."
                )
    return found


def _seen(facts: GridFacts) -> list[str]:
    """What the storm showed of both kinds of clients."""
    found = []
    for one, verdict in judged(facts, "retry_storm")[:2]:
        careful, hasty = (value(verdict, f"{kind}_attempts_per_request") for kind in ("budgeted", "immediate"))
        figure = verdict.figures.get("budgeted_attempts_per_request")
        if careful is not None and hasty is not None and figure is not None:
            n = f" (n = {figure.n})" if figure.n is not None else ""
            found.append(
                f"In the storm at {at(one.setting)}: {careful:.2f} attempts per request with backoff and budget, {hasty:.2f} at "
                f"once{n}."
            )
    return found


def _words(policy: RetryPolicy) -> str:
    if not retries(policy):
        return "Declared: clients do not try again."
    if _at_once(policy):
        return f"Declared: clients try again at once, up to {policy.tries} times in all."
    parts = [f"backoff from {policy.base_s:g} s to {policy.most_s:g} s", f"{policy.tries} tries at most"]
    parts += ["full jitter"] if policy.jitter else []
    parts += ["Retry-After honoured"] if policy.honours_retry_after else []
    parts += [f"a budget of {per_cent(policy.budget_share)} of requests"] if policy.budget_share is not None else []
    return f"Declared: {', '.join(parts)}."
