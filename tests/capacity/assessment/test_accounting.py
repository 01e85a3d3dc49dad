"""Sent is the sum of the outcomes, a cut prompt spoils its point, and short answers are told."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from benchmarks.engine.plan import ClassLimits
from benchmarks.engine.summary_types import CellSummary
from benchmarks.stats.quantiles import tail
from capacity.assessment import accounting
from capacity.assessment.choose import judge
from capacity.assessment.facts import CellFact
from capacity.assessment.gates import gates_of
from capacity.assessment.verdict import Answer
from tests.capacity import synthetic as made


def cell_of(number: int = 1, *, n: int = 90, name: str = "short", **more: int) -> CellFact:
    return made.cell(number, 2, name, made.summary(2, name, [made.class_summary(name, [0.5] * n, **more)]))


def summaries(*cells: CellFact) -> list[CellSummary]:
    return [cell.summary for cell in cells if cell.summary]


def test_sent_is_the_sum_of_the_outcomes_and_the_whole_count_stands_beside_it() -> None:
    found = accounting.tally(summaries(cell_of(failed=6), cell_of(2)))
    assert found.words == "186 sent in the windows = 180 ok + 6 server error. With warm-up: 194 sent = 194 recorded."
    assert found.conserved is True


@pytest.mark.parametrize(
    ("fields", "conserved", "words"),
    [
        ({"sent": 95, "conserved": False}, False, "With warm-up: 189 sent ≠ 188 recorded."),
        ({"sent": None, "conserved": None}, None, "How many the engine sent in all, warm-up included, was not recorded."),
        ({"scheduled": 91, "conserved": False}, False, "181 sent in the windows ≠ 180 ok."),
    ],
)  # fmt: skip
def test_one_cell_that_does_not_add_up_is_seen_in_the_sum(
    fields: dict[str, object], conserved: bool | None, words: str
) -> None:
    first, second = summaries(cell_of(), cell_of(2))
    found = accounting.tally([first, replace(second, **fields)])
    assert words in found.words
    assert found.conserved is conserved


@pytest.mark.parametrize(
    ("cut", "counted", "answer"),
    [(0, 180.0, Answer.HOLDS), (1, 180.0, Answer.FAILS), (0, None, Answer.NOT_REPORTED)],
)
def test_one_prompt_that_was_cut_spoils_the_point_of_its_class(cut: int, counted: float | None, answer: Answer) -> None:
    part = replace(made.class_summary("long", [0.5] * 90, cut=cut), prompt_tokens_p50=counted)
    cell = made.cell(1, 2, "long", made.summary(2, "long", [part]))
    gate = accounting.prompts([cell])
    assert gate.answer == answer
    assert ("not valid for long" in gate.reason) == (answer == Answer.FAILS)
    assert gate in gates_of(made.facts([cell]), [cell])


def test_a_setting_with_cut_prompts_is_not_recommended() -> None:
    whole, cut = (made.simple_cell(1, 1, p95_s=0.3), made.simple_cell(2, 2, p95_s=0.3, cut=1))
    assert judge(made.facts([whole, cut])).recommended == 1


def test_asked_and_got_stand_per_class_and_setting_with_who_counted() -> None:
    first, second = (
        made.class_summary("short", [0.5] * 90, short=2),
        made.class_summary("short", [0.5] * 90, failed=1),
    )
    second = replace(second, output_tokens_p50=41.0, token_sources={"server": 80, "unknown": 10})
    unknown = replace(second, prompt_tokens_p50=None, token_sources={})
    cells = [
        made.cell(number, setting, "short", made.summary(setting, "short", [part]))
        for number, (setting, part) in enumerate([(4, unknown), (2, first), (2, second)])
    ]
    two, four = accounting.count_rows(cells)
    assert (two.setting, two.sent, two.answered, two.cut, two.short) == (2, 181, 180, 0, 2)
    assert (two.prompt_intended, two.prompt_counted, two.output_asked, two.output_got) == (
        "180",
        "180",
        "60",
        "41 to 60",
    )
    assert two.sources == "server 170, unknown 10"
    assert (four.prompt_counted, four.sources, four.cut, four.short) == ("not recorded", "not recorded", None, 0)


def test_short_answers_are_a_caution_and_block_nothing() -> None:
    cell = made.simple_cell(1, 2, p95_s=0.3, short=7)
    verdict = judge(made.facts([cell]))
    assert verdict.recommended == 2
    assert [c for c in verdict.cautions if c.startswith("7 of 120 answers of short were more than 5 % shorter")]
    assert judge(made.facts([made.simple_cell(1, 2, p95_s=0.3)])).cautions == verdict.cautions[:-1]


def test_a_limit_on_a_time_that_no_answer_has_is_not_tested_and_says_why() -> None:
    part = replace(made.class_summary("short", [0.5] * 90), ttft_s=tail(np.array([])))
    cell = made.cell(1, 2, "short", made.summary(2, "short", [part]))
    limits = replace(made.limits(), classes={"short": ClassLimits(ttft_s=0.5)})
    row = judge(made.facts([cell], asked=limits)).rows[0]
    assert row.gates[0].answer == Answer.NOT_TESTED
    assert row.gates[0].reason == "No answer of short was streamed, so none has a time to its first token."
    assert row.classes[0].untimed
