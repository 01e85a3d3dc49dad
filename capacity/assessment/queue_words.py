"""Sentences about how many may wait."""

from __future__ import annotations

from collections.abc import Sequence

from capacity.assessment import words as said
from capacity.assessment.latency import seconds
from capacity.assessment.service_times import Law
from capacity.assessment.verdict import CapRow

HOW = "bounds of the measured rate, and windows simulated with the recorded times"
HIDES = "A longer queue hides overload: it refuses fewer, and lets everybody wait."


def words(
    rows: Sequence[CapRow],
    cap: int | None,
    rate_per_min: float,
    active: int,
    retry_after_s: int,
    *,
    interpolated: Sequence[int],
    tightest: tuple[Law, float] | None,
    percentile: float,
    success_share: float,
    fitting_per_min: float | None,
) -> str:
    """All that is said of the cap, in one paragraph."""
    row = next((row for row in rows if row.cap == cap), None)
    if row is None:
        found = [_none(rate_per_min, active, tightest, percentile)]
    else:
        found = [_chosen(row, rate_per_min, active), _in_time(tightest, percentile), _longer(rows, row)]
        found.append(f"Who is refused is told to come back after {retry_after_s} s.")
    if fitting_per_min is None or fitting_per_min < rate_per_min:
        found.append(_too_much(row, success_share, fitting_per_min))
    found.append(_marked(interpolated))
    return " ".join(filter(None, found))


def lowered(stated_per_min: float, fitting_per_min: float) -> str:
    """Said before the words of a lower rate."""
    return (
        f"At the stated {stated_per_min:,.1f} requests a minute no queue keeps both refusals and times inside the objective, so "
        f"it is worked out for {fitting_per_min:,.1f}, the highest rate at which one does: confirm and state that rate."
    )


def unknown(classes: Sequence[str], setting: int) -> str:
    return (
        f"How many may wait is not known: too few requests of {', '.join(classes)} were measured with "
        f"{said.flight(setting)} to know how long serving takes. Lengthen the window or add repeats."
    )


def percent(value: float | None) -> str:
    """2.3 %, 0.44 %; what is under a hundredth of a per cent is said so."""
    if value is None:
        return "not known"
    shown = 100 * value
    if 0 < shown < 0.01:
        return "under 0.01 %"
    return f"{shown:.0f} %" if shown in (0.0, 100.0) else f"{shown:.2f} %" if shown < 1 else f"{shown:,.1f} %"


def waiting(count: int) -> str:
    return "nobody may wait" if count == 0 else f"{count} may wait"


def _chosen(row: CapRow, rate_per_min: float, active: int) -> str:
    refused, wait = row.refused, row.waiting_p95_s
    text = (
        f"At {rate_per_min:,.1f} requests a minute with {active} served at once, {waiting(row.cap)}: "
        f"{percent(refused.value)} are refused ({percent(refused.lower)} to {percent(refused.upper)})"
    )
    if row.cap == 0:
        return f"{text}."
    return (
        f"{text}, and 95 % of the others wait at most {seconds(wait.value or 0.0)} ({seconds(wait.lower or 0.0)} to "
        f"{seconds(wait.upper or 0.0)})."
    )


def _in_time(tightest: tuple[Law, float] | None, percentile: float) -> str:
    if tightest is None:
        return "No limit of the objective counts waiting, so only refusals decide."
    law, share = tightest
    return (
        f"Waiting and service together keep {law.label} inside its limit of {seconds(law.limit_s)} ({law.limit_name}) for "
        f"{percent(share)} of its requests; {percentile:g} % are asked."
    )


def _longer(rows: Sequence[CapRow], chosen: CapRow) -> str:
    longer = [row for row in rows if row.cap > chosen.cap]
    if not longer:
        return ""
    row = next((row for row in longer if not row.holds), longer[0])
    seen = f"With {row.cap} waiting, {percent(row.refused.value)} are refused and waiting has a p95 of"
    return f"{seen} {seconds(row.waiting_p95_s.value or 0.0)}. {HIDES}"


def _none(rate_per_min: float, active: int, tightest: tuple[Law, float] | None, percentile: float) -> str:
    start = (
        f"At {rate_per_min:,.1f} requests a minute with {active} served at once, no queue stays inside the objective"
    )
    if tightest is None:
        return f"{start}."
    law, share = tightest
    return f"{start}: {percent(share)} of {law.label} are inside their limit without any wait, and {percentile:g} % are asked."


def _too_much(row: CapRow | None, success_share: float, fitting_per_min: float | None) -> str:
    why = "A refused request is no success"
    if row is not None and (row.refused.value or 0.0) > 1 - success_share:
        why += f", and {percent(1 - success_share)} may fail"
    if fitting_per_min is None:
        return f"{why}: no rate was found at which refusals and times both hold."
    return f"{why}: refusals and times both hold up to {fitting_per_min:,.1f} requests a minute, so confirm that rate."


def _marked(interpolated: Sequence[int]) -> str:
    if not interpolated:
        return ""
    numbers = [str(n) for n in interpolated]
    many = ", ".join(numbers) if len(numbers) <= 6 else f"{numbers[0]} to {numbers[-1]}, where not measured"
    return f"Completions with {many} in flight were not measured: they lie on a line between those that were."
