"""A known set of items: each is done once, whatever is killed, stopped or cut on the way, and the ledger says how."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from itertools import accumulate
from pathlib import Path

import msgspec
import pytest

from benchmarks.engine import plan as plans
from benchmarks.engine.load import Closed, StaticBatch
from benchmarks.engine.log import MAGIC, LogWriter, read_frames
from benchmarks.engine.plan import ClassLimits, Fixed
from benchmarks.engine.runner import Cell
from benchmarks.engine.static_batch import ledger_of
from benchmarks.engine.terms import BatchRecord, Frame, Header, Outcome, RequestRecord, Resumed
from tests.benchmarks.engine.loads.kills import FAULTS, batch_plan, faults_of, killed_again_and_again
from tests.benchmarks.engine.loads.running import (
    MODEL,
    NO_ERROR_LIMIT,
    Left,
    S,
    embeddings,
    run_cell,
    run_program,
    simulator,
    start_program,
)
from tests.benchmarks.engine.plans import MS, a_class, a_header, a_plan, a_record
from tests.benchmarks.engine.scripted import GOOD, Hang, Pause, Scripted, plain

FAIL = [plain(500, b"{}")]


@pytest.fixture(scope="module")
def url():
    with simulator() as address:
        yield address


@pytest.fixture(scope="module")
def faulty_url():
    with simulator(*[word for fault in FAULTS for word in ("--fault", fault)]) as address:
        yield address


def batch(tmp_path, *scripts, items=12, batch_size=4, tries=3, **changes) -> Left:
    load = StaticBatch(items=items, batch_size=batch_size, tries=tries)
    return run_cell(tmp_path, *(scripts or [[GOOD]]), load=load, **({"guard": NO_ERROR_LIMIT} | changes))


def tries_of(left: Left) -> dict[int, list[Outcome]]:
    found = defaultdict(list)
    for record in left.records:
        found[record.index].append(record.outcome)
    return dict(found)


# ── one run ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_rounds_follow_one_another_and_every_item_is_asked_once(tmp_path):
    left = batch(tmp_path, [Pause(0.05), GOOD], items=10, batch_size=4)
    assert tries_of(left) == {index: [Outcome.OK] for index in range(10)}
    assert [(b.batch, b.items, b.outcome) for b in left.batches] == [
        (0, 4, Outcome.OK), (1, 4, Outcome.OK), (2, 2, Outcome.OK),
    ]  # fmt: skip
    for number in (0, 1):
        ended_ns = max(r.t_closed_ns for r in left.records if r.batch == number)
        assert all(r.t_sent_ns >= ended_ns for r in left.records if r.batch == number + 1)
    assert (left.columns.end.complete, left.columns.end.sent, left.summary.conserved) == (True, 10, True)
    found = left.summary.static_batch
    assert (found.items, found.done, found.failed, found.open, found.batches, found.resumed) == (10, 10, 0, 0, 3, 0)
    first, last = min(r.t_scheduled_ns for r in left.records), max(r.t_closed_ns for r in left.records)
    assert found.makespan_s == pytest.approx((last - first) / S)


@pytest.mark.parametrize("dialect", ["openai_embeddings", "openai_completions", "openai_chat", "ollama_chat"])
def test_a_round_is_one_list_where_the_dialect_sends_lists_and_as_many_requests_where_it_does_not(
    tmp_path, url, dialect
):
    lists = dialect in ("openai_embeddings", "openai_completions")
    stream = not lists
    left = batch(tmp_path, url=url, dialect=dialect, model=MODEL, stream=stream, items=20, batch_size=8)
    assert left.outcomes == {Outcome.OK: 20}
    for number in range(3):
        slots = {record.slot for record in left.records if record.batch == number}
        assert len(slots) == (1 if lists else [8, 8, 4][number])
    totals = [(b.items, b.prompt_tokens) for b in left.batches]
    assert totals == [(items, 8 * items) for items in (8, 8, 4)]
    assert left.summary.conserved


def most_at_once(left: Left) -> int:
    """How many items were with the server together, by their own times."""
    turns = [(r.t_sent_ns, 1) for r in left.records] + [(r.t_closed_ns, -1) for r in left.records]
    return max(accumulate(change for _, change in sorted(turns)))


def test_rounds_run_beside_each_other_as_many_as_the_plan_offers(tmp_path):
    left = batch(tmp_path, [Pause(0.1), GOOD], items=24, batch_size=3, offered_concurrency=2)
    assert left.outcomes == {Outcome.OK: 24}
    assert left.server.accepted == 6
    assert most_at_once(left) == 6
    assert 0 < left.summary.mean_in_flight <= 6
    assert sorted(b.batch for b in left.batches) == list(range(8))


def test_what_failed_is_tried_again_after_what_was_never_tried(tmp_path):
    left = batch(tmp_path, *[[GOOD], FAIL] * 2, [GOOD], items=8, batch_size=4, tries=3)
    retried = [index for index, outcomes in tries_of(left).items() if len(outcomes) == 2]
    assert len(retried) == 2
    assert left.outcomes == {Outcome.OK: 8, Outcome.SERVER_ERROR: 2}
    assert [b.items for b in left.batches] == [4, 4, 2]
    assert {r.index for r in left.records if r.batch == 2} == set(retried)
    assert [(r.attempt, r.outcome) for r in left.records if r.index == retried[0]] == [
        (1, Outcome.SERVER_ERROR), (2, Outcome.OK),
    ]  # fmt: skip
    assert left.batches[0].outcome is Outcome.SERVER_ERROR
    assert left.summary.conserved


@pytest.mark.parametrize("tries", [1, 3])
def test_an_item_that_always_fails_is_given_up_after_its_tries(tmp_path, tries):
    left = batch(tmp_path, FAIL, items=4, batch_size=4, tries=tries)
    assert tries_of(left) == {index: [Outcome.SERVER_ERROR] * tries for index in range(4)}
    assert left.columns.end.complete
    assert (left.summary.static_batch.failed, left.summary.static_batch.done) == (4, 0)
    assert left.summary.conserved


def test_a_server_that_refuses_is_asked_again_when_it_says(tmp_path):
    refused = [plain(503, b"{}", "retry-after: 1")]
    left = batch(tmp_path, refused, [GOOD], items=1, batch_size=1)
    first, second = left.records
    assert second.t_scheduled_ns - first.t_closed_ns >= 0.99 * S


@pytest.mark.parametrize(("ceiling", "asked"), [({"max_requests": 10}, 8), ({"max_tokens": 90}, 8)])
def test_a_ceiling_ends_the_batch_before_a_round_would_pass_it(tmp_path, ceiling, asked):
    left = batch(tmp_path, items=12, batch_size=4, **ceiling)
    assert len(left.server.requests) == asked
    assert (left.columns.end.complete, left.columns.end.sent) == (False, asked)
    assert left.columns.end.reason.startswith("ceiling: ")
    assert left.summary.static_batch.open == 4


def test_large_rounds_do_not_make_the_client_late_for_nothing_is_due_at_a_time(tmp_path):
    long = (a_class(prompt_tokens=Fixed(2000)),)
    left = batch(
        tmp_path, [embeddings(200)], dialect="openai_embeddings", stream=False, items=400, batch_size=200, classes=long
    )  # fmt: skip
    assert left.outcomes == {Outcome.OK: 400}
    assert "sends late" not in left.columns.health.why


def test_progress_never_counts_less_than_nothing_in_flight(tmp_path):
    left = batch(tmp_path, [Pause(0.6), plain(500, b"{}")], items=4, batch_size=2, tries=2)
    assert len(left.shown) >= 3
    assert all(0 <= shown.in_flight <= 2 for shown in left.shown)
    assert (left.shown[-1].in_flight, left.shown[-1].sent) == (0, 4)


def stop(word: str, after: int):
    async def at_work(cell: Cell, server: Scripted) -> None:
        while len(server.requests) < after:
            await asyncio.sleep(0.005)
        cell.command(word)

    return at_work


def test_drain_finishes_the_round_and_leaves_the_rest(tmp_path):
    left = batch(tmp_path, [Pause(0.2), GOOD], items=12, batch_size=4, at_work=stop("drain", 6))
    assert tries_of(left) == {index: [Outcome.OK] for index in range(8)}
    assert (left.columns.end.complete, left.columns.end.reason) == (False, "stopped: drain was asked for")
    assert left.summary.static_batch.open == 4
    assert left.summary.conserved


def test_what_we_ended_ourselves_is_no_try_of_the_items(tmp_path):
    left = batch(tmp_path, [GOOD], [GOOD], [Hang()], items=6, batch_size=2, tries=1, at_work=stop("cancel", 3))
    assert left.outcomes[Outcome.CANCELLED] >= 1
    ledger = ledger_of(left.frames, tries=1, wall_ns=0, monotonic_ns=0)
    cancelled = {record.index for record in left.records if record.outcome is Outcome.CANCELLED}
    assert not cancelled & ledger.ended
    assert left.summary.conserved


# ── the ledger alone ───────────────────────────────────────────────────────────────────────────────────────────────


def read(*frames: Frame, tries: int = 2, wall_ns: int = 0, monotonic_ns: int = 0):
    return ledger_of(frames, tries=tries, wall_ns=wall_ns, monotonic_ns=monotonic_ns)


@pytest.mark.parametrize(
    ("outcomes", "ended"),
    [
        ([], False),
        ([Outcome.OK], True),
        ([Outcome.SERVER_ERROR], False),
        ([Outcome.SERVER_ERROR, Outcome.OK], True),
        ([Outcome.SERVER_ERROR, Outcome.TRUNCATED], True),
        ([Outcome.SERVER_ERROR, Outcome.CANCELLED, Outcome.UNFINISHED], False),
        ([Outcome.CANCELLED, Outcome.SERVER_ERROR, Outcome.REJECTED], True),
    ],
)
def test_an_item_has_ended_when_it_succeeded_or_failed_as_often_as_it_may(outcomes, ended):
    frames = [a_record(7, attempt=n + 1, outcome=outcome) for n, outcome in enumerate(outcomes)]
    found = read(a_header(), *frames)
    assert (7 in found.ended) == ended
    assert found.records.get(7, 0) == len(outcomes)
    assert found.tokens == 19 * len(outcomes)


def test_a_round_that_was_killed_before_its_own_record_keeps_its_number():
    round_of_two = BatchRecord(
        batch=4, items=2, t_gathered_ns=0, t_sent_ns=None, t_end_ns=None, outcome=Outcome.OK
    )  # fmt: skip
    assert read(a_header(), round_of_two).batches == 5
    assert read(a_header(), round_of_two, a_record(0, batch=5)).batches == 6
    assert read(a_header(), a_record(0)).batches == 0


def test_the_beginning_is_told_on_this_runs_clock():
    """The first run's clocks: wall 1796000000 s at monotonic 0. This one's: two hours later, on a clock of its own."""
    began = read(
        a_header(), a_record(100), Resumed(wall_ns=0, monotonic_ns=0),
        wall_ns=(1_796_000_000 + 7200) * S, monotonic_ns=50 * S,
    ).began_ns  # fmt: skip
    assert began == 50 * S - 7200 * S + 100 * MS


# ── several runs ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_a_batch_killed_five_times_at_random_has_each_item_once(tmp_path, faulty_url):
    plan = batch_plan(faulty_url, 600)
    killed = killed_again_and_again(plan, tmp_path, kills=5, seed=4, most_s=1.2)
    assert killed.kills == 5
    assert faults_of(killed.left) == []
    assert killed.left.summary.static_batch.done == 600


def partly_done(folder: Path, url: str, *, items: int = 30, asked: int = 12, **changes) -> tuple[plans.CellPlan, Path]:
    """The plan of a batch, and the ledger of a run that a ceiling ended after `asked` requests."""
    load = StaticBatch(items=items, batch_size=4, tries=3)
    plan = a_plan(**({"base_url": url, "model": MODEL, "load": load, "max_requests": asked} | changes))
    assert run_program(plan, folder, "--resume")[0] == 0
    return msgspec.structs.replace(plan, max_requests=1000), folder / "cell.log"


def test_a_batch_goes_on_where_it_ended_and_a_finished_one_is_left_alone(tmp_path, url):
    plan, log = partly_done(tmp_path, url)
    before = log.read_bytes()
    code, words, left = run_program(plan, tmp_path, "--resume")
    assert (code, words) == (0, "")
    assert log.read_bytes().startswith(before)
    assert faults_of(left) == []
    assert len(left.records) == 30
    assert (left.summary.static_batch.resumed, left.summary.static_batch.done) == (1, 30)
    finished = log.read_bytes()
    code, words, _ = run_program(plan, tmp_path, "--resume")
    assert (code, words, log.read_bytes() == finished) == (0, "", True)


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"max_wall_s": 99.0}, True),
        ({"label": "another name", "idle_timeout_s": 3.0}, True),
        ({"classes": (a_class(limits=ClassLimits(e2e_s=1.0)),)}, True),
        ({"seed": 2}, False),
        ({"model": "another"}, False),
        ({"load": StaticBatch(items=31, batch_size=4, tries=3)}, False),
        ({"classes": (a_class(pairs=((8, 2), (9, 3))),)}, False),
        ({"classes": (a_class(output_tokens=Fixed(3)),)}, False),
        ({"task": "echo"}, False),
        ({"stream": False}, False),
        ({"shared_prefix_share": 0.5}, False),
    ],
)
def test_the_ledger_of_another_batch_is_refused_and_stays_as_it_is(tmp_path, changes, same):
    load = StaticBatch(items=30, batch_size=4, tries=3)
    plan, log = a_plan(load=load), tmp_path / "cell.log"
    with LogWriter(log) as writer:
        writer.append(a_header(plan))
        writer.append(a_record(0))
    before = log.read_bytes()
    code, words, _ = run_program(msgspec.structs.replace(plan, **changes), tmp_path, "--resume")
    if same:
        assert code == 3  # it went on, to a target that is not there
        assert log.read_bytes().startswith(before)
    else:
        assert code == 2
        assert "cell.log is the ledger of another batch" in words
        assert log.read_bytes() == before


def test_only_a_static_batch_goes_on_with_a_log_that_is_there(tmp_path):
    plan, log = a_plan(load=Closed()), tmp_path / "cell.log"
    with LogWriter(log) as writer:
        writer.append(a_header(plan))
        writer.append(a_record(0))
    before = log.read_bytes()
    code, words, _ = run_program(plan, tmp_path, "--resume")
    assert (code, log.read_bytes() == before) == (2, True)
    assert "only a static batch goes on" in words


@pytest.mark.parametrize("found", [b"", MAGIC[:5], MAGIC])
def test_a_ledger_without_a_whole_frame_is_begun_anew(tmp_path, url, found):
    (tmp_path / "cell.log").write_bytes(found)
    plan = a_plan(base_url=url, model=MODEL, load=StaticBatch(items=4, batch_size=4), max_requests=100)
    code, words, left = run_program(plan, tmp_path, "--resume")
    assert (code, words) == (0, "")
    assert faults_of(left) == []


def test_a_file_that_is_no_log_is_refused_and_stays(tmp_path):
    (tmp_path / "cell.log").write_bytes(b"evidence of something else")
    plan = a_plan(load=StaticBatch(items=4, batch_size=4))
    child = start_program(plan, tmp_path, "--resume")
    _, words = child.communicate(timeout=30)
    assert child.returncode == 2
    assert "HEADROOM-LOG" in words
    assert (tmp_path / "cell.log").read_bytes() == b"evidence of something else"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_torn_tail_costs_only_what_was_torn(tmp_path, url, seed):
    plan, log = partly_done(tmp_path, url)
    whole = log.read_bytes()
    log.write_bytes(whole[: random.Random(seed).randrange(len(MAGIC) + 1, len(whole))])
    kept = sum(isinstance(frame, RequestRecord) for frame in read_frames(log))
    code, _, left = run_program(plan, tmp_path, "--resume")
    assert code == 0
    assert faults_of(left) == []
    assert len(left.records) == 30 >= kept


def moved(frame: Frame, by_ns: int) -> Frame:
    """The frame as a run with another monotonic clock would have written it."""
    stamps = {
        name: getattr(frame, name) + by_ns
        for name in frame.__struct_fields__
        if name.endswith("_ns") and name != "wall_ns" and getattr(frame, name) is not None
    }
    return msgspec.structs.replace(frame, **stamps)


@pytest.mark.parametrize("by_s", [-3_000_000, 3_000_000])
def test_after_a_reboot_the_makespan_is_still_from_the_first_items_start_to_the_last_ones_end(tmp_path, url, by_s):
    plan, log = partly_done(tmp_path, url)
    frames = [moved(frame, by_s * S) for frame in read_frames(log)]
    log.unlink()
    with LogWriter(log) as writer:
        for frame in frames:
            writer.append(frame)
    code, _, left = run_program(plan, tmp_path, "--resume")
    assert code == 0
    assert faults_of(left) == []
    first = next(frame for frame in left.frames if isinstance(frame, Header))
    resumed = next(frame for frame in left.frames if isinstance(frame, Resumed))
    began_ns = left.records[0].t_scheduled_ns + first.wall_ns - first.monotonic_ns
    ended_ns = max(r.t_closed_ns for r in left.records[12:]) + resumed.wall_ns - resumed.monotonic_ns
    assert left.summary.static_batch.makespan_s == pytest.approx((ended_ns - began_ns) / S, abs=1e-6)
    window = left.columns.window
    assert window.start_ns == left.records[0].t_scheduled_ns
    assert 0 <= (window.end_ns - window.start_ns) - (ended_ns - began_ns) < 2 * S
    assert left.summary.static_batch.done == 30


def test_the_ceilings_hold_over_all_runs_together(tmp_path, url):
    plan, _ = partly_done(tmp_path, url, asked=12)
    short = msgspec.structs.replace(plan, max_requests=20)
    code, _, left = run_program(short, tmp_path, "--resume")
    assert (code, len(left.records)) == (0, 20)
    assert left.columns.end.reason == "ceiling: 20 requests"
    code, _, left = run_program(short, tmp_path, "--resume")
    assert (code, len(left.records), left.summary.conserved) == (0, 20, True)
    code, _, left = run_program(plan, tmp_path, "--resume")
    assert faults_of(left) == []
    assert Counter(Counter(r.index for r in left.records).values()) == {1: 30}
