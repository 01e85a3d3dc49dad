"""The sampled requests of one cell's evidence, without its other columns: what a page lays side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
import numpy as np
import pyarrow as pa

from benchmarks.engine import expected_words
from benchmarks.engine.column_types import CODES, OUTCOMES, PHASES
from benchmarks.engine.plan import CellPlan
from benchmarks.engine.terms import Outcome, Phase, Sample
from benchmarks.records import arrays
from benchmarks.records.arrays import WrongSchemaError
from benchmarks.records.parquet import meta_of, samples_in

SINCE_SCHEMA = 4
INTS = ("asked_output_tokens", "prompt_tokens", "output_tokens", "valid", "session", "turn")


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The last attempt at one sampled request. `number` is its place in the workload, which cells of other settings share;
    `valid` is None where nobody judged the answer."""

    number: int
    class_name: str
    phase: Phase
    outcome: Outcome
    detail: str
    valid: bool | None
    task: str
    asked_output_tokens: int
    prompt_tokens: int | None
    output_tokens: int | None
    text: Sample

    @property
    def answer_is_whole(self) -> bool:
        return self.text.answer_characters == len(self.text.answer)

    @property
    def verdict_words(self) -> str:
        """The validator's word."""
        text = self.text
        if self.outcome is not Outcome.OK:
            return f"Not judged: the request ended as {self.outcome.replace('_', ' ')}."
        answer = text.answer if self.answer_is_whole else None
        return expected_words.verdict_words(
            self.task, text.expected, self.asked_output_tokens, answer, valid=self.valid
        )


def read(content: bytes) -> dict[int, Kept] | None:
    """Number in the workload -> what is kept of that request; None of evidence from before answers were kept.

    Raises WrongSchemaError.
    """
    try:
        file = arrays.File(content)
    except pa.ArrowInvalid as error:
        raise WrongSchemaError(f"not a Parquet file: {error}") from error
    meta = meta_of(file.metadata)
    if meta.schema < SINCE_SCHEMA:
        return None
    plan = meta.header.plan
    rows = slice(0, int(np.count_nonzero(file.codes("record", ("request", "batch", "reading")) == 0)))
    index, attempt = file.ints("index", rows).values, file.ints("attempt", rows).values
    samples = samples_in(file, index, attempt)
    found: dict[int, Kept] = {}
    for kept in _kept(file, rows, samples, plan):
        before = found.get(kept.number)
        if before is None or before.text.attempt < kept.text.attempt:
            found[kept.number] = kept
    return dict(sorted(found.items()))


def _kept(file: arrays.File, rows: slice, samples: Mapping[int, Sample], plan: CellPlan) -> Iterator[Kept]:
    turns = plan.sessions.turns if plan.sessions else 1
    names, details = file.words("class_name", rows), file.words("detail", rows)
    outcomes, phases = (file.codes(name, CODES[name], rows) for name in ("outcome", "phase"))
    ints = {name: file.ints(name, rows) for name in INTS}
    for row, sample in samples.items():
        known = {name: int(one.values[row]) if one.known[row] else None for name, one in ints.items()}
        session, turn, valid = known["session"], known["turn"], known["valid"]
        yield Kept(
            number=sample.index if session is None or turn is None else session * turns + turn,
            class_name=names[row] or "",
            phase=Phase(PHASES[phases[row]]),
            outcome=Outcome(OUTCOMES[outcomes[row]]),
            detail=details[row] or "",
            valid=None if valid is None else bool(valid),
            task=plan.task,
            asked_output_tokens=known["asked_output_tokens"] or 0,
            prompt_tokens=known["prompt_tokens"],
            output_tokens=known["output_tokens"],
            text=sample,
        )
