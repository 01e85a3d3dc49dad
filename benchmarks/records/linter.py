"""What a workload would not show, or would flatter, before anybody measures with it. Every warning says what to change.

In scope: what is kept of a workload, and the context of the runtimes it is sent to. Not in scope: a trace file's own
oddities, which are said when it is read (imports.trace_facts).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.engine.load import Arrivals, Constant, Replay
from benchmarks.engine.prompts import UNIQUE_WORDS
from benchmarks.engine.tasks import TASKS
from benchmarks.records import lengths
from benchmarks.records.lengths import ClassLengths, quantile
from benchmarks.stats.per_cent import per_cent

_LOW, _HIGH = 0.01, 0.99


@dataclass(frozen=True, slots=True)
class Sent:
    """A workload as it is kept. `source`: the trace or preset that its lengths come from, empty when set by hand."""

    classes: Sequence[ClassLengths]
    task: str = "words"
    source: str = ""
    shared_prefix_share: float = 0.0
    turns: int = 1
    arrivals_s: Sequence[float] = ()


def warnings_about(sent: Sent, contexts: Mapping[str, int] | None = None) -> list[str]:
    """`contexts`: tokens that one sequence may have, by the name of the runtime, where they are known."""
    return [
        *lengths.warnings_about(sent.classes),
        *_unlike_its_source(sent),
        *_too_short(sent),
        *_ceilings(sent),
        *_prefix(sent),
        *_too_long(sent, contexts or {}),
        *_evenly([*sent.arrivals_s]),
    ]


def about_arrivals(arrivals: Arrivals) -> list[str]:
    """What is artificial about when requests come."""
    if isinstance(arrivals, Constant):
        return ["Requests come at equal distances. Users do not: choose Poisson, gamma or the arrivals of a trace."]
    return _evenly([*arrivals.offsets_s]) if isinstance(arrivals, Replay) else []


def longest(c: ClassLengths, turns: int = 1) -> int:
    """Tokens of prompt and answer at p99 of a class, in the last turn of a conversation, which holds all before it."""
    if c.pairs is not None:
        ordered = sorted(prompt + output for prompt, output in c.pairs)
        one = ordered[min(int(_HIGH * len(ordered)), len(ordered) - 1)]
    else:
        one = round(quantile(c.prompt_tokens, _HIGH) + quantile(c.output_tokens, _HIGH))
    return one * turns


def _unlike_its_source(sent: Sent) -> list[str]:
    """Production, as a trace saw it, varies; a class that was set to one length afterwards does not."""
    if not sent.source:
        return []
    same = [c.name for c in sent.classes if lengths.never_changes(c.prompt_tokens)]
    return (
        [f"The lengths are said to come from {sent.source}, where prompts vary; in {_and(same)} they do not."]
        if same
        else []
    )


def _too_short(sent: Sent) -> list[str]:
    task = TASKS[sent.task]
    least = UNIQUE_WORDS + task.least_ask_words
    found = []
    short = [c.name for c in sent.classes if quantile(c.prompt_tokens, _LOW) < least]
    if short and task.least_ask_words:
        found.append(
            f"{_and(short)}: some prompts are shorter than the task needs. They are sent with {least} tokens, not as drawn."
        )
    elif short:
        found.append(
            f"{_and(short)}: some prompts have fewer than {least} tokens. So short they can repeat, and a cache can serve them."
        )
    cut = [c.name for c in sent.classes if quantile(c.output_tokens, _LOW) < task.least_output_tokens]
    if cut and task.least_output_tokens > 1:
        found.append(
            f"{_and(cut)}: some answers are shorter than a right one. They may have {task.least_output_tokens} tokens, more "
            "than drawn."
        )
    return found


def _ceilings(sent: Sent) -> list[str]:
    """A task that ends by itself does not make answers of the drawn length."""
    if not TASKS[sent.task].ends_itself:
        return []
    return [
        "This task's answers end by themselves: the answer lengths are ceilings, and fewer tokens will come than drawn."
    ]


def _prefix(sent: Sent) -> list[str]:
    """A shared beginning must leave room for what makes a prompt unique, or less is shared than declared."""
    if not sent.shared_prefix_share:
        return []
    needs = UNIQUE_WORDS + TASKS[sent.task].least_ask_words
    full = [c.name for c in sent.classes if quantile(c.prompt_tokens, _LOW) * (1 - sent.shared_prefix_share) < needs]
    return (
        [
            f"{_and(full)}: some prompts are too short to share {per_cent(sent.shared_prefix_share)} and still differ. "
            "They share less."
        ]
        if full
        else []
    )


def _too_long(sent: Sent, contexts: Mapping[str, int]) -> list[str]:
    found = []
    for name, tokens in contexts.items():
        over = [c.name for c in sent.classes if longest(c, sent.turns) > tokens]
        if over:
            found.append(
                f"{_and(over)}: the longest prompts with their answers exceed the {tokens:,} tokens a sequence of {name}. "
                "They will be refused, or cut without a word."
            )
    return found


def _evenly(offsets_s: Sequence[float]) -> list[str]:
    gaps = {round(after - before, 6) for before, after in pairwise(offsets_s)}
    if len(offsets_s) > 2 and len(gaps) == 1:
        return [f"The arrivals are {gaps.pop():g} s apart, always: made by a program. Users do not arrive so."]
    return []


def _and(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else names[0]
