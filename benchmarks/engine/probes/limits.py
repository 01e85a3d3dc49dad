"""Limits: what a server answers to what it cannot, or should not, serve: each asked once, and a small request again and
again for a limit per client."""

from __future__ import annotations

import asyncio
import time

import msgspec
import numpy as np

from benchmarks.engine.column_types import OUTCOMES, Bools, Columns
from benchmarks.engine.plan import ClassPlan
from benchmarks.engine.probe_plan import LimitsProbe
from benchmarks.engine.probes.asking import Asking, leave
from benchmarks.engine.probes.cells import sized
from benchmarks.engine.probes.seen import Attempts, cut_short, of_role
from benchmarks.engine.runner import Cell
from benchmarks.engine.terms import Outcome
from benchmarks.engine.verdicts import NOT_JUDGED, Figure, ProbeVerdict, said
from benchmarks.engine.wire import Slot, Target

PLAIN, PROMPT, OUTPUT, NO_KEY, RATE = "plain", "long_prompt", "long_output", "no_credentials", "rate"
TRIED = (PROMPT, OUTPUT, NO_KEY)
ACCEPTED, CUT, REFUSED, FAILED = "accepted", "cut", "refused", "failed"
REFUSED_ENOUGH = 3
CLIENT_ERRORS = range(400, 500)


async def drive(cell: Cell) -> None:
    probe = cell.plan.probe
    assert isinstance(probe, LimitsProbe)
    asking = Asking(cell)
    (slot,) = await asking.slots(1)
    stranger = Slot(Target(msgspec.structs.replace(cell.plan, api_key_env="")), number=1)
    cell.on_stop(lambda: stranger.interrupt(Outcome.UNFINISHED))
    small = sized(probe.small_prompt_tokens, probe.small_output_tokens)
    await asking.begin()
    try:
        await _once(asking, slot, small, PLAIN)
        if probe.context_tokens is not None:
            too_many = round(probe.context_tokens * probe.over)
            await _once(asking, slot, sized(too_many, probe.small_output_tokens), PROMPT)
            await _left_once_accepted(asking, slot, sized(probe.small_prompt_tokens, too_many))
        if probe.without_credentials:
            await _once(asking, stranger, small, NO_KEY)
        await _rate(asking, slot, small, probe)
    finally:
        await stranger.close()
    asking.end()


async def _once(asking: Asking, slot: Slot, length_class: ClassPlan, role: str) -> None:
    prepared = asking.prepare(length_class)
    if prepared is not None:
        await asking.ask(slot, prepared, role)


async def _left_once_accepted(asking: Asking, slot: Slot, length_class: ClassPlan) -> None:
    """An answer of any length costs the server; that it has begun says enough. Where it is cut, its end tells."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(_once(asking, slot, length_class, OUTPUT))
        probe = asking.cell.plan.probe
        assert isinstance(probe, LimitsProbe)
        chunks = probe.accepted_chunks

        def is_accepted() -> bool:
            exchange = slot.under_way
            return task.done() or (exchange is not None and len(exchange.answer.stamps) >= chunks)

        await asking.until(is_accepted, asking.cell.plan.total_timeout_s)
        leave(slot)


async def _rate(asking: Asking, slot: Slot, small: ClassPlan, probe: LimitsProbe) -> None:
    """Until it has been refused a few times."""
    until_s, refused = time.monotonic() + probe.rate_s, 0
    for _ in range(probe.rate_requests):
        prepared = asking.prepare(small) if time.monotonic() < until_s and refused < REFUSED_ENOUGH else None
        if prepared is None:
            return
        refused += (await asking.ask(slot, prepared, RATE)).outcome is Outcome.REJECTED


def judge(columns: Columns) -> ProbeVerdict:
    probe = columns.plan.probe
    assert isinstance(probe, LimitsProbe)
    figures: dict[str, Figure] = {}
    reasons: list[str] = []
    words: dict[str, str] = {}
    for role in TRIED:
        found = of_role(columns, role)
        if len(found):
            words[role] = _became(columns, found)
            figures |= _figures(columns, role, found)
            reasons.append(_sentence(columns, role, found, words[role]))
    reasons += _not_tried(probe, words)
    figures |= _rate_figures(columns, of_role(columns, RATE))
    reasons.append(_rate_sentence(columns, of_role(columns, RATE)))
    plain, short = of_role(columns, PLAIN), cut_short(columns)
    if not len(plain) or not plain.ok[0]:
        why = "A plain small request was not answered, so a refusal of others says nothing."
        return said(columns, NOT_JUDGED, figures, (short or why, *reasons))
    if not words:
        return said(columns, NOT_JUDGED, figures, (short or "None of the limits was tried.", *reasons))
    refused = sum(word == REFUSED for word in words.values())
    word = "refuses_clearly" if refused == len(words) else "refuses_partly"
    if all(word in (ACCEPTED, CUT) for word in words.values()):
        word = "accepts_everything"
    return said(columns, word, figures, tuple(one for one in (*reasons, short) if one))


def _became(columns: Columns, found: Attempts) -> str:
    row = found.rows[0]
    outcome = OUTCOMES[columns.requests.codes["outcome"][row]]
    output, asked = columns.requests.masked["output_tokens"], columns.requests.plain["asked_output_tokens"]
    if outcome == Outcome.OK:
        is_short = output.known[row] and output.values[row] < asked[row]
        return CUT if is_short else ACCEPTED
    if outcome == Outcome.CANCELLED and not np.isnan(found.first_s[0]):
        return ACCEPTED
    return REFUSED if _status(columns, found) in CLIENT_ERRORS else FAILED


def _status(columns: Columns, found: Attempts) -> int | None:
    status, row = columns.requests.masked["http_status"], found.rows[0]
    return int(status.values[row]) if status.known[row] else None


def _figures(columns: Columns, role: str, found: Attempts) -> dict[str, Figure]:
    status, took_s = _status(columns, found), float(found.closed_s[0] - found.due_s[0])
    return {
        f"{role}_status": Figure(value=None if status is None else float(status), unit="HTTP status", n=1),
        f"{role}_answered": Figure(value=None if np.isnan(took_s) else took_s, unit="s", n=1),
    }


def _sentence(columns: Columns, role: str, found: Attempts, word: str) -> str:
    requests, row = columns.requests, found.rows[0]
    asked = {
        PROMPT: f"A prompt of {requests.plain['intended_prompt_tokens'][row]} tokens",
        OUTPUT: f"An answer of {requests.plain['asked_output_tokens'][row]} tokens",
        NO_KEY: "A request without credentials",
    }[role]
    became = {
        ACCEPTED: "was accepted",
        CUT: "was accepted and its answer cut short without an error",
        REFUSED: "was refused",
        FAILED: "failed",
    }[word]
    status, detail = _status(columns, found), requests.texts["detail"][int(row)] or ""
    told = f"HTTP {status}" if status else "no answer"
    if word in (REFUSED, FAILED) and detail:
        told = detail if detail.startswith(told) else f"{told}: {detail}"
    return f"{asked} {became} ({told})."


def _not_tried(probe: LimitsProbe, words: dict[str, str]) -> list[str]:
    found = []
    if probe.context_tokens is None:
        found.append("The context is not known, so no oversized prompt or answer was asked for.")
    if not probe.without_credentials:
        found.append("A request without credentials was not wanted.")
    if probe.context_tokens is not None and not {PROMPT, OUTPUT} <= set(words):
        found.append("The oversized prompt or answer was beyond this run's own ceilings.")
    return found


def _rate_figures(columns: Columns, found: Attempts) -> dict[str, Figure]:
    rejected = _rejected(columns, found)
    first = int(np.argmax(rejected)) + 1 if rejected.any() else None
    waits = columns.requests.masked_floats["retry_after_s"]
    told = [float(waits.values[row]) for row in found.rows[rejected] if waits.known[row]]
    span_s = float(found.closed_s[-1] - found.due_s[0]) if len(found) else 0.0
    return {
        "rate_asked": Figure(value=len(found) / span_s if span_s > 0 else None, unit="requests/s", n=len(found)),
        "rate_refused": Figure(value=float(rejected.sum()), unit="requests", n=len(found)),
        "rate_first_refused": Figure(value=None if first is None else float(first), unit="request", n=len(found)),
        "rate_retry_after": Figure(value=max(told) if told else None, unit="s", n=len(told)),
    }


def _rate_sentence(columns: Columns, found: Attempts) -> str:
    rejected, span_s = _rejected(columns, found), float(found.closed_s[-1] - found.due_s[0]) if len(found) else 0.0
    if not len(found):
        return "No rate of one client was tried."
    if not rejected.any():
        return f"{len(found)} small requests of one client within {span_s:.1f} s met no limit."
    return f"One client's request {int(np.argmax(rejected)) + 1} within {span_s:.1f} s was refused."


def _rejected(columns: Columns, found: Attempts) -> Bools:
    rejected: Bools = columns.requests.codes["outcome"][found.rows] == OUTCOMES.index(Outcome.REJECTED)
    return rejected
