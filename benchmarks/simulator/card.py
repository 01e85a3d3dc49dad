"""A virtual GPU that follows the engine's load: memory at once, power and temperature with a first-order lag."""

from __future__ import annotations

import math

import msgspec

from benchmarks.simulator.profiles import CardProfile


class CardReading(msgspec.Struct, frozen=True, kw_only=True):
    vram_used_bytes: int
    vram_free_bytes: int
    power_w: float
    temperature_c: float
    utilization_share: float
    energy_j: float


class Card:
    """Keeps power, heat and the allocator's held workspace between calls. Times are seconds of the caller's clock."""

    def __init__(self, profile: CardProfile, *, now_s: float) -> None:
        self.profile = profile
        self._at_s = now_s
        self._power_w = profile.idle_w
        self._temperature_c = profile.ambient_c + profile.idle_w * profile.rise_c_per_w
        self._held_sequences = 0.0
        self._energy_j = 0.0

    def power_target_w(self, active: int) -> float:
        """Idle power at 0, near the cap with many: idle + (cap - idle)(1 - exp(-active / power_sequences))."""
        profile = self.profile
        return profile.idle_w + (profile.cap_w - profile.idle_w) * (1 - math.exp(-active / profile.power_sequences))

    def read(self, *, active: int, kv_tokens: int, now_s: float) -> CardReading:
        """State at `now_s`, given that `active` sequences have run since the last call (call it at each change)."""
        profile = self.profile
        elapsed_s = max(0.0, now_s - self._at_s)
        self._at_s = max(self._at_s, now_s)
        self._energy_j += self._power_w * elapsed_s
        self._power_w = _lag(self._power_w, self.power_target_w(active), elapsed_s, profile.power_lag_s)
        settled_c = profile.ambient_c + self._power_w * profile.rise_c_per_w
        self._temperature_c = _lag(self._temperature_c, settled_c, elapsed_s, profile.thermal_lag_s)
        # An allocator keeps workspace for a while after its sequence has ended.
        held = _lag(self._held_sequences, float(active), elapsed_s, profile.workspace_release_s)
        self._held_sequences = max(held, float(active))
        wanted = (
            profile.weights_bytes
            + int(self._held_sequences * profile.workspace_bytes)
            + kv_tokens * profile.kv_bytes_per_token
        )
        used = min(wanted, profile.vram_total_bytes)
        return CardReading(
            vram_used_bytes=used,
            vram_free_bytes=profile.vram_total_bytes - used,
            power_w=self._power_w,
            temperature_c=self._temperature_c,
            utilization_share=1.0 - math.exp(-0.5 * active) if active else 0.0,
            energy_j=self._energy_j,
        )


def _lag(value: float, target: float, elapsed_s: float, constant_s: float) -> float:
    return target + (value - target) * math.exp(-elapsed_s / constant_s)
