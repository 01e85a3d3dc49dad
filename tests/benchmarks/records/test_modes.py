"""What a setting means in each way of offering load, and what that way can have in flight."""

from __future__ import annotations

import pytest

from benchmarks.engine.load import Closed, Constant, Gamma, MicroBatch, OpenLoop, Poisson, Replay, StaticBatch, Steps
from benchmarks.records import mode_words, modes
from benchmarks.records.modes import (
    ArrivalKind,
    ClosedTerms,
    MicroTerms,
    Mode,
    OpenTerms,
    SearchTerms,
    StaticTerms,
    Terms,
)

EACH: dict[Mode, Terms] = {
    Mode.CLOSED: ClosedTerms(processes=2),
    Mode.OPEN: OpenTerms(arrivals=ArrivalKind.GAMMA, burstiness=0.5, max_in_flight=32),
    Mode.MICRO: MicroTerms(arrivals_per_min=120, max_wait_ms=15, max_batches=3),
    Mode.STATIC: StaticTerms(items=2000, beside=2),
    Mode.SEARCH: SearchTerms(most_cells=9),
}


@pytest.mark.parametrize("mode", Mode)
def test_terms_read_back_from_json_as_they_were_kept_and_name_their_mode(mode: Mode) -> None:
    assert modes.terms_of(mode, modes.plain(EACH[mode])) == EACH[mode]
    assert modes.mode_of(EACH[mode]) == mode


def test_the_plain_closed_loop_is_kept_as_nothing_and_every_other_default_is_written_out() -> None:
    assert modes.plain(ClosedTerms()) == {}
    assert modes.plain(StaticTerms()) == {"items": 200, "beside": 1, "tries": 3}


@pytest.mark.parametrize("kept", [{"items": "many"}, {"unheard_of": 1}, {"max_in_flight": 3}])
def test_terms_of_another_mode_or_none_are_refused_in_a_sentence(kept: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not terms of a grid"):
        modes.terms_of("static", kept)


@pytest.mark.parametrize(
    ("mode", "setting", "most", "offered", "said"),
    [
        (Mode.CLOSED, 8, 8, 8, "8 in flight"),
        (Mode.SEARCH, 8, 8, 8, "8 in flight"),
        (Mode.OPEN, 1200, 32, 32, "1,200 arrivals a minute"),
        (Mode.MICRO, 8, 24, 3, "at most 8 items a request"),
        (Mode.STATIC, 8, 16, 2, "batches of 8"),
    ],
)
def test_a_mode_says_what_its_setting_is_and_how_much_it_puts_in_flight(
    mode: Mode, setting: int, most: int, offered: int, said: str
) -> None:
    terms = EACH[mode]
    got = (
        modes.in_flight(terms, setting),
        modes.offered_concurrency(terms, setting),
        mode_words.setting_words(mode, setting),
    )
    assert got == (most, offered, said)


@pytest.mark.parametrize(
    ("terms", "load"),
    [
        (ClosedTerms(), Closed()),
        (SearchTerms(), Closed()),
        (OpenTerms(), OpenLoop(arrivals=Poisson(2.0))),
        (OpenTerms(arrivals=ArrivalKind.CONSTANT), OpenLoop(arrivals=Constant(2.0))),
        (OpenTerms(arrivals=ArrivalKind.GAMMA, burstiness=0.5), OpenLoop(arrivals=Gamma(2.0, 0.5))),
        (
            OpenTerms(arrivals=ArrivalKind.STEPS, steps=((10, 1), (5, 3))),
            OpenLoop(arrivals=Steps(((10, 2.0), (5, 6.0)))),
        ),
        (OpenTerms(arrivals=ArrivalKind.REPLAY), OpenLoop(arrivals=Replay((0.0, 0.5, 1.0)))),
        (
            MicroTerms(arrivals_per_min=60, max_wait_ms=15),
            MicroBatch(arrivals=Poisson(1.0), max_items=120, max_wait_ms=15),
        ),
        (StaticTerms(items=9), StaticBatch(items=9, batch_size=120, tries=3)),
    ],
)
def test_a_setting_of_120_becomes_the_load_that_the_engine_knows(terms: Terms, load: object) -> None:
    assert modes.load_of(terms, 120, trace_offsets_s=(3.0, 4.0, 5.0)) == load


def test_a_replay_keeps_its_shape_and_takes_the_rate_of_the_setting() -> None:
    terms = OpenTerms(arrivals=ArrivalKind.REPLAY)
    load = modes.load_of(terms, 60, trace_offsets_s=(10.0, 10.0, 40.0))
    assert load == OpenLoop(arrivals=Replay((0.0, 0.0, 2.0)))
    for nothing in ((), (5.0,), (5.0, 5.0)):
        with pytest.raises(ValueError, match="no trace"):
            modes.load_of(terms, 60, trace_offsets_s=nothing)


@pytest.mark.parametrize(
    ("terms", "settings", "words"),
    [
        (ClosedTerms(), [1, 4096], None),
        (ClosedTerms(), [4097], "the most is 4,096"),
        (ClosedTerms(), [], "at least one setting"),
        (ClosedTerms(), [0], "each 1 or more"),
        (ClosedTerms(processes=0), [1], "generator processes"),
        (OpenTerms(), [60_000], None),
        (OpenTerms(), [60_001], "arrivals a minute"),
        (OpenTerms(max_in_flight=0), [1], "in flight"),
        (OpenTerms(arrivals=ArrivalKind.GAMMA, burstiness=0.0), [1], "Burstiness"),
        (OpenTerms(arrivals=ArrivalKind.STEPS), [1], "Steps need at least one"),
        (OpenTerms(arrivals=ArrivalKind.STEPS, steps=((0.0, 1.0),)), [1], "more than 0 seconds"),
        (MicroTerms(max_batches=2), [2048], None),
        (MicroTerms(max_batches=2), [2049], "4,098 would be in flight"),
        (MicroTerms(max_wait_ms=-1), [1], "ms"),
        (MicroTerms(arrivals_per_min=0), [1], "arrivals a minute"),
        (StaticTerms(items=0), [1], "items"),
        (StaticTerms(tries=0), [1], "tries"),
        (StaticTerms(beside=2), [2049], "4,098 would be in flight"),
        (SearchTerms(most_cells=0), [1], "cells"),
    ],
)
def test_what_cannot_run_is_refused_in_a_sentence(terms: Terms, settings: list[int], words: str | None) -> None:
    fault = mode_words.fault(terms, settings)
    assert (fault is None) if words is None else (fault is not None and words in fault), fault


@pytest.mark.parametrize(
    ("terms", "requests"),
    [
        (ClosedTerms(), None),
        (SearchTerms(), None),
        (OpenTerms(), 60.0),
        (OpenTerms(arrivals=ArrivalKind.STEPS, steps=((10, 1.0), (10, 3.0))), 140.0),
        (OpenTerms(arrivals=ArrivalKind.STEPS, steps=((40, 2.0), (10, 3.0))), 120.0),
        (MicroTerms(arrivals_per_min=240), 120.0),
        (StaticTerms(items=50), 50.0),
    ],
)
def test_how_many_requests_a_cell_of_30_s_starts_is_known_where_the_server_does_not_decide_it(
    terms: Terms, requests: float | None
) -> None:
    assert modes.requests_of(terms, 120, 30.0) == requests


@pytest.mark.parametrize("mode", Mode)
def test_every_mode_has_words_for_its_setting_and_for_what_judges_it(mode: Mode) -> None:
    words = mode_words.WORDS[mode]
    assert all((words.name, words.sentence, words.setting, words.short, words.definition, words.judged_by))


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        (ClosedTerms(), ""),
        (ClosedTerms(processes=2), "2 generator processes"),
        (OpenTerms(), "Poisson arrivals, at most 64 in flight"),
        (
            OpenTerms(arrivals=ArrivalKind.GAMMA, burstiness=0.5),
            "gamma arrivals with burstiness 0.5, at most 64 in flight",
        ),
        (
            OpenTerms(arrivals=ArrivalKind.STEPS, steps=((30, 1), (10, 3))),
            "Poisson arrivals in steps (30 s × 1, 10 s × 3), at most 64 in flight",
        ),
        (
            MicroTerms(),
            "600 items a minute, Poisson arrivals, gathered for at most 20 ms, at most 2 requests in flight",
        ),
        (StaticTerms(beside=2), "200 items, 2 batches beside each other, at most 3 tries each"),
        (SearchTerms(), "at most 24 cells"),
    ],
)
def test_the_terms_beside_the_setting_are_one_phrase(terms: Terms, words: str) -> None:
    assert mode_words.in_words(terms) == words


@pytest.mark.parametrize(
    ("terms", "most"), [(StaticTerms(items=9, tries=2), 18), (OpenTerms(), 190), (ClosedTerms(), 360_000)]
)
def test_the_ceiling_offered_for_a_cell_of_30_s_leaves_room_for_what_it_may_send(terms: Terms, most: float) -> None:
    assert modes.most_requests(terms, 120, 30.0) == most
