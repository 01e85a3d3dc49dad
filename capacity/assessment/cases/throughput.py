"""Tokens per second called success: work that came too late, or wrong, counts in it like any other."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from benchmarks.stats.per_cent import per_cent
from capacity.assessment.cases.shared import at, blank, gate_of, untested
from capacity.assessment.facts import GridFacts
from capacity.assessment.verdict import Answer, Finding, Found, SettingRow

KEY = "tokens-per-second"
TITLE = "Tokens per second called success"
LEAST_GOOD = 0.8
CLEARLY = 0.95
"""Rates nearer than this are one rate: the knee is told by the same share."""
TOKENS = re.compile(r"\b(?:tokens?|tok)\s*(?:/|per|a|each)\s*(?:s|sec|second|min|minute)\b|\btps\b", re.IGNORECASE)
REMEDY = "State successful requests a minute: answered, valid and inside every limit. Tokens per second stand beside it, small."
VALIDATE = "Draw this grid again with a task whose answers can be checked."
LOWER = "Choose the setting with the most successful requests a minute, not the most tokens."


def finding(facts: GridFacts, rows: Sequence[SettingRow], chosen: SettingRow | None) -> Finding:
    found = blank(KEY, TITLE)
    measured = [row for row in rows if row.good.value is not None]
    row = chosen or max(measured, key=lambda one: one.output_tokens_per_s or 0.0, default=None)
    if row is None:
        return untested(found, "No rate is measured.", next_cell="Run the cells of this grid.")
    wrong = _wrong(row, measured)
    said = f"What is published today is a rate of tokens: “{facts.terms.published.strip()}”."
    published = (said,) if TOKENS.search(facts.terms.published) else ()
    if wrong or published:
        return replace(
            found,
            found=Found.FOUND,
            evidence=(*wrong, *published, *_evidence(row)),
            remedy=f"{LOWER} {REMEDY}" if wrong else REMEDY,
            cells=row.cells if wrong else (),
            settings=(row.setting,) if wrong else (),
            blocks=bool(wrong) and chosen is not None,
        )
    if not _validated(row):
        return untested(found, "No answer was validated, so nobody knows which were right.", next_cell=VALIDATE)
    if _by_construction(facts):
        why = "Answers are right by construction of the task: any text of the asked length counts, so a wrong one is not seen."
        return replace(
            found,
            found=Found.WATCH,
            evidence=(*_evidence(row), why),
            remedy=REMEDY,
            next_cell=VALIDATE,
            by_construction=True,
        )
    return replace(found, found=Found.NOT_FOUND, evidence=_evidence(row))


def _wrong(row: SettingRow, measured: Sequence[SettingRow]) -> list[str]:
    """Where this setting is what a race for tokens would choose, and not what useful work would."""
    found = []
    told = [one for one in measured if one.output_tokens_per_s is not None]
    fastest = max(told, key=lambda one: one.output_tokens_per_s or 0.0, default=None)
    best = max(measured, key=lambda one: one.good.value or 0.0)
    good, most = row.good.value or 0.0, best.good.value or 0.0
    if len(told) > 1 and fastest is row and best is not row and good < CLEARLY * most:
        found.append(
            f"{at(row.setting)} has the most tokens a second, {row.output_tokens_per_s:,.0f}, but {good:,.1f} successful "
            f"requests a minute; {at(best.setting)} has {most:,.1f}."
        )
    every = row.completed_per_min
    if every and good < LEAST_GOOD * every:
        found.append(
            f"At {at(row.setting)} {good:,.1f} of {every:,.1f} completed requests a minute were successful, "
            f"{per_cent(good / every)}."
        )
    return found


def _evidence(row: SettingRow) -> tuple[str, ...]:
    good, every = row.good.value or 0.0, row.completed_per_min
    share = f" of {every:,.1f} completed, {per_cent(good / every)}" if every else ""
    small = f"; {row.output_tokens_per_s:,.0f} tokens a second" if row.output_tokens_per_s is not None else ""
    return (f"At {at(row.setting)}: {good:,.1f} successful requests a minute{share}{small} (n = {row.n}).",)


def _validated(row: SettingRow) -> bool:
    """Whether any answer was looked at: the gate has its own count of them."""
    gate = gate_of(row, "validity")
    return gate is not None and gate.answer in (Answer.HOLDS, Answer.FAILS)


def _by_construction(facts: GridFacts) -> bool:
    told = [cell.summary.validity_by_construction for cell in facts.cells if cell.summary is not None]
    return facts.validity_by_construction or any(told)
