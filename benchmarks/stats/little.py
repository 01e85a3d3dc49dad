"""Little's law as a check of a window: mean in flight = throughput x mean time in flight (Little 1961).

It holds for any queue that neither fills nor empties over the window, so a window that breaks it lost requests, counted
some twice, or was not steady.
"""

from __future__ import annotations

import msgspec

TOLERANCE = 0.10


class Little(msgspec.Struct, frozen=True, kw_only=True):
    """`expected` requests in flight by the law, `ratio` of those seen to them; None where something is not known."""

    expected: float | None = None
    ratio: float | None = None

    @property
    def agrees(self) -> bool | None:
        """Within 10 %."""
        return None if self.ratio is None else abs(self.ratio - 1) <= TOLERANCE


def little(mean_in_flight: float | None, throughput_per_s: float | None, mean_e2e_s: float | None) -> Little:
    """All three over one window and of the same requests, whatever became of them."""
    if throughput_per_s is None or mean_e2e_s is None:
        return Little()
    expected = throughput_per_s * mean_e2e_s
    if mean_in_flight is None or expected <= 0:
        return Little(expected=expected)
    return Little(expected=expected, ratio=mean_in_flight / expected)
