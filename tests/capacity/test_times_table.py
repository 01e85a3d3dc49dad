"""Times in both views with their steadiness and flags: what the page says, what the file holds, and what neither invents."""

from __future__ import annotations

import csv
import io
import json
from math import inf

import numpy as np
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from msgspec.structs import replace

from benchmarks.engine.summary_types import CellSummary, ChunkGaps, ClassSummary
from benchmarks.models import Cell, Grid, Role
from benchmarks.queries import CellEvidence
from benchmarks.stats.estimates import Tail
from benchmarks.stats.quantiles import tail
from benchmarks.stats.steadiness import Steadiness, Steady
from capacity import exports, times_table
from capacity.queries import result_of
from tests import factories
from tests.capacity import stored
from tests.capacity import synthetic as made

STEADY = Steadiness(verdict=Steady.STEADY, blocks=8, change_share=0.02, residual_sd_share=0.1)
DRIFTING = Steadiness(verdict=Steady.DRIFTING, blocks=8, change_share=0.324, residual_sd_share=0.05)
SETTLING = Steadiness(verdict=Steady.SETTLING, blocks=8, change_share=-0.181, residual_sd_share=0.05)
SHORT = Steadiness(verdict=Steady.TOO_SHORT, blocks=2)
GAPS = ChunkGaps(n=400, p50=0.010, p95=0.0213, p99=0.045, peak=1.25, exact=True, buckets_us=())
NONE = tail(np.array([]))
HEADS = [
    f"{group.head}: {column.head}" for group in (*times_table.TIMES, *times_table.SIGNS) for column in group.columns
]


def flat(value: float, n: int = 100) -> Tail:
    return tail(np.full(n, value))


def part_of(**fields: object) -> ClassSummary:
    """Everything known and steady; the server's view 50 ms shorter."""
    known: dict[str, object] = {
        "ttft_s": flat(0.25), "e2e_s": flat(0.9), "server_ttft_s": flat(0.2), "server_e2e_s": flat(0.85),
        "chunk_gap_s": GAPS, "steadiness": {"e2e_s": STEADY, "ttft_s": STEADY, "tpot_s": STEADY},
    }  # fmt: skip
    return replace(made.class_summary("short", made.latencies(100, 0.9)), **(known | fields))


def summary_of(part: ClassSummary, **fields: object) -> CellSummary:
    known: dict[str, object] = {"steadiness": {"completed_per_s": STEADY}, "transport": "headroom", "attempts": 100}
    return replace(made.summary(1, part.class_name, [part]), **(known | fields))


def cell(summary: CellSummary | None, *, repeat: int = 1) -> CellEvidence:
    return CellEvidence(
        cell_id=repeat, position=repeat, setting=1, class_name="short", repeat=repeat, status="measured", reason="",
        attempt=1, started_at=None, finished_at=None, summary=summary, evidence_sha256=None, requests=100,
    )  # fmt: skip


def table_of(*summaries: CellSummary) -> times_table.Table:
    found = times_table.table([cell(summary, repeat=n) for n, summary in enumerate(summaries, 1)])
    assert found is not None
    return found


def flags_of(*summaries: CellSummary) -> tuple[str, ...] | None:
    return table_of(*summaries).blocks[-1].rows[0].flags


def said(*summaries: CellSummary) -> dict[str, str]:
    """What the table's one row says, by head."""
    blocks = table_of(*summaries).blocks
    assert [len(block.rows) for block in blocks] == [1, 1]
    return dict(zip(HEADS, [value for block in blocks for value in block.rows[0].line.values], strict=True))


def test_both_views_stand_beside_each_other_with_their_chunks_and_their_steadiness() -> None:
    assert list(said(summary_of(part_of())).items()) == [
        ("TTFT, user: p50", "0.250"), ("TTFT, user: p95", "0.250"),
        ("TTFT, server: p50", "0.200"), ("TTFT, server: p95", "0.200"),
        ("End to end, user: p50", "0.900"), ("End to end, user: p95", "0.900"),
        ("End to end, server: p50", "0.850"), ("End to end, server: p95", "0.850"),
        ("Time between chunks: p50", "10.0"), ("Time between chunks: p95", "21.3"),
        ("Time between chunks: p99", "45.0"), ("Time between chunks: largest", "1,250.0"),
        ("Steadiness: TTFT", "steady"), ("Steadiness: End to end", "steady"),
        ("Steadiness: TPOT", "steady"), ("Steadiness: Throughput", "steady"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (STEADY, "steady"),
        (SETTLING, "settling −18 %"),
        (DRIFTING, "drifting +32 %"),
        (Steadiness(verdict=Steady.DRIFTING, blocks=8), "drifting"),
        (SHORT, "too short: 2 of 6 blocks"),
    ],
)
def test_steadiness_is_a_word_with_its_change_where_there_was_one(found: Steadiness, words: str) -> None:
    assert times_table.steadiness_words(found) == words


@pytest.mark.parametrize(
    ("verdict", "user", "server"),
    [
        (STEADY, "0.250", "0.200"),
        (SETTLING, "0.250", "0.200"),
        (SHORT, "0.250", "0.200"),
        (DRIFTING, "drifting +32 %", "drifting +32 %"),
    ],
)
def test_only_what_drifts_shows_its_trend_in_place_of_a_number(verdict: Steadiness, user: str, server: str) -> None:
    row = said(summary_of(part_of(steadiness={"ttft_s": verdict, "e2e_s": STEADY})))
    assert (row["TTFT, user: p50"], row["TTFT, user: p95"]) == (user, user)
    assert (row["TTFT, server: p50"], row["TTFT, server: p95"]) == (server, server)
    assert (row["End to end, user: p95"], row["End to end, server: p95"]) == ("0.900", "0.850")


def test_repeats_show_the_number_of_the_steady_one_beside_the_trend_of_the_other() -> None:
    row = said(summary_of(part_of()), summary_of(part_of(steadiness={"ttft_s": DRIFTING, "e2e_s": STEADY})))
    assert row["TTFT, user: p95"] == "0.250, drifting +32 %"
    assert row["Steadiness: TTFT"] == "steady, drifting +32 %"


@pytest.mark.parametrize(
    ("fields", "ttft", "gap", "steadiness"),
    [
        ({}, "0.250", "10.0", "steady"),
        (
            {"ttft_s": NONE, "server_ttft_s": NONE, "steadiness": {}, "chunk_gap_s": replace(GAPS, n=0)},
            "not streamed", "not streamed", "not streamed",
        ),
        (
            {"ttft_s": NONE, "server_ttft_s": NONE, "steadiness": {}, "buffered": True},
            "held back", "10.0", "held back",
        ),
        ({"chunk_gap_s": replace(GAPS, n=0)}, "0.250", "one chunk", "steady"),
        ({"ttft_s": flat(inf), "server_ttft_s": flat(inf)}, "failed", "10.0", "steady"),
        ({"ttft_s": NONE, "server_ttft_s": None, "server_e2e_s": None, "chunk_gap_s": None, "steadiness": {}, "scheduled": 0},
         "not known", "not known", "not known"),
    ],
)  # fmt: skip
def test_a_time_that_is_not_there_says_why(fields: dict[str, object], ttft: str, gap: str, steadiness: str) -> None:
    row = said(summary_of(part_of(**({"server_ttft_s": flat(0.25)} | fields))))
    assert (row["TTFT, user: p95"], row["Time between chunks: p50"], row["Steadiness: TTFT"]) == (ttft, gap, steadiness)
    assert row["TTFT, server: p95"] == ttft


@pytest.mark.parametrize(("n", "words"), [(1, "needs 19 more"), (19, "needs 1 more"), (20, "0.250")])
def test_a_percentile_of_too_few_says_how_many_it_needs(n: int, words: str) -> None:
    row = said(summary_of(part_of(server_ttft_s=flat(0.25, n))))
    assert row["TTFT, server: p95"] == words
    assert row["TTFT, server: p50"] == "0.250"


def test_gaps_of_too_few_chunks_say_how_many_they_need_and_the_largest_stands() -> None:
    row = said(summary_of(part_of(chunk_gap_s=replace(GAPS, n=30, p99=None))))
    assert (row["Time between chunks: p99"], row["Time between chunks: largest"]) == ("needs 70 more", "1,250.0")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ()),
        ({"buffered": True}, ("held back by something in between: TTFT not graded",)),
        ({"impossible_rates": 1}, ("physically impossible rate in 1 answer",)),
        ({"impossible_rates": 1200}, ("physically impossible rate in 1,200 answers",)),
        ({"wrong_times": 1}, ("1 sample with impossible times",)),
        ({"wrong_times": 3}, ("3 samples with impossible times",)),
        ({"mixed_token_sources": True}, ("tokens counted two ways",)),
        (
            {"wrong_times": 2, "mixed_token_sources": True},
            ("2 samples with impossible times", "tokens counted two ways"),
        ),
        ({"server_e2e_s": None}, None),
    ],
)
def test_what_is_odd_is_told_in_words_and_an_old_summary_does_not_know(
    fields: dict[str, object], expected: tuple[str, ...] | None
) -> None:
    assert flags_of(summary_of(part_of(**fields))) == expected


def test_flags_of_repeats_are_added_or_say_in_how_many() -> None:
    odd = summary_of(part_of(wrong_times=1, buffered=True))
    assert flags_of(odd, summary_of(part_of(wrong_times=2))) == (
        "held back by something in between: TTFT not graded (in 1 of 2)",
        "3 samples with impossible times",
    )


@pytest.mark.parametrize(
    ("attempts", "flags"), [(None, ()), (99, ()), (100, ()), (101, ("101 attempts for 100 requests",))]
)
def test_more_attempts_than_requests_are_told(attempts: int | None, flags: tuple[str, ...]) -> None:
    assert flags_of(summary_of(part_of(), attempts=attempts)) == flags


@pytest.mark.parametrize(
    ("names", "told"), [(["headroom"], ""), ([""], ""), (["httpx"], "httpx"), (["headroom", "httpx", "httpx"], "httpx")]
)
def test_the_transport_is_named_where_it_is_not_headrooms_own(names: list[str], told: str) -> None:
    assert table_of(*(summary_of(part_of(), transport=name) for name in names)).transports == told


def test_a_cell_that_was_not_measured_has_no_row_and_none_makes_no_table() -> None:
    assert times_table.table([cell(None)]) is None
    found = times_table.table([cell(None), cell(summary_of(part_of()), repeat=2)])
    assert found is not None
    assert [(len(block.rows), block.flagged) for block in found.blocks] == [(1, False), (1, True)]
    assert not found.repeated


def grid_of(part: ClassSummary, **fields: object) -> Grid:
    grid = factories.make_grid(limits=made.limits(), settings=[1], class_names=["short"], repeats=1)
    return stored.measure(grid, lambda _cell: summary_of(part, **fields))


def page(grid: Grid) -> str:
    client = Client()
    client.force_login(factories.make_user(grid.team, Role.VIEWER))
    return client.get(grid.get_absolute_url()).content.decode()


@pytest.mark.django_db
def test_the_page_shows_the_table_with_its_definition_and_never_calls_a_gap_inter_token() -> None:
    drifting = part_of(steadiness={"ttft_s": DRIFTING}, wrong_times=3)
    html = page(grid_of(drifting, transport="httpx"))
    assert html.count('id="times"') == html.count('href="#times"') == 1
    assert "Requests went through httpx." in html
    assert html.count('<td class="hr-num">drifting +32 %</td>') == 5
    assert "3 samples with impossible times" in html
    assert "a sign of stalls, not a time between tokens" in html
    assert "inter-token" not in html.lower()
    assert "Requests went through" not in page(grid_of(part_of()))


@pytest.mark.django_db
def test_a_grid_without_a_measured_cell_has_no_such_part() -> None:
    grid = factories.make_grid(limits=made.limits())
    assert 'href="#times"' not in page(grid)
    assert 'id="times"' not in page(grid)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("fields", "words"), [({"buffered": True}, "held back"), ({"buffered": False}, "not streamed")]
)
def test_the_cells_do_not_call_a_held_back_stream_not_streamed(fields: dict[str, object], words: str) -> None:
    html = page(grid_of(part_of(ttft_s=NONE, tpot_s=NONE, **fields)))
    cells = html[html.index('id="cells"') :]
    assert cells.count(f'<td class="hr-num">{words}</td>') == 2


@pytest.mark.django_db
def test_the_table_asks_the_database_nothing() -> None:
    result = result_of(grid_of(part_of()))
    with CaptureQueriesContext(connection) as queries:
        assert times_table.table(result.evidence.cells) is not None
    assert len(queries) == 0


@pytest.mark.django_db
def test_both_files_hold_the_same_facts_with_the_verdict_beside_the_number() -> None:
    result = result_of(grid_of(part_of(steadiness={"ttft_s": DRIFTING, "e2e_s": STEADY}, wrong_times=3)))
    row = json.loads(exports.as_json(result))["rows"][0]
    expected = {
        "server_ttft_n": 100, "server_ttft_p50_s": 0.2, "server_ttft_p95_s": 0.2, "server_e2e_p95_s": 0.85,
        "chunk_gap_n": 400, "chunk_gap_p50_s": 0.01, "chunk_gap_p95_s": 0.0213, "chunk_gap_p99_s": 0.045,
        "chunk_gap_largest_s": 1.25, "ttft_steadiness": "drifting", "ttft_change_share": 0.324,
        "e2e_steadiness": "steady", "e2e_change_share": 0.02, "tpot_steadiness": None, "tpot_change_share": None,
        "completed_steadiness": "steady", "completed_change_share": 0.02, "buffered": False, "impossible_rates": 0,
        "wrong_times": 3, "mixed_token_sources": False, "cell_attempts": 100, "transport": "headroom",
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    line = next(csv.DictReader(io.StringIO(exports.as_csv(result))))
    assert {name: line[name] for name in ("ttft_steadiness", "server_e2e_p95_s", "tpot_steadiness", "wrong_times")} == {
        "ttft_steadiness": "drifting", "server_e2e_p95_s": "0.85", "tpot_steadiness": "", "wrong_times": "3",
    }  # fmt: skip


@pytest.mark.django_db
def test_a_file_has_no_zero_for_what_an_old_summary_did_not_look_for() -> None:
    def old(cell: Cell) -> CellSummary:
        return stored.summary_of(cell)

    grid = factories.make_grid(limits=made.limits(), settings=[1, 2], class_names=["short"])
    rows = json.loads(exports.as_json(result_of(stored.measure(grid, old, settings=[1]))))["rows"]
    names = [*times_table.plain(None, None), "server_ttft_n", "server_e2e_p95_s"]
    assert [[name for name in names if row[name] is not None] for row in rows] == [[], []]
