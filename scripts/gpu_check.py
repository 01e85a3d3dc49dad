"""`make gpu-check`: what Headroom reads of this host's GPUs beside what nvidia-smi says, idle and under a load made here.

Facts, memory, power, temperature and the energy counter of each card, one after the other, in under six minutes. Exit
codes: 0 all agree, 1 something does not, 2 there is no GPU here or nothing to compare it with.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

import pynvml

from benchmarks.engine.nvml import NvmlSource
from benchmarks.engine.nvml_calls import open_cards
from benchmarks.engine.nvml_facts import facts
from benchmarks.engine.terms import NotReported, Reading
from scripts.gpu_load import NO_CUDA
from scripts.stack import ROOT

AGREES, DIFFERS, NOTHING_HERE = 0, 1, 2
MIB = 2**20
HELD_MIB = 2048
LOAD_S, IDLE_READS, EVERY_S, MOST_S = 30.0, 3, 1.0, 300.0
MEMORY_BACK_WITHIN_S = 15.0
# Both read the same driver a moment apart; the counter is compared with a sum over samples of a value that moves.
MEMORY_MIB, HEAT_C, POWER_SHARE, POWER_W, ENERGY_SHARE = 64.0, 2.0, 0.15, 10.0, 0.25
FIELDS = (
    "uuid", "driver_version", "memory.total", "memory.free", "power.draw", "temperature.gpu", "enforced.power.limit"
)  # fmt: skip


@dataclass(frozen=True)
class Moment:
    """One card at one time, by both. None where one of them does not say. MiB, W, degrees Celsius, J."""

    at_s: float
    ours: dict[str, float]
    smi: dict[str, float | None]


class Report:
    """Lines for people, and whether anything differed."""

    def __init__(self) -> None:
        self.differs = False

    def fact(self, what: str, value: object) -> None:
        print(f"  {what:28} {value}")

    def compare(self, what: str, ours: float | None, smi: float | None, allowed: float) -> None:
        if ours is None or smi is None:
            missing = "Headroom" if ours is None else "nvidia-smi"
            print(f"  {what:28} not compared: {missing} has no figure")
            return
        agrees = abs(ours - smi) <= allowed
        self.differs |= not agrees
        print(f"  {what:28} {ours:12.1f} {smi:12.1f}   {'agrees' if agrees else f'DIFFERS by more than {allowed:.1f}'}")

    def holds(self, what: str, found: str, holds: bool) -> None:
        self.differs |= not holds
        print(f"  {what:28} {found}   {'holds' if holds else 'DOES NOT HOLD'}")


def main() -> int:
    cards = open_cards(pynvml)
    if cards.unavailable:
        print(f"gpu-check: {cards.unavailable}; nothing was checked.", file=sys.stderr)
        return NOTHING_HERE
    if shutil.which("nvidia-smi") is None:
        print("gpu-check: there is no nvidia-smi here to compare with; nothing was checked.", file=sys.stderr)
        return NOTHING_HERE
    report, source, began = Report(), NvmlSource(pynvml), time.monotonic()
    known = facts(cards)
    assert not isinstance(known, str)
    for card in known:
        if time.monotonic() - began > MOST_S - 2 * LOAD_S:
            print("gpu-check: the time is over; the cards after this were not checked.", file=sys.stderr)
            return DIFFERS
        _check(report, source, card)
    print("gpu-check: something differs" if report.differs else "gpu-check: all agree")
    return DIFFERS if report.differs else AGREES


def _check(report: Report, source: NvmlSource, card: dict[str, str | int | float]) -> None:
    uuid = str(card["uuid"])
    print(f"{card['name']}, {uuid}")
    for what, value in card.items():
        report.fact(what, value)
    for name, why in _silent(source, uuid).items():
        report.fact(name, f"not reported: {why}")
    print(f"  {'':28} {'Headroom':>12} {'nvidia-smi':>12}")
    idle = list(_moments(source, uuid, IDLE_READS))
    _same(report, "idle", idle)
    _under_load(report, source, uuid, idle)


def _under_load(report: Report, source: NvmlSource, uuid: str, idle: list[Moment]) -> None:
    with _load(uuid) as (process, why):
        if process is None:
            print(f"  No load was made, so only the idle card was checked: {why}")
            return
        loaded = list(_moments(source, uuid, int(LOAD_S / EVERY_S) - 5))
    _same(report, "loaded", loaded)
    before, during = _known(idle, "gpu_power_w"), _known(loaded, "gpu_power_w")
    if before is not None and during is not None:
        report.holds("power rises", f"{before:.0f} W to {during:.0f} W", during > before)
    _energy(report, loaded)
    _memory(report, source, uuid, (_known(idle, "vram_used_mib"), _known(loaded, "vram_used_mib")))


def _memory(report: Report, source: NvmlSource, uuid: str, used_mib: tuple[float | None, float | None]) -> None:
    """What the load took is seen, and seen to come back; `used_mib` idle and under load."""
    before, during = used_mib
    if before is None or during is None:
        print("  memory under load            not compared: the card does not say")
        return
    report.holds("memory held", f"{during - before:.0f} MiB more, {HELD_MIB} were taken", during - before >= HELD_MIB)
    left = _excess_mib(source, uuid, before)
    report.holds("memory comes back", f"{left:.0f} MiB more than idle", left <= MEMORY_MIB)


def _energy(report: Report, loaded: list[Moment]) -> None:
    """The counter's difference beside the area under nvidia-smi's power."""
    counted = [moment.ours.get("gpu_energy_j") for moment in loaded]
    known = [value for value in counted if value is not None]
    if len(known) < len(loaded):
        print("  energy                       not compared: the card has no counter")
        return
    grows = all(later >= earlier for earlier, later in itertools.pairwise(known))
    report.holds("energy only grows", f"{known[-1] - known[0]:.0f} J", grows)
    watts = [moment.smi["power.draw"] for moment in loaded]
    if None in watts:
        print("  energy                       not compared: nvidia-smi has no power")
        return
    samples = [(moment.at_s, value) for moment, value in zip(loaded, watts, strict=True) if value is not None]
    area = sum((w0 + w1) / 2 * (t1 - t0) for (t0, w0), (t1, w1) in itertools.pairwise(samples))
    report.compare("energy under load, J", known[-1] - known[0], area, ENERGY_SHARE * area)


def _same(report: Report, when: str, moments: list[Moment]) -> None:
    """The means of both over the same moments."""
    total = [m.smi["memory.total"] for m in moments]
    free = [m.smi["memory.free"] for m in moments]
    used = [t - f for t, f in zip(total, free, strict=True) if t is not None and f is not None]
    report.compare(f"memory {when}, MiB", _known(moments, "vram_used_mib"), fmean(used) if used else None, MEMORY_MIB)
    report.compare(f"memory total {when}, MiB", _known(moments, "vram_total_mib"), _smi(moments, "memory.total"), 1.0)
    power = _smi(moments, "power.draw")
    allowed_w = max(POWER_W, POWER_SHARE * (power or 0.0))
    report.compare(f"power {when}, W", _known(moments, "gpu_power_w"), power, allowed_w)
    limit = _smi(moments, "enforced.power.limit")
    report.compare(f"power limit {when}, W", _known(moments, "gpu_power_limit_w"), limit, 1.0)
    report.compare(
        f"temperature {when}, C", _known(moments, "gpu_temperature_c"), _smi(moments, "temperature.gpu"), HEAT_C
    )


def _moments(source: NvmlSource, uuid: str, count: int) -> Iterator[Moment]:
    for _ in range(count):
        at_s = time.monotonic()
        yield Moment(at_s, _ours(source, uuid), _smi_now(uuid))
        time.sleep(max(0.0, EVERY_S - (time.monotonic() - at_s)))


def _ours(source: NvmlSource, uuid: str) -> dict[str, float]:
    found = {r.name: r.value for r in source.read(time.monotonic_ns()) if isinstance(r, Reading) and r.device == uuid}
    mib = {name.replace("_bytes", "_mib"): value / MIB for name, value in found.items() if name.endswith("_bytes")}
    return found | mib


def _silent(source: NvmlSource, uuid: str) -> dict[str, str]:
    found = source.read(time.monotonic_ns())
    return {n.name: n.reason for n in found if isinstance(n, NotReported) and n.reason.startswith(uuid)}


def _smi_now(uuid: str) -> dict[str, float | None]:
    command = ["nvidia-smi", f"--id={uuid}", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
    line = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()
    return {name: _number(text) for name, text in zip(FIELDS, line.split(","), strict=True)}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:  # a name, or [N/A]
        return None


@contextlib.contextmanager
def _load(uuid: str) -> Iterator[tuple[subprocess.Popen[str] | None, str]]:
    """The load's process once it holds its memory, or why there is none."""
    process = subprocess.Popen(
        [sys.executable, "-m", "scripts.gpu_load", uuid, str(LOAD_S), str(HELD_MIB)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        if process.stdout.readline().strip() == "holding":
            yield process, ""
        else:
            code, said = process.wait(), process.stderr.read().strip()
            yield None, said if code == NO_CUDA else f"the load ended with {code}: {said[-200:]}"
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def _excess_mib(source: NvmlSource, uuid: str, before: float) -> float:
    """How much more than before is held, once it no longer falls."""
    until = time.monotonic() + MEMORY_BACK_WITHIN_S
    while (left := _ours(source, uuid).get("vram_used_mib", before) - before) > MEMORY_MIB and time.monotonic() < until:
        time.sleep(EVERY_S)
    return left


def _known(moments: list[Moment], name: str) -> float | None:
    found = [moment.ours[name] for moment in moments if name in moment.ours]
    return fmean(found) if found else None


def _smi(moments: list[Moment], name: str) -> float | None:
    found = [value for moment in moments if (value := moment.smi[name]) is not None]
    return fmean(found) if found else None


if __name__ == "__main__":
    sys.exit(main())
