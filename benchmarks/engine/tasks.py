"""What a prompt asks for, and whether an answer to it is right. Every right answer follows from the prompt alone.

Strict on purpose: what a program that reads the answer would trip over is wrong here too. Text around a JSON object, a
code fence, another case or a no-break space make an answer invalid, and nothing lowers that to make a model pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from benchmarks.engine.dice import Dice
from benchmarks.runtimes.vocabulary import WORD_SET, WORDS

# A number as people write it: a sign (hyphen or U+2212), thousands in commas or plain digits, a fraction; ASCII digits
# only. It stands alone: 579 is not read out of 1e579, 5.579, 12,1579 or v579.
NUMBER = re.compile(
    r"(?<![0-9A-Za-z_])(?<![0-9][,.])[-+\u2212]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?(?![0-9,]*[0-9])"
)
_BLANKS = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Asked:
    """The end of a prompt: its text, how many words that is, and what a right answer is made or checked from."""

    text: str
    words: int
    expected: str


@dataclass(frozen=True, slots=True)
class Task:
    """`ask(dice, room, output_tokens)`: room is how many words the ask may take at most, where it can be shorter.

    `answer(expected, output_tokens, dice)` is a right answer, for the earlier turns of a session. `check(expected,
    output_tokens, answer)` judges one. Lengths below the two least ones are raised to them: shorter ones could not be
    asked, or not be answered. `ends_itself`: a right answer is over before the asked length, which is then a ceiling.
    """

    name: str
    ask: Callable[[Dice, int, int], Asked]
    answer: Callable[[str, int, Dice], str]
    check: Callable[[str, int, str], bool]
    least_ask_words: int
    least_output_tokens: int
    ends_itself: bool = True


# --- words: right by construction for a model that knows no other -----------------------------------------------------


def _ask_words(_dice: Dice, _room: int, _output_tokens: int) -> Asked:
    return Asked("", 0, "")


def _answer_words(_expected: str, output_tokens: int, dice: Dice) -> str:
    return " ".join(WORDS[n] for n in dice.numbers(output_tokens))


def _check_words(_expected: str, output_tokens: int, answer: str) -> bool:
    words = _split(answer)
    return len(words) == output_tokens and WORD_SET.issuperset(words)


# --- echo: a sentence word for word; white space between its words does not count ------------------------------------

_ECHO = "Answer exactly: "
_ECHO_SHARE = 4  # a made-up word is about two tokens elsewhere, so half of the asked length is left as slack


def _ask_echo(dice: Dice, room: int, output_tokens: int) -> Asked:
    count = max(1, min(output_tokens // _ECHO_SHARE, room - 2))
    expected = " ".join(WORDS[n] for n in dice.numbers(count))
    return Asked(_ECHO + expected, count + 2, expected)


def _check_echo(expected: str, _output_tokens: int, answer: str) -> bool:
    return _split(answer) == expected.split()


# --- arithmetic: the last number of the answer is the sum, a whole one ------------------------------------------------


def _ask_arithmetic(dice: Dice, _room: int, _output_tokens: int) -> Asked:
    left, right = dice.between(100, 999), dice.between(100, 999)
    text = f"What is {left} + {right} ? Answer with the number alone."
    return Asked(text, 11, str(left + right))


def _check_arithmetic(expected: str, _output_tokens: int, answer: str) -> bool:
    found = NUMBER.findall(answer)
    return bool(found) and found[-1].replace(",", "") == expected


# --- JSON to a schema -------------------------------------------------------------------------------------------------


class _Schema(msgspec.Struct, frozen=True):
    """What the one object must hold; kept as the expected text."""

    name: str
    low: int
    high: int
    tags: tuple[str, ...]
    how_many: int


class _Object(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    count: int
    share: float
    tags: list[str]


_schema_of = msgspec.json.Decoder(_Schema).decode
_object_of = msgspec.json.Decoder(_Object).decode
_OFFERED_TAGS = 4


def _ask_json(dice: Dice, _room: int, _output_tokens: int) -> Asked:
    name, *tags = (WORDS[n] for n in dice.different(1 + _OFFERED_TAGS))
    low = dice.between(0, 500)
    schema = _Schema(name, low, low + dice.between(1, 400), tuple(tags), dice.between(1, _OFFERED_TAGS - 1))
    text = (
        f'Answer with one JSON object alone, with these keys and no others: "name", the string "{name}"; "count", a whole '
        f'number from {schema.low} to {schema.high}; "share", a number from 0 to 1; "tags", a list of {schema.how_many} '
        f"different strings out of {' '.join(tags)}."
    )
    return Asked(text, len(text.split()), msgspec.json.encode(schema).decode())


def _answer_json(expected: str, _output_tokens: int, _dice: Dice) -> str:
    schema = _schema_of(expected)
    made = _Object(schema.name, schema.low, 0.5, list(schema.tags[: schema.how_many]))
    return msgspec.json.encode(made).decode()


def _check_json(expected: str, _output_tokens: int, answer: str) -> bool:
    """One object and nothing around it but JSON's own white space; of a key written twice the last one counts."""
    schema = _schema_of(expected)
    try:
        made = _object_of(answer)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    tags = set(made.tags)
    return (
        made.name == schema.name
        and schema.low <= made.count <= schema.high
        and 0 <= made.share <= 1
        and len(made.tags) == len(tags) == schema.how_many
        and tags <= set(schema.tags)
    )


# --- label: which of four ranges holds a number -----------------------------------------------------------------------


def _ask_label(dice: Dice, _room: int, _output_tokens: int) -> Asked:
    labels = [WORDS[n] for n in dice.different(4)]
    starts = [0, dice.between(100, 300), dice.between(400, 600), dice.between(700, 900), 1000]
    number = dice.between(0, 999)
    ranges = ", ".join(f"{label} from {starts[n]} to {starts[n + 1] - 1}" for n, label in enumerate(labels))
    text = f"Labels: {ranges}. Which label has {number} ? Answer with the label alone."
    expected = next(label for n, label in enumerate(labels) if number < starts[n + 1])
    return Asked(text, len(text.split()), expected)


def _check_label(expected: str, _output_tokens: int, answer: str) -> bool:
    return answer.strip(_BLANKS) == expected


def _answer_expected(expected: str, _output_tokens: int, _dice: Dice) -> str:
    return expected


def _split(answer: str) -> list[str]:
    """Words between ASCII white space. A no-break space or U+2028 is no gap but part of a word, so the word is wrong."""
    return [word.decode(errors="surrogatepass") for word in answer.encode(errors="surrogatepass").split()]


TASKS = {
    task.name: task
    for task in (
        Task("words", _ask_words, _answer_words, _check_words, 0, 1, ends_itself=False),
        Task("echo", _ask_echo, _answer_expected, _check_echo, 3, 4),
        Task("arithmetic", _ask_arithmetic, _answer_expected, _check_arithmetic, 11, 8),
        Task("json", _ask_json, _answer_json, _check_json, 44, 64),
        Task("label", _ask_label, _answer_expected, _check_label, 31, 8),
    )
}
# Tasks that a random-weight model fulfils by construction; results name them so.
RIGHT_BY_CONSTRUCTION = frozenset({"words"})
