"""Continuous batching as a discrete-event state machine. No clock and no dice of its own: both are arguments.

Each step advances every running sequence by one token and prefills waiting prompts with what is left of the step's
token budget, so a long prompt lengthens the steps of everybody: head-of-line blocking. Times are seconds on any
clock that never goes back.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from benchmarks.simulator.profiles import Profile


class Admission(StrEnum):
    ACCEPTED = "accepted"
    QUEUE_FULL = "queue_full"
    TOO_LONG = "too_long"


class Token(msgspec.Struct, frozen=True):
    """Sequence `key` got its output token number `index` (from 0) at the end of a step."""

    key: int
    index: int
    at_s: float
    last: bool


class Counters(msgspec.Struct):
    """Totals since the start; the only way is up."""

    prompt_tokens: int = 0
    generation_tokens: int = 0
    preemptions: int = 0
    rejections: int = 0
    cancellations: int = 0
    finished: int = 0
    prefix_query_tokens: int = 0
    prefix_hit_tokens: int = 0


class Order(msgspec.Struct, frozen=True):
    """One sequence to be worked on. `cached_tokens` of its prompt need no prefill. `pooled`: an embedding, done with its
    prefill; its one token is the vector."""

    key: int
    prompt_tokens: int
    output_tokens: int = 1
    cached_tokens: int = 0
    pooled: bool = False


class _Sequence(msgspec.Struct, eq=False):
    key: int
    prompt_tokens: int
    output_tokens: int
    pooled: bool
    to_prefill: int
    generated: int = 0
    cancelled: bool = False

    @property
    def held_tokens(self) -> int:
        return self.prompt_tokens + self.generated


class _Step(msgspec.Struct, frozen=True):
    end_s: float
    decoding: tuple[_Sequence, ...]
    prefilled: tuple[_Sequence, ...]


class Engine:
    """Waiting queue, running set, KV budget and the step now in progress."""

    def __init__(
        self,
        profile: Profile,
        *,
        active_sequences: int | None = None,
        queue_cap: int | None = None,
        kv_tokens: int | None = None,
        dice: random.Random,
    ) -> None:
        """`queue_cap` bounds waiting sequences only; None lets them wait without limit."""
        self.profile = profile
        self.active_sequences = active_sequences or profile.active_sequences
        self.queue_cap = queue_cap
        self.kv_tokens = kv_tokens or profile.kv_tokens
        self.counters = Counters()
        self._dice = dice
        self._waiting: deque[_Sequence] = deque()
        self._running: list[_Sequence] = []
        self._step: _Step | None = None

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def kv_used_tokens(self) -> int:
        return sum(sequence.held_tokens for sequence in self._running)

    @property
    def next_event_s(self) -> float | None:
        """End of the step in progress; None while idle."""
        return self._step.end_s if self._step else None

    @property
    def longest_tokens(self) -> int:
        """Most tokens, prompt and output together, that one sequence may have."""
        return min(self.profile.context_tokens, self.kv_tokens)

    def submit(self, key: int, prompt_tokens: int, output_tokens: int, *, now_s: float) -> Admission:
        """Join the queue. Call `advance(now_s)` first, so that nothing due is left behind."""
        return self.submit_together([Order(key, prompt_tokens, output_tokens)], now_s=now_s)

    def submit_together(self, orders: Sequence[Order], *, now_s: float) -> Admission:
        """The items of one request join the queue, all of them or none."""
        if any(order.prompt_tokens + order.output_tokens > self.longest_tokens for order in orders):
            return Admission.TOO_LONG
        room = self.active_sequences + self.queue_cap if self.queue_cap is not None else None
        if room is not None and self.running + self.waiting + len(orders) > room:
            self.counters.rejections += 1
            return Admission.QUEUE_FULL
        for order in orders:
            to_prefill = max(order.prompt_tokens - order.cached_tokens, 1)
            one = _Sequence(order.key, order.prompt_tokens, order.output_tokens, order.pooled, to_prefill)
            self._waiting.append(one)
            self.counters.prefix_query_tokens += order.prompt_tokens
            self.counters.prefix_hit_tokens += order.cached_tokens
        if self._step is None:
            self._begin_step(now_s)
        return Admission.ACCEPTED

    def cancel(self, key: int) -> bool:
        """A waiting sequence goes at once, a running one when the step in progress ends. False: not known any more."""
        for sequence in self._waiting:
            if sequence.key == key:
                self._waiting.remove(sequence)
                self.counters.cancellations += 1
                return True
        for sequence in self._running:
            if sequence.key == key and not sequence.cancelled:
                sequence.cancelled = True
                self.counters.cancellations += 1
                return True
        return False

    def advance(self, now_s: float) -> list[Token]:
        """Every token due by `now_s`. Steps follow each other without gaps, however late this is called."""
        tokens: list[Token] = []
        while self._step is not None and self._step.end_s <= now_s:
            step = self._step
            tokens += self._finish_step(step)
            self._begin_step(step.end_s)
        return tokens

    def _finish_step(self, step: _Step) -> list[Token]:
        tokens = []
        for sequence in (*step.decoding, *(one for one in step.prefilled if one.to_prefill == 0)):
            if sequence.cancelled:
                continue
            sequence.generated += 1
            self.counters.generation_tokens += 1
            if sequence.generated == 1:  # counted with the first output, so a recomputed prompt counts once
                self.counters.prompt_tokens += sequence.prompt_tokens
            last = sequence.generated >= sequence.output_tokens
            tokens.append(Token(sequence.key, sequence.generated - 1, step.end_s, last))
        left = [one for one in self._running if not one.cancelled]
        self._running = [one for one in left if one.generated < one.output_tokens]
        self.counters.finished += len(left) - len(self._running)
        return tokens

    def _begin_step(self, start_s: float) -> None:
        self._make_room()
        self._admit()
        if not self._running:
            self._step = None
            return
        decoding = tuple(one for one in self._running if one.to_prefill == 0)
        prefilled, prefill_tokens = self._prefill(self.profile.tokens_per_step - len(decoding))
        duration_s = self.profile.decode_step_s(len(decoding)) + prefill_tokens / self.profile.prefill_tokens_per_s
        pooled = sum(1 for one in prefilled if one.pooled and one.to_prefill == 0)
        if pooled:
            duration_s += self.profile.embed_base_s + pooled * self.profile.embed_item_s
        self._step = _Step(start_s + duration_s * self._spread(), decoding, prefilled)

    def _make_room(self) -> None:
        """Preempt the newest until every decoding sequence has room for one more token; it starts over later."""
        while len(self._running) > 1:
            decoding = sum(1 for one in self._running if one.to_prefill == 0)
            if self.kv_used_tokens + decoding <= self.kv_tokens:
                return
            newest = self._running.pop()
            newest.to_prefill = newest.held_tokens
            self._waiting.appendleft(newest)
            self.counters.preemptions += 1

    def _admit(self) -> None:
        used_tokens = self.kv_used_tokens
        while self._waiting and len(self._running) < self.active_sequences:
            growth = len(self._running) + 1
            wanted = self._waiting[0].held_tokens
            if used_tokens + wanted + growth > self.kv_tokens and self._running:
                return
            used_tokens += wanted
            self._running.append(self._waiting.popleft())

    def _prefill(self, budget: int) -> tuple[tuple[_Sequence, ...], int]:
        touched, spent = [], 0
        for sequence in self._running:
            share = min(sequence.to_prefill, max(budget, 1) - spent)
            if share > 0:
                sequence.to_prefill -= share
                spent += share
                touched.append(sequence)
        return tuple(touched), spent

    def _spread(self) -> float:
        """Lognormal with mean 1, so that the spread does not move the curve."""
        sigma = self.profile.step_sigma
        return self._dice.lognormvariate(-sigma * sigma / 2, sigma) if sigma else 1.0
