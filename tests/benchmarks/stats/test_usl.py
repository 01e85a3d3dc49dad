"""The scalability law fits what follows it, says how badly it fits what does not, and never leaves the tested range."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.stats.usl import fit


def law(n: float, per_s: float, sigma: float, kappa: float) -> float:
    return per_s * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))


@given(st.floats(0.01, 100), st.floats(0, 0.9), st.floats(0, 0.1))
def test_what_follows_the_law_is_found_again(per_s, sigma, kappa):
    shape = fit({n: law(n, per_s, sigma, kappa) for n in (1, 2, 4, 8, 16)})
    assert shape.per_s == pytest.approx(per_s, rel=1e-6)
    assert (shape.sigma, shape.kappa) == (pytest.approx(sigma, abs=1e-6), pytest.approx(kappa, abs=1e-6))
    assert shape.residual_share < 1e-6
    assert shape.predict(3) == pytest.approx(law(3, per_s, sigma, kappa), rel=1e-5)


def test_a_peak_is_told_only_inside_what_was_tested():
    turning = {n: law(n, 1.0, 0.05, 0.02) for n in (1, 2, 4, 8, 16)}  # sqrt(.95 / .02) = 6.9
    assert fit(turning).peak == pytest.approx(6.892, abs=1e-3)
    assert "the top of the fitted curve near 7 in flight" in fit(turning).words
    assert fit({n: law(n, 1.0, 0.05, 0.02) for n in (1, 2, 3, 4)}).peak is None
    flat = fit({1: 0.30, 2: 0.55, 3: 0.74, 4: 0.90})
    assert flat.peak is None
    assert "with no top over what was tested" in flat.words


@pytest.mark.parametrize("outside", [0.5, 17, 100])
def test_outside_the_tested_settings_it_refuses(outside):
    with pytest.raises(ValueError, match="outside the tested settings, 1 to 16: not measured"):
        fit({n: law(n, 1.0, 0.1, 0.01) for n in (1, 2, 4, 8, 16)}).predict(outside)


def test_a_shape_that_no_such_law_has_shows_in_the_residual():
    assert fit({1: 1.0, 2: 0.5, 4: 4.0, 8: 1.0}).residual_share > 0.2


def test_better_than_proportion_is_taken_as_proportion():
    shape = fit({1: 1.0, 2: 2.2, 4: 4.8, 8: 10.0})
    assert (shape.sigma, shape.kappa) == (0.0, 0.0)
    assert "grows in proportion" in shape.words
    assert "not a forecast" in shape.words


@pytest.mark.parametrize("few", [{}, {1: 1.0, 2: 2.0, 4: 3.0}, {1: 1.0, 2: 2.0, 4: 3.0, 8: 0.0}])
def test_fewer_than_four_settings_have_no_shape(few):
    assert fit(few) is None
