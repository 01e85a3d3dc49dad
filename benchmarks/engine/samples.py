"""A few answers kept word for word, so that a person can read what was answered at one setting beside another.

Which requests those are follows from their number in the workload alone, so that cells of one class and repeat keep the
same requests as far as they get: some of the first 32, then some of every doubling, each length class in turn. Prompts are
synthetic, so nothing that a person wrote is kept.
"""

from __future__ import annotations

import hashlib
from collections import Counter

from benchmarks.engine.exchange import Exchange
from benchmarks.engine.plan import CellPlan
from benchmarks.engine.prompts import Workload
from benchmarks.engine.terms import Outcome, RequestRecord, Sample, Uncounted

FIRST = 32
"""Of the requests numbered below it, the most are kept: every cell gets as far."""
OF_THE_FIRST, OF_A_DOUBLING = 20, 12
MOST_CHARACTERS = 4000
MOST_LOOKED_AT = 256
"""Numbers of one range that are looked at for a rare class; where it shows up in none of them, it has no sample there."""
MOST_NUMBER = 2**22


def sampled(plan: CellPlan) -> frozenset[int]:
    """Numbers of the requests whose texts are kept; at most 20 + 12 for every doubling beyond 32. None in a probe.

    A few milliseconds where a plan mixes classes, before anything is sent.
    """
    if plan.probe is not None:
        return frozenset()
    workload = Workload(plan)
    turns = plan.sessions.turns if plan.sessions else 1
    most = min(plan.max_requests * turns, MOST_NUMBER)
    found = _spread(workload, 0, FIRST, OF_THE_FIRST)
    low = FIRST
    while low < most:
        found |= _spread(workload, low, low, OF_A_DOUBLING)
        low *= 2
    return frozenset(found)


def _spread(workload: Workload, low: int, size: int, count: int) -> set[int]:
    """`count` of the `size` numbers from `low`, `size` a power of two: far apart, and of each class about as many."""
    names = workload.class_names
    most_of_one = -(-count // len(names))
    step = round(size * 0.618) | 1  # odd, so every number is met once; near the golden section, so neighbours lie apart
    found: set[int] = set()
    taken: Counter[str] = Counter()
    for place in range(min(size, MOST_LOOKED_AT)):
        number = low + place * step % size
        name = workload.class_name_of(number) if len(names) > 1 else names[0]
        if taken[name] < most_of_one:
            taken[name] += 1
            found.add(number)
        if len(found) == count:
            break
    return found


def number_of(record: RequestRecord, turns: int) -> int:
    """The request's number in the workload. In sessions the order of asking depends on the server's speed, so `index` does
    not tell."""
    if record.session is None or record.turn is None:
        return record.index
    return record.session * turns + record.turn


def sample_of(exchange: Exchange, place: int, record: RequestRecord) -> Sample | None:
    """The texts of one request of a closed exchange; None of an embedding, which has none."""
    answer, item = exchange.answers[place], exchange.items[place].prepared
    if answer.complete_as_is:
        return None
    prompt, said = storable(item.text), storable(answer.answer_text)
    return Sample(
        index=record.index,
        attempt=record.attempt,
        prompt=prompt[:MOST_CHARACTERS],
        prompt_characters=len(prompt),
        expected=storable(item.expected)[:MOST_CHARACTERS],
        answer=said[:MOST_CHARACTERS],
        answer_characters=len(said),
        answer_sha256=hashlib.sha256(said.encode()).hexdigest(),
    )


def uncounted_of(exchange: Exchange, place: int, record: RequestRecord) -> Uncounted | None:
    """The text of a success that nobody counted. None where all of its text is not at hand, since reasoning and tool calls
    are not kept; and of one of several items whose server counted them together: two ways of counting do not add."""
    answer = exchange.answers[place]
    counted = record.output_tokens is not None or answer.batch_output_tokens is not None
    whole = bool(answer.texts) and len(answer.texts) == len(answer.stamps)
    if record.outcome is not Outcome.OK or counted or not whole:
        return None
    return Uncounted(index=record.index, attempt=record.attempt, answer=storable(answer.answer_text))


def storable(text: str) -> str:
    """Half of a surrogate pair, which a server may send in JSON, is no text that could be written down."""
    return text.encode("utf-8", "replace").decode()
