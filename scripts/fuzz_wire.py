"""The wire's part of `make fuzz`: HTTP answers over a socket pair into the engine's own slot, and what must hold."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import socket
import ssl
import time
import traceback
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import httpx
import msgspec

from benchmarks.engine import plan as plans
from benchmarks.engine.columns import from_frames
from benchmarks.engine.connection import Connection
from benchmarks.engine.dialects.table import DIALECTS
from benchmarks.engine.exchange import Due
from benchmarks.engine.log import SCHEMA_VERSION
from benchmarks.engine.plan import CellPlan, ClassPlan, Fixed
from benchmarks.engine.prompts import Prepared, Workload
from benchmarks.engine.summary import summarise
from benchmarks.engine.tasks import TASKS
from benchmarks.engine.terms import Frame, Header, Outcome, Phase, RequestRecord, Window
from benchmarks.engine.transport import OneConnection
from benchmarks.engine.wire import Slot, Target
from scripts.fuzz_answers import EVERY, End, Seeds, Served, cut, served

LONG_S, SHORT_S = 20.0, 0.1
NEXT_S = 0.02  # how long a server waits for a second request
PATIENCE_S = 30.0  # beyond every limit: a request that ends later hangs
MOST_COUNT = 2**53
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
TIMEOUTS = {Outcome.FIRST_BYTE_TIMEOUT, Outcome.IDLE_TIMEOUT, Outcome.TOTAL_TIMEOUT}


class BrokenError(Exception):
    """A claim that one case broke."""


@dataclass(frozen=True)
class Case:
    """One slot's life: what the server says to each request, cut in one way and, where that must not matter, in another.
    An eager server speaks before it is asked."""

    dialect: str
    task: str
    items: int
    answers: tuple[Served, ...]
    recut: Served | None
    eager: bool = False

    @classmethod
    def draw(cls, rng: random.Random, seeds: Seeds) -> Case:
        dialect = rng.choice(sorted(DIALECTS))
        first = served(rng, seeds[dialect if rng.random() < 0.8 else EVERY])
        eager = rng.random() < 0.05
        alone = first.end is not End.SILENCE and not eager and rng.random() < 0.7
        return cls(
            dialect=dialect,
            task=rng.choice(sorted(TASKS)),
            items=rng.randint(1, 3) if DIALECTS[dialect].LISTS else 1,
            answers=(first,) if alone else (first, served(rng, seeds[dialect])),
            recut=Served(cut(rng, first.data), first.end) if alone else None,
            eager=eager,
        )

    @property
    def limits_s(self) -> float:
        return SHORT_S if any(answer.end is End.SILENCE for answer in self.answers) else LONG_S

    def as_bytes(self) -> bytes:
        return msgspec.json.encode(
            (
                self.dialect,
                self.task,
                self.items,
                [(a.end, a.pieces) for a in (*self.answers, *([self.recut] if self.recut else ()))],
            )
        )


class Paired(OneConnection):
    """Connects to a server at the other end of a socket pair, that plays one answer after the other."""

    def __init__(self, answers: Sequence[Served], *, eager: bool) -> None:
        super().__init__(NO_TLS)
        self._eager = eager
        self._answers = list(answers)
        self._servers: list[asyncio.Task[None]] = []

    async def _reached(self, url: httpx.URL) -> Connection:  # noqa: ARG002
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(Connection, sock=ours)
        self._servers.append(loop.create_task(self._serve(theirs)))
        return connection

    async def _serve(self, sock: socket.socket) -> None:
        loop, patience_s = asyncio.get_running_loop(), PATIENCE_S
        with contextlib.suppress(OSError), sock:  # TimeoutError is one
            while self._answers:
                if not self._eager:
                    async with asyncio.timeout(patience_s):
                        if not await loop.sock_recv(sock, 16):
                            return
                answer, patience_s = self._answers.pop(0), NEXT_S
                if answer.end is not End.RESET and not self._eager:  # who closes with something unread resets
                    sock.recv(1 << 20)
                for piece in answer.pieces:
                    await loop.sock_sendall(sock, piece)
                    await asyncio.sleep(0)
                if answer.end is End.SILENCE:
                    while await loop.sock_recv(sock, 1 << 20):
                        pass
                elif answer.end is not End.NEXT:
                    return

    async def aclose(self) -> None:
        await super().aclose()
        for server in self._servers:
            server.cancel()
        await asyncio.gather(*self._servers, return_exceptions=True)


class Wire:
    """Plays cases; what reaches the loop's exception handler is kept."""

    def __init__(self, outcomes: Counter[Outcome]) -> None:
        self._outcomes = outcomes
        self._unhandled: list[str] = []
        self._played = 0
        self._targets: dict[tuple[str, str, float], Target] = {}
        self._asked: dict[tuple[str, str, int], Prepared] = {}
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: self._unhandled.append(f"{context.get('message')}: {context.get('exception')!r}")
        )

    async def broken(self, case: Case) -> str:
        """What the case broke, in words; empty where nothing."""
        try:
            records = await self._played_out(case, case.answers)
            for record in records:
                self._outcomes[record.outcome] += 1
            if case.recut is not None:
                await self._cut_differently(case, case.recut, records)
            if self._unhandled:
                words, self._unhandled = "; ".join(self._unhandled), []
                raise BrokenError(f"in the loop's exception handler: {words}")
        except Exception:  # noqa: BLE001 the person who fuzzes is told, with the case kept
            return traceback.format_exc()
        return ""

    async def _cut_differently(self, case: Case, recut: Served, records: list[RequestRecord]) -> None:
        """Twice, since a machine that stands still for a while may end one of them by a limit."""
        for last in (False, True):
            again = await self._played_out(case, (recut,))
            found, before = [without_times(r) for r in again], [without_times(r) for r in records]
            if found == before:
                return
            if last:
                raise BrokenError(f"the record depends on how the bytes were cut: {before} and {found}")
            records = await self._played_out(case, case.answers)

    async def _played_out(self, case: Case, answers: Sequence[Served]) -> list[RequestRecord]:
        target = self._target(case)
        slot = Slot(target, transport=Paired(answers, eager=case.eager))
        records: list[RequestRecord] = []
        try:
            for number in range(len(answers)):
                numbers = range(number * case.items, (number + 1) * case.items)
                items = tuple(Due(self._prepared(case, n), time.monotonic_ns(), Phase.WINDOW) for n in numbers)
                exchange = await asyncio.wait_for(slot.ask(items, b"{}"), PATIENCE_S)
                found = exchange.records()
                if len(found) != case.items or [r.outcome for r in found] != exchange.outcomes():
                    raise BrokenError("not one outcome for each item")
                records += found
        finally:
            await slot.close()
        for record in records:
            judge(record, case)
        self._played += 1
        if self._played % 20 == 0:
            summarised(target.plan, records)
        return records

    def _target(self, case: Case) -> Target:
        key = (case.dialect, case.task, case.limits_s)
        if key not in self._targets:
            self._targets[key] = Target(a_plan(case), NO_TLS)
        return self._targets[key]

    def _prepared(self, case: Case, index: int) -> Prepared:
        key = (case.dialect, case.task, index)
        if key not in self._asked:
            self._asked[key] = Workload(a_plan(case)).build(index)
        return self._asked[key]


def judge(record: RequestRecord, case: Case) -> None:
    """What must hold for the record of any answer."""
    msgspec.msgpack.encode(record)
    ok = record.outcome is Outcome.OK
    if ok == bool(record.detail) or len(record.detail) > 300:
        raise BrokenError(f"{record.outcome} with the words {record.detail!r}")
    if ok and record.t_end_ns is None:
        raise BrokenError("ok without an end")
    if ok and record.http_status != 200:
        raise BrokenError(f"ok with HTTP {record.http_status}")
    if ok and case.dialect != "openai_embeddings" and (record.valid is None or not record.finish_reason):
        raise BrokenError("ok without a verdict on the answer or a finish_reason")
    if record.outcome is Outcome.CLIENT_FAULT:
        raise BrokenError(f"a server's doing is called ours: {record.detail}")
    if record.outcome in TIMEOUTS and case.limits_s == LONG_S:
        raise BrokenError(f"{record.outcome} though nothing was silent")
    known = [record.t_scheduled_ns, record.t_sent_ns, record.t_headers_ns, record.t_first_ns, record.t_last_ns]
    stamps = [t_ns for t_ns in (*known, record.t_closed_ns) if t_ns is not None]
    if stamps != sorted(stamps) or (record.t_end_ns or 0) > (record.t_closed_ns or 0):
        raise BrokenError(f"times out of order: {stamps}")
    counts = (record.prompt_tokens, record.output_tokens, record.cached_prompt_tokens, record.first_chunk_tokens)
    if any(count is not None and not 0 <= count < MOST_COUNT for count in counts):
        raise BrokenError(f"counts that cannot be: {counts}")
    if record.retry_after_s is not None and not 0 <= record.retry_after_s < math.inf:
        raise BrokenError(f"a wait of {record.retry_after_s} s")
    if len(record.finish_reason or "") > 300:
        raise BrokenError("a finish_reason without end")
    array("I", record.gaps_us)


def without_times(record: RequestRecord) -> tuple[object, ...]:
    return (
        record.outcome, record.detail, record.http_status, record.finish_reason, record.prompt_tokens, record.output_tokens,
        record.cached_prompt_tokens, record.first_chunk_tokens, record.valid, record.resent, len(record.gaps_us),
        record.t_first_ns is None, record.t_answer_ns is None, record.t_end_ns is None, record.t_headers_ns is None,
        record.retry_after_s is None,
    )  # fmt: skip


def summarised(plan: CellPlan, records: Sequence[RequestRecord]) -> None:
    began_ns = records[0].t_scheduled_ns
    frames: list[Frame] = [
        Header(
            schema=SCHEMA_VERSION,
            plan_sha256=plans.sha256(plan),
            wall_ns=began_ns,
            monotonic_ns=began_ns,
            engine_version="0",
            host="",
            client_cpus="",
            simulated=True,
            plan=plan,
        ),
        Window(start_ns=began_ns, end_ns=began_ns + 1_000_000_000),
    ]
    found = summarise(from_frames([*frames, *records]), plan)
    if sum(found.outcomes.values()) != len(records):
        raise BrokenError("not every outcome is in the summary")


def a_plan(case: Case) -> CellPlan:
    return CellPlan(
        label="fuzz",
        base_url="http://127.0.0.1:9",
        dialect=case.dialect,
        task=case.task,
        model="tiny",
        runtime_kind="simulated",
        offered_concurrency=1,
        class_name="short",
        classes=(ClassPlan(name="short", weight=1.0, prompt_tokens=Fixed(8), output_tokens=Fixed(4)),),
        seed=1,
        warmup_s=0.0,
        window_s=1.0,
        max_requests=10,
        max_tokens=1000,
        max_wall_s=20.0,
        connect_timeout_s=5.0,
        first_byte_timeout_s=case.limits_s,
        idle_timeout_s=case.limits_s,
        total_timeout_s=2 * case.limits_s,
        simulated=True,
    )
