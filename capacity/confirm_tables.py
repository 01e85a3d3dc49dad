"""The queue cap and the open loop that confirms a setting, as the result page shows them and as files."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.stats.estimates import Interval
from capacity.assessment.confirm import predicted_right
from capacity.assessment.latency import seconds
from capacity.assessment.queue_words import percent
from capacity.assessment.verdict import Answer, Confirmation
from capacity.exports import WHERE, Value, csv_of, json_of, where
from capacity.queries import Result

COLUMNS = (
    *WHERE, "method_version", "setting",
    "arrivals_per_min", "cap", "recommended", "refused_share", "refused_lower", "refused_upper", "waiting_mean_s",
    "waiting_mean_lower_s", "waiting_mean_upper_s", "waiting_p95_s", "waiting_p95_lower_s", "waiting_p95_upper_s", "holds",
)  # fmt: skip
TONES = {Answer.HOLDS: ("ok", "Holds"), Answer.FAILS: ("bad", "Fails")}


@dataclass(frozen=True, slots=True)
class CapLine:
    """One queue cap in words."""

    cap: int
    chosen: bool
    holds: bool
    refused: str
    refused_bounds: str
    mean: str
    p95: str
    p95_bounds: str


@dataclass(frozen=True, slots=True)
class ClaimLine:
    """One limit of one class in the open loop, in words."""

    name: str
    limit: str
    n: str
    value: str
    bound: str
    p99: str
    tone: str
    word: str


def context(result: Result) -> dict[str, object]:
    """What the result page shows beside the judge's own words."""
    found = result.verdict.confirmation
    return {
        "cap_lines": cap_lines(result),
        "claim_lines": claim_lines(found) if found else [],
        "confirm_pill": _pill(found),
        "foretold": predicted_right(found) if found else None,
        "percentile_named": f"p{result.facts.limits.percentile:g}",
    }


def cap_lines(result: Result) -> list[CapLine]:
    cap = result.verdict.queue_cap
    if cap is None:
        return []
    return [
        CapLine(
            cap=row.cap,
            chosen=row.cap == cap.cap,
            holds=row.holds,
            refused=percent(row.refused.value),
            refused_bounds=f"{percent(row.refused.lower)} to {percent(row.refused.upper)}",
            mean=_time(row.waiting_mean_s.value),
            p95=_time(row.waiting_p95_s.value),
            p95_bounds=f"{_time(row.waiting_p95_s.lower)} to {_time(row.waiting_p95_s.upper)}",
        )
        for row in cap.rows
    ]


def claim_lines(found: Confirmation) -> list[ClaimLine]:
    lines = []
    for one in found.claims:
        tone, word = TONES.get(one.answer, ("warn", f"Needs {one.needs} more" if one.needs else "Not proved"))
        worth = f", worth {one.n_effective:,}" if one.n_effective not in (None, one.n) else ""
        lines.append(
            ClaimLine(
                name=f"{one.class_name}, {one.limit_name}",
                limit=seconds(one.limit_s),
                n=f"{one.n:,}{worth}",
                value=_time(one.value_s),
                bound=_time(one.bound_s),
                p99=_time(one.p99_s),
                tone=tone,
                word=word,
            )
        )
    return lines


def as_csv(result: Result) -> str:
    """UTF-8 text with a header line and CRLF ends; a row for each queue cap."""
    return csv_of(_rows(result), COLUMNS)


def as_json(result: Result) -> str:
    """An object with `rows`, the same columns as the CSV."""
    return json_of(_rows(result))


def _rows(result: Result) -> list[dict[str, Value]]:
    head, verdict = where(result), result.verdict
    cap = verdict.queue_cap
    if cap is None:
        return []
    rows = []
    for row in cap.rows:
        values: tuple[Value, ...] = (
            *head, verdict.method_version, cap.active, cap.arrivals_per_min, row.cap,
            row.cap == cap.cap, *_ends(row.refused), *_ends(row.waiting_mean_s), *_ends(row.waiting_p95_s), row.holds,
        )  # fmt: skip
        rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows


def _ends(one: Interval) -> tuple[float | None, float | None, float | None]:
    return one.value, one.lower, one.upper


def _pill(found: Confirmation | None) -> tuple[str, str]:
    if found is None or found.answer not in TONES:
        return ("warn", "Indicative") if found is not None and found.indicative else ("idle", "Not tested")
    return TONES[found.answer]


def _time(value_s: float | None) -> str:
    return "not known" if value_s is None else "0 s" if value_s == 0 else seconds(value_s)
