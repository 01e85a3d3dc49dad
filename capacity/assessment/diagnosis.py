"""The seven classic mistakes, each looked for by rule, with its evidence and its remedy.

A finding is about the whole measurement: found at 8 in flight says nothing against 4. What is found of the setting that is
stated `blocks` it; what is found of a sentence that somebody published does not, for a statement replaces that sentence.
Nothing here asks where facts come from, so an imported result can be told in the same words.
"""

from __future__ import annotations

from collections.abc import Sequence

from capacity.assessment.cases import averages, fairness, memory, prompts, queues, retries, throughput
from capacity.assessment.facts import GridFacts
from capacity.assessment.verdict import Finding, Found, SettingRow

KEYS = (
    prompts.KEY,
    averages.KEY,
    queues.KEY,
    fairness.KEY,
    memory.KEY,
    retries.KEY,
    throughput.KEY,
)


def findings(facts: GridFacts, rows: Sequence[SettingRow], chosen: SettingRow | None) -> tuple[Finding, ...]:
    """Seven findings, always in the same order."""
    return (
        prompts.finding(facts),
        averages.finding(facts, rows, chosen),
        queues.finding(facts, chosen),
        fairness.finding(facts, chosen),
        memory.finding(facts, rows, chosen),
        retries.finding(facts, chosen),
        throughput.finding(facts, rows, chosen),
    )


def tally(found: Sequence[Finding]) -> str:
    """ "5 not found, 1 watch, 1 found": each answer with its number, those that there are."""
    counts = [(sum(one.found == answer for one in found), answer) for answer in Found]
    return ", ".join(f"{n} {answer}" for n, answer in counts if n)
