"""Behaviour probes on the result page and in files: what each was asked, found and could not say.

They stand beside the judgement, not in it: a recommendation rests on the cells of load alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from benchmarks import probe_tables
from benchmarks.engine.verdicts import Figure, words_of
from benchmarks.probe_tables import Line
from benchmarks.queries import CellEvidence
from capacity.exports import WHERE, Value, csv_of, json_of, where
from capacity.queries import Result

SHOWN_FIGURES = 6
"""On the result page; all of them are on the probe's own page and in the files."""
TRIED_BY = {
    "Overload": "overload", "Cancellation": "cancellation", "Fairness": "fairness", "Retries": "retry_storm",
    "Recovery": "recovery",
}  # fmt: skip
"""The first word of a sentence about what was not tested, and the probe that tries it."""


@dataclass(frozen=True, slots=True)
class Untested:
    """What the judgement has not tested; `tried` where a behaviour probe has tried it beside the judgement."""

    sentence: str
    tried: bool


def lines(result: Result) -> list[Line]:
    """One line for each behaviour probe of the grid, in running order."""
    return [probe_tables.line(cell) for cell in result.evidence.probes]


def untested(sentences: Sequence[str], found: Sequence[Line]) -> list[Untested]:
    """The judge's own sentences, unchanged, each with whether a probe gave a verdict on it."""
    judged = {line.cell.probe for line in found if line.judged}
    return [Untested(sentence, TRIED_BY.get(sentence.partition(":")[0]) in judged) for sentence in sentences]


def context(result: Result) -> dict[str, object]:
    """What the result page shows of them."""
    found = lines(result)
    return {
        "behaviour": found,
        "shown": SHOWN_FIGURES,
        "shown_figures": f":{SHOWN_FIGURES}",
        "untested": untested(result.verdict.not_tested, found),
    }


def as_csv(result: Result) -> str:
    """UTF-8 text with a header line and CRLF ends; a row for each figure of each probe."""
    return csv_of(_rows(result), COLUMNS)


def as_json(result: Result) -> str:
    """An object with `rows`, the same columns as the CSV."""
    return json_of(_rows(result))


COLUMNS = (
    *WHERE, "cell", "probe", "repeat",
    "setting", "status", "reason", "started_at", "finished_at", "verdict", "verdict_words", "verdict_reasons", "figure",
    "value", "unit", "n", "parameters", "evidence_sha256",
)  # fmt: skip


def _rows(result: Result) -> list[dict[str, Value]]:
    head = where(result)
    rows = []
    for cell in result.evidence.probes:
        figures: list[tuple[str | None, Figure | None]] = list(cell.verdict.figures.items()) if cell.verdict else []
        rows += [_row(head, cell, name, figure) for name, figure in figures or [(None, None)]]
    return rows


def _row(head: tuple[Value, ...], cell: CellEvidence, name: str | None, figure: Figure | None) -> dict[str, Value]:
    verdict = cell.verdict
    values: tuple[Value, ...] = (
        *head,
        cell.cell_id, cell.probe, cell.repeat, cell.setting, cell.status, cell.reason,
        cell.started_at.isoformat() if cell.started_at else None, cell.finished_at.isoformat() if cell.finished_at else None,
        verdict.verdict if verdict else None, words_of(verdict) if verdict else None,
        " ".join(verdict.reasons) if verdict else None, name, figure.value if figure else None,
        figure.unit if figure else None, figure.n if figure else None,
        msgspec.json.encode(verdict.parameters, order="sorted").decode() if verdict else None, cell.evidence_sha256,
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))
