"""Whether a measure held still over a window: blocks, the trend through them, and a word for it.

The trend is Theil and Sen's: the median of the slopes between all pairs of blocks (Sen 1968), which one odd block cannot
turn.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MIN_BLOCKS = 6
BLOCK_S = 5.0
BLOCK_COMPLETIONS = 20
DRIFT_SHARE = 0.15
DRIFT_SDS = 2.0


class Steady(StrEnum):
    """`settling` is a trend towards the better, as after a start; `drifting` one towards the worse."""

    STEADY = "steady"
    SETTLING = "settling"
    DRIFTING = "drifting"
    TOO_SHORT = "too_short"


class Steadiness(msgspec.Struct, frozen=True, kw_only=True):
    """`change_share` is the trend's change over the window as a share of the median block, `residual_sd_share` what the
    blocks scatter around it; both None where the window is too short."""

    verdict: Steady
    blocks: int
    change_share: float | None = None
    residual_sd_share: float | None = None


def of_values(at_s: Floats, values: Floats, *, length_s: float) -> Steadiness:
    """Of a time: the median of each block. `at_s` are seconds into the window at which `values` came about, shape (n,);
    falling is better."""
    order = np.argsort(at_s, kind="stable")
    at_s, values = at_s[order], values[order]
    edges = block_edges(at_s, length_s=length_s)
    cuts = np.searchsorted(at_s, edges[1:-1])
    medians = np.array([np.median(part) for part in np.split(values, cuts)]) if len(edges) > 1 else np.zeros(0)
    return judge(_middles(edges), medians, length_s=length_s, falling_is_better=True)


def of_rate(at_s: Floats, *, length_s: float) -> Steadiness:
    """Of a throughput: completions per second of each block. Rising is better."""
    ordered = np.sort(at_s)
    edges = block_edges(ordered, length_s=length_s)
    counts = np.diff(np.searchsorted(ordered, edges)) if len(edges) > 1 else np.zeros(0)
    return judge(_middles(edges), counts / np.diff(edges), length_s=length_s, falling_is_better=False)


def block_edges(at_s: Floats, *, length_s: float) -> Floats:
    """Edges in seconds of blocks that each last BLOCK_S and hold BLOCK_COMPLETIONS, whichever takes longer.

    What is left at the end joins the last block. `at_s` ascends; shape of the answer (blocks + 1,), or (1,) of none.
    """
    edges, taken = [0.0], 0
    while taken + BLOCK_COMPLETIONS <= len(at_s):
        full_s = float(at_s[taken + BLOCK_COMPLETIONS - 1])
        edge = max(edges[-1] + BLOCK_S, np.nextafter(full_s, np.inf))
        if edge > length_s:
            break
        edges.append(float(edge))
        taken = int(np.searchsorted(at_s, edge))
    if len(edges) > 1:
        edges[-1] = length_s
    return np.array(edges)


def judge(at_s: Floats, blocks: Floats, *, length_s: float, falling_is_better: bool) -> Steadiness:
    """The word for blocks whose middles are at `at_s`, both of shape (blocks,)."""
    if len(blocks) < MIN_BLOCKS:
        return Steadiness(verdict=Steady.TOO_SHORT, blocks=len(blocks))
    middle = float(np.median(blocks))
    slope = theil_sen(at_s, blocks)
    change = slope * length_s
    rest = blocks - slope * at_s
    residual_sd = float(np.std(rest - np.median(rest), ddof=2))
    moved = abs(change) >= DRIFT_SHARE * abs(middle) and abs(change) >= DRIFT_SDS * residual_sd and change != 0
    better = (change < 0) == falling_is_better
    verdict = (Steady.SETTLING if better else Steady.DRIFTING) if moved else Steady.STEADY
    return Steadiness(
        verdict=verdict,
        blocks=len(blocks),
        change_share=change / middle if middle else None,
        residual_sd_share=residual_sd / abs(middle) if middle else None,
    )


def theil_sen(at_s: Floats, values: Floats) -> float:
    """The median slope between all pairs, per second; at least two different times."""
    later, earlier = np.tril_indices(len(at_s), k=-1)
    return float(np.median((values[later] - values[earlier]) / (at_s[later] - at_s[earlier])))


def _middles(edges: Floats) -> Floats:
    return (edges[1:] + edges[:-1]) / 2
