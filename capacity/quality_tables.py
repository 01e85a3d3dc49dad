"""Sampled answers of two settings side by side, with the validator's word: what the quality page and its files show.

Only the cells of these two settings are read, a few at most, and of their evidence only what was sampled. The pairs are
requests that both settings were asked, alike but for the marker at the prompt's beginning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext

from benchmarks import queries
from benchmarks.engine import expected_words
from benchmarks.engine.terms import Outcome, Phase
from benchmarks.models import Evidence
from benchmarks.queries import CellEvidence, GridEvidence
from benchmarks.records import kept_samples
from benchmarks.records.digest import sha256
from benchmarks.records.kept_samples import SINCE_SCHEMA, Kept
from benchmarks.records.mode_words import setting_words
from benchmarks.records.parquet import WrongSchemaError
from benchmarks.stats.estimates import Share
from benchmarks.stats.per_cent import per_cent
from benchmarks.stats.shares import share
from capacity.exports import WHERE, Value, csv_of, json_of, where
from capacity.queries import Result

PAIRS = 20
MOST_CELLS = 4
"""Of each setting: every length class once, and their mix."""
MOST_BYTES = 64 * 1024 * 1024
"""Evidence larger than this is not opened for a page."""


@dataclass(frozen=True, slots=True)
class Side:
    """One answer."""

    cell: CellEvidence
    kept: Kept

    @property
    def tone(self) -> str:
        return {True: "ok", False: "bad", None: "idle"}[self.kept.valid]

    @property
    def word(self) -> str:
        return {True: "valid", False: "not valid", None: "not judged"}[self.kept.valid]

    @property
    def answer(self) -> str:
        return _readable(self.kept.text.answer)

    @property
    def prompt(self) -> str:
        return _readable(self.kept.text.prompt)

    @property
    def cut(self) -> str:
        """Empty where the answer is whole."""
        kept, whole = len(self.kept.text.answer), self.kept.text.answer_characters
        return "" if kept == whole else f"Cut after {kept:,} of {whole:,} characters."

    @property
    def prompt_cut(self) -> str:
        kept, whole = len(self.kept.text.prompt), self.kept.text.prompt_characters
        return "" if kept == whole else f"Cut after {kept:,} of {whole:,} characters."

    @property
    def told(self) -> str:
        """Outcome and length: "ok, 32 of 48 tokens, in warm-up"."""
        one = self.kept
        tokens = "tokens not counted" if one.output_tokens is None else f"{one.output_tokens:,} tokens"
        parts = [one.outcome.replace("_", " "), f"{tokens} of {one.asked_output_tokens:,} asked"]
        parts += [f"attempt {one.text.attempt}"] if one.text.attempt > 1 else []
        parts += ["in warm-up"] if one.phase is Phase.WARMUP else []
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Pair:
    """One request at both settings. `same`: the whole answers are equal; None where one of them did not come to its
    end."""

    label: str
    left: Side
    right: Side

    @property
    def same(self) -> bool | None:
        both = (self.left.kept, self.right.kept)
        if any(one.outcome is not Outcome.OK for one in both):
            return None
        return both[0].text.answer_sha256 == both[1].text.answer_sha256

    @property
    def in_window(self) -> bool:
        return self.left.kept.phase is self.right.kept.phase is Phase.WINDOW


@dataclass(frozen=True, slots=True)
class Count:
    """How many of the sampled answers are valid at one setting; what did not succeed is not valid."""

    setting: str
    valid: Share
    failed: int

    @property
    def words(self) -> str:
        found = self.valid
        if found.lower is None or found.upper is None:
            return f"none sampled at {self.setting}"
        failed = f"; {self.failed} did not succeed" if self.failed else ""
        between = f"95\u00a0% interval {found.lower * 100:.0f} to {per_cent(found.upper)}"
        return f"{found.hits} of {found.n} valid at {self.setting} ({between}{failed})"


@dataclass(frozen=True, slots=True)
class Quality:
    """`why` says what to do where there are no pairs; `others` are the settings that could stand on the right."""

    low: int | None
    at: int | None
    others: tuple[int, ...]
    pairs: tuple[Pair, ...] = ()
    counts: tuple[Count, ...] = ()
    task: str = ""
    why: str = ""

    @property
    def by_construction(self) -> str:
        return expected_words.BY_CONSTRUCTION if expected_words.by_construction(self.task) else ""

    @property
    def heading(self) -> str:
        """ "18 of 20 valid at 1 in flight, 17 of 20 at 4 in flight"."""
        if not self.counts:
            return gettext("No answers to lay side by side")
        first, *more = self.counts
        rest = [f"{count.valid.hits} of {count.valid.n} at {count.setting}" for count in more]
        return ", ".join([f"{first.valid.hits} of {first.valid.n} valid at {first.setting}", *rest])

    @property
    def same(self) -> int:
        return sum(pair.same is True for pair in self.pairs)

    @property
    def compared(self) -> int:
        return sum(pair.same is not None for pair in self.pairs)

    @property
    def in_warmup(self) -> int:
        return sum(not pair.in_window for pair in self.pairs)


def settings_of(found: GridEvidence) -> tuple[int, ...]:
    """Settings whose load left evidence, ascending."""
    return tuple(sorted({cell.setting for cell in found.measured if cell.evidence_sha256}))


def quality(result: Result, at: int | None = None) -> Quality:
    """The lowest measured setting beside `at`, by default the recommended one, else the highest measured.

    Raises LookupError where `at` is no other measured setting of this grid.
    """
    found = result.evidence
    measured = settings_of(found)
    if not measured:
        return Quality(
            None,
            None,
            (),
            why=gettext("Nothing is measured yet. What is answered will stand here after the first cells."),
        )
    low, others = measured[0], measured[1:]
    if at is not None and at not in others:
        raise LookupError(f"no cell was measured at {at} beside {low}")
    if not others:
        return Quality(low, None, (), why="One setting alone is measured, so there is nothing to lay beside it.")
    chosen = result.verdict.recommended
    at = at or (chosen if chosen in others else others[-1])
    return _laid(found, low, at, others)


def _laid(found: GridEvidence, low: int, at: int, others: tuple[int, ...]) -> Quality:
    pairs: list[Pair] = []
    for left, right in _cells(found, low, at):
        sides = []
        for cell in (left, right):
            kept = _kept(cell)
            if isinstance(kept, str):
                return Quality(low, at, others, why=kept)
            sides.append(kept)
        label = "" if left.class_name != queries.MIXED else " in the mix"
        for number in sides[0].keys() & sides[1].keys():
            one, other = sides[0][number], sides[1][number]
            pairs.append(Pair(f"{one.class_name}{label}", Side(left, one), Side(right, other)))
    if not pairs:
        return Quality(low, at, others, why=_WHY_NONE)
    chosen = _spread(pairs)
    mode = found.grid.mode
    return Quality(
        low, at, others, pairs=tuple(chosen), task=chosen[0].left.kept.task,
        counts=(
            _count(setting_words(mode, low), [pair.left for pair in chosen]),
            _count(setting_words(mode, at), [pair.right for pair in chosen]),
        ),
    )  # fmt: skip


_WHY_NONE = (
    "No sampled request came as far at both settings, or their answers are embeddings, which have no text. A longer window "
    "gives the slower setting more requests."
)


def _cells(found: GridEvidence, low: int, at: int) -> list[tuple[CellEvidence, CellEvidence]]:
    """Cells of one class and repeat at both settings, the first repeat that both have: they were asked the same."""
    by_name: dict[tuple[int, str], dict[int, CellEvidence]] = {}
    for cell in found.measured:
        if cell.evidence_sha256 and cell.setting in (low, at):
            by_name.setdefault((cell.setting, cell.class_name), {})[cell.repeat] = cell
    both = []
    for name in found.class_names:
        left, right = by_name.get((low, name), {}), by_name.get((at, name), {})
        if repeats := sorted(left.keys() & right.keys()):
            both.append((left[repeats[0]], right[repeats[0]]))
    return both[:MOST_CELLS]


def _kept(cell: CellEvidence) -> Mapping[int, Kept] | str:
    """What was sampled in a cell, or why it cannot be shown."""
    size = Evidence.objects.filter(cell_id=cell.cell_id).values_list("size_bytes", flat=True).first() or 0
    if size > MOST_BYTES:
        return (
            f"The evidence of cell {cell.cell_id} has {size:,} bytes, too many to open for a page. Download it instead."
        )
    try:
        content = queries.evidence_bytes(cell.cell_id)
        if sha256(content) != cell.evidence_sha256:
            return f"The evidence of cell {cell.cell_id} is not what was stored: its digest differs."
        kept = kept_samples.read(content)
    except (LookupError, WrongSchemaError) as error:
        return f"The evidence of cell {cell.cell_id} cannot be read: {error}."
    if kept is None:
        return (
            f"The evidence of cell {cell.cell_id} is from before answers were kept (schema {SINCE_SCHEMA}). Draw the grid "
            "again to see them."
        )
    return kept


def _spread(pairs: Sequence[Pair]) -> list[Pair]:
    """Twenty at most, of each class about as many; those of both windows before those that fell into a warm-up."""
    queues: dict[str, list[Pair]] = {}
    for pair in sorted(pairs, key=lambda one: (not one.in_window, one.left.kept.number)):
        queues.setdefault(pair.label, []).append(pair)
    chosen: list[Pair] = []
    for turn in range(PAIRS):
        chosen += [queue[turn] for queue in queues.values() if turn < len(queue)]
    order = list(queues)
    return sorted(chosen[:PAIRS], key=lambda one: (order.index(one.label), one.left.kept.number))


def _count(setting: str, sides: Sequence[Side]) -> Count:
    hits = sum(side.kept.valid is True for side in sides)
    failed = sum(side.kept.outcome is not Outcome.OK for side in sides)
    return Count(setting, share(hits, len(sides)), failed)


def _readable(text: str) -> str:
    """Control characters have no shape on a page."""
    return "".join(sign if sign.isprintable() or sign in "\n\t" else "\ufffd" for sign in text)


def as_csv(result: Result, found: Quality) -> str:
    """UTF-8 text with a header line and CRLF ends; a row for each answer, two for each request."""
    return csv_of(_rows(result, found), COLUMNS)


def as_json(result: Result, found: Quality) -> str:
    """An object with `rows`, the same columns as the CSV."""
    return json_of(_rows(result, found))


COLUMNS = (
    *WHERE, "class_name", "request_number",
    "setting", "cell", "repeat", "attempt", "phase", "outcome", "detail", "prompt_tokens", "asked_output_tokens",
    "output_tokens", "task", "valid", "validator_words", "validity_by_construction", "same_answer", "answer",
    "answer_characters", "answer_sha256", "prompt", "prompt_characters", "evidence_sha256",
)  # fmt: skip


def _rows(result: Result, found: Quality) -> list[dict[str, Value]]:
    head = where(result)
    return [_row(head, pair, side) for pair in found.pairs for side in (pair.left, pair.right)]


def _row(head: tuple[Value, ...], pair: Pair, side: Side) -> dict[str, Value]:
    cell, kept = side.cell, side.kept
    text = kept.text
    values: tuple[Value, ...] = (
        *head,
        pair.label, kept.number, cell.setting, cell.cell_id, cell.repeat, text.attempt, str(kept.phase), str(kept.outcome),
        kept.detail, kept.prompt_tokens, kept.asked_output_tokens, kept.output_tokens, kept.task, kept.valid,
        kept.verdict_words, expected_words.by_construction(kept.task), pair.same, text.answer, text.answer_characters,
        text.answer_sha256, text.prompt, text.prompt_characters, cell.evidence_sha256,
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))
