"""One cell, closed loop: a fixed number of requests kept in flight, warm-up handed over, then the window, then the
drain.

A request belongs to warm-up or window by the time it was issued, so load does not fall between the two. Nothing is
issued after the window; requests in flight then finish within their own limits. Every issued request leaves exactly one
record.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections import deque
from collections.abc import Callable, Iterable

from benchmarks.engine import guard, health
from benchmarks.engine.log import LogWriter
from benchmarks.engine.plan import CellPlan
from benchmarks.engine.progress import Progress, Stage
from benchmarks.engine.prompts import Prepared, Workload
from benchmarks.engine.terms import End, NotReported, Outcome, Phase, Reading, RequestRecord, Window
from benchmarks.engine.wire import Exchange, Slot, tls_context

NS = 1_000_000_000
MAX_WARMUP_S = 30.0
WARMUP_TURNS = 2  # warm-up ends once this many requests per slot have finished, and warmup_s have passed
STAGGER_S = 0.5  # starts are spread over at most this long, so that the burst is not the measurement
STAGGER_PER_SLOT_S = 0.01
MAX_RETRY_AFTER_S = 5.0
REFUSED_PAUSE_S = 0.25  # without it a refusing server would burn the request ceiling in milliseconds
TICK_S = 0.05
PROGRESS_EVERY_S = 1.0
BUILD_AHEAD_S = 0.25
# During the cell more are built at each tick, between answers rather than before a send.
TOP_UP_TO = 500
TOP_UP_S = 0.0005
PAUSE_AFTER = frozenset(
    {Outcome.REJECTED, Outcome.REFUSED, Outcome.SERVER_ERROR, Outcome.CONNECT_ERROR, Outcome.CLIENT_FAULT}
)


class Cell:
    """Runs once. `command` may be called from the event loop at any time; `take_readings` is asked at each tick."""

    def __init__(
        self,
        plan: CellPlan,
        writer: LogWriter,
        *,
        take_readings: Callable[[], Iterable[Reading | NotReported]],
        show: Callable[[Progress], None],
    ) -> None:
        self._plan = plan
        self._writer = writer
        self._take_readings = take_readings
        self._show = show
        self._workload = Workload(plan)
        self._prepared: deque[Prepared] = deque()
        self._slots: list[Slot] = []
        self._monitor = health.Monitor()
        self._latest = guard.Latest(values={})
        self._recent: deque[guard.Seen] = deque(maxlen=plan.guard.error_share_over)
        self._limits = {c.name: c.limits for c in plan.classes}
        self._stop = asyncio.Event()
        self._stage = Stage.STARTING
        self._reason = ""
        self._interrupt_as: Outcome | None = None
        self._began_s = 0.0
        self._window_start_ns: int | None = None
        self._window_end_ns: int | None = None
        self._sent = self._finished = self._ok = self._tokens = 0

    def command(self, word: str) -> None:
        """`drain`: issue no more and let answers finish. `cancel`: end the requests in flight too. Other words:
        nothing."""
        if word == "drain":
            self._end("stopped: drain was asked for")
        elif word == "cancel":
            self._end("stopped: cancel was asked for", Outcome.CANCELLED)

    async def run(self) -> End:
        """The whole cell, up to and including its last frames."""
        plan = self._plan
        tls = tls_context(plan)
        self._slots = [Slot(plan, tls) for _ in range(plan.offered_concurrency)]
        self._build_ahead(until=time.monotonic() + BUILD_AHEAD_S, at_most=plan.max_requests)
        await asyncio.gather(*(slot.open() for slot in self._slots))  # so that no request waits for its connection
        gc.collect()
        gc.freeze()
        self._began_s = time.monotonic()
        self._stage = Stage.WARMUP
        if plan.warmup_s <= 0:
            self._open_window()
        drivers = [asyncio.create_task(self._drive(slot, n)) for n, slot in enumerate(self._slots)]
        try:
            await self._conduct()
            await self._drain(drivers)
        finally:
            for driver in drivers:
                driver.cancel()  # only after a fault of our own is one still running
            await asyncio.gather(*drivers, return_exceptions=True)
            for slot in self._slots:
                await slot.close()
            gc.unfreeze()
        return self._write_end()

    def _build_ahead(self, *, until: float, at_most: int) -> None:
        """The next requests, until `at_most` are ready, the plan's ceiling is reached, or the time is up."""
        while len(self._prepared) < at_most and time.monotonic() < until:
            number = self._sent + len(self._prepared)
            if number >= self._plan.max_requests:
                return
            self._prepared.append(self._workload.build(number))

    async def _conduct(self) -> None:
        """The clock of the cell: hands warm-up over, closes the window, asks the guard, shows progress."""
        shown_s = self._began_s
        while not self._stop.is_set():
            await self._pause(self._next_tick_s())
            now_s = time.monotonic()
            self._build_ahead(until=now_s + TOP_UP_S, at_most=TOP_UP_TO)
            self._log_readings()
            reason = guard.stop_reason(self._plan.guard, self._latest, list(self._recent), self._limits)
            if reason is not None:
                self._end(f"guard: {reason}", Outcome.CANCELLED)
            elif now_s - self._began_s >= self._plan.max_wall_s:
                self._end(f"ceiling: {self._plan.max_wall_s:g} s of wall time", Outcome.UNFINISHED)
            elif self._window_end_ns is not None and now_s * NS >= self._window_end_ns:
                self._stop.set()
            elif self._stage is Stage.WARMUP and self._warmup_is_over(now_s - self._began_s):
                self._open_window()
            if now_s - shown_s >= PROGRESS_EVERY_S:
                shown_s = now_s
                self._show(self.progress())

    def _next_tick_s(self) -> float:
        """Up to the window's end if that is nearer than the next tick."""
        if self._window_end_ns is None:
            return TICK_S
        return min(TICK_S, max(0.001, self._window_end_ns / NS - time.monotonic()))

    def _warmup_is_over(self, elapsed_s: float) -> bool:
        turned = self._finished >= WARMUP_TURNS * self._plan.offered_concurrency
        enough = turned and elapsed_s >= self._plan.warmup_s
        return enough or elapsed_s >= max(MAX_WARMUP_S, self._plan.warmup_s)

    def _open_window(self) -> None:
        self._stage = Stage.WINDOW
        self._window_start_ns = time.monotonic_ns()
        self._window_end_ns = self._window_start_ns + round(self._plan.window_s * NS)
        self._monitor.start()

    def _end(self, reason: str, interrupt_as: Outcome | None = None) -> None:
        """The first reason stands; a later cancel still hurries a drain."""
        if not self._stop.is_set():
            self._reason = reason
            self._stop.set()
        if interrupt_as is not None and self._interrupt_as is None:
            self._interrupt_as = interrupt_as
            for slot in self._slots:
                slot.interrupt(interrupt_as)

    async def _drain(self, drivers: list[asyncio.Task[None]]) -> None:
        """Waits for the requests in flight, at most the plan's total limit and its wall time; the rest is
        unfinished."""
        self._stage = Stage.DRAIN
        self._monitor.stop()
        stopped_ns = time.monotonic_ns()
        if self._window_end_ns is not None:
            self._window_end_ns = min(self._window_end_ns, stopped_ns)
        until_s = min(time.monotonic() + self._plan.total_timeout_s, self._began_s + self._plan.max_wall_s)
        waiting = set(drivers)
        while waiting:
            if time.monotonic() >= until_s and self._interrupt_as is None:
                self._interrupt_as = Outcome.UNFINISHED
                for slot in self._slots:
                    slot.interrupt(Outcome.UNFINISHED)
            patience_s = min(PROGRESS_EVERY_S, max(TICK_S, until_s - time.monotonic()))
            done, waiting = await asyncio.wait(waiting, timeout=patience_s)
            for task in done:
                task.result()
            self._log_readings()
            if waiting:
                self._show(self.progress())

    async def _drive(self, slot: Slot, number: int) -> None:
        """One slot's life: ask, record, pause where the server refused, ask again."""
        spread_s = min(STAGGER_S, STAGGER_PER_SLOT_S * self._plan.offered_concurrency)
        await self._pause(number * spread_s / self._plan.offered_concurrency)
        while not self._stop.is_set():
            prepared = self._next_request()
            if prepared is None:
                return
            t_scheduled_ns = time.monotonic_ns()
            phase = self._phase_at(t_scheduled_ns)
            exchange = await slot.ask(prepared, t_scheduled_ns)
            record = exchange.record(phase=phase, slot=number)
            self._writer.append(record)
            self._note(record, exchange)
            if record.outcome in PAUSE_AFTER:
                await self._pause(min(record.retry_after_s or REFUSED_PAUSE_S, MAX_RETRY_AFTER_S))

    def _next_request(self) -> Prepared | None:
        """The next one inside the plan's ceilings; None ends the cell with the ceiling as its reason."""
        plan = self._plan
        if self._sent >= plan.max_requests:
            self._end(f"ceiling: {plan.max_requests} requests")
            return None
        prepared = self._prepared[0] if self._prepared else self._workload.build(self._sent)
        tokens = prepared.intended_prompt_tokens + prepared.asked_output_tokens
        if self._tokens + tokens > plan.max_tokens:
            self._end(f"ceiling: {plan.max_tokens} tokens")
            return None
        if self._prepared:
            self._prepared.popleft()
        self._tokens += tokens
        self._sent += 1
        return prepared

    def _phase_at(self, t_ns: int) -> Phase:
        if self._window_start_ns is None or self._window_end_ns is None or t_ns < self._window_start_ns:
            return Phase.WARMUP
        return Phase.WINDOW if t_ns < self._window_end_ns else Phase.AFTER

    def _note(self, record: RequestRecord, exchange: Exchange) -> None:
        self._finished += 1
        self._ok += record.outcome is Outcome.OK
        since_ns = record.t_scheduled_ns
        if record.phase is Phase.WINDOW and record.t_sent_ns is not None and not exchange.fresh_connection:
            self._monitor.sent(since_ns, record.t_sent_ns)
        warm = record.phase is Phase.WARMUP  # errors count from the start, times only once the runtime is warm
        self._recent.append(
            guard.Seen(
                class_name=record.class_name,
                outcome=record.outcome,
                e2e_s=None if warm or record.t_end_ns is None else (record.t_end_ns - since_ns) / NS,
                ttft_s=None if warm or record.t_first_ns is None else (record.t_first_ns - since_ns) / NS,
            )
        )

    def _log_readings(self) -> None:
        readings = []
        for found in self._take_readings():
            self._writer.append(found)
            if isinstance(found, Reading):
                readings.append(found)
        if readings:
            self._latest = guard.latest(readings, self._latest)

    async def _pause(self, seconds: float) -> None:
        """Sleeps, but not past a stop."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    def _write_end(self) -> End:
        if self._window_start_ns is not None and self._window_end_ns is not None:
            self._writer.append(Window(start_ns=self._window_start_ns, end_ns=self._window_end_ns))
            monitor = self._monitor
            self._writer.append(
                health.verdict(
                    self._plan,
                    lags_ms=monitor.lags_ms,
                    cpu_share=monitor.cpu_share,
                    send_late_ms=monitor.send_late_ms,
                )
            )
        reason = self._reason or "window completed"
        end = End(t_ns=time.monotonic_ns(), complete=not self._reason, reason=reason, sent=self._sent)
        self._writer.append(end)
        self._stage, self._reason = Stage.ENDED, end.reason
        self._show(self.progress())
        return end

    def progress(self) -> Progress:
        times = sorted(s.e2e_s for s in self._recent if s.outcome is Outcome.OK and s.e2e_s is not None)
        return Progress(
            phase=self._stage,
            elapsed_s=round(time.monotonic() - self._began_s, 3),
            sent=self._sent,
            finished=self._finished,
            ok=self._ok,
            in_flight=self._sent - self._finished,
            p50_e2e_s=times[(len(times) - 1) // 2] if times else None,
            p95_e2e_s=guard.recent_p95(self._recent, lambda seen: seen.e2e_s),
            p95_ttft_s=guard.recent_p95(self._recent, lambda seen: seen.ttft_s),
            running=self._latest.values.get(("runtime_running", "")),
            waiting=self._latest.values.get(("runtime_waiting", "")),
            readings={name: max(self._latest.of(name).values()) for name, _ in self._latest.values},
            reason=self._reason,
        )
