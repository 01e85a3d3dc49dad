"""When a cell must stop: pure decisions over the last readings and outcomes. A stop is a result; its reason is in
words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from benchmarks.engine.plan import ClassLimits, Guard
from benchmarks.engine.terms import Outcome, Reading
from benchmarks.stats.per_cent import per_cent

# NVML clocks-event reasons that spoil a measurement: hardware slowdown, software and hardware thermal, power brake.
# The software power cap (0x4) is a condition of the host, not a fault.
SPOILING_THROTTLES = {0x8: "hardware slowdown", 0x20: "software thermal", 0x40: "hardware thermal", 0x80: "power brake"}
MAX_SWAP_GROWTH_BYTES = 256 * 1024 * 1024
SMALLEST_P95_SAMPLE = 20
SLOWDOWN_MARGIN_C = 5.0
HARDWARE_SLOWDOWN = 0x8
LOST = "gpu_lost"
HEAT = "gpu_temperature_c"
REASONS = "gpu_clocks_event_reasons"
# A ramp is judged over so many readings, and only when it rose by more than the jitter of whole degrees.
RAMP_READINGS = 6
RAMP_RISES_C = 2.0
HALF_A_DEGREE_C = 0.5  # a card tells whole degrees
NS = 1_000_000_000
_IS_LOST = "is lost: the driver cannot reach it any more"
# What we ended ourselves says nothing about the server.
NOT_THE_SERVERS = frozenset({Outcome.CANCELLED, Outcome.UNFINISHED})


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One finished request of the cell; times in the user view, None where the answer never came so far."""

    class_name: str
    outcome: Outcome
    e2e_s: float | None
    ttft_s: float | None


class Latest(msgspec.Struct, frozen=True, kw_only=True):
    """The last value of each reading by (name, device) and when it came; the newest few of those that a trend or a
    flicker is seen in, as (t_ns, value); the host's swap use when the cell began."""

    values: Mapping[tuple[str, str], float]
    last_ns: Mapping[tuple[str, str], int] = {}
    swap_at_start_bytes: float | None = None
    newest: Mapping[tuple[str, str], tuple[tuple[int, float], ...]] = {}

    def of(self, name: str) -> dict[str, float]:
        """device -> value."""
        return {device: value for (found, device), value in self.values.items() if found == name}


def latest(readings: Sequence[Reading], before: Latest) -> Latest:
    """`before`, brought up to date with `readings` in order."""
    values, last_ns, newest = dict(before.values), dict(before.last_ns), dict(before.newest)
    swap = before.swap_at_start_bytes
    for reading in readings:
        key = reading.name, reading.device
        values[key], last_ns[key] = reading.value, reading.t_ns
        if reading.name in (HEAT, REASONS):
            newest[key] = (*newest.get(key, ()), (reading.t_ns, reading.value))[-RAMP_READINGS:]
        if reading.name == "host_swap_used_bytes" and swap is None:
            swap = reading.value
    return Latest(values=values, last_ns=last_ns, swap_at_start_bytes=swap, newest=newest)


def recent_p95(recent: Iterable[Seen], time_of: Callable[[Seen], float | None]) -> float | None:
    """p95 of the newest requests for a page to show, failures as infinite; None among them or from too few."""
    judged = [seen for seen in recent if seen.outcome not in NOT_THE_SERVERS]
    if len(judged) < SMALLEST_P95_SAMPLE:
        return None
    times = (time_of(seen) if seen.outcome is Outcome.OK else None for seen in judged)
    p95 = sorted(math.inf if t is None else t for t in times)[math.ceil(0.95 * len(judged)) - 1]
    return None if math.isinf(p95) else p95


def stop_reason(guard: Guard, now: Latest, recent: Sequence[Seen], limits: Mapping[str, ClassLimits]) -> str | None:
    """Why to stop now, or None. `recent` holds at most the last `guard.error_share_over` finished requests."""
    return host_reason(guard, now) or _throttling(now) or _errors(guard, recent) or _slowness(guard, recent, limits)


def silence_reason(guard: Guard, now: Latest, *, at_ns: int, after_ns: int) -> str | None:
    """Which limited reading came before and has not come for longer than `after_ns`: nobody watches that limit any more."""
    limited = {
        HEAT: ("temperature", guard.max_temperature_c), "gpu_power_w": ("power", guard.max_power_w),
        "vram_used_bytes": ("VRAM", guard.max_vram_share),
    }  # fmt: skip
    for (name, device), t_ns in now.last_ns.items():
        words, limit = limited.get(name, ("", None))
        if limit is not None and at_ns - t_ns > after_ns:
            return f"no {words} of {device or 'the GPU'} was read for {(at_ns - t_ns) / NS:.0f} s, though it is limited"
    return None


def host_reason(guard: Guard, now: Latest) -> str | None:
    """Which limit of the host these values are past, throttling aside."""
    return _lost(now) or _memory(guard, now) or _heat(guard, now) or _power(guard, now)


def heat_limit_c(guard: Guard, now: Latest, device: str) -> tuple[float, str] | None:
    """The lower of the plan's limit and what lies SLOWDOWN_MARGIN_C below the card's own slowdown, with its name."""
    slowdown = now.of("gpu_slowdown_c").get(device)
    own = None if slowdown is None else (slowdown - SLOWDOWN_MARGIN_C, f"{SLOWDOWN_MARGIN_C:g} below its slowdown")
    planned = None if guard.max_temperature_c is None else (guard.max_temperature_c, "limit")
    return min((one for one in (planned, own) if one is not None), default=None)


def _lost(now: Latest) -> str | None:
    gone = [device or "the GPU" for device, flag in now.of(LOST).items() if flag]
    return f"{', '.join(gone)} {_IS_LOST}" if gone else None


def is_lost(reason: str) -> bool:
    """Whether a stop came of a card that is gone: what is in flight on it will never be answered."""
    return reason.endswith(_IS_LOST)


def _memory(guard: Guard, now: Latest) -> str | None:
    totals = now.of("vram_total_bytes")
    for device, used in now.of("vram_used_bytes").items():
        share = used / totals[device] if totals.get(device) else None
        if share is not None and guard.max_vram_share is not None and share > guard.max_vram_share:
            return f"VRAM at {per_cent(share)} of {device or 'the GPU'}, limit {per_cent(guard.max_vram_share)}"
    return _host_memory(guard, now)


def _host_memory(guard: Guard, now: Latest) -> str | None:
    host = {name: value for (name, device), value in now.values.items() if not device}
    used, total = host.get("host_memory_used_bytes"), host.get("host_memory_total_bytes")
    share = used / total if used is not None and total else None
    if share is not None and guard.max_host_memory_share is not None and share > guard.max_host_memory_share:
        return f"host memory at {per_cent(share)}, limit {per_cent(guard.max_host_memory_share)}"
    swap, before = host.get("host_swap_used_bytes"), now.swap_at_start_bytes
    if swap is not None and before is not None and swap - before > MAX_SWAP_GROWTH_BYTES:
        return f"swap grew by {(swap - before) / 2**20:.0f} MiB, limit 256 MiB"
    return None


def _heat(guard: Guard, now: Latest) -> str | None:
    """Past its limit, or on its way past it before the next reading comes."""
    for device, heat in now.of(HEAT).items():
        found = heat_limit_c(guard, now, device)
        if found is None:
            continue
        limit, word = found
        card = device or "the GPU"
        if heat > limit:
            return f"{card} at {heat:.0f} °C, {word} {limit:.0f} °C"
        ahead = _next_heat_c(now.newest.get((HEAT, device), ()))
        if ahead is not None and ahead >= limit:
            return f"{card} at {heat:.0f} °C and rising: {ahead:.0f} °C by the next reading, {word} {limit:.0f} °C"
    return None


def _next_heat_c(newest: Sequence[tuple[int, float]]) -> float | None:
    """What the next reading may be if it goes on rising as over the newest ones; None without a rise to speak of."""
    if len(newest) < 3 or newest[-1][1] - newest[0][1] < RAMP_RISES_C:
        return None
    at_s = [(t_ns - newest[0][0]) / NS for t_ns, _ in newest]
    mid_s, mid_c = sum(at_s) / len(at_s), sum(c for _, c in newest) / len(newest)
    spread = sum((t - mid_s) ** 2 for t in at_s)
    if spread <= 0:
        return None
    slope = sum((t - mid_s) * (c - mid_c) for t, (_, c) in zip(at_s, newest, strict=True)) / spread
    wait_s = max(at_s[-1] - at_s[-2], at_s[-1] / (len(at_s) - 1))
    return newest[-1][1] + slope * wait_s + HALF_A_DEGREE_C


def _power(guard: Guard, now: Latest) -> str | None:
    for device, power in now.of("gpu_power_w").items():
        if guard.max_power_w is not None and power > guard.max_power_w:
            return f"{device or 'the GPU'} draws {power:.0f} W, limit {guard.max_power_w:.0f} W"
    return None


def _throttling(now: Latest) -> str | None:
    """A hardware slowdown that names no cause flickers when a card changes its state, so it counts when seen twice."""
    for device, bits in now.of(REASONS).items():
        found = [bit for bit in SPOILING_THROTTLES if int(bits) & bit]
        if found == [HARDWARE_SLOWDOWN] and not _seen_before(now, device):
            continue
        if found:
            return f"{device or 'the GPU'} throttles: {', '.join(SPOILING_THROTTLES[bit] for bit in found)}"
    return None


def _seen_before(now: Latest, device: str) -> bool:
    newest = now.newest.get((REASONS, device), ())
    return len(newest) > 1 and bool(int(newest[-2][1]) & HARDWARE_SLOWDOWN)


def _errors(guard: Guard, recent: Sequence[Seen]) -> str | None:
    """Stops as soon as the share over the last N must be exceeded, even if the rest of the N were to succeed."""
    if guard.max_error_share is None:
        return None
    last = recent[-guard.error_share_over :]
    failed = sum(seen.outcome is not Outcome.OK and seen.outcome not in NOT_THE_SERVERS for seen in last)
    if failed > guard.max_error_share * guard.error_share_over:
        limit = f"{per_cent(guard.max_error_share)} of {guard.error_share_over}"
        return f"{failed} of the last {len(last)} requests failed, limit {limit}"
    return None


def _slowness(guard: Guard, recent: Sequence[Seen], limits: Mapping[str, ClassLimits]) -> str | None:
    if guard.max_p95_over_objective is None:
        return None
    for name, limit in limits.items():
        seen = [s for s in recent if s.class_name == name and s.outcome is Outcome.OK]
        rows = (("E2E", limit.e2e_s, [s.e2e_s for s in seen]), ("TTFT", limit.ttft_s, [s.ttft_s for s in seen]))
        for word, objective_s, times in rows:
            known = sorted(t for t in times if t is not None)
            if objective_s is None or len(known) < SMALLEST_P95_SAMPLE:
                continue
            p95 = known[math.ceil(0.95 * len(known)) - 1]
            if p95 > guard.max_p95_over_objective * objective_s:
                limit_words = f"{guard.max_p95_over_objective:g} x {objective_s:g} s"
                return f"{word} p95 of class {name} at {p95:.2f} s, more than {limit_words}"
    return None
