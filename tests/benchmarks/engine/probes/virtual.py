"""A storm in virtual time: the simulator's own engine, retry clients, and the evidence that a cell would have left.

Nothing sleeps, so a minute of load takes a moment. Arrivals, retry policy and judge are the product's; only the socket
between them is left out.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from benchmarks.engine.column_types import Columns
from benchmarks.engine.columns import from_frames
from benchmarks.engine.load import Poisson
from benchmarks.engine.probe_plan import Overload, RetryStorm
from benchmarks.engine.retrying import Retries
from benchmarks.engine.schedule import offsets_ns
from benchmarks.engine.terms import End, Outcome, Phase, RequestRecord, TokenSource, Window
from benchmarks.simulator.model import Admission, Engine
from benchmarks.simulator.profiles import DEMO, Profile
from tests.benchmarks.engine.plans import a_header, a_plan

NS = 1_000_000_000
PROMPT, OUTPUT = 8, 16
ANSWERED_NO_S = 0.002


@dataclass
class Under:
    """One attempt under way."""

    index: int
    role: str
    attempt: int
    first_s: float
    due_s: float
    first_token_s: float | None = None


@dataclass
class Server:
    """How it says no, beside what its engine does. `breaks` is the share of accepted requests that end as a 500."""

    queue_cap: int | None = 16
    retry_after_s: float | None = 1.0
    status: int = 503
    says_no_after_s: float = ANSWERED_NO_S
    breaks: float = 0.0
    profile: Profile = DEMO


@dataclass
class World:
    server: Server
    seed: int = 1
    client_timeout_s: float = 600.0
    records: list[RequestRecord] = field(default_factory=list)
    now_s: float = 0.0

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)
        self._engine = Engine(
            self.server.profile, queue_cap=self.server.queue_cap, kv_tokens=10**6, dice=random.Random(self.seed)
        )
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._under: dict[int, Under] = {}
        self._clients: Retries | None = None
        self._count = self._key = 0

    def storm(
        self, probe: Overload | RetryStorm, clients: Retries, roles: tuple[str, str, str], capacity: float
    ) -> None:
        """The three spans, and then until nobody is left."""
        self._clients = clients
        light, began_s = probe.calm_share * capacity, self.now_s
        spans = (
            (light, probe.calm_s), (probe.times_capacity * capacity, probe.storm_s), (light, probe.recovery_s),
        )  # fmt: skip
        for number, (role, (rate, lasts_s)) in enumerate(zip(roles, spans, strict=True)):
            for offset_ns in offsets_ns(Poisson(rate), lasts_s, self.seed + number).tolist():
                self._at(
                    began_s + offset_ns / NS, lambda due_s=began_s + offset_ns / NS, role=role: self._due(due_s, role)
                )
            began_s += lasts_s
        self._run()

    def columns(self, probe: Overload | RetryStorm) -> Columns:
        plan = a_plan(probe=probe, window_s=self.now_s + 1)
        frames = [
            a_header(plan), *self.records, Window(start_ns=0, end_ns=round((self.now_s + 1) * NS)),
            End(t_ns=round((self.now_s + 1) * NS), complete=True, reason="window completed", sent=self._count),
        ]  # fmt: skip
        return from_frames(frames)

    def _at(self, t_s: float, do: Callable[[], None]) -> None:
        self._key += 1
        heapq.heappush(self._events, (t_s, self._key, do))

    def _run(self) -> None:
        while self._events or self._under:
            step_s = self._engine.next_event_s
            if self._events and (step_s is None or self._events[0][0] < step_s):
                self.now_s, _, do = heapq.heappop(self._events)
                do()
                continue
            assert step_s is not None
            self.now_s = step_s
            for token in self._engine.advance(step_s):
                self._token(token.key, token.last)

    def _due(self, due_s: float, role: str) -> None:
        assert self._clients is not None
        self._clients.scheduled()
        index, self._count = self._count, self._count + 1
        self._ask(Under(index, role, 1, due_s, due_s))

    def _ask(self, one: Under) -> None:
        self._key += 1
        key = self._key
        if self._dice.random() < self.server.breaks:
            self._at(self.now_s + ANSWERED_NO_S, lambda: self._ended(one, Outcome.SERVER_ERROR, 500))
        elif self._engine.submit(key, PROMPT, OUTPUT, now_s=self.now_s) is Admission.ACCEPTED:
            self._under[key] = one
            self._at(self.now_s + self.client_timeout_s, lambda: self._given_up(key))
        else:
            no_s = self.now_s + self.server.says_no_after_s
            self._at(no_s, lambda: self._ended(one, Outcome.REJECTED, self.server.status))

    def _token(self, key: int, last: bool) -> None:
        one = self._under.get(key)
        if one is None:
            return
        one.first_token_s = one.first_token_s or self.now_s
        if last:
            del self._under[key]
            self._ended(one, Outcome.OK, 200)

    def _given_up(self, key: int) -> None:
        one = self._under.get(key)
        if one is not None and one.first_token_s is None:
            del self._under[key]
            self._engine.cancel(key)
            self._ended(one, Outcome.FIRST_BYTE_TIMEOUT, None)

    def _ended(self, one: Under, outcome: Outcome, status: int | None) -> None:
        assert self._clients is not None
        told_s = self.server.retry_after_s if outcome is Outcome.REJECTED else None
        self.records.append(self._record(one, outcome, status, told_s))
        after_s = self._clients.next_s(one.index, one.attempt, outcome, told_s, age_s=self.now_s - one.first_s)
        if after_s is not None:
            again = Under(one.index, one.role, one.attempt + 1, one.first_s, self.now_s + after_s)
            self._at(again.due_s, lambda: self._ask(again))

    def _record(self, one: Under, outcome: Outcome, status: int | None, told_s: float | None) -> RequestRecord:
        good, closed_ns = outcome is Outcome.OK, round(self.now_s * NS)
        first_ns = None if one.first_token_s is None else round(one.first_token_s * NS)
        return RequestRecord(
            index=one.index, class_name="short", phase=Phase.WINDOW, slot=0, attempt=one.attempt, outcome=outcome,
            t_scheduled_ns=round(one.due_s * NS), t_sent_ns=round(one.due_s * NS),
            t_headers_ns=closed_ns if status not in (None, 200) else first_ns, t_first_ns=first_ns, t_answer_ns=first_ns,
            t_last_ns=closed_ns if good else None, t_end_ns=closed_ns if good else None, t_closed_ns=closed_ns,
            http_status=status, finish_reason="length" if good else None, retry_after_s=told_s,
            intended_prompt_tokens=PROMPT, asked_output_tokens=OUTPUT, output_tokens=OUTPUT if good else None,
            token_source=TokenSource.SERVER if good else TokenSource.UNKNOWN, role=one.role,
        )  # fmt: skip


def capacity_of(profile: Profile = DEMO) -> float:
    """Requests per second of a full engine, over a minute or so."""
    steady = msgspec.structs.replace(profile, step_sigma=0.0)
    engine = Engine(steady, kv_tokens=10**6, dice=random.Random(0))
    for key in range(1600):
        assert engine.submit(key, PROMPT, OUTPUT, now_s=0.0) is Admission.ACCEPTED
    end_s = 0.0
    while (due_s := engine.next_event_s) is not None:
        engine.advance(due_s)
        end_s = due_s
    return 1600 / end_s
