"""One cell: its clock, its guard, its records. How requests are offered is the driver's: warm-up handed over, then the
window, then the drain.

A request belongs to warm-up or window by the time it was due, so load does not fall between the two. Nothing is issued
after the window; requests in flight then finish within their own limits. Every issued request leaves exactly one record
per attempt.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence

from benchmarks.engine import guard, health
from benchmarks.engine.exchange import Due, Exchange
from benchmarks.engine.load import MicroBatch, OpenLoop
from benchmarks.engine.log import LogWriter
from benchmarks.engine.plan import CellPlan
from benchmarks.engine.progress import Progress, Stage
from benchmarks.engine.prompts import Prepared
from benchmarks.engine.recorder import Readings, Recorder
from benchmarks.engine.supply import Shard, Supply
from benchmarks.engine.terms import BatchRecord, End, Outcome, Phase
from benchmarks.engine.windows import due_inside, window_between
from benchmarks.engine.wire import Slot, Target

NS = 1_000_000_000
MAX_WARMUP_S = 30.0
WARMUP_TURNS = 2  # warm-up ends once this many requests per slot have finished, and warmup_s have passed
TICK_S = 0.1
PROGRESS_EVERY_S = 1.0
DRAIN_AT_MOST_S = 55.0  # below the worker's own patience, after which it ends this process and the log has no end
BUILD_AHEAD_S = 0.15
# Many are built at each tick of the warm-up, so that the window builds few, one at a time, between answers.
WARMUP_BUILD_S = 0.01
BUILT_AHEAD = 20_000
BUILT_AT_LEAST = 64
FAR_NS = 2**62
# Answers make no cycles of their own: looking for some, as often as Python would, takes a tenth of a fast stream's time.
GARBAGE_EVERY = 200_000
WINDOW_COMPLETED = "window completed"


class Cell:
    """Runs once. `command` may be called from the event loop at any time; `take_readings` is asked at each tick."""

    def __init__(
        self,
        plan: CellPlan,
        writer: LogWriter,
        *,
        take_readings: Readings,
        show: Callable[[Progress], None],
        shard: Shard | None = None,
        told_when: bool = False,
    ) -> None:
        """`told_when`: this is one process of several, and its parent says when the window begins."""
        self.plan = plan
        self.shard = shard or Shard()
        self.arrival_seed = plan.arrival_seed or plan.seed
        self.began_ns = 0
        self.stopped_ns = FAR_NS  # what is due before it is still to be asked, or to be told as never sent
        self.interrupted: Outcome | None = None
        self._told_when = told_when
        self._writer = writer
        self._recorder = Recorder(plan, writer, take_readings)
        self._show = show
        self.supply = Supply(plan, self.shard)
        self._target = Target(plan)
        self._slots: list[Slot] = []
        self._begin: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self._on_stop: list[Callable[[], None]] = []
        self._stage = Stage.STARTING
        self._reason = ""
        self._began_s = 0.0
        self._window_start_ns: int | None = None
        self._window_end_ns: int | None = None
        self._due_ns: list[int] | None = None
        self._drained = False

    # For people and parents.

    def command(self, words: str) -> None:
        """`drain`: issue no more and let answers finish. `cancel`: end the requests in flight too. `begin T` and `window
        T`: the first request, and the window, at T on the monotonic clock. Other words: nothing."""
        word, _, value = words.partition(" ")
        if word == "drain":
            self._drained = True
            self.end("stopped: drain was asked for")
        elif word == "cancel":
            self.end("stopped: cancel was asked for", Outcome.CANCELLED)
        elif word == "begin" and value.isdecimal() and not self._begin.done():
            self._begin.set_result(int(value))
        elif word == "window" and value.isdecimal() and self._window_start_ns is None:
            self._open_window(int(value))

    async def run(self, drive: Callable[[Cell], Awaitable[None]]) -> End:
        """The whole cell, up to and including its last frames."""
        driver = asyncio.ensure_future(drive(self))
        try:
            await self._conduct(driver)
            await self._drain(driver)
        finally:
            driver.cancel()  # only after a fault of our own is it still running
            await asyncio.gather(driver, return_exceptions=True)
            self._recorder.write_all()
            await asyncio.gather(*(slot.close() for slot in self._slots))
            gc.unfreeze()
        return self._write_end()

    # For drivers.

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    @property
    def may_send(self) -> bool:
        """Whether what was due before the stop may still go out: not once a person wants the end."""
        return not self._drained and self.interrupted is None

    @property
    def target(self) -> Target:
        return self._target

    @property
    def window_end_ns(self) -> int:
        """The far future while nobody knows it."""
        return FAR_NS if self._window_end_ns is None else self._window_end_ns

    @property
    def horizon_s(self) -> float:
        """From the beginning to the window's end, where the window begins at a time known from the start."""
        return self.plan.warmup_s + self.plan.window_s

    def new_slot(self) -> Slot:
        self._slots.append(Slot(self._target, len(self._slots) * self.shard.of + self.shard.number))
        return self._slots[-1]

    async def begin(self, *, window_from_s: float | None = None) -> None:
        """The first request is about to be sent. `window_from_s`: warm-up lasts exactly so long. After a stop nothing
        begins any more."""
        gc.freeze()  # what stands now is never looked through again
        gc.set_threshold(GARBAGE_EVERY)
        self.began_ns = await self._told_to_begin() if self._told_when else time.monotonic_ns()
        if self.stopping:
            return
        self._began_s = self.began_ns / NS
        self._stage = Stage.WARMUP
        if window_from_s is not None:
            self._set_window(self.began_ns + round(window_from_s * NS))
        elif self.plan.warmup_s <= 0:
            self._open_window(self.began_ns)

    async def _told_to_begin(self) -> int:
        self._stage = Stage.READY
        self._show(self.progress())
        begin_ns = await self._begin
        while time.monotonic_ns() < begin_ns and not self.stopping:  # a loop's timer may ring half a millisecond early
            await self.pause((begin_ns - time.monotonic_ns()) / NS)
        return begin_ns

    async def begin_whole(self, began_ns: int | None) -> None:
        """A known set of items: the window is from its first request, in this run or an earlier one, to its last."""
        await self.begin(window_from_s=0.0)
        if self.stopping:
            return
        self._window_start_ns = self.began_ns if began_ns is None else began_ns
        self._window_end_ns = FAR_NS

    def build_ahead(self, *, at_most: int) -> None:
        self.supply.build_ahead(until_s=time.monotonic() + BUILD_AHEAD_S, at_most=at_most)

    def take(self, after: Prepared | None = None) -> Prepared | None:
        """The next request inside the plan's ceilings; None ends the cell with the ceiling as its reason."""
        prepared = self.supply.take(after)
        if prepared is None:
            self.end(self.supply.ended)
        return prepared

    def items(self, indexes: Sequence[int]) -> list[Prepared] | None:
        """Items of a known set; None ends the cell with the ceiling as its reason."""
        found = self.supply.items(indexes)
        if found is None:
            self.end(self.supply.ended)
        return found

    def whole_is_over(self) -> None:
        """The last of a known set has ended: the window ends here."""
        self._cut_window(time.monotonic_ns())

    async def settle(self, asked: int) -> None:
        """What has ended is on the disk before anything else is asked; `asked` items have a record."""
        await self._recorder.to_disk()
        self.supply.sent = asked

    def spent(self, *, requests: int, tokens: int) -> None:
        """Of the plan's ceilings, what earlier runs of a known set took, or a list beyond what its items asked."""
        self.supply.spent(requests, tokens)

    def has_next_turn(self, after: Prepared) -> bool:
        return self.supply.has_next_turn(after)

    def phase_at(self, t_ns: int) -> Phase:
        if self._window_start_ns is None or self._window_end_ns is None or t_ns < self._window_start_ns:
            return Phase.WARMUP
        return Phase.WINDOW if t_ns < self._window_end_ns else Phase.AFTER

    def due_at(self, offsets_ns: Sequence[int]) -> deque[int]:
        """Arrivals on the clock, once the cell has begun; how many of them the window holds is told at the end."""
        self._due_ns = [self.began_ns + offset for offset in offsets_ns]
        return deque(self._due_ns)

    def finished(self, exchange: Exchange, *, slot_wait_ns: int = 0) -> None:
        """`slot_wait_ns`: how long it was due and no slot was free."""
        self._recorder.take(exchange, slot_wait_ns)

    def never_sent(self, due: Due) -> None:
        """It was due, and the run ended before a slot was free for it."""
        exchange = Exchange((due,), self._target.dialect, self._target.limits)
        exchange.expire(self.interrupted or Outcome.UNFINISHED)
        exchange.close()
        self.finished(exchange)

    def note_batch(self, batch: BatchRecord) -> None:
        self._writer.append(batch)

    def on_stop(self, call: Callable[[], None]) -> None:
        self._on_stop.append(call)

    async def pause(self, seconds: float) -> None:
        """Sleeps, but not past a stop."""
        if seconds > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), seconds)

    async def all_of(self, work: Iterable[Awaitable[None]]) -> None:
        """Runs them beside each other; the first fault ends them all."""
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(_awaited(one))

    def end(self, reason: str, interrupt_as: Outcome | None = None) -> None:
        """The first reason stands; a later cancel still hurries a drain."""
        if not self._stop.is_set():
            self._reason = reason
            self._halt(time.monotonic_ns())
        if interrupt_as is not None and self.interrupted is None:
            self.interrupted = interrupt_as
            for slot in self._slots:
                slot.interrupt(interrupt_as)

    # The clock.

    async def _conduct(self, driver: asyncio.Future[None]) -> None:
        """Hands warm-up over, closes the window, asks the guard, shows progress."""
        shown_s = time.monotonic()
        while not self._stop.is_set() and not driver.done():
            await self.pause(self._next_tick_s())
            now_s = time.monotonic()
            self._top_up(now_s)
            self._recorder.catch_up()
            self._look(now_s)
            if now_s - shown_s >= PROGRESS_EVERY_S:
                shown_s = now_s
                self._show(self.progress())
        if driver.done():
            driver.result()

    def _look(self, now_s: float) -> None:
        reason = self._recorder.stop_reason()
        began = self._began_s > 0
        if reason is not None:
            self._drained = self.plan.guard.on_stop == "drain" and not guard.is_lost(reason)
            self.end(f"guard: {reason}", None if self._drained else Outcome.CANCELLED)
        elif began and now_s - self._began_s >= self.plan.max_wall_s:
            self.end(f"ceiling: {self.plan.max_wall_s:g} s of wall time", Outcome.UNFINISHED)
        elif self._window_end_ns is not None and now_s * NS >= self._window_end_ns:
            self._halt(self._window_end_ns)
        elif self._stage in (Stage.WARMUP, Stage.WARM) and self._window_start_ns is not None:
            if now_s * NS >= self._window_start_ns:
                self._enter_window()
        elif self._stage is Stage.WARMUP and self._warmup_is_over(now_s - self._began_s):
            self._warm(now_s)

    def _warm(self, now_s: float) -> None:
        if self._told_when:
            self._stage = Stage.WARM  # the parent, which waits for all, is told at once
            self._show(self.progress())
        else:
            self._open_window(round(now_s * NS))

    def _halt(self, at_ns: int) -> None:
        self.stopped_ns = at_ns
        self._cut_window(at_ns)
        self._stop.set()
        if not self._begin.done():
            self._begin.set_result(at_ns)
        for call in self._on_stop:
            call()

    def _top_up(self, now_s: float) -> None:
        if self._window_start_ns is None or now_s * NS < self._window_start_ns:
            self.supply.build_ahead(until_s=now_s + WARMUP_BUILD_S, at_most=BUILT_AHEAD)
        else:
            self._build_next()

    def _build_next(self) -> None:
        """The loop looks at its sockets before the next one."""
        if self.supply.build_one(at_most=max(BUILT_AT_LEAST, 2 * len(self._slots))):
            asyncio.get_running_loop().call_soon(self._build_next)

    def _next_tick_s(self) -> float:
        """Up to the window's edge if that is nearer than the next tick."""
        now_ns = time.monotonic_ns()
        edges = [t for t in (self._window_start_ns, self._window_end_ns) if t is not None and t > now_ns]
        return min([TICK_S, *(max(0.001, (t - now_ns) / NS) for t in edges)])

    def _warmup_is_over(self, elapsed_s: float) -> bool:
        turned = self._recorder.finished >= WARMUP_TURNS * self.shard.part(self.plan.offered_concurrency)
        enough = turned and elapsed_s >= self.plan.warmup_s
        return enough or elapsed_s >= max(MAX_WARMUP_S, self.plan.warmup_s)

    def _set_window(self, start_ns: int) -> None:
        self._window_start_ns = start_ns
        self._window_end_ns = start_ns + round(self.plan.window_s * NS)

    def _cut_window(self, at_ns: int) -> None:
        self._window_end_ns = None if self._window_end_ns is None else min(self._window_end_ns, at_ns)

    def _open_window(self, start_ns: int) -> None:
        self._set_window(start_ns)
        if start_ns <= time.monotonic_ns():
            self._enter_window()

    def _enter_window(self) -> None:
        self._stage = Stage.WINDOW
        self._recorder.monitor.start()

    async def _drain(self, driver: asyncio.Future[None]) -> None:
        """Waits for the requests in flight, at most the plan's total limit and wall time; the rest is unfinished. Where a
        person or the guard wants the end, at most DRAIN_AT_MOST_S."""
        self._stage = Stage.DRAIN
        self._recorder.monitor.stop()
        self._cut_window(time.monotonic_ns())
        patience_s = min(self.plan.total_timeout_s, DRAIN_AT_MOST_S if self._drained else self.plan.total_timeout_s)
        until_s = min(time.monotonic() + patience_s, self._began_s + self.plan.max_wall_s)
        while not driver.done():
            if time.monotonic() >= until_s and self.interrupted is None:
                self.interrupted = Outcome.UNFINISHED
                for slot in self._slots:
                    slot.interrupt(Outcome.UNFINISHED)
            await asyncio.wait([driver], timeout=min(PROGRESS_EVERY_S, max(TICK_S, until_s - time.monotonic())))
            self._recorder.catch_up()
            if not driver.done():
                self._show(self.progress())
        driver.result()

    # Records.

    def _write_end(self) -> End:
        window = window_between(self._window_start_ns, self._window_end_ns)
        if window is not None:
            self._writer.append(window)
            on_time = isinstance(self.plan.load, OpenLoop | MicroBatch)
            self._writer.append(health.verdict(self.plan, self._recorder.monitor.readings(), sends_are_due=on_time))
        end = End(
            t_ns=time.monotonic_ns(), complete=not self._reason, reason=self._reason or WINDOW_COMPLETED,
            sent=self.supply.sent, planned=due_inside(self._due_ns, window),
        )  # fmt: skip
        self._writer.append(end)
        self._stage, self._reason = Stage.ENDED, end.reason
        self._show(self.progress())
        return end

    def progress(self) -> Progress:
        return self._recorder.progress(
            self._stage,
            elapsed_s=round(time.monotonic() - self._began_s, 3) if self._began_s else 0.0,
            supply=self.supply,
            in_flight=sum(slot.items for slot in self._slots),
            reason=self._reason,
        )


async def _awaited(work: Awaitable[None]) -> None:
    await work
