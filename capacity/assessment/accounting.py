"""What was sent and what came of it: every request in one record, every prompt whole, every answer as long as asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from benchmarks.engine.summary_types import CellSummary, ClassSummary
from capacity.assessment.facts import MIXED, CellFact
from capacity.assessment.verdict import Answer, Gate

TOLERANCE = "5 %"  # summary.LENGTH_TOLERANCE, in words


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of some cells. `window` ended in `outcomes`; `sent` and `recorded` hold warm-up too.

    `sent` is None where an engine left no count of its own. `conserved` is None then, False where anything differs.
    """

    window: int
    outcomes: dict[str, int]
    warmup: int
    sent: int | None
    recorded: int | None
    conserved: bool | None

    @property
    def words(self) -> str:
        """ "96 sent in the windows = 90 ok + 6 rejected." and the count of the whole cells where there is one."""
        parts = " + ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in self.outcomes.items()) or "0"
        sign = "=" if sum(self.outcomes.values()) == self.window else "≠"
        text = f"{self.window:,} sent in the windows {sign} {parts}."
        if self.sent is None or self.recorded is None:
            return f"{text} How many the engine sent in all, warm-up included, was not recorded."
        sign = "=" if self.sent == self.recorded else "≠"
        return f"{text} With warm-up: {self.sent:,} sent {sign} {self.recorded:,} recorded."


class CountRow(msgspec.Struct, frozen=True, kw_only=True):
    """Lengths of one class at one setting over its repeats. Token counts are medians in words; `sources` who counted.

    `cut` and `short` count answered requests more than 5 % under what was intended and asked; None where nobody counted
    the tokens that would tell.
    """

    setting: int
    label: str
    sent: int
    answered: int
    prompt_intended: str
    prompt_counted: str
    output_asked: str
    output_got: str
    sources: str
    cut: int | None
    short: int | None


def count_rows(cells: Sequence[CellFact]) -> list[CountRow]:
    """One row for each class of each setting that has a summary, in running order of the classes, settings upward."""
    rows = []
    for setting in sorted({cell.setting for cell in cells}):
        at = [cell for cell in cells if cell.setting == setting]
        rows += [_count_row(setting, label, parts) for label, parts in _by_label(at).items()]
    return rows


def _count_row(setting: int, label: str, parts: Sequence[ClassSummary]) -> CountRow:
    sources: Counter[str] = Counter()
    for part in parts:
        sources.update(part.token_sources)
    return CountRow(
        setting=setting,
        label=label,
        sent=sum(part.scheduled for part in parts),
        answered=sum(part.success.hits for part in parts),
        prompt_intended=_range([part.intended_prompt_tokens_p50 for part in parts]),
        prompt_counted=_range([part.prompt_tokens_p50 for part in parts]),
        output_asked=_range([part.asked_output_tokens_p50 for part in parts]),
        output_got=_range([part.output_tokens_p50 for part in parts]),
        sources=_sources(sources),
        cut=_told([(part.truncated_prompts, part.prompt_tokens_p50) for part in parts]),
        short=_told([(part.short_outputs, part.output_tokens_p50) for part in parts]),
    )


def _told(counts: Sequence[tuple[int, float | None]]) -> int | None:
    """The sum of the counts whose median is known; None when none is."""
    known = [count for count, median in counts if median is not None]
    return sum(known) if known else None


def _sources(counted: Counter[str]) -> str:
    """ "server" where one source counted every answer, else how many each did."""
    used = {name: count for name, count in sorted(counted.items()) if count}
    if len(used) > 1:
        return ", ".join(f"{name} {count:,}" for name, count in used.items())
    return next(iter(used), "not recorded")


def _range(medians: Sequence[float | None]) -> str:
    """One number, or from the least to the most of several repeats."""
    values = sorted(value for value in medians if value is not None)
    if not values:
        return "not recorded"
    low, high = f"{values[0]:,.0f}", f"{values[-1]:,.0f}"
    return low if low == high else f"{low} to {high}"


def tally(summaries: Sequence[CellSummary]) -> Tally:
    """The sum over cells; unknown as soon as one of them is."""
    outcomes: Counter[str] = Counter()
    for summary in summaries:
        outcomes.update(summary.outcomes)
    sent = [s.sent for s in summaries if s.sent is not None]
    recorded = [s.recorded for s in summaries if s.recorded is not None]
    told = [s.conserved for s in summaries]
    return Tally(
        window=sum(s.scheduled for s in summaries),
        outcomes=dict(sorted(outcomes.items(), key=lambda pair: (-pair[1], pair[0]))),
        warmup=sum(s.warmup_requests for s in summaries),
        sent=sum(sent) if summaries and len(sent) == len(summaries) else None,
        recorded=sum(recorded) if summaries and len(recorded) == len(summaries) else None,
        conserved=False if False in told else None if None in told else True,
    )


def conservation(cells: Sequence[CellFact]) -> Gate:
    """Sent requests and recorded outcomes are the same, in every cell."""
    gate = _gate("conservation", "Every request accounted for", cells)
    found = tally(_summaries(cells))
    if found.conserved is None:
        return replace(gate, answer=Answer.NOT_REPORTED, reason=found.words)
    if found.conserved:
        return replace(gate, reason=found.words)
    broken = [c for c in cells if c.summary and c.summary.conserved is False]
    count = "1 cell" if len(broken) == 1 else f"{len(broken)} cells"
    return replace(
        gate,
        answer=Answer.FAILS,
        reason=f"{count}: sent requests and recorded outcomes differ.",
        remedy="The evidence cannot be used; run the cell again.",
        cells=tuple(c.cell_id for c in broken),
    )


def prompts(cells: Sequence[CellFact]) -> Gate:
    """A prompt that the server counted more than 5 % short was cut: the point says nothing of its class then."""
    gate = _gate("prompts", "Prompts whole", cells)
    parts = [part for summary in _summaries(cells) for part in summary.classes]
    cut = Counter({name: count for name, count in _sums(parts, "truncated_prompts").items() if count})
    if cut:
        name, count = cut.most_common(1)[0]
        answered = sum(part.success.hits for part in parts if part.class_name == name)
        return replace(
            gate,
            answer=Answer.FAILS,
            reason=f"{count} of {answered} prompts of {name} were counted more than {TOLERANCE} shorter than intended: "
            f"the server cut them, so this point is not valid for {name}.",
            remedy="Raise the context per sequence of the runtime, or shorten the prompts of this class.",
            cells=tuple(c.cell_id for c in cells if c.summary and any(p.truncated_prompts for p in c.summary.classes)),
        )
    if not any(part.prompt_tokens_p50 is not None for part in parts):
        return replace(gate, answer=Answer.NOT_REPORTED, reason="The server counted no prompt tokens.")
    return replace(gate, reason=f"No counted prompt was more than {TOLERANCE} shorter than intended.")


def short_answers(cells: Sequence[CellFact]) -> list[str]:
    """One caution for each class whose answers came out shorter than asked, over all cells."""
    out = []
    for label, parts in _by_label(cells).items():
        short, answered = sum(p.short_outputs for p in parts), sum(p.success.hits for p in parts)
        if short:
            out.append(
                f"{short} of {answered} answers of {label} were more than {TOLERANCE} shorter than asked: the work was "
                "lighter than the workload says. Asked and got stand under “Requests and tokens”."
            )
    return out


def _by_label(cells: Sequence[CellFact]) -> dict[str, list[ClassSummary]]:
    """Class (in the mix told apart) -> what each cell with a summary saw of it."""
    found: dict[str, list[ClassSummary]] = {}
    for cell in cells:
        for part in cell.summary.classes if cell.summary else ():
            label = f"{part.class_name} in the mix" if cell.class_name == MIXED else part.class_name
            found.setdefault(label, []).append(part)
    return found


def _gate(key: str, title: str, cells: Sequence[CellFact]) -> Gate:
    return Gate(key=key, title=title, answer=Answer.HOLDS, reason="", cells=tuple(c.cell_id for c in cells))


def _sums(parts: Sequence[ClassSummary], field: str) -> Counter[str]:
    sums: Counter[str] = Counter()
    for part in parts:
        sums[part.class_name] += getattr(part, field)
    return sums


def _summaries(cells: Sequence[CellFact]) -> list[CellSummary]:
    return [cell.summary for cell in cells if cell.summary is not None]
