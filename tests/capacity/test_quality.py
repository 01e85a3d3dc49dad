"""Sampled answers of two settings side by side: which pairs, with which word of the validator, and in the files."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from msgspec import structs

from benchmarks import triggers
from benchmarks.engine.columns import from_frames
from benchmarks.engine.terms import Outcome, Phase, Sample
from benchmarks.models import Evidence, Grid, Role
from benchmarks.records.parquet import write
from capacity import quality_tables
from capacity.quality_tables import Quality, quality
from capacity.queries import result_of
from tests import factories
from tests.benchmarks.engine.plans import FAILED, a_header, a_plan, a_record
from tests.capacity import stored
from tests.capacity import synthetic as made

pytestmark = pytest.mark.django_db
OLD = Path(__file__).resolve().parents[1] / "data" / "evidence" / "schema2_cell.parquet"
ODD = '=HYPERLINK("http://x"), <script>alert(1)</script>'


def a_sample(index: int, answer: str) -> Sample:
    return Sample(
        index=index, attempt=1, prompt=f" marker{index} prompt", prompt_characters=15, expected="579", answer=answer,
        answer_characters=len(answer), answer_sha256=hashlib.sha256(answer.encode()).hexdigest(),
    )  # fmt: skip


def evidence_of(
    answers: Mapping[int, str], *, wrong: int = 0, failed: int = 0, warmup: int = 0, task: str = "arithmetic"
) -> bytes:
    """The first `wrong` are not valid, the next `failed` did not succeed, and `warmup` of the lowest were sent in warm-up."""
    frames: list[object] = [a_header(a_plan(task=task))]
    for place, (index, answer) in enumerate(answers.items()):
        bad = (
            {"outcome": Outcome.REJECTED, "detail": "queue is full", **FAILED}
            if wrong <= place < wrong + failed
            else {}
        )
        fields = {
            "valid": place >= wrong,
            "phase": Phase.WARMUP if place < warmup else Phase.WINDOW,
            "class_name": "short",
        }
        frames += [a_record(index, **(fields | bad)), a_sample(index, "" if bad else answer)]
    return write(from_frames(frames))  # type: ignore[arg-type]


def grid_with(contents: Mapping[int, bytes]) -> Grid:
    """One class, measured at these settings, each with its own evidence."""
    grid = factories.make_grid(limits=made.limits(), class_names=["short"], name="=a grid", settings=tuple(contents))
    return stored.measure(grid, content=lambda cell: contents[cell.setting])


def answers(count: int = 30, text: str = "579") -> dict[int, str]:
    return dict.fromkeys(range(count), text)


def found_in(grid: Grid, at: int | None = None) -> Quality:
    return quality(result_of(grid), at)


def page(grid: Grid, query: str = "") -> tuple[int, str]:
    client = Client()
    client.force_login(factories.make_user(grid.team, Role.VIEWER, username=f"viewer{query}"))
    answer = client.get(reverse("grid-quality", args=[grid.pk]) + query)
    return answer.status_code, " ".join(answer.content.decode().split())


def test_twenty_pairs_with_the_validators_word_are_counted_with_their_interval() -> None:
    grid = grid_with(
        {1: evidence_of(answers(), wrong=2), 4: evidence_of(answers(25, "The sum is 579."), wrong=2, failed=1)}
    )
    found = found_in(grid)
    assert (found.low, found.at, len(found.pairs)) == (1, 4, 20)
    assert found.heading == "18 of 20 valid at 1 in flight, 17 of 20 at 4 in flight"
    assert [count.words for count in found.counts] == [
        "18 of 20 valid at 1 in flight (95\u00a0% interval 70 to 97\u00a0%)",
        "17 of 20 valid at 4 in flight (95\u00a0% interval 64 to 95\u00a0%; 1 did not succeed)",
    ]
    assert (found.same, found.compared) == (0, 19)
    status, text = page(grid)
    assert status == 200
    assert "17 of 20 valid at 4 in flight (95 % interval 64 to 95 %; 1 did not succeed)." in text
    assert "Not judged: the request ended as rejected." in text
    assert "Simulated, not measured on hardware" in text


def test_the_same_request_stands_beside_itself_and_says_whether_the_answer_is_the_same() -> None:
    few = {3: "579", 5: "579", 9: "579"}
    grid = grid_with({1: evidence_of(few), 2: evidence_of({1: "579", 5: "579", 9: "It is 579"})})
    pairs = found_in(grid).pairs
    assert [(pair.left.kept.number, pair.right.kept.number, pair.same) for pair in pairs] == [
        (5, 5, True),
        (9, 9, False),
    ]


def test_requests_of_both_windows_go_before_those_of_a_warm_up_and_the_page_says_how_many_fell_into_one() -> None:
    grid = grid_with({1: evidence_of(answers(30), warmup=2), 2: evidence_of(answers(30), warmup=15)})
    found = found_in(grid)
    assert ([pair.left.kept.number for pair in found.pairs], found.in_warmup) == ([*range(5), *range(15, 30)], 5)
    assert "5 pairs have an answer of a warm-up" in page(grid)[1]


def test_the_right_side_is_the_recommended_setting_else_the_highest_or_the_one_that_was_asked_for() -> None:
    grid = grid_with({setting: evidence_of(answers()) for setting in (1, 2, 4, 8)})
    assert result_of(grid).verdict.recommended == found_in(grid).at
    assert found_in(grid, 2).at == 2
    assert "2 in flight" in page(grid, "?at=2")[1]
    result = result_of(grid)
    assert quality(replace(result, verdict=structs.replace(result.verdict, recommended=None))).at == 8


@pytest.mark.parametrize("query", ["?at=1", "?at=3", "?at=x", "?at=-1", "?at=99999999999999999999", "?at=²"])
def test_a_setting_that_was_not_measured_beside_the_lowest_is_not_found(query: str) -> None:
    assert page(grid_with({1: evidence_of(answers()), 2: evidence_of(answers())}), query)[0] == 404


def test_an_answer_cannot_speak_to_the_page_or_to_a_spreadsheet() -> None:
    grid = grid_with({1: evidence_of({0: ODD}), 2: evidence_of({0: "a\x00b"})})
    text = page(grid)[1]
    assert "<script>alert(1)" not in text
    assert "a\ufffdb" in text
    result = result_of(grid)
    found = quality(result)
    rows = list(csv.DictReader(io.StringIO(quality_tables.as_csv(result, found))))
    plain = json.loads(quality_tables.as_json(result, found))["rows"]
    assert (rows[0]["answer"], plain[0]["answer"], rows[0]["grid_name"]) == (f"'{ODD}", ODD, "'=a grid")
    assert [(row["setting"], row["request_number"], row["hardware"]) for row in rows] == [
        ("1", "0", "Host without GPU, 2 cores"), ("2", "0", "Host without GPU, 2 cores"),
    ]  # fmt: skip
    assert rows[0]["validator_words"].startswith("Valid: the validator of the task arithmetic expected 579")


def test_the_files_are_named_after_the_grid_the_setting_and_that_it_is_simulated() -> None:
    grid = grid_with({1: evidence_of(answers()), 4: evidence_of(answers())})
    client = Client()
    client.force_login(factories.make_user(grid.team, Role.VIEWER))
    answer = client.get(reverse("grid-quality-file", args=[grid.pk, "csv"]) + "?at=4")
    assert answer.headers["Content-Disposition"] == f'attachment; filename="grid-{grid.pk}-quality-at-4-simulated.csv"'
    assert len(list(csv.DictReader(io.StringIO(answer.content.decode())))) == 40
    stranger = Client()
    stranger.force_login(factories.make_user(factories.make_team("Other"), Role.VIEWER, username="other"))
    assert stranger.get(reverse("grid-quality", args=[grid.pk])).status_code == 404


def test_where_validity_is_only_by_construction_the_page_says_so() -> None:
    grid = grid_with({1: evidence_of(answers(), task="words"), 2: evidence_of(answers(), task="words")})
    assert "right by construction" in page(grid)[1]
    assert (
        "right by construction"
        not in page(grid_with({1: evidence_of(answers()), 2: evidence_of(answers())}), "?at=2")[1]
    )


def test_evidence_of_before_answers_were_kept_says_what_to_do() -> None:
    grid = grid_with({1: evidence_of(answers()), 2: OLD.read_bytes()})
    assert found_in(grid).why.endswith("is from before answers were kept (schema 4). Draw the grid again to see them.")
    assert page(grid)[0] == 200


def test_nothing_measured_one_setting_alone_and_nothing_in_common_each_say_so() -> None:
    draft = factories.make_grid(limits=made.limits())
    assert found_in(draft).why.startswith("Nothing is measured yet.")
    assert found_in(grid_with({1: evidence_of(answers())})).why.startswith("One setting alone is measured")
    apart = grid_with({1: evidence_of({0: "a"}), 2: evidence_of({9: "a"})})
    assert found_in(apart).why.startswith("No sampled request came as far at both settings")
    assert page(draft)[0] == 200


def test_evidence_that_was_altered_or_is_too_large_is_not_shown() -> None:
    grid = grid_with({1: evidence_of(answers()), 2: evidence_of(answers())})
    triggers.take_away()
    Evidence.objects.filter(cell__grid=grid, cell__setting=2).update(size_bytes=10**9)
    assert "too many to open for a page" in found_in(grid).why
    Evidence.objects.filter(cell__grid=grid).update(sha256="0" * 64, size_bytes=10)
    assert "its digest differs" in found_in(grid).why


def test_only_the_cells_of_two_settings_are_read() -> None:
    grid = grid_with({setting: evidence_of(answers()) for setting in (1, 2, 4, 8)})
    result = result_of(grid)
    with CaptureQueriesContext(
        connection,
    ) as asked:
        quality(result, 4)
    assert sum("evidencechunk" in query["sql"].lower() for query in asked) == 2


def test_the_result_page_links_to_the_answers_and_reads_none() -> None:
    grid = grid_with({1: evidence_of(answers()), 2: evidence_of(answers())})
    client = Client()
    client.force_login(factories.make_user(grid.team, Role.VIEWER))
    with CaptureQueriesContext(connection) as asked:
        text = client.get(grid.get_absolute_url()).content.decode()
    assert reverse("grid-quality", args=[grid.pk]) in text
    assert not any("evidencechunk" in query["sql"].lower() for query in asked)
