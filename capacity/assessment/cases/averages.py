"""Average latency only: an average says nothing of the slow requests that people remember."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from capacity.assessment.cases.shared import at, blank, untested
from capacity.assessment.facts import GridFacts
from capacity.assessment.verdict import ClassRow, Finding, Found, SettingRow

KEY = "average-only"
TITLE = "Average latency only"
PERCENTILE = re.compile(
    r"\bp\s?\d{2}(?:\.\d+)?\b|\b\d{2}(?:\.\d+)?(?:st|nd|rd|th)\b|\bpercentiles?\b|\bmedian\b", re.IGNORECASE
)
COUNT = re.compile(
    r"\bn\s*=\s*[\d,.]+|\b\d[\d,.]*\s+(?:requests|samples|answers|calls)\b(?!\s+(?:a|per)\b)", re.IGNORECASE
)
REMEDY = "State a percentile of every length class with its bound and its n; leave averages out, or beside it."
OBJECTIVE = "Set a limit at a percentile for each length class in the objective, then draw the grid again."


def finding(facts: GridFacts, rows: Sequence[SettingRow], chosen: SettingRow | None) -> Finding:
    found = blank(KEY, TITLE)
    parts = [part for cell in facts.cells if cell.summary is not None for part in cell.summary.classes]
    if not any(tail.p50.n for part in parts for tail in (part.e2e_s, part.ttft_s, part.tpot_s)):
        return untested(found, "No latency is recorded.", next_cell="Run the cells of this grid.")
    limited = any(one.e2e_s or one.ttft_s or one.tpot_s for one in facts.limits.classes.values())
    if not limited:
        evidence = ("The objective limits no percentile of any class.",)
        return replace(found, found=Found.FOUND, evidence=evidence, remedy=OBJECTIVE, next_cell=OBJECTIVE, blocks=True)
    ours = f"The objective is held at p{facts.limits.percentile:g} of each class, with p50 and p99 beside it."
    published = facts.terms.published.strip()
    if published and not PERCENTILE.search(published):
        said = f"What is published today names no percentile: “{published}”."
        return replace(found, found=Found.FOUND, evidence=(said, ours), remedy=_instead(facts, chosen))
    watched = (*_few(rows, chosen), *_countless(published))
    if watched:
        more = f"Measure {chosen.needs} more requests at {at(chosen.setting)}." if chosen and chosen.needs else ""
        return replace(found, found=Found.WATCH, evidence=(*watched, ours), remedy=REMEDY, next_cell=more)
    seen = (f"What is published names a percentile and its n: “{published}”.",) if published else ()
    return replace(found, found=Found.NOT_FOUND, evidence=(*seen, ours, *_best(chosen)), by_construction=not published)


def _few(rows: Sequence[SettingRow], chosen: SettingRow | None) -> list[str]:
    """Percentiles that too few requests stand behind: those of the chosen setting, of all where none is chosen."""
    among = [chosen] if chosen is not None else rows
    few = [(row.setting, one) for row in among for one in row.classes if one.indicative and one.needs > 0]
    return [
        f"At {at(setting)} {one.label} rests on n = {one.n}: {one.needs} more are needed for a bound."
        for setting, one in few[:3]
    ]


def _countless(published: str) -> list[str]:
    if not published or COUNT.search(published):
        return []
    return [f"What is published names a percentile without its n: “{published}”."]


def _instead(facts: GridFacts, chosen: SettingRow | None) -> str:
    worst = chosen.worst if chosen is not None else None
    if worst is None or worst.p95_s is None or facts.limits.percentile != 95:
        return REMEDY
    return f"{REMEDY} For instance: p95 of {worst.label} is {worst.p95_s:.2f} s (n = {worst.n})."


def _best(chosen: SettingRow | None) -> tuple[str, ...]:
    worst: ClassRow | None = chosen.worst if chosen is not None else None
    if chosen is None or worst is None or worst.p95_s is None:
        return ()
    bounds = (
        f", bounds {worst.p95_lower_s:.2f} to {worst.p95_upper_s:.2f} s"
        if worst.p95_lower_s and worst.p95_upper_s
        else ""
    )
    return (f"At {at(chosen.setting)} p95 of {worst.label} is {worst.p95_s:.2f} s{bounds} (n = {worst.n}).",)
