"""The next request to be asked, built ahead, inside the plan's ceilings.

A generator process among several takes every n-th request of the one workload, so that all of them together ask what
one would have asked.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from benchmarks.engine.plan import CellPlan, ClassPlan
from benchmarks.engine.prompts import Prepared, Workload

MOST_BUILT_BYTES = 24 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Shard:
    """Process `number` of `of`."""

    number: int = 0
    of: int = 1

    def part(self, whole: int) -> int:
        """This process's part of a count; the parts of all add up."""
        return whole // self.of + (self.number < whole % self.of)


class Supply:
    """`sent` is how many requests were taken; `ended` says why there are no more, empty while there are. `attempts` and
    `asked_tokens` are what this run took of the ceilings, retries among them."""

    def __init__(self, plan: CellPlan, shard: Shard) -> None:
        self._plan = plan
        self._shard = shard
        self._workload = Workload(plan)
        self._turns = plan.sessions.turns if plan.sessions else 1
        self._built: deque[Prepared] = deque()
        self._built_bytes = 0
        self._begun = 0
        self._max_requests = self._requests_left = shard.part(plan.max_requests)
        self._tokens_left = shard.part(plan.max_tokens)
        self.sent = 0
        self.attempts = self.asked_tokens = 0
        self.ended = ""

    def build_ahead(self, *, until_s: float, at_most: int) -> None:
        """First turns, until `at_most` are ready, the ceiling is reached, enough memory is used or the time is up."""
        while time.monotonic() < until_s and self.build_one(at_most=at_most):
            pass

    def build_one(self, *, at_most: int) -> bool:
        """Whether there was one to build."""
        most = min(at_most, self._max_requests - self.sent)
        if len(self._built) >= most or self._built_bytes >= MOST_BUILT_BYTES:
            return False
        self._built.append(self._first_turn(len(self._built)))
        self._built_bytes += len(self._built[-1].body)
        return True

    def take(self, after: Prepared | None = None) -> Prepared | None:
        """The next request: the next turn of `after`'s session where it has one, else a new session's first. None once
        a ceiling is reached."""
        if self.sent >= self._max_requests:
            self.ended = self.ended or f"ceiling: {self._plan.max_requests} requests"
            return None
        following = self.has_next_turn(after)
        prepared = self._next_turn(after) if after is not None and following else self._next_first()
        tokens = prepared.intended_prompt_tokens + prepared.asked_output_tokens
        if tokens > self._tokens_left:
            self.ended = self.ended or f"ceiling: {self._plan.max_tokens} tokens"
            return None
        if not following and self._built:
            self._built_bytes -= len(self._built.popleft().body)
        self._begun += not following
        self._tokens_left -= tokens
        self._count(1, tokens)
        index = self._number(self.sent)
        self.sent += 1
        return prepared if prepared.index == index else msgspec.structs.replace(prepared, index=index)

    def take_of(self, length_class: ClassPlan | None) -> Prepared | None:
        """The next number as a request of this class, as a probe asks for it. None once a ceiling is reached."""
        prepared = self._workload.build(self.sent, length_class)
        if not self.take_again(prepared):
            return None
        self.sent += 1
        return prepared

    def take_again(self, prepared: Prepared) -> bool:
        """Whether one more attempt at a request is inside the ceilings."""
        return self._afford([prepared])

    def has_next_turn(self, after: Prepared | None) -> bool:
        return after is not None and after.turn is not None and after.turn + 1 < self._turns

    def items(self, indexes: Sequence[int]) -> list[Prepared] | None:
        """These items of a known set, whatever was taken before; None once a ceiling is reached."""
        items = [self._workload.build(index) for index in indexes]
        return items if self._afford(items) else None

    def _afford(self, wanted: Sequence[Prepared]) -> bool:
        """Takes them off what is left, where all of them are inside the ceilings."""
        tokens = sum(one.intended_prompt_tokens + one.asked_output_tokens for one in wanted)
        if len(wanted) > self._requests_left:
            self.ended = self.ended or f"ceiling: {self._plan.max_requests} requests"
        elif tokens > self._tokens_left:
            self.ended = self.ended or f"ceiling: {self._plan.max_tokens} tokens"
        else:
            self.spent(len(wanted), tokens)
            self._count(len(wanted), tokens)
            return True
        return False

    def spent(self, requests: int, tokens: int) -> None:
        self._requests_left -= requests
        self._tokens_left -= tokens

    def _count(self, attempts: int, tokens: int) -> None:
        self.attempts += attempts
        self.asked_tokens += tokens

    def _next_first(self) -> Prepared:
        return self._built[0] if self._built else self._first_turn(0)

    def _first_turn(self, ahead: int) -> Prepared:
        return self._workload.build(self._number(self._begun + ahead) * self._turns)

    def _next_turn(self, after: Prepared) -> Prepared:
        assert after.session is not None
        assert after.turn is not None
        return self._workload.build(after.session * self._turns + after.turn + 1)

    def _number(self, count: int) -> int:
        """The count-th of this process's numbers."""
        return self._shard.number + count * self._shard.of
