"""No setting is safe: why, what to change first, and what was not tested. A result of its own, which states no rate."""

from __future__ import annotations

from capacity.assessment import rubric, words
from capacity.assessment.verdict import Answer, Gate, Grade, Kind, SettingRow, Verdict

USELESS = "No request was answered usefully and in time."
UNFINISHED = "Nothing that was measured failed, so nothing is found yet. Run what is missing first: {missing}"
CLOSED_LOOP = (
    "Open loop: requests that arrive at their own times. These cells kept a fixed number in flight, and no rate is stated "
    "that could be confirmed."
)


def obstacle(verdict: Verdict) -> str:
    """Why *no safe setting* cannot be said of this verdict; empty where it can: something failed, and nothing is safe."""
    if verdict.kind == Kind.RECOMMENDED:
        return f"{words.flight(verdict.recommended or 0, start=True)} can be proposed, so a safe setting was found."
    if verdict.kind != Kind.NO_SAFE_SETTING:
        return f"{verdict.heading}, so nothing can be said about its settings."
    if not any(rubric.fails(row) for row in measured(verdict)):
        return UNFINISHED.format(missing=" ".join(words.none_safe(verdict.rows)))
    return ""


def measured(verdict: Verdict) -> list[SettingRow]:
    return [row for row in verdict.rows if row.cells]


def reasons(row: SettingRow) -> tuple[str, ...]:
    """All that a setting fails or lacks, in whole sentences."""
    return row.reasons or ((USELESS,) if rubric.fails(row) else ())


def remedies(verdict: Verdict) -> tuple[str, ...]:
    """What to change, each once, in the order of the settings and their gates."""
    failing = [gate for row in measured(verdict) for gate in row.gates if gate.answer == Answer.FAILS]
    return tuple(dict.fromkeys(gate.remedy for gate in failing if gate.remedy))


def grade_reason(verdict: Verdict) -> str:
    """Short where each setting failed, since all reasons of each stand beside it; else what is missing."""
    if verdict.rubric.grade != Grade.NO_SAFE_SETTING:
        return verdict.rubric.reason
    count = len(verdict.rows)
    return f"Each of {count} settings was tested and fails." if count > 1 else "The only setting was tested and fails."


def not_tested(verdict: Verdict) -> tuple[str, ...]:
    """Settings without an answer, then what no measured setting was asked about, then that no open loop ran."""
    lacking = [row for row in verdict.rows if not rubric.fails(row)]
    asked: dict[str, list[Gate]] = {}
    for row in measured(verdict):
        for gate in row.gates:
            asked.setdefault(gate.key, []).append(gate)
    silent = [
        gates[0]
        for gates in asked.values()
        if all(one.caps_grade or (one.blocks and one.answer != Answer.FAILS) for one in gates)
    ]
    return (
        *(words.refused(row) for row in lacking),
        *(f"{gate.title}: {gate.reason}" for gate in silent),
        CLOSED_LOOP,
    )
