"""What a running cell takes down: records on their way to the log, readings, the newest outcomes for guard and page."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable

from benchmarks.engine import guard, health
from benchmarks.engine.exchange import Exchange
from benchmarks.engine.log import LogWriter
from benchmarks.engine.periods import silent_after_s
from benchmarks.engine.plan import CellPlan
from benchmarks.engine.progress import Progress, Stage
from benchmarks.engine.samples import number_of, sample_of, sampled, uncounted_of
from benchmarks.engine.supply import Supply
from benchmarks.engine.terms import NotReported, Outcome, Phase, Reading, RequestRecord

NS = 1_000_000_000
Readings = Callable[[], Iterable[Reading | NotReported]]


class Recorder:
    """`finished` counts items whose exchange has ended, written or not yet."""

    def __init__(self, plan: CellPlan, writer: LogWriter, take_readings: Readings) -> None:
        self.monitor = health.Monitor()
        self.finished = 0
        self._plan = plan
        self._writer = writer
        self._take_readings = take_readings
        self._latest = guard.Latest(values={})
        self._silent_after_ns = round(silent_after_s(plan) * NS)
        self._recent: deque[guard.Seen] = deque(maxlen=plan.guard.error_share_over)
        self._limits = {c.name: c.limits for c in plan.classes}
        self._unwritten: deque[tuple[Exchange, int]] = deque()
        self._ok = 0
        self._sampled = sampled(plan)
        self._counts_itself = bool(plan.tokenizer_sha256)
        self._turns = plan.sessions.turns if plan.sessions else 1

    def take(self, exchange: Exchange, slot_wait_ns: int) -> None:
        """Its record is written soon. One at a time, though several would cost less: the loop looks at its sockets in
        between, so that what arrives meanwhile is stamped in time."""
        self.finished += len(exchange.items)
        self._unwritten.append((exchange, slot_wait_ns))
        if len(self._unwritten) == 1:
            asyncio.get_running_loop().call_soon(self._write_next)

    def write_all(self) -> None:
        while self._unwritten:
            self._write_one()

    async def to_disk(self) -> None:
        """Everything so far is on the disk. The waiting for it is a thread's, not the loop's."""
        self.write_all()
        self._writer.hand_over()
        await asyncio.to_thread(self._writer.settle)

    def catch_up(self) -> None:
        """To the log, what has ended and what was read since."""
        self.write_all()
        readings = []
        for found in self._take_readings():
            self._writer.append(found)
            if isinstance(found, Reading):
                readings.append(found)
        if readings:
            self._latest = guard.latest(readings, self._latest)
        self._writer.hand_over()

    def stop_reason(self) -> str | None:
        """What the guard says to it."""
        limits, now = self._plan.guard, self._latest
        return guard.stop_reason(limits, now, list(self._recent), self._limits) or guard.silence_reason(
            limits, now, at_ns=time.monotonic_ns(), after_ns=self._silent_after_ns
        )

    def progress(self, stage: Stage, *, elapsed_s: float, supply: Supply, in_flight: int, reason: str) -> Progress:
        times = sorted(s.e2e_s for s in self._recent if s.outcome is Outcome.OK and s.e2e_s is not None)
        return Progress(
            phase=stage,
            elapsed_s=elapsed_s,
            sent=supply.sent,
            attempts=supply.attempts,
            tokens=supply.asked_tokens,
            finished=self.finished,
            ok=self._ok,
            in_flight=in_flight,
            p50_e2e_s=times[(len(times) - 1) // 2] if times else None,
            p95_e2e_s=guard.recent_p95(self._recent, lambda seen: seen.e2e_s),
            p95_ttft_s=guard.recent_p95(self._recent, lambda seen: seen.ttft_s),
            running=self._latest.values.get(("runtime_running", "")),
            waiting=self._latest.values.get(("runtime_waiting", "")),
            readings={name: max(self._latest.of(name).values()) for name, _ in self._latest.values},
            reason=reason,
        )

    def _write_next(self) -> None:
        if self._unwritten:
            self._write_one()
        if self._unwritten:
            asyncio.get_running_loop().call_soon(self._write_next)

    def _write_one(self) -> None:
        exchange, slot_wait_ns = self._unwritten.popleft()
        for place, record in enumerate(exchange.records()):
            self._writer.append(record)
            self._note(record, exchange, slot_wait_ns)
            if number_of(record, self._turns) in self._sampled:
                self._keep(exchange, place, record)
            if self._counts_itself and (text := uncounted_of(exchange, place, record)) is not None:
                self._writer.append(text)

    def _keep(self, exchange: Exchange, place: int, record: RequestRecord) -> None:
        if (sample := sample_of(exchange, place, record)) is not None:
            self._writer.append(sample)

    def _note(self, record: RequestRecord, exchange: Exchange, slot_wait_ns: int) -> None:
        self._ok += record.outcome is Outcome.OK
        if record.phase is Phase.WINDOW and record.t_sent_ns is not None:
            self.monitor.sent(exchange, record, slot_wait_ns)
        since_ns = record.t_scheduled_ns
        warm = record.phase is Phase.WARMUP  # errors count from the start, times only once the runtime is warm
        self._recent.append(
            guard.Seen(
                class_name=record.class_name,
                outcome=record.outcome,
                e2e_s=None if warm or record.t_end_ns is None else (record.t_end_ns - since_ns) / NS,
                ttft_s=None if warm or record.t_first_ns is None else (record.t_first_ns - since_ns) / NS,
            )
        )
