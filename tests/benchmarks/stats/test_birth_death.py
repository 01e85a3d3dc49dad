"""The queue's chain: the worked example to the digit, and the laws that it contains as special cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.stats.birth_death import Chain, chain, erlang_b, erlang_c

WORKED = (0.30, 0.55, 0.74, 0.90)
RATES = st.lists(st.floats(0.05, 5), min_size=1, max_size=12).map(lambda steps: tuple(np.cumsum(steps).tolist()))
ARRIVALS = st.floats(0.01, 40)
CAPS = st.integers(0, 60)


@pytest.mark.parametrize(
    ("arrivals_per_s", "cap", "refused", "mean_s", "p95_s"),
    [
        (0.6, 0, "14.5 %", "0.00", "0.00"),
        (0.6, 4, "2.3 %", "0.65", "3.92"),
        (0.6, 8, "0.4 %", "0.98", "5.64"),
        (0.8, 16, "1.4 %", "4.83", "16.14"),
    ],
)
def test_the_worked_example_of_the_design_to_the_digit(
    arrivals_per_s: float, cap: int, refused: str, mean_s: str, p95_s: str
) -> None:
    found = chain(WORKED, arrivals_per_s, cap)
    assert f"{100 * found.refused_share:.1f} %" == refused
    assert (f"{found.mean_wait_s:.2f}", f"{found.wait_quantile_s(0.95):.2f}") == (mean_s, p95_s)


def test_the_refusals_of_the_example_with_one_digit_more() -> None:
    assert f"{100 * chain(WORKED, 0.6, 8).refused_share:.2f}" == "0.44"


@given(RATES, ARRIVALS, CAPS)
def test_probabilities_are_shares_that_sum_to_1_and_waiting_obeys_little(
    rates: tuple[float, ...], arrivals_per_s: float, cap: int
) -> None:
    found = chain(rates, arrivals_per_s, cap)
    assert found.shares.shape == (len(rates) + cap + 1,)
    assert ((found.shares >= 0) & (found.shares <= 1)).all()
    assert found.shares.sum() == pytest.approx(1)
    waiting = float((found.shares[len(rates) :] * np.arange(cap + 1)).sum())
    admitted_per_s = arrivals_per_s * float(found.shares[:-1].sum())
    assert found.mean_wait_s * admitted_per_s == pytest.approx(waiting, rel=1e-9, abs=1e-12)
    served_per_s = float((found.shares[1:] * (*rates, *[rates[-1]] * cap)).sum())
    assert served_per_s == pytest.approx(admitted_per_s, rel=1e-9)


@given(RATES, ARRIVALS, CAPS)
def test_a_longer_queue_refuses_fewer_and_lets_them_wait_longer(
    rates: tuple[float, ...], arrivals_per_s: float, cap: int
) -> None:
    short, long = chain(rates, arrivals_per_s, cap), chain(rates, arrivals_per_s, cap + 1)
    assert long.refused_share <= short.refused_share * (1 + 1e-9)
    assert long.mean_wait_s >= short.mean_wait_s * (1 - 1e-9)
    assert long.wait_quantile_s(0.95) >= short.wait_quantile_s(0.95) * (1 - 1e-6)


@given(RATES, ARRIVALS, CAPS, st.floats(1.01, 3))
def test_more_arrivals_are_refused_more_and_wait_longer(
    rates: tuple[float, ...], arrivals_per_s: float, cap: int, times: float
) -> None:
    few, many = chain(rates, arrivals_per_s, cap), chain(rates, times * arrivals_per_s, cap)
    assert many.refused_share >= few.refused_share
    assert many.mean_wait_s >= few.mean_wait_s * (1 - 1e-9)


@given(RATES, ARRIVALS, st.integers(1, 40))
def test_the_waiting_law_falls_from_the_share_that_waits_and_its_area_is_the_mean(
    rates: tuple[float, ...], arrivals_per_s: float, cap: int
) -> None:
    found = chain(rates, arrivals_per_s, cap)
    times = np.linspace(0, (cap + 30 + 8 * math.sqrt(cap + 30)) / found.full_per_s, 4001)
    over = found.wait_over(times)
    assert over[0] == pytest.approx(found.waiting_share)
    assert (np.diff(over) <= 1e-12).all()
    assert float(np.trapezoid(over, times)) == pytest.approx(found.mean_wait_s, rel=1e-3, abs=1e-9)
    assert found.wait_over(np.array([-1.0])).tolist() == [1.0]


@given(st.floats(0.1, 3), st.floats(0.1, 3), st.integers(0, 30))
def test_one_server_is_the_m_m_1_k_formula(served_per_s: float, arrivals_per_s: float, cap: int) -> None:
    load, most = arrivals_per_s / served_per_s, cap + 1
    expected = 1 / (most + 1) if abs(load - 1) < 1e-9 else (1 - load) * load**most / (1 - load ** (most + 1))
    assert chain((served_per_s,), arrivals_per_s, cap).refused_share == pytest.approx(expected, rel=1e-6)


@given(st.integers(1, 60), st.floats(0.05, 80))
def test_without_a_queue_it_is_erlangs_loss_formula(servers: int, offered: float) -> None:
    rates = tuple(float(n) for n in range(1, servers + 1))
    assert chain(rates, offered, 0).refused_share == pytest.approx(erlang_b(offered, servers), rel=1e-9)


@given(st.integers(1, 12), st.floats(0.05, 0.9))
def test_with_a_queue_without_end_erlang_c_is_met_and_bounds_a_concave_server(servers: int, load: float) -> None:
    bound = erlang_c(load * servers, servers)
    plain = chain(tuple(float(n) for n in range(1, servers + 1)), load * servers, 900)
    assert plain.waiting_share == pytest.approx(bound, rel=1e-6)
    concave = tuple(servers * (n / servers) ** 0.6 for n in range(1, servers + 1))
    assert chain(concave, load * servers, 900).waiting_share <= bound * (1 + 1e-9)
    assert erlang_c(servers * 1.0, servers) == 1


def test_a_thousand_may_wait_for_a_thousand_at_once_without_losing_a_digit() -> None:
    found: Chain = chain([n**0.7 for n in range(1, 1025)], 130.0, 1000)
    assert found.shares.sum() == pytest.approx(1)
    # Over its rate of 128 a second the queue is full nearly always: refused is what cannot be served.
    assert found.refused_share == pytest.approx(1 - 1024**0.7 / 130, rel=1e-3)
    assert 6 < found.mean_wait_s < 1000 / 1024**0.7 + 1e-9
    assert chain([n**0.7 for n in range(1, 1025)], 1e-6, 1000).wait_quantile_s(0.95) == 0


@pytest.mark.parametrize(
    ("rates", "arrivals_per_s", "cap"), [((), 1.0, 1), ((0.0,), 1.0, 1), ((1.0,), 0.0, 1), ((1.0,), 1.0, -1)]
)
def test_a_rate_that_is_none_is_refused(rates: tuple[float, ...], arrivals_per_s: float, cap: int) -> None:
    with pytest.raises(ValueError, match="above 0"):
        chain(rates, arrivals_per_s, cap)
    with pytest.raises(ValueError, match="between 0 and 1"):
        chain((1.0,), 1.0, 1).wait_quantile_s(1.0)
