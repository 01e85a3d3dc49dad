"""The virtual card: memory, power and heat follow the load."""

from __future__ import annotations

import pytest

from benchmarks.simulator.card import Card, CardReading
from benchmarks.simulator.profiles import DEMO

assert DEMO.card is not None
PROFILE = DEMO.card


def settled(active: int, kv_tokens: int, *, after_s: float = 1000.0) -> CardReading:
    card = Card(PROFILE, now_s=0.0)
    card.read(active=active, kv_tokens=kv_tokens, now_s=after_s)
    return card.read(active=active, kv_tokens=kv_tokens, now_s=after_s)


@pytest.mark.parametrize(
    ("active", "tokens_each", "expected_share"), [(0, 0, 0.43), (1, 300, 0.49), (4, 300, 0.67), (8, 300, 0.90)]
)
def test_vram_grows_with_active_sequences_and_their_tokens(
    active: int, tokens_each: int, expected_share: float
) -> None:
    used = settled(active, active * tokens_each).vram_used_bytes
    assert used / PROFILE.vram_total_bytes == pytest.approx(expected_share, abs=0.015)


def test_a_full_kv_budget_at_eight_still_fits_the_card_and_more_is_cut_at_its_size() -> None:
    assert settled(8, DEMO.kv_tokens).vram_free_bytes > 0
    full = settled(30, DEMO.kv_tokens)
    assert (full.vram_used_bytes, full.vram_free_bytes) == (PROFILE.vram_total_bytes, 0)


def test_power_runs_from_idle_to_the_cap_and_grows_with_activity() -> None:
    watts = [settled(active, 0).power_w for active in (0, 1, 2, 4, 8, 64)]
    assert watts == sorted(watts)
    assert watts[0] == pytest.approx(PROFILE.idle_w)
    assert watts[-1] == pytest.approx(PROFILE.cap_w, rel=0.001)


def test_temperature_lags_behind_power_by_its_own_constant() -> None:
    cold = PROFILE.ambient_c + PROFILE.idle_w * PROFILE.rise_c_per_w
    hot = settled(8, 0).temperature_c
    card = Card(PROFILE, now_s=0.0)
    seconds = [card.read(active=8, kv_tokens=0, now_s=float(second)).temperature_c for second in range(121)]
    assert seconds[0] == pytest.approx(cold)
    assert seconds == sorted(seconds)
    assert (seconds[20] - cold) / (hot - cold) == pytest.approx(0.63, abs=0.03)
    assert hot < 85.0


def test_workspace_is_given_back_some_seconds_after_the_last_sequence() -> None:
    card = Card(PROFILE, now_s=0.0)
    card.read(active=8, kv_tokens=0, now_s=1.0)
    loaded = card.read(active=8, kv_tokens=0, now_s=2.0).vram_used_bytes
    just_after = card.read(active=0, kv_tokens=0, now_s=2.1).vram_used_bytes
    later = card.read(active=0, kv_tokens=0, now_s=30.0).vram_used_bytes
    assert PROFILE.weights_bytes <= later < just_after < loaded
    assert later == pytest.approx(PROFILE.weights_bytes, rel=0.001)


def test_energy_is_the_integral_of_power() -> None:
    card = Card(PROFILE, now_s=0.0)
    assert card.read(active=0, kv_tokens=0, now_s=10.0).energy_j == pytest.approx(10 * PROFILE.idle_w)
