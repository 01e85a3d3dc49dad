"""What a behaviour probe says: one word of a closed vocabulary, the figures it rests on, and why it cannot be judged.

A verdict is a pure function of the cell's evidence, so anyone can give it again from the stored file: `verdict_of`.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from benchmarks.engine.column_types import OUTCOMES, Columns, Requests
from benchmarks.engine.probe_plan import Probe, name_of

VERDICT_SCHEMA = 1
NOT_JUDGED = "not_judged"
NS = 1_000_000_000

# Per probe: every word it may say, with the sentence for a page.
WORDS: dict[str, dict[str, str]] = {
    "fairness": {
        "fair": "Short requests keep their time beside long ones.",
        "watch": "Short requests take longer beside long ones, within the limit stated.",
        "unfair": "Long requests hold short ones up beyond the limit stated.",
    },
    "overload": {
        "refused_clearly": "Beyond capacity it refuses at once and says when to come back.",
        "refused_without_retry_after": "Beyond capacity it refuses at once, without saying when to come back.",
        "refused_late": "Beyond capacity it refuses, but only after a wait.",
        "queues_without_bound": "Beyond capacity nothing is refused: the wait grows as long as the load lasts.",
        "fails": "Beyond capacity requests break instead of being refused.",
        "kept_up": "The offered load was not beyond its capacity.",
    },
    "cancellation": {
        "frees_in_time": "A slot that its client leaves in mid-stream is free within the limit.",
        "frees_late": "A slot that its client leaves in mid-stream is free, but later than the limit.",
        "never_frees": "A slot that its client leaves works on for nobody.",
    },
    "retry_storm": {
        "contained": "With backoff and a retry budget a storm stays small, whatever the server does.",
        "amplifies": "Even with backoff and a retry budget attempts multiply.",
        "kept_up": "Nobody had to ask again: nothing was refused and no wait outlasted the clients, so retries were not seen.",
    },
    "limits": {
        "refuses_clearly": "What cannot be served is refused with a client error that names it.",
        "refuses_partly": "Some of what cannot be served is accepted, cut, or fails as a server error.",
        "accepts_everything": "Nothing of what was tried is refused.",
    },
    "recovery": {
        "recovers": "Latency is back at its baseline within the time stated.",
        "does_not_recover": "Latency is not back at its baseline within the time stated.",
        "not_disturbed": "The trouble did not move latency, so there was nothing to recover from.",
    },
    "idle": {
        "steady": "The idle host holds its readings.",
        "moving": "Readings of the idle host still moved: it was not at rest.",
    },
}


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One number of a verdict. A value that is not known is None, never zero; `n` is over how many it is taken, None
    where that means nothing."""

    value: float | None
    unit: str
    n: int | None = None


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence that a verdict rests on: attempts by role and by role and outcome, and the time they took."""

    requests: dict[str, int]
    outcomes: dict[str, dict[str, int]]
    window_s: float | None
    complete: bool
    end_reason: str


class ProbeVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """`verdict` is a word of WORDS[probe] or `not_judged`; `reasons` then say why, in sentences. Where it was judged they
    add what a reader must know beside it."""

    probe: str
    verdict: str
    reasons: tuple[str, ...]
    figures: dict[str, Figure]
    parameters: Probe
    evidence: Told
    simulated: bool
    schema: int = VERDICT_SCHEMA


def verdict_of(columns: Columns) -> ProbeVerdict | None:
    """None where the cell is no probe."""
    from benchmarks.engine.probes.table import judge  # it builds on the types here

    return None if columns.plan.probe is None else judge(columns)


def said(columns: Columns, word: str, figures: dict[str, Figure], reasons: tuple[str, ...] = ()) -> ProbeVerdict:
    """A verdict over a cell's evidence. Raises ValueError where the word is not in the probe's vocabulary."""
    probe = columns.plan.probe
    assert probe is not None
    name = name_of(probe)
    if word != NOT_JUDGED and word not in WORDS[name]:
        raise ValueError(f"{word} is no verdict of {name}")
    return ProbeVerdict(
        probe=name,
        verdict=word,
        reasons=reasons,
        figures=figures,
        parameters=probe,
        evidence=_told(columns),
        simulated=columns.header.simulated,
    )


def words_of(verdict: ProbeVerdict) -> str:
    """The sentence for a page."""
    return WORDS[verdict.probe].get(verdict.verdict, "It could not be judged.")


def _told(columns: Columns) -> Told:
    requests, window, end = columns.requests, columns.window, columns.end
    pairs = Counter(zip(roles(requests), requests.codes["outcome"].tolist(), strict=True))
    outcomes: dict[str, dict[str, int]] = {}
    for (role, code), count in sorted(pairs.items()):
        outcomes.setdefault(role, {})[OUTCOMES[code]] = count
    return Told(
        requests={role: sum(found.values()) for role, found in outcomes.items()},
        outcomes=outcomes,
        window_s=None if window is None else (window.end_ns - window.start_ns) / NS,
        complete=end is not None and end.complete,
        end_reason="the log has no end: the engine was killed" if end is None else end.reason,
    )


def roles(requests: Requests) -> list[str]:
    """Of each attempt, in the order of the log."""
    return [role or "" for role in requests.texts["role"]]
