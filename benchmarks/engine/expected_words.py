"""What a task's validator expected of an answer, and what it met instead, in words for a person."""

from __future__ import annotations

import msgspec

from benchmarks.engine.tasks import NUMBER, RIGHT_BY_CONSTRUCTION, TASKS
from benchmarks.runtimes.vocabulary import WORD_SET

BY_CONSTRUCTION = (
    "The words task is right by construction for a runtime that knows no other words: its validator sees whether the answer "
    "has the asked length, not whether a model is good. Draw the workload with another task to judge answers."
)


def expected_words(task: str, expected: str, asked_output_tokens: int) -> str:
    """What the validator of `task` holds an answer to; the words of a task that is not known say only that."""
    match task:
        case "words":
            return f"exactly {asked_output_tokens:,} words of the made-up vocabulary"
        case "echo":
            return f"this sentence word for word and nothing else: {expected}"
        case "arithmetic":
            return f"{expected} as the last number of the answer"
        case "label":
            return f'the label "{expected}" and nothing else'
        case "json":
            return _schema_words(expected)
        case _:
            return "what a task asks that this version does not know"


def found_words(task: str, expected: str, asked_output_tokens: int, answer: str) -> str:
    """What a wrong answer holds instead, as far as it is told in a few words; `answer` is whole. Empty where the answer is
    right, or has to be read."""
    if task not in TASKS or TASKS[task].check(expected, asked_output_tokens, answer):
        return ""
    if task == "words":
        words = answer.split()
        foreign = sum(word not in WORD_SET for word in words)
        return f"it has {len(words):,}" + (f", of which {foreign:,} are not of the vocabulary" if foreign else "")
    if task == "arithmetic":
        numbers = NUMBER.findall(answer)
        return f"its last number is {numbers[-1][:40]}" if numbers else "it holds no number"
    return "" if answer.strip() else "it is empty"


def verdict_words(task: str, expected: str, asked_output_tokens: int, answer: str | None, *, valid: bool | None) -> str:
    """The validator's word on one answer; `answer` is None where it was not kept whole, `valid` where nobody judged it."""
    if valid is None:
        return "Not judged: only an answer that came to its end is."
    asked = expected_words(task, expected, asked_output_tokens)
    if valid:
        return f"Valid: the validator of the task {task} expected {asked}."
    instead = found_words(task, expected, asked_output_tokens, answer) if answer is not None else ""
    return f"Not valid: the validator of the task {task} expected {asked}" + (f"; {instead}." if instead else ".")


def by_construction(task: str) -> bool:
    return task in RIGHT_BY_CONSTRUCTION


def _schema_words(expected: str) -> str:
    try:
        asked = msgspec.json.decode(expected)
        tags = " ".join(asked["tags"])
        return (
            f'one JSON object and nothing around it, with "name" as {asked["name"]}, "count" from {asked["low"]} to '
            f'{asked["high"]}, "share" from 0 to 1, and "tags" as {asked["how_many"]} different ones of {tags}'
        )
    except (msgspec.DecodeError, KeyError, TypeError):
        return "one JSON object of the asked keys and nothing around it"
