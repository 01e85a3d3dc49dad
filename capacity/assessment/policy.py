"""What goes with a setting: token and time limits, lanes, the overload answer, retries, cancellation, the way back.

A number without which a setting is not safe to run is computed from what was measured or declared, and says from what;
where it cannot be, the line says *not set* and why. Nothing here is a promise of the runtime: controls are checked by the
probes after they stand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor

from msgspec.structs import replace

from benchmarks.engine.plan import ClassLimits, RetryPolicy
from benchmarks.stats.per_cent import per_cent
from capacity.assessment.facts import GridFacts
from capacity.assessment.verdict import Answer, Confirmation, Headroom, PolicyLine, QueueCap, SettingRow

NOT_SET = "not set"
TIMES_LIMIT = 2.0
"""A request may take so many times the longest end-to-end limit before its client gives it up: the guard's own factor."""
BATCH_PART = 4
"""Batch has one place in so many while its window is open."""
CHECKPOINT_S = 60.0
RETRY = RetryPolicy(
    kind="backoff", tries=3, base_s=0.5, most_s=20.0, jitter=True, honours_retry_after=True, budget_share=0.10
)
"""What the retry storm probe asks with when its clients behave; one try fewer, since a refusal already says when."""
SHOWN_IN_ARGUMENTS = ("queue_cap", "max_input", "max_output", "request_duration")


def policy(
    facts: GridFacts, chosen: SettingRow, room: Headroom, cap: QueueCap | None, rollback_words: str,
    confirmed: Confirmation | None = None, rollback: int | None = None,
) -> tuple[PolicyLine, ...]:  # fmt: skip
    """Every control in the order in which a person sets them up."""
    return (
        _active(chosen),
        _confirmed_queue(confirmed) or _queue(cap),
        *_tokens(facts, chosen),
        _duration(facts),
        *_per_client(facts, chosen, room),
        *_batch(facts, chosen, room),
        _overload(chosen, cap),
        _retry(facts),
        _cancellation(facts, chosen),
        _rollback(facts, rollback, rollback_words),
    )


def as_arguments(setting: int, runtime: str, flags: str, lines: Sequence[Mapping[str, object]]) -> str:
    """The exact arguments of an approved setting, as one sentence: the runtime's flags and the numbers at the gateway.
    `lines` are the policy as it was kept with the approval, plain values, empty where it is older than policies."""
    kept = {str(line.get("key", "")): str(line.get("value", "")) for line in lines}
    titles = {str(line.get("key", "")): str(line.get("title", "")).lower() for line in lines}
    numbers = [f"{titles[key]} {kept[key]}" for key in SHOWN_IN_ARGUMENTS if kept.get(key, NOT_SET) != NOT_SET]
    at_gateway = ", ".join([f"active requests {setting}", *numbers])
    return f"{runtime}, started with: {' '.join(flags.split()) or 'no flags recorded'}. At the gateway: {at_gateway}."


# --- how many, and how long ------------------------------------------------------------------------------------------


def _active(chosen: SettingRow) -> PolicyLine:
    return PolicyLine(
        key="active",
        title="Active requests",
        value=str(chosen.setting),
        words="So many are passed on at once; the next waits in the queue or is refused.",
        source="The setting that this grid recommends.",
        number=float(chosen.setting),
        unit="requests",
    )


def _confirmed_queue(confirmed: Confirmation | None) -> PolicyLine | None:
    """The cap that an open loop ran through, whatever was computed; None where none is confirmed."""
    if confirmed is None or confirmed.answer != Answer.HOLDS or confirmed.queue_cap is None:
        return None
    return PolicyLine(
        key="queue_cap", title="Queue cap", value=str(confirmed.queue_cap), words=confirmed.words,
        source=f"Confirmed in the open loop of grid {confirmed.grid_id}.", number=float(confirmed.queue_cap), unit="requests",
    )  # fmt: skip


def _queue(cap: QueueCap | None) -> PolicyLine:
    line = PolicyLine(key="queue_cap", title="Queue cap", value=NOT_SET, words="", unit="requests")
    if cap is None:
        return replace(line, words="Completions a second were not measured well enough to compute one.")
    if cap.cap is None:
        return replace(line, words=cap.words, source=f"Computed for {cap.arrivals_per_min:,.1f} arrivals a minute.")
    return replace(
        line,
        value=str(cap.cap),
        words="So many may wait; beyond it a request is refused at once. Why this many stands with the confirmation.",
        source=f"Computed from the measured completions, for {cap.arrivals_per_min:,.1f} arrivals a minute.",
        number=float(cap.cap),
    )


def _tokens(facts: GridFacts, chosen: SettingRow) -> tuple[PolicyLine, ...]:
    """What is longer than the longest tested is refused, since nobody measured it."""
    prompt = _whole(facts.lengths.longest_tokens) if facts.lengths else None
    output = _whole(facts.lengths.longest_output_tokens) if facts.lengths else None
    tested = "The longest that the workload of this grid sends."
    lines = []
    for key, title, tokens in (("max_input", "Maximum input", prompt), ("max_output", "Maximum output", output)):
        line = PolicyLine(
            key=key, title=title, value=NOT_SET, words="The lengths that were tested are not known.", unit="tokens"
        )
        if tokens is not None:
            words = "Refused beyond it: longer ones were not measured."
            line = replace(line, value=_many(tokens), words=words, source=tested, number=tokens)
        lines.append(line)
    return (*lines, _total(facts, chosen, prompt, output))


def _total(facts: GridFacts, chosen: SettingRow, prompt: float | None, output: float | None) -> PolicyLine:
    line = PolicyLine(key="max_active_tokens", title="Total active tokens", value=NOT_SET, words="", unit="tokens")
    if prompt is None or output is None:
        return replace(line, words="The lengths that were tested are not known.")
    total, pool = chosen.setting * (prompt + output), facts.memory.pool_tokens
    how = f"{chosen.setting} requests of {_many(prompt)} + {_many(output)} tokens"
    if pool is None:
        return replace(
            line,
            value=_many(total),
            words=f"{how}.",
            source="The setting and the longest lengths tested.",
            number=total,
        )
    if total <= pool:
        return replace(
            line, value=_many(total), words=f"{how}; the KV room holds {_many(pool)}.",
            source="The setting and the longest lengths tested.", number=total,
        )  # fmt: skip
    words = f"{how} would need {_many(total)}, more than the KV room holds: not all may be the longest at once."
    return replace(line, value=_many(pool), words=words, source="The KV room of the runtime.", number=pool)


def _duration(facts: GridFacts) -> PolicyLine:
    line = PolicyLine(key="request_duration", title="Request duration", value=NOT_SET, words="", unit="s")
    output = facts.lengths.longest_output_tokens if facts.lengths else None
    known = {name: s for name, of in facts.limits.classes.items() if (s := _end_to_end_s(of, output)) is not None}
    if not known:
        return replace(line, words="The objective has no limit from which an end to end time follows.")
    slowest = max(known, key=lambda name: known[name])
    most = TIMES_LIMIT * known[slowest]
    return replace(
        line,
        value=f"{most:g} s",
        words="The client gives up then and closes its connection; the gateway's own limits must not be shorter.",
        source=f"{TIMES_LIMIT:g} × the end-to-end limit of {slowest}, {known[slowest]:g} s.",
        number=most,
    )


def _end_to_end_s(of_class: ClassLimits, output: float | None) -> float | None:
    """Stated, or that of the longest answer whose first token and every other come just in time."""
    if of_class.e2e_s is not None:
        return of_class.e2e_s
    if of_class.ttft_s is None or of_class.tpot_s is None or output is None:
        return None
    return of_class.ttft_s + of_class.tpot_s * max(output - 1, 0.0)


# --- for whom --------------------------------------------------------------------------------------------------------


def _per_client(facts: GridFacts, chosen: SettingRow, room: Headroom) -> tuple[PolicyLine, ...]:
    tenants = max(facts.terms.tenants, 1)
    rate, active = room.stated_per_min / tenants, max(1, chosen.setting // tenants)
    each = "One tenant is declared, so this is the whole." if tenants == 1 else f"An equal part of {tenants} tenants."
    limit = "Beyond it: 429 with Retry-After."
    return (
        PolicyLine(
            key="client_rate", title="Rate of one client", value=f"{rate:,.1f} a minute", words=f"{each} {limit}",
            source=f"{room.whence}, by the tenants of the objective.", number=rate, unit="requests a minute",
        ),
        PolicyLine(
            key="client_active", title="Active requests of one client", value=str(active), words=f"{each} {limit}",
            source="The setting by the tenants of the objective.", number=float(active), unit="requests",
        ),
    )  # fmt: skip


def _batch(facts: GridFacts, chosen: SettingRow, room: Headroom) -> tuple[PolicyLine, ...]:
    terms = facts.terms.batch
    if terms is None:
        words = "Long runs of items beside people's requests were not asked for: refuse them, or declare a batch first."
        return (PolicyLine(key="batch_lane", title="Batch lane", value="closed", words=words, source="The objective."),)
    places = max(1, chosen.setting // BATCH_PART)
    per_min = room.stated_per_min * places / chosen.setting
    every = max(1, floor(per_min * CHECKPOINT_S / 60))
    cost_s = 60 * every / per_min if per_min > 0 else None
    again = f"at most {every} item{'s' if every > 1 else ''} again" + (f", about {cost_s:.0f} s" if cost_s else "")
    window = f"{terms.window_start} to {terms.window_end}"
    return (
        PolicyLine(
            key="batch_lane", title="Batch lane", value=f"{places} of {chosen.setting} places, {window}",
            words="A queue of its own at lower priority; closed outside its window. "
            f"So it does about {per_min:,.1f} items a minute.",
            source=f"Window and items of the objective; one place in {BATCH_PART}, which was not measured beside people's "
            "requests.",
            number=float(places), unit="requests",
        ),
        PolicyLine(
            key="checkpoint", title="Checkpoint", value=f"every {every} item{'s' if every > 1 else ''}",
            words=f"Each item carries an idempotency key, so that one sent twice is done once; a restart costs {again}.",
            source=f"Items in {CHECKPOINT_S:.0f} s at the lane's part of the stated rate.", number=float(every), unit="items",
        ),
    )  # fmt: skip


# --- what is said to those who must wait -----------------------------------------------------------------------------


def _overload(chosen: SettingRow, cap: QueueCap | None) -> PolicyLine:
    after_s, source = retry_after(chosen, cap)
    words = "503 when the queue is full, 429 when a client is over its own limit; within a second, never after a wait."
    return PolicyLine(
        key="overload_answer", title="Overload answer", value=f"503 or 429, Retry-After {after_s} s", words=words,
        source=source, number=float(after_s), unit="s",
    )  # fmt: skip


def retry_after(chosen: SettingRow, cap: QueueCap | None) -> tuple[int, str]:
    """Whole seconds, and where they come from: the queue's, else the time in which all active requests are worked off."""
    if cap is not None:
        return max(1, cap.retry_after_s), "Retry-After as computed with the queue cap."
    if not chosen.completed_per_min:
        return 1, "Retry-After is the least there is: completions were not measured."
    seconds = ceil(60 * chosen.setting / chosen.completed_per_min)
    return max(
        1, seconds
    ), f"Retry-After: {chosen.setting} active at {chosen.completed_per_min:,.1f} completed a minute."


def _retry(facts: GridFacts) -> PolicyLine:
    declared = facts.terms.retry
    used = declared if declared is not None and _is_careful(declared) else RETRY
    source = (
        "Declared in the objective."
        if used is declared
        else "The clients with which the retry storm probe is contained."
    )
    words = "Exponential backoff with full jitter, never sooner than Retry-After; a budget keeps a storm from feeding itself."
    if declared is not None and used is not declared:
        words += f" The clients are declared to do otherwise ({_declared(declared)}): change them."
    budget = used.budget_share if used.budget_share is not None else RETRY.budget_share or 0.0
    value = (
        "none"
        if used.kind == "none"
        else f"{used.tries} tries, {used.base_s:g} to {used.most_s:g} s, budget {per_cent(budget)} of requests"
    )
    return PolicyLine(
        key="client_retry", title="Client retries", value=value, words=words, source=source, number=float(used.tries),
        unit="tries",
    )  # fmt: skip


def _is_careful(policy: RetryPolicy) -> bool:
    if policy.kind == "none":
        return True
    has_all = policy.jitter and policy.honours_retry_after and policy.budget_share is not None
    return policy.kind == "backoff" and has_all


def _declared(policy: RetryPolicy) -> str:
    kinds = {"none": "they do not try again", "immediate": "at once", "backoff": "backoff"}
    lacks = [
        name
        for name, has in (
            ("jitter", policy.jitter),
            ("Retry-After", policy.honours_retry_after),
            ("a budget", policy.budget_share is not None),
        )
        if policy.kind == "backoff" and not has
    ]
    return kinds[policy.kind] + (f" without {' and '.join(lacks)}" if lacks else "")


def _cancellation(facts: GridFacts, chosen: SettingRow) -> PolicyLine:
    gate = next((gate for gate in chosen.gates if gate.key == "cancellation"), None)
    within = f"free within {facts.terms.max_free_s:g} s"
    words = "The gateway closes the connection to the runtime when a client leaves, also for one that still waits."
    source = "The objective."
    if gate is not None and gate.answer == Answer.HOLDS:
        source = f"The objective, and the cancellation probe: {gate.reason}"
    elif gate is not None:
        words += f" Not shown: {gate.reason}"
    return PolicyLine(
        key="cancellation", title="Cancellation", value=within, words=words, source=source,
        number=facts.terms.max_free_s, unit="s",
    )  # fmt: skip


def _rollback(facts: GridFacts, setting: int | None, words: str) -> PolicyLine:
    approved = setting is not None and setting == facts.previous_setting
    source = "Approvals of this runtime." if approved else "The settings of this grid."
    return PolicyLine(key="rollback", title="Rollback", value=words, words="Where to go back to.", source=source)


def _whole(tokens: float | None) -> float | None:
    """A gateway counts whole tokens."""
    return None if tokens is None else float(ceil(tokens))


def _many(tokens: float) -> str:
    return f"{tokens:,.0f}"
