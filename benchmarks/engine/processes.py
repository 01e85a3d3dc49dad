"""Several generator processes, one result: each takes its part of the load and writes a log, this one joins them.

All begin together and share one window, told in monotonic nanoseconds, which all processes of a host read alike.
Telemetry and its guard stay here. A process that ends badly ends the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from benchmarks.engine import guard
from benchmarks.engine.log import LogWriter, read_frames
from benchmarks.engine.periods import silent_after_s
from benchmarks.engine.plan import CellPlan
from benchmarks.engine.progress import Progress, Stage, parse
from benchmarks.engine.recorder import Readings
from benchmarks.engine.runner import WINDOW_COMPLETED
from benchmarks.engine.terms import ClientHealth, End, Frame, Header, Reading, Window

NS = 1_000_000_000
GUARD = "guard"
TICK_S = 0.1
PROGRESS_EVERY_S = 1.0
# From telling all processes to the moment they were told: long enough for the slowest to have read it.
NOTICE_NS = 50_000_000


class Generator:
    """One child process: its last progress, and commands to it."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process, self.log = process, log
        self.progress: Progress | None = None
        self._reading = asyncio.create_task(self._read())

    @property
    def stage(self) -> Stage:
        return self.progress.phase if self.progress else Stage.STARTING

    def tell(self, words: str) -> None:
        if self.process.stdin is not None and self.process.returncode is None:
            with contextlib.suppress(ConnectionError):
                self.process.stdin.write(words.encode() + b"\n")

    async def ended(self) -> int:
        code = await self.process.wait()
        await self._reading
        return code

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            with contextlib.suppress(msgspec.DecodeError):
                self.progress = parse(line)


class Herd:
    """Runs all processes of one cell. `command` as of a single cell."""

    def __init__(
        self, plan: CellPlan, plan_path: Path, log_path: Path, writer: LogWriter, *, take_readings: Readings,
        show: Callable[[Progress], None],
    ) -> None:  # fmt: skip
        self._plan, self._plan_path, self._log_path, self._writer = plan, plan_path, log_path, writer
        self._take_readings, self._show = take_readings, show
        self._latest = guard.Latest(values={})
        self._generators: list[Generator] = []
        self._reason = self._word = ""
        self._began = self._window = False

    def command(self, words: str) -> None:
        if words in ("drain", "cancel"):
            self._end(f"stopped: {words} was asked for", words)

    async def run(self) -> End:
        """Up to and including the joined log's last frames. Raises RuntimeError when a process ended badly."""
        self._generators = [await self._spawn(number) for number in range(self._plan.processes)]
        if self._word:  # asked for while there was nobody to tell
            self._tell(self._word)
        everyone = asyncio.gather(*(generator.ended() for generator in self._generators))
        shown_s = time.monotonic()
        while not everyone.done():
            await asyncio.wait([everyone], timeout=TICK_S)
            self._log_readings()
            self._conduct()
            if time.monotonic() - shown_s >= PROGRESS_EVERY_S:
                shown_s = time.monotonic()
                self._show(self.progress())
        bad = [f"{number} with {code}" for number, code in enumerate(everyone.result()) if code != 0]
        end = self._join()
        if bad:
            raise RuntimeError(f"generator process {', '.join(bad)} of {self._plan.processes} ended badly")
        self._writer.append(end)
        self._show(self.progress())
        return end

    async def _spawn(self, number: int) -> Generator:
        log = self._log_path.with_name(f"{self._log_path.name}.{number}")
        log.unlink(missing_ok=True)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "benchmarks.engine", str(self._plan_path), str(log),
            "--part", f"{number}/{self._plan.processes}",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        return Generator(process, log)

    def _conduct(self) -> None:
        """All are told to begin when all are ready, and of the window when all are warm."""
        stages = [generator.stage for generator in self._generators]
        soon_ns = time.monotonic_ns() + NOTICE_NS
        if not self._began and all(stage is Stage.READY for stage in stages):
            self._began = True
            self._tell(f"begin {soon_ns}")
        elif not self._window and all(stage is Stage.WARM for stage in stages):
            self._window = True
            self._tell(f"window {soon_ns}")
        reason = host_stop(self._plan, self._latest, at_ns=time.monotonic_ns())
        if reason is not None:
            self._end(f"{GUARD}: {reason}", "cancel" if guard.is_lost(reason) else self._plan.guard.on_stop)
        elif any(generator.process.returncode not in (None, 0) for generator in self._generators):
            self._end("a generator process ended badly", "cancel")
        else:
            self._follow()

    def _follow(self) -> None:
        """What ended one of them before its window, a ceiling or its guard, ends all."""
        told = (generator.progress.reason for generator in self._generators if generator.progress)
        reason = next((words for words in told if words not in ("", WINDOW_COMPLETED)), "")
        if reason and not self._reason:
            self._end(reason, self._plan.guard.on_stop if reason.startswith(GUARD) else "drain")

    def _end(self, reason: str, word: str) -> None:
        if not self._reason or word == "cancel":
            self._word = word
            self._tell(word)
        self._reason = self._reason or reason

    def _tell(self, words: str) -> None:
        for generator in self._generators:
            generator.tell(words)

    def _log_readings(self) -> None:
        readings = []
        for found in self._take_readings():
            self._writer.append(found)
            if isinstance(found, Reading):
                readings.append(found)
        if readings:
            self._latest = guard.latest(readings, self._latest)

    def _join(self) -> End:
        """The logs of all into one: what comes once per cell is made one here."""
        windows: list[Window] = []
        healths: list[ClientHealth] = []
        ends: list[End] = []
        for generator in self._generators:
            for frame in _frames(generator.log):
                if isinstance(frame, Window):
                    windows.append(frame)
                elif isinstance(frame, ClientHealth):
                    healths.append(frame)
                elif isinstance(frame, End):
                    ends.append(frame)
                elif not isinstance(frame, Header):
                    self._writer.append(frame)
            generator.log.unlink(missing_ok=True)
        if windows:
            self._writer.append(Window(start_ns=windows[0].start_ns, end_ns=min(w.end_ns for w in windows)))
        if healths:
            self._writer.append(worst(healths))
        return joined_end(ends, self._plan.processes, self._reason)

    def progress(self) -> Progress:
        """Counts are sums, times those of the slowest process."""
        known = [g.progress for g in self._generators if g.progress is not None]
        return Progress(
            phase=min((p.phase for p in known), key=list(Stage).index, default=Stage.STARTING),
            elapsed_s=max((p.elapsed_s for p in known), default=0.0),
            sent=sum(p.sent for p in known),
            attempts=sum(p.attempts for p in known),
            tokens=sum(p.tokens for p in known),
            finished=sum(p.finished for p in known),
            ok=sum(p.ok for p in known),
            in_flight=sum(p.in_flight for p in known),
            p50_e2e_s=_most([p.p50_e2e_s for p in known]),
            p95_e2e_s=_most([p.p95_e2e_s for p in known]),
            p95_ttft_s=_most([p.p95_ttft_s for p in known]),
            running=self._latest.values.get(("runtime_running", "")),
            waiting=self._latest.values.get(("runtime_waiting", "")),
            readings={name: max(self._latest.of(name).values()) for name, _ in self._latest.values},
            reason=self._reason or next((p.reason for p in known if p.reason), ""),
        )


def host_stop(plan: CellPlan, now: guard.Latest, *, at_ns: int) -> str | None:
    """What the guard says to the host's readings, and to their silence; requests are each process's own."""
    after_ns = round(silent_after_s(plan) * NS)
    return guard.stop_reason(plan.guard, now, (), {}) or guard.silence_reason(
        plan.guard, now, at_ns=at_ns, after_ns=after_ns
    )


def worst(healths: Sequence[ClientHealth]) -> ClientHealth:
    """One verdict for all processes: the worst of each figure, and whose fault it was."""
    why = [f"process {number}: {health.why}" for number, health in enumerate(healths) if health.client_limited]
    return ClientHealth(
        loop_lag_p99_ms=_most([h.loop_lag_p99_ms for h in healths]),
        cpu_share=_most([h.cpu_share for h in healths]),
        send_late_p99_ms=_most([h.send_late_p99_ms for h in healths]),
        client_limited=bool(why),
        why="; ".join(why),
        dispatch_p99_ms=_most([h.dispatch_p99_ms for h in healths]),
        connect_p99_ms=_most([h.connect_p99_ms for h in healths]),
        connection_wait_share=_most([h.connection_wait_share for h in healths]),
        loop_lag_max_ms=_most([h.loop_lag_max_ms for h in healths]),
        stalls=_sum([h.stalls for h in healths]),
        processes=len(healths),
        cpu_wait_share=_most([h.cpu_wait_share for h in healths]),
    )


def joined_end(ends: Sequence[End], processes: int, reason: str) -> End:
    """Complete when all are. A process whose end is missing leaves no count of what was sent."""
    whole = len(ends) == processes
    planned = [end.planned for end in ends if end.planned is not None]
    bad = next((end.reason for end in ends if not end.complete), "")
    words = reason or bad or (WINDOW_COMPLETED if whole else "a generator process left no end")
    return End(
        t_ns=max((end.t_ns for end in ends), default=time.monotonic_ns()),
        complete=whole and not reason and not bad,
        reason=words,
        sent=sum(end.sent or 0 for end in ends) if whole else None,
        planned=sum(planned) if planned else None,
    )


def _frames(log: Path) -> Iterator[Frame]:
    """None of a process that was killed before its first bytes were on their way."""
    return read_frames(log) if log.exists() and log.stat().st_size else iter(())


def _most(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _sum(counts: Sequence[int | None]) -> int | None:
    """None where one of them is not known: a sum with a hole is not a sum."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
