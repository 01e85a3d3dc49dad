"""More parallelism without KV accounting: sequences that the memory for keys and values cannot hold at full length."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from benchmarks.stats.per_cent import per_cent
from capacity.assessment.cases.shared import at, blank, gate_of, percent, tokens, touches, untested
from capacity.assessment.facts import GridFacts
from capacity.assessment.verdict import Answer, Finding, Found, SettingRow

KEY = "parallelism-without-kv"
TITLE = "More parallelism without KV accounting"
WATCH_SHARE = 0.15
GIB = 1024.0**3
REMEDY = "Keep fewer sequences active, give the KV cache more room, or limit the length of a request to what a slot can hold."
GEOMETRY = (
    "Record the model's geometry with the runtime (its config.json, or the head of its GGUF file) and its launch flags, then "
    "open this page again."
)
REPORT = "Give the runtime a metrics address that tells KV use or preemptions, then run the recommended setting again."
AGAIN = "Compare the flags as registered with those it runs with, then run the recommended setting again."


def finding(facts: GridFacts, rows: Sequence[SettingRow], chosen: SettingRow | None) -> Finding:
    found = blank(KEY, TITLE)
    measured = [row for row in rows if row.cells]
    bad = {row.setting: said for row in measured if (said := _over(facts, row))}
    if bad:
        settings = tuple(sorted(bad))
        return replace(
            found,
            found=Found.FOUND,
            evidence=tuple(f"At {at(setting)}: {' '.join(said)}" for setting, said in sorted(bad.items())),
            remedy=REMEDY,
            next_cell=f"Run a setting below {settings[0]} in flight, or the same with more room for the KV cache.",
            cells=tuple(cell for row in measured if row.setting in bad for cell in row.cells),
            settings=settings,
            blocks=touches(settings, [row.setting for row in measured], chosen),
        )
    if not measured:
        return untested(found, "No setting is measured.", next_cell="Run the cells of this grid.")
    if not facts.memory.geometry_known:
        why = facts.memory.reason.rstrip(".") or "The model's geometry is not recorded"
        return untested(found, f"{why}, so what a sequence keeps cannot be counted.", next_cell=GEOMETRY)
    apart = _apart(facts, measured)
    unseen = _unseen(facts, chosen or measured[-1])
    if apart or unseen:
        next_cell = AGAIN if apart else REPORT
        settings = tuple(sorted(apart))
        evidence = (*(apart[setting] for setting in settings), *unseen)
        return replace(
            found, found=Found.WATCH, evidence=evidence, remedy=REMEDY, next_cell=next_cell, settings=settings
        )
    return replace(found, found=Found.NOT_FOUND, evidence=_evidence(facts, chosen or measured[-1]))


def _over(facts: GridFacts, row: SettingRow) -> list[str]:
    """What shows, or proves, that this setting asks for more than there is."""
    memory, lengths = facts.memory, facts.lengths
    found = []
    preempted = gate_of(row, "preemptions")
    if preempted is not None and preempted.answer == Answer.FAILS:
        found.append(preempted.reason)
    longest = lengths.longest_request_tokens if lengths is not None else None
    active = active_at(facts, row.setting)
    fit = _all_long(facts, row.setting, longest)
    if fit is not None and longest is not None and active > fit:
        pool = f" of {tokens(memory.pool_tokens)} tokens" if memory.pool_tokens is not None else ""
        found.append(
            f"The KV pool{pool} holds {fit} sequences of {tokens(longest)} tokens, and {active} may be active."
        )
    each = memory.context_per_sequence_tokens
    if each is not None and longest is not None and each < longest:
        found.append(
            f"One sequence may have {tokens(each)} tokens, and the longest tested request takes {tokens(longest)} (p99)."
        )
    return found


def active_at(facts: GridFacts, setting: int) -> int:
    """Sequences that hold KV at once: what is in flight, as far as the runtime advances it."""
    most = facts.runtime_max_active
    return min(setting, most) if most else setting


def _all_long(facts: GridFacts, setting: int, longest: float | None) -> int | None:
    """How many sequences the pool holds if all are long; None where no pool is shared or nobody knows it."""
    known = facts.memory.all_long.get(setting)
    if known is not None:
        return known
    pool = facts.memory.pool_tokens
    return int(pool // longest) if pool is not None and longest else None


def _apart(facts: GridFacts, measured: Sequence[SettingRow]) -> dict[int, str]:
    """Settings whose memory is not what was predicted."""
    found = {}
    for row in measured:
        predicted, seen = facts.memory.predicted_bytes.get(row.setting), facts.memory.measured_bytes.get(row.setting)
        if predicted and seen is not None and abs(seen / predicted - 1) > WATCH_SHARE:
            change = f"{per_cent(abs(seen / predicted - 1))} {'more' if seen > predicted else 'less'}"
            found[row.setting] = (
                f"At {at(row.setting)} {seen / GIB:.2f} GiB were measured and {predicted / GIB:.2f} GiB predicted: {change}."
            )
    return found


def _unseen(facts: GridFacts, row: SettingRow) -> list[str]:
    gate = gate_of(row, "preemptions")
    if gate is None or gate.answer != Answer.NOT_REPORTED or gate.substitute or facts.memory.substitute:
        return []
    return [f"At {at(row.setting)}: {gate.reason.rstrip('.')}, and nothing stands in for it."]


def _evidence(facts: GridFacts, row: SettingRow) -> tuple[str, ...]:
    """The numbers at one setting, where nothing is wrong with them."""
    memory, longest = facts.memory, facts.lengths.longest_request_tokens if facts.lengths else None
    gate = gate_of(row, "preemptions")
    found = [gate.reason] if gate is not None and gate.answer == Answer.HOLDS else []
    instead = (gate.substitute if gate is not None else "") or memory.substitute
    if instead and not found:
        found.append(instead)
    fit, each = _all_long(facts, row.setting, longest), memory.context_per_sequence_tokens
    if fit is not None and longest is not None:
        active = active_at(facts, row.setting)
        found.append(
            f"The KV pool holds {fit} sequences of {tokens(longest)} tokens (p99), and at most {active} are active."
        )
    if each is not None and longest is not None:
        found.append(
            f"One sequence may have {tokens(each)} tokens; the longest tested request takes {tokens(longest)} (p99)."
        )
    predicted, seen = memory.predicted_bytes.get(row.setting), memory.measured_bytes.get(row.setting)
    if predicted and seen is not None:
        found.append(
            f"{seen / GIB:.2f} GiB measured, {predicted / GIB:.2f} GiB predicted: {percent(abs(seen / predicted - 1))} apart."
        )
    return tuple(f"At {at(row.setting)}: {sentence}" for sentence in found[:1]) + tuple(found[1:])
