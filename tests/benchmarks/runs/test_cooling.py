"""Between stages the worker waits for the idle host, beats meanwhile, and says what it waited for."""

from __future__ import annotations

import pytest

from benchmarks import cooling, runs
from benchmarks.engine.terms import NotReported, Reading
from benchmarks.models import Attempt, Cell, Grid
from tests import factories
from tests.benchmarks.runs import made

pytestmark = pytest.mark.django_db
NO_DRIVER = "no NVIDIA driver on this host"


class Card:
    """Each read gives the next (temperature, power); the last one stays."""

    def __init__(self, *states: tuple[float, float], on_read=None) -> None:
        self.states, self.reads, self.on_read = list(states), 0, on_read

    def read(self, t_ns: int):
        self.reads += 1
        if self.on_read:
            self.on_read(self.reads)
        if not self.states:
            return [NotReported(name="gpu_temperature_c", source="nvml", reason=NO_DRIVER)]
        heat, power = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        values = {"gpu_temperature_c": heat, "gpu_power_w": power, "vram_used_bytes": 5.0}
        return [Reading(t_ns=t_ns, name=n, value=v, source="nvml", device="GPU-1") for n, v in values.items()]


class Naps(list):
    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def real_grid() -> Grid:
    """Of two stages with two cells each, on a runtime that is not simulated."""
    runtime = factories.make_runtime(kind="vllm")
    return made.running_grid(runtime=runtime, settings=(1, 2), class_names=("short",), repeats=2)


def settle(taken, card: Card) -> tuple[cooling.Settled, Naps]:
    naps = Naps()
    cell = Cell.objects.select_related("grid__runtime").get(pk=taken.cell_id)
    return cooling.settle(taken, cell, gpus=lambda: card, sleep=naps), naps


def words(settled: cooling.Settled) -> str:
    return settled.conditions["cooling"]["words"]


def at_the_second_stage(*baseline: tuple[float, float]):
    """A claim of the first cell of the second stage; the baseline was read before the first."""
    grid = real_grid()
    first = made.claim(grid)
    settle(first, Card(*baseline))
    made.record(first)
    made.record(made.claim(grid))
    return grid, made.claim(grid)


def test_the_idle_host_is_read_before_the_first_cell_and_once():
    grid = real_grid()
    taken = made.claim(grid)
    settled, naps = settle(taken, Card((40, 60), (41, 90), (42, 61)))
    grid.refresh_from_db()
    assert grid.baseline["gpus"] == {"GPU-1": {"temperature_c": 41.0, "power_w": 61.0, "vram_used_bytes": 5.0}}
    assert grid.baseline["host_memory_used_bytes"] > 0
    assert (settled.ok, words(settled), naps) == (True, "The idle host was read: 1 GPU.", [1.0, 1.0])
    made.record(taken)
    kept = grid.baseline
    settle(made.claim(grid), Card((90, 300)))
    grid.refresh_from_db()
    assert grid.baseline == kept


def test_within_a_stage_nobody_waits():
    grid = real_grid()
    first = made.claim(grid)
    settle(first, Card((40, 60)))
    made.record(first)
    settled, naps = settle(made.claim(grid), Card((90, 300)))
    assert (settled.ok, settled.conditions, naps) == (True, {}, [])


def test_the_next_stage_waits_until_temperature_and_power_are_near_the_idle_host():
    _, taken = at_the_second_stage((40, 60))
    settled, naps = settle(taken, Card((80, 300), (60, 70), (45, 66), (44, 66)))
    assert (settled.ok, naps) == (True, [2.0, 2.0, 2.0])
    assert words(settled) == "Cooled down in 6 s: GPU-1 at 80 °C, idle 40 °C; GPU-1 at 300 W, idle 60 W."
    progress = Cell.objects.get(pk=taken.cell_id).progress
    assert (progress["phase"], progress["spent"]) == ("cooling", {"requests": 0, "tokens": 0})


def test_five_minutes_are_enough():
    _, taken = at_the_second_stage((40, 60))
    settled, naps = settle(taken, Card((80, 60)))
    assert (settled.ok, sum(naps)) == (True, 300.0)
    assert words(settled) == "Not cool after 300 s, the longest wait: GPU-1 at 80 °C, idle 40 °C."


def test_a_cool_host_waits_nothing_and_says_so():
    _, taken = at_the_second_stage((40, 60))
    settled, naps = settle(taken, Card((43, 62)))
    assert (words(settled), naps) == ("The host was as cool as when idle.", [])


def test_hosts_without_gpu_readings_wait_nothing_and_say_why():
    _, taken = at_the_second_stage()
    settled, naps = settle(taken, Card((90, 300)))
    assert (words(settled), naps) == (f"No wait: of this host's GPUs nothing is known: {NO_DRIVER}.", [])


def test_readings_that_stop_end_the_wait():
    _, taken = at_the_second_stage((40, 60))
    card = Card((80, 300), (70, 200))
    card.on_read = lambda reads: card.states.clear() if reads == 2 else None
    settled, naps = settle(taken, card)
    assert (settled.ok, naps) == (True, [2.0])
    assert words(settled) == f"The wait ended after 2 s: the GPUs say neither temperature nor power ({NO_DRIVER})."


def test_a_stop_is_heard_while_waiting_and_ends_the_attempt():
    grid, taken = at_the_second_stage((40, 60))
    operator = factories.make_user(grid.team, "operator")

    def stop(reads: int) -> None:
        if reads == 5:
            runs.stop(grid=grid, by=operator, how="cancel")

    card = Card((80, 300), on_read=stop)
    settled, naps = settle(taken, card)
    assert settled.ok is False
    assert sum(naps) < 30
    assert Attempt.objects.get(cell_id=taken.cell_id).ended_at is not None


def test_an_attempt_that_was_taken_over_ends_the_wait_without_a_word():
    _, taken = at_the_second_stage((40, 60))
    Cell.objects.filter(pk=taken.cell_id).update(attempt=9)
    settled, _ = settle(taken, Card((80, 300)))
    assert (settled.ok, settled.watch.pulse.lost) == (False, True)


def test_a_simulated_card_is_waited_for_two_seconds_at_most():
    grid = made.running_grid(settings=(1, 2), class_names=("short",), repeats=1)
    first = made.claim(grid)
    settle(first, Card((40, 60)))
    made.record(first)
    settled, naps = settle(made.claim(grid), Card((80, 300)))
    assert (settled.ok, sum(naps)) == (True, 2.0)


def test_a_grid_that_had_measured_before_keeps_no_baseline():
    grid = real_grid()
    made.record(made.claim(grid))
    settled, _ = settle(made.claim(grid), Card((40, 60)))
    grid.refresh_from_db()
    assert (grid.baseline, words(settled)) == (None, cooling.LATE)
