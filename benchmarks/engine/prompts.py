"""Synthetic prompts from a seed: a unique marker at the front, then words, then a task whose answer can be checked.

Request number i of a seed is the same whatever was built before it, so the same seed is the same workload. Words are
made up: one token each on the tiny model and on the simulator; on another tokeniser a word is about two tokens, and the
server's own count shows it.
"""

from __future__ import annotations

import hashlib

import msgspec
import numpy as np

from benchmarks.engine import lengths
from benchmarks.engine.plan import CellPlan, ClassPlan
from benchmarks.runtimes.vocabulary import WORD_COUNT, WORDS

MIXED = "mixed"
MARKER_WORDS = 4  # 256 ** 4 requests before a marker repeats
STREAMS = {"prompts": 1, "order": 2}


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A request ready to send: its body, what was asked, and what a right answer is (empty for the words task)."""

    index: int
    class_name: str
    body: bytes
    intended_prompt_tokens: int
    asked_output_tokens: int
    task: str
    expected: str


class Message(msgspec.Struct, frozen=True):
    role: str
    content: str


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool = True


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """What is posted. Temperature 0: the same prompt is meant to give the same answer."""

    model: str
    messages: list[Message]
    max_tokens: int
    temperature: float = 0.0
    stream: bool = True
    stream_options: StreamOptions = StreamOptions()


class Workload:
    """All requests of one cell by number; `build` makes one, the same each time."""

    def __init__(self, plan: CellPlan) -> None:
        self._plan = plan
        chosen = [c for c in plan.classes if plan.class_name in (MIXED, c.name)]
        weights = np.array([c.weight for c in chosen], dtype=np.float64)
        if not chosen or weights.sum() <= 0:
            raise ValueError(f"class {plan.class_name!r} is not among the plan's classes, or has no weight")
        self._classes = chosen
        self._shares = np.cumsum(weights / weights.sum())

    def build(self, index: int) -> Prepared:
        length_class = self._class_of(index)
        dice = np.random.default_rng([self._plan.seed, STREAMS["prompts"], index])
        prompt_tokens = lengths.sample(length_class.prompt_tokens, dice)
        output_tokens = lengths.sample(length_class.output_tokens, dice)
        text, expected = TASKS[self._plan.task](self._marker(index), prompt_tokens, output_tokens, dice)
        body = Body(model=self._plan.model, messages=[Message("user", text)], max_tokens=output_tokens)
        return Prepared(
            index=index,
            class_name=length_class.name,
            body=msgspec.json.encode(body),
            intended_prompt_tokens=len(text.split()),
            asked_output_tokens=output_tokens,
            task=self._plan.task,
            expected=expected,
        )

    def digest(self, count: int) -> str:
        """SHA-256 over the first `count` bodies: equal for equal workloads."""
        hashed = hashlib.sha256()
        for index in range(count):
            hashed.update(self.build(index).body)
        return hashed.hexdigest()

    def _class_of(self, index: int) -> ClassPlan:
        drawn = np.random.default_rng([self._plan.seed, STREAMS["order"], index]).random()
        return self._classes[min(int(np.searchsorted(self._shares, drawn, side="right")), len(self._classes) - 1)]

    def _marker(self, index: int) -> list[str]:
        """Unique per request, and starting anew for each seed: prefix caches would flatter a repeated beginning."""
        number = (index * 2654435761 + self._plan.seed * 40503) % WORD_COUNT**MARKER_WORDS
        return [WORDS[number // WORD_COUNT**place % WORD_COUNT] for place in range(MARKER_WORDS)]


def _filled(marker: list[str], count: int, dice: np.random.Generator) -> list[str]:
    """`count` words that begin with the marker; a shorter prompt keeps as much of the marker as fits."""
    filler = dice.integers(0, WORD_COUNT, size=max(0, count - len(marker)))
    return [*marker[: max(1, count)], *(WORDS[i] for i in filler)]


def _words_task(marker: list[str], prompt_tokens: int, _output: int, dice: np.random.Generator) -> tuple[str, str]:
    # The leading space makes the first word one token as well; a random-weight model answers in words whatever is
    # asked.
    return " " + " ".join(_filled(marker, prompt_tokens, dice)), ""


def _echo_task(marker: list[str], prompt_tokens: int, output_tokens: int, dice: np.random.Generator) -> tuple[str, str]:
    expected = " ".join(WORDS[i] for i in dice.integers(0, WORD_COUNT, size=max(1, output_tokens // 4)))
    ask = f"\nAnswer exactly: {expected}"
    return _before(ask, marker, prompt_tokens, dice), expected


def _arithmetic_task(marker: list[str], prompt_tokens: int, _output: int, dice: np.random.Generator) -> tuple[str, str]:
    left, right = (int(n) for n in dice.integers(100, 1000, size=2))
    ask = f"\nWhat is {left} + {right} ? Answer with the number alone."
    return _before(ask, marker, prompt_tokens, dice), str(left + right)


def _before(ask: str, marker: list[str], prompt_tokens: int, dice: np.random.Generator) -> str:
    room = max(len(marker), prompt_tokens - len(ask.split()))
    return " ".join([*_filled(marker, room, dice), ask])


TASKS = {"words": _words_task, "echo": _echo_task, "arithmetic": _arithmetic_task}
