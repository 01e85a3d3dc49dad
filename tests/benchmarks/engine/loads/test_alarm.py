"""The alarm wakes at its time or when rung, never before the time without being rung, and starves nobody."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest
import uvloop

from benchmarks.engine.alarm import Alarm

MS = 1_000_000
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]
ON_LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="timerfd is Linux only")


@pytest.fixture(params=LOOPS, ids=["asyncio", "uvloop"])
def run(request):
    def go(work):
        with asyncio.Runner(loop_factory=request.param) as runner:
            return runner.run(work())

    return go


@ON_LINUX
def test_it_does_not_wake_before_its_time(run):
    async def work() -> list[int]:
        alarm, early = Alarm(), []
        for after_ms in (0.3, 0.9, 1.0, 1.7, 3.2, 12.5):
            t_ns = time.monotonic_ns() + round(after_ms * MS)
            await alarm.until(t_ns)
            early.append(min(0, time.monotonic_ns() - t_ns))
        alarm.close()
        return early

    assert run(work) == [0] * 6


def test_without_a_timer_of_the_system_the_loops_own_is_at_most_two_milliseconds_early(run, monkeypatch):
    async def work() -> list[int]:
        monkeypatch.setattr(sys, "platform", "plan9")
        alarm, early = Alarm(), []
        monkeypatch.undo()
        for after_ms in (0.4, 2.5, 12.5):
            t_ns = time.monotonic_ns() + round(after_ms * MS)
            await alarm.until(t_ns)
            early.append(t_ns - time.monotonic_ns())
        alarm.close()
        return early

    assert all(early_ns < 2 * MS for early_ns in run(work))


def test_ring_ends_the_waiting_and_the_time_that_was_set_rings_no_later_waiting(run):
    async def work() -> tuple[bool, bool]:
        alarm = Alarm()
        soon_ns = time.monotonic_ns() + 20 * MS
        asyncio.get_running_loop().call_soon(alarm.ring)
        await alarm.until(soon_ns)
        rung_early = time.monotonic_ns() < soon_ns
        later_ns = time.monotonic_ns() + 60 * MS
        await alarm.until(later_ns)
        alarm.close()
        return rung_early, time.monotonic_ns() >= later_ns

    assert run(work) == (True, True)


def test_an_expiry_that_waits_to_be_read_does_not_ring_what_was_set_since(run):
    async def work() -> bool:
        alarm = Alarm()
        waiting = asyncio.create_task(alarm.until(time.monotonic_ns() + 2 * MS))
        await asyncio.sleep(0)
        time.sleep(0.01)  # the loop is busy while the timer expires
        alarm.ring()
        await waiting
        later_ns = time.monotonic_ns() + 50 * MS
        await alarm.until(later_ns)
        alarm.close()
        return time.monotonic_ns() >= later_ns

    assert run(work)


def test_a_ring_that_nobody_waits_for_is_forgotten(run):
    async def work() -> bool:
        alarm = Alarm()
        alarm.ring()
        t_ns = time.monotonic_ns() + 10 * MS
        await alarm.until(t_ns)
        alarm.close()
        return time.monotonic_ns() >= t_ns

    assert run(work)


def test_a_time_that_has_passed_still_gives_the_loop_a_turn(run):
    async def work() -> int:
        alarm, turns = Alarm(), 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(other())
        for _ in range(100):
            await alarm.until(0)
        beside.cancel()
        alarm.close()
        return turns

    assert run(work) >= 99


def test_a_cancelled_waiting_leaves_the_alarm_usable_and_closing_twice_is_nothing(run):
    async def work() -> bool:
        alarm = Alarm()
        waiting = asyncio.create_task(alarm.until(time.monotonic_ns() + 10_000 * MS))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        t_ns = time.monotonic_ns() + 5 * MS
        await alarm.until(t_ns)
        woke = time.monotonic_ns() >= t_ns
        alarm.close()
        alarm.close()
        return woke

    assert run(work)
