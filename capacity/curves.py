"""How the times of a class are distributed at each setting: from the packed samples that every summary keeps.

Failed requests count: a curve that ends below 100 % is that of a setting where some requests never finished in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
import plotly.graph_objects as go

from benchmarks.engine.plan import ClassLimits
from benchmarks.engine.summary_types import ClassSummary
from benchmarks.stats.packed import unpack
from capacity.assessment.latency import LIMIT_NAMES
from capacity.chart_parts import LIMIT, axis, axis_name, layout, note, vertical
from capacity.chart_types import Cell, Chart, ChartTable, Column
from capacity.queries import Result, provenance

MOST_POINTS = 40
SHARES = (0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99)
AT = (52, 72, 86, 62)
FAR = 0.7
"""Share of the axis from which on a name stands before its line, where it has room."""
"""Where on its curve a setting's number stands, in per cent: neighbours at different heights."""
RAMP = ("var(--s1)", "var(--s2)", "var(--s4)", "var(--s8)")


@dataclass(frozen=True, slots=True)
class Curve:
    """`times_s` ascending with the share of all `n` scheduled requests that had finished by then, thinned out for drawing;
    `failed` never did. `marks` are the times of SHARES in the whole sample, infinite among failures."""

    setting: int
    n: int
    failed: int
    times_s: tuple[float, ...]
    shares: tuple[float, ...]
    marks: tuple[float, ...]

    def at(self, share: float) -> float:
        """The time by which this share had finished, as it is drawn; infinite among failures."""
        place = int(np.searchsorted(self.shares, share - 1e-9))
        return self.times_s[place] if place < len(self.times_s) else inf

    def mark(self, share: float) -> float:
        """The time of one of SHARES."""
        return self.marks[SHARES.index(share)]


def distributions(result: Result) -> list[Chart]:
    """One chart a class, in the order of the cells; none of classes whose samples were not kept."""
    seen: dict[tuple[str, bool], dict[int, list[ClassSummary]]] = {}
    for cell in result.evidence.measured:
        for part in cell.summary.classes if cell.summary else ():
            in_mix = part.class_name != cell.class_name
            seen.setdefault((part.class_name, in_mix), {}).setdefault(cell.setting, []).append(part)
    charts: list[Chart] = []
    for (name, in_mix), by_setting in seen.items():
        key, limit_s = _measure(result.facts.limits.classes.get(name))
        found = [_curve(setting, parts, key) for setting, parts in sorted(by_setting.items())]
        curves = [curve for curve in found if curve is not None and curve.times_s]
        if curves:
            label = f"{name} in the mix" if in_mix else name
            charts.append(_chart(result, len(charts) + 1, label, key, limit_s, curves))
    return charts


def _measure(limits: ClassLimits | None) -> tuple[str, float | None]:
    """The time that the class is held to first, as the small charts have it; end to end where it has no limit."""
    found = [(key, getattr(limits, key)) for key in LIMIT_NAMES if limits and getattr(limits, key) is not None]
    return found[0] if found else ("e2e_s", None)


def _curve(setting: int, parts: Sequence[ClassSummary], key: str) -> Curve | None:
    """All repeats together; None where one of them kept no sample."""
    pools = [part.pools.get(key) for part in parts]
    known = [pool for pool in pools if pool is not None]
    if len(known) < len(pools) or not known:
        return None
    unpacked = [unpack(pool.times) for pool in known]
    values, counts = (np.concatenate(columns) for columns in zip(*unpacked, strict=True))
    order = np.argsort(values, kind="stable")
    n = sum(pool.n for pool in known)
    shares = np.cumsum(counts[order]) / n if n else np.zeros(0)
    kept, sorted_s = _kept(shares), values[order]
    places = np.searchsorted(shares, np.array(SHARES) - 1e-9).tolist()
    return Curve(
        setting=setting, n=n, failed=sum(pool.failed for pool in known),
        times_s=tuple(float(f"{t:.4g}") for t in sorted_s[kept].tolist()),
        shares=tuple(round(s, 5) for s in shares[kept].tolist()),
        marks=tuple(float(f"{sorted_s[place]:.4g}") if place < len(sorted_s) else inf for place in places),
    )  # fmt: skip


def _kept(shares: np.ndarray) -> np.ndarray:
    """Places of at most MOST_POINTS points, evenly apart in share, the first and the last among them."""
    if len(shares) <= MOST_POINTS:
        return np.arange(len(shares))
    wanted = np.linspace(shares[0], shares[-1], MOST_POINTS)
    return np.unique(np.minimum(np.searchsorted(shares, wanted - 1e-12), len(shares) - 1))


def _chart(
    result: Result, number: int, label: str, key: str, limit_s: float | None, curves: Sequence[Curve]
) -> Chart:  # fmt: skip
    percentile = result.facts.limits.percentile
    chosen = result.verdict.recommended
    figure = go.Figure()
    for place, curve in enumerate(curves):
        figure.add_scatter(
            x=[0.0, *(float(f"{time_s:.3g}") for time_s in curve.times_s)],
            y=[0.0, *(round(share * 100, 1) for share in curve.shares)], mode="lines",
            name=f"{curve.setting} in flight",
            line={"color": _ramp(place, len(curves)), "width": 2.25 if curve.setting == chosen else 1.75, "shape": "hv"},
            hovertemplate=f"<b>{curve.setting} in flight</b><br>%{{y:.1f}} % within %{{x:.3g}} s<br>n = {curve.n}<extra></extra>",
        )  # fmt: skip
    right = _right_end(curves, limit_s)
    name = LIMIT_NAMES[key]
    shapes = [{"type": "line", "xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": percentile, "y1": percentile,
               "line": {"color": "var(--axis)", "width": 1}}]  # fmt: skip
    notes = [*_numbers(curves, right), axis_name("Requests finished (%)", left=-36)]
    if limit_s is not None:
        shapes.append(vertical(limit_s, "x"))
        side, shift = ("right", -6) if limit_s > FAR * right else ("left", 6)
        notes.append(
            note(limit_s, 0, f"objective {limit_s:g} s", yref="paper", xanchor=side, yanchor="bottom", xshift=shift, yshift=4,
                 font={"size": 11, "color": LIMIT})
        )  # fmt: skip
    figure.update_layout(
        **layout(
            margin={"l": 40, "r": 10, "t": 30, "b": 46}, shapes=shapes, annotations=notes,
            xaxis=axis(f"{name.capitalize()} (s)", range=[0, right], nticks=7),
            yaxis=axis(range=[0, 101], tickvals=sorted({0, 25, 50, 75, int(percentile)})),
            meta={"conditions": provenance(result.evidence).words},
        )
    )  # fmt: skip
    return Chart(
        key=f"distribution-{number}", kind="distribution", label=label, title=f"Latency distribution, {label}",
        figure=str(figure.to_json()), aria=_aria(label, name, limit_s, curves), caption=_caption(curves),
        table=_table(label, curves), series=_series(label, curves), size=(560, 340),
    )  # fmt: skip


def _ramp(place: int, count: int) -> str:
    """Light to dark over the settings; with more than four neighbours share a step, which their numbers tell apart."""
    return RAMP[round(place * (len(RAMP) - 1) / max(count - 1, 1))] if count > 1 else RAMP[2]


def _right_end(curves: Sequence[Curve], limit_s: float | None) -> float:
    """Far enough for nearly all of every curve, and never so far that the objective is a hair beside the axis."""
    longest = max(curve.at(0.98) if np.isfinite(curve.at(0.98)) else curve.times_s[-1] for curve in curves)
    wanted = max(longest * 1.08, (limit_s or 0.0) * 1.2)
    return min(wanted, (limit_s or wanted) * 4) or 1.0


def _numbers(curves: Sequence[Curve], right: float) -> list[dict[str, object]]:
    found = []
    for place, curve in enumerate(curves):
        at = AT[place % len(AT)] / 100
        time_s = curve.at(at)
        if not np.isfinite(time_s) or time_s > right:
            inside = [(t, s) for t, s in zip(curve.times_s, curve.shares, strict=True) if t <= right * 0.95]
            if not inside:
                continue
            time_s, at = inside[-1]
        found.append(
            note(time_s, at * 100, f"<b>{curve.setting}</b>", xanchor="left", xshift=5, yshift=-7,
                 font={"size": 12, "color": _ramp(place, len(curves))})
        )  # fmt: skip
    return found


def _aria(label: str, name: str, limit_s: float | None, curves: Sequence[Curve]) -> str:
    said = [
        f"{c.setting} in flight: half within {_words(c.mark(0.5))}, 95 % within {_words(c.mark(0.95))}" for c in curves
    ]
    objective = f", objective {limit_s:g} s" if limit_s is not None else ""
    return f"{label}, {name}{objective}. {'. '.join(said)}."


def _words(time_s: float) -> str:
    return f"{time_s:.3g} s" if np.isfinite(time_s) else "no time, they fall among failures"


def _caption(curves: Sequence[Curve]) -> str:
    counts = ", ".join(f"{curve.n:,} at {curve.setting}" for curve in curves)
    failed = [f"{curve.failed:,} at {curve.setting}" for curve in curves if curve.failed]
    text = f"n = {counts} in flight, all repeats together. Each number names its setting."
    return text + (f" Never finished: {', '.join(failed)}; their curves end below 100 %." if failed else "")


def _table(label: str, curves: Sequence[Curve]) -> ChartTable:
    columns = (
        Column("class_name", "Class"), Column("setting", "In flight", digits=0), Column("n", "n", digits=0),
        *(Column(f"p{share * 100:g}_s", f"p{share * 100:g}", "s", 3) for share in SHARES),
        Column("failed", "Never finished", digits=0),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = [(label, c.setting, c.n, *c.marks, c.failed) for c in curves]
    return ChartTable(columns, tuple(rows))


def _series(label: str, curves: Sequence[Curve]) -> ChartTable:
    columns = (
        Column("class_name", "Class"), Column("setting", "In flight", digits=0), Column("time_s", "Time", "s", 3),
        Column("finished_share", "Finished", digits=3), Column("n", "n", digits=0),
    )  # fmt: skip
    rows = tuple(
        (label, c.setting, time_s, share, c.n)
        for c in curves
        for time_s, share in zip(c.times_s, c.shares, strict=True)
    )
    return ChartTable(columns, rows)
