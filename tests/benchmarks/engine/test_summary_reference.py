"""The summary of any records is the one that a plain reading of the definitions gives, record by record."""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.engine.columns import from_frames
from benchmarks.engine.summary import summarise
from benchmarks.engine.summary_types import ClassSummary, as_json, from_json
from benchmarks.engine.terms import End, Outcome, Phase, RequestRecord, TokenSource, Window
from benchmarks.records import parquet
from tests.benchmarks.engine.plans import MS, S, a_class, a_header, a_plan, a_record

PLAN = a_plan(class_name="mixed", classes=(a_class("short"), a_class("long")))
moment = st.integers(-1, 12).map(lambda tens: tens * 10 * MS)
maybe = st.one_of(st.none(), moment)


@st.composite
def tried(draw: st.DrawFn, index: int) -> list[RequestRecord]:
    """One request with one to three attempts; most of its stamps can be, some cannot."""
    attempts = draw(st.integers(1, 3))
    name = draw(st.sampled_from(["short", "long"]))
    records = []
    for number in range(1, attempts + 1):
        ok = draw(st.booleans()) or draw(st.booleans())
        gaps = draw(st.lists(st.integers(2_000, 2**32 - 1), max_size=6))
        changes = {"attempt": number, "class_name": name, "gaps_us": array("I", gaps).tobytes()}
        changes |= {"phase": draw(st.sampled_from([Phase.WINDOW, *Phase])), "t_scheduled_ns": (number - 1) * 7 * MS}
        if not ok:
            changes |= {"outcome": draw(st.sampled_from(list(Outcome)[1:])), "t_end_ns": None, "valid": None}
        if draw(st.booleans()):
            changes |= {"t_sent_ns": draw(moment), "t_first_ns": draw(maybe), "t_last_ns": draw(maybe)}
        changes["output_tokens"] = draw(st.one_of(st.none(), st.integers(0, 12)))
        counted = changes["output_tokens"] is not None
        changes["token_source"] = TokenSource.SERVER if counted else TokenSource.UNKNOWN
        records.append(a_record(index, **changes))
    return records


CELLS = st.integers(0, 12).flatmap(lambda n: st.tuples(*[tried(index) for index in range(n)])).map(list)


def last_and_first(
    requests: list[list[RequestRecord]], name: str | None = None
) -> list[tuple[RequestRecord, RequestRecord]]:
    inside = [(tries[-1], tries[0]) for tries in requests if tries[0].phase is Phase.WINDOW]
    return [pair for pair in inside if name is None or pair[1].class_name == name]


def times(last: RequestRecord, first: RequestRecord) -> dict[str, float | None]:
    def since(begin: int | None, end: int | None) -> float | None:
        return None if begin is None or end is None else (end - begin) / S

    span = since(last.t_first_ns, last.t_last_ns)
    later = (last.output_tokens or 0) - 1
    return {
        "e2e": since(first.t_scheduled_ns, last.t_end_ns),
        "ttft": since(first.t_scheduled_ns, last.t_first_ns),
        "server_e2e": since(last.t_sent_ns, last.t_end_ns),
        "server_ttft": since(last.t_sent_ns, last.t_first_ns),
        "tpot": span / later if span and later > 0 else None,
    }


def is_ok(last: RequestRecord, first: RequestRecord) -> bool:
    at = times(last, first)
    positive = all(at[name] is None or at[name] > 0 for name in ("ttft", "server_ttft"))
    forward = all(at[name] is None or at[name] >= 0 for name in ("e2e", "server_e2e", "tpot"))
    ordered = at["e2e"] is None or at["ttft"] is None or at["e2e"] >= at["ttft"]
    return last.outcome is Outcome.OK and at["e2e"] is not None and positive and forward and ordered


def medians(values: list[float]) -> float | None:
    return sorted(values)[(len(values) - 1) // 2] if values else None


def check(found: ClassSummary, pairs: list[tuple[RequestRecord, RequestRecord]]) -> None:
    good = [pair for pair in pairs if is_ok(*pair)]
    assert (found.scheduled, found.success.hits, found.success.n) == (len(pairs), len(good), len(pairs))
    assert found.outcomes == dict(Counter(last.outcome.value for last, _ in pairs))
    assert found.wrong_times == sum(last.outcome is Outcome.OK for last, _ in pairs) - len(good)
    known = defaultdict(list)
    for pair in good:
        for name, value in times(*pair).items():
            if value is not None:
                known[name].append(value)
    for name, tail in (("e2e", found.e2e_ok_s), ("ttft", found.ttft_ok_s), ("tpot", found.tpot_ok_s)):
        assert (tail.p50.n, tail.p50.value) == (len(known[name]), medians(known[name]))
    for name, tail in (("e2e", found.e2e_s), ("server_e2e", found.server_e2e_s), ("server_ttft", found.server_ttft_s)):
        failed = [math.inf] * (len(pairs) - len(good)) if known[name] or not good else []
        assert (tail.p50.n, tail.p50.value) == (len(known[name]) + len(failed), medians(known[name] + failed))
    gaps = sorted(gap for last, _ in good for gap in array("I", last.gaps_us))
    assert (found.chunk_gap_s.n, found.chunk_gap_s.p50) == (len(gaps), medians([gap / 1e6 for gap in gaps]))
    assert found.chunk_gap_s.peak == (gaps[-1] / 1e6 if gaps else None)


@given(CELLS, st.randoms(use_true_random=False), st.integers(-1, 1))
@settings(max_examples=200)
def test_every_number_is_what_its_definition_says_in_whatever_order_the_log_is(requests, dice, miscounted):
    records = [record for tries in requests for record in tries]
    dice.shuffle(records)
    sent = len(requests) + miscounted
    frames = [
        a_header(PLAN),
        *records,
        Window(start_ns=0, end_ns=S),
        End(t_ns=S, complete=True, reason="done", sent=sent),
    ]
    columns = from_frames(frames, at_once=4)
    found = summarise(columns, PLAN)
    pairs = last_and_first(requests)
    assert (found.scheduled, found.recorded, found.conserved) == (len(pairs), len(requests), miscounted == 0)
    assert found.completed_per_s == sum(is_ok(*pair) for pair in pairs)
    assert found.attempts == sum(len(tries) for tries in requests if tries[0].phase is Phase.WINDOW)
    for name in ("short", "long"):
        check(found.of_class(name), last_and_first(requests, name))
    back = parquet.read(parquet.write(columns))
    assert summarise(back, back.plan) == found == from_json(as_json(found))
