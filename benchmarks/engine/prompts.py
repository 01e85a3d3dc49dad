"""Synthetic prompts from a seed: a text that all share if the plan says so, a unique marker, words, then a task whose
answer can be checked.

Request number i of a seed is the same whatever was built before it, so the same seed is the same workload. Words are
made up: one token each on the tiny model and on the simulator; on another tokeniser a word is about two tokens, and the
server's own count shows it.

A session of n turns is n requests in a row of numbers. A turn's prompt is the conversation so far, earlier answers made
up too (right ones), and one new message of the drawn length: later prompts begin with the whole of the earlier ones.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from itertools import accumulate

import msgspec

from benchmarks.engine import lengths
from benchmarks.engine.dialects.base import Ask, Message
from benchmarks.engine.dialects.table import dialect_of
from benchmarks.engine.dice import Dice
from benchmarks.engine.plan import CellPlan, ClassPlan
from benchmarks.engine.tasks import TASKS as TASKS
from benchmarks.runtimes.vocabulary import WORDS

MIXED = "mixed"
UNIQUE_WORDS = 4  # no other request of this seed begins with these
MARKER_WORDS = 8  # and four more of the seed, so that no two seeds share a prompt of eight words
_NUMBERS = 2**32  # as many as four words can tell apart
_SPREAD = 2654435761  # odd, so multiplying by it leaves different numbers different; neighbours begin far apart
# Each word with a blank before it. Without numpy, whose import would be a third of the engine's start.
_TABLE = tuple(f" {word}" for word in WORDS)


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A request ready to send: its body, what was asked, and what a right answer is (empty for the words task).

    `text` is the whole prompt as one text, for dialects and lists without roles. `session` and `turn` count from 0 and
    are None where the plan has no sessions. Prompt tokens count every message of the prompt.
    """

    index: int
    class_name: str
    body: bytes
    text: str
    intended_prompt_tokens: int
    asked_output_tokens: int
    task: str
    expected: str
    session: int | None = None
    turn: int | None = None


class Turn(msgspec.Struct, frozen=True):
    """One new message of a conversation: its text, its words, the answer's asked length, and what is right."""

    text: str
    words: int
    output_tokens: int
    expected: str


class Workload:
    """All requests of one cell by number; `build` makes one, the same each time."""

    def __init__(self, plan: CellPlan) -> None:
        chosen = [c for c in plan.classes if plan.class_name in (MIXED, c.name)]
        total = sum(c.weight for c in chosen)
        if total <= 0:
            raise ValueError(f"class {plan.class_name!r} is not among the plan's classes, or has no weight")
        if not 0 <= plan.shared_prefix_share <= 1:
            raise ValueError(f"a shared prefix of {plan.shared_prefix_share:g} is not a share from 0 to 1")
        self._plan = plan
        self._content = plan.content_seed or plan.seed
        self._task = TASKS[plan.task]
        self._dialect = dialect_of(plan.dialect)
        self._turns = plan.sessions.turns if plan.sessions else 1
        self._classes = chosen
        self._shares = list(accumulate(c.weight / total for c in chosen))
        self._common = b""

    def build(self, index: int, length_class: ClassPlan | None = None) -> Prepared:
        """Under 60 microseconds for a prompt of 48 words, under 250 for 2,000, on a core of 2020 or later. Without a
        `length_class` the dice say which of the plan's it is."""
        session, turn_number = divmod(index, self._turns)
        length_class = length_class or self._class_of(session)
        words, messages = 0, []
        for earlier in range(turn_number):
            past, dice = self._turn(session, earlier, length_class)
            answer = self._task.answer(past.expected, past.output_tokens, dice)
            messages += [Message("user", past.text), Message("assistant", answer)]
            words += past.words + len(answer.split())
        turn, _dice = self._turn(session, turn_number, length_class)
        messages.append(Message("user", turn.text))
        text = turn.text if turn_number == 0 else "\n".join(message.content for message in messages)
        in_sessions = self._plan.sessions is not None
        return Prepared(
            index=index,
            class_name=length_class.name,
            body=self._body(tuple(messages), text, turn.output_tokens),
            text=text,
            intended_prompt_tokens=words + turn.words,
            asked_output_tokens=turn.output_tokens,
            task=self._task.name,
            expected=turn.expected,
            session=session if in_sessions else None,
            turn=turn_number if in_sessions else None,
        )

    @property
    def class_names(self) -> tuple[str, ...]:
        """Of the classes that this plan asks."""
        return tuple(one.name for one in self._classes)

    def class_name_of(self, number: int) -> str:
        """The class of request `number`, without building it."""
        return self._class_of(number // self._turns).name

    def digest(self, count: int) -> str:
        """SHA-256 over the first `count` bodies: equal for equal workloads."""
        hashed = hashlib.sha256()
        for index in range(count):
            hashed.update(self.build(index).body)
        return hashed.hexdigest()

    def _body(self, messages: tuple[Message, ...], text: str, max_tokens: int) -> bytes:
        plan = self._plan
        stream = plan.stream and self._dialect.STREAMS
        ask = Ask(
            model=plan.model,
            messages=messages,
            text=text,
            max_tokens=max_tokens,
            stream=stream,
            ignore_eos=plan.ignore_eos,
        )
        return self._dialect.body([ask])

    def _class_of(self, session: int) -> ClassPlan:
        if len(self._classes) == 1:
            return self._classes[0]
        drawn = Dice(self._content, "order", session).share()
        return self._classes[min(bisect_right(self._shares, drawn), len(self._classes) - 1)]

    def _turn(self, session: int, turn: int, length_class: ClassPlan) -> tuple[Turn, Dice]:
        """The new message of one turn, and its dice for what follows from it."""
        dice, task = Dice(self._content, "prompts", session * self._turns + turn), self._task
        prompt_tokens, output_tokens = lengths.draw(length_class, dice)
        output_tokens = max(output_tokens, task.least_output_tokens)
        marker = b"" if turn else self._marker(session)
        asked = task.ask(dice, prompt_tokens - len(marker), output_tokens)
        room = max(prompt_tokens - asked.words, UNIQUE_WORDS if marker and asked.words else 1)
        numbers = self._shared(prompt_tokens, room - len(marker)) + marker[:room] if marker else b""
        numbers += dice.numbers(room - len(numbers))
        text = _words(numbers) + (f"\n{asked.text}" if asked.text else "")
        return Turn(text, room + asked.words, output_tokens, asked.expected), dice

    def _marker(self, session: int) -> bytes:
        """Word numbers that begin no other conversation of this seed, and no prompt of eight words or more of another
        seed: prefix caches would flatter a repeated beginning."""
        seed = self._plan.seed * _SPREAD % _NUMBERS
        return ((session * _SPREAD + seed) % _NUMBERS).to_bytes(4, "big") + seed.to_bytes(4, "big")

    def _shared(self, prompt_tokens: int, at_most: int) -> bytes:
        """The beginning that the plan declares as common to all; the marker after it has its room first."""
        count = min(round(self._plan.shared_prefix_share * prompt_tokens), at_most)
        if count <= 0:
            return b""
        if count > len(self._common):
            self._common = Dice(self._content, "shared", 0).numbers(2 * count)
        return self._common[:count]


def _words(numbers: bytes) -> str:
    """As text, a blank before each word: so the first is one token as well, as those after it are."""
    return "".join([_TABLE[number] for number in numbers])
