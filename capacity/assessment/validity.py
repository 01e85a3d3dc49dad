"""Whether a window may be concluded from at all: every check of the method, each with its evidence and its remedy.

A check that fails keeps its setting from being concluded from, by the gate *Window valid*. Three have gates of their own,
which say it there (requests accounted for, the client, and a buffered stream, whose times no latency gate takes); the
others are gathered into that one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from benchmarks.engine.plan import ClassLimits
from benchmarks.engine.summary_types import CellSummary, ClassSummary
from benchmarks.engine.terms import TokenSource
from benchmarks.stats.little import TOLERANCE, little
from benchmarks.stats.per_cent import per_cent
from capacity.assessment import accounting, gates, steady
from capacity.assessment.facts import CellFact, GridFacts
from capacity.assessment.latency import seconds
from capacity.assessment.verdict import Answer, Check, Gate

ACHIEVED_SHARE = 0.95
SERVER_TOKENS, SERVER_REFUSED = "runtime_generation_tokens_total", "runtime_rejected_total"
COUNTS_WITHIN = 0.10
CHANCE_SDS = 3.0
ELSEWHERE = frozenset({"conservation", "client", "buffering"})
"""Checks that a gate besides *Window valid* answers."""
UNBUFFER = "Switch response buffering off in whatever stands before the runtime, and measure again."


def checks(facts: GridFacts, cells: Sequence[CellFact]) -> tuple[Check, ...]:
    """Of the windows of one setting; none where nothing was measured at it."""
    found = [cell for cell in cells if cell.summary is not None]
    if not found:
        return ()
    return (
        _of_gate(accounting.conservation(found)),
        littles_law(found),
        times(found),
        max_tokens(found),
        achieved_rate(found),
        _of_gate(gates.client(found)),
        steady.check(facts.limits, found),
        conditions(facts, found),
        impossible_rates(found),
        server_counts(found),
        buffering(facts, found),
    )


def gate(found: Sequence[Check]) -> Gate | None:
    """*Window valid*, of all that no other gate says; None without checks."""
    told = [check for check in found if check.key not in ELSEWHERE]
    if not told:
        return None
    bad = [check for check in told if check.answer == Answer.FAILS]
    cells = tuple(dict.fromkeys(cell for check in bad or told for cell in check.cells))
    blank = Gate(key="window", title="Window valid", answer=Answer.HOLDS, reason="", cells=cells)
    if bad:
        remedy = " ".join(dict.fromkeys(check.remedy for check in bad if check.remedy))
        return replace(blank, answer=Answer.FAILS, reason=" ".join(check.evidence for check in bad), remedy=remedy)
    held = [check for check in told if check.answer == Answer.HOLDS]
    unknown = [_small(check.title) for check in told if check.answer == Answer.NOT_REPORTED]
    rest = f" Not reported: {', '.join(unknown)}." if unknown else ""
    if not held:
        return replace(blank, answer=Answer.NOT_REPORTED, reason=f"No check of the window could be made.{rest}")
    noun = "check of the window holds" if len(held) == 1 else "checks of the window hold"
    return replace(blank, reason=f"{len(held)} {noun}.{rest}")


def _small(title: str) -> str:
    return title if title.startswith("Little's") else title.lower()


def littles_law(cells: Sequence[CellFact]) -> Check:
    """Mean in flight = throughput x mean time in flight, within 10 %. A short window cuts requests at its edges: beyond
    10 % it must be more than these can come to, else the window is too short to tell."""
    blank = _check("little", "Little's law", cells)
    found = [told for summary in _summaries(cells) if (told := _in_flight(summary))]
    if not found:
        return replace(
            blank, answer=Answer.NOT_REPORTED, evidence="The mean time in flight was not recorded.",
            remedy="Measure again with this version.",
        )  # fmt: skip
    off, edges, words = max(found, key=lambda told: (told[0] > TOLERANCE + told[1], told[0]))
    if off <= TOLERANCE:
        return replace(blank, evidence=words)
    if off <= TOLERANCE + edges:
        evidence = f"{words} The requests cut by the edges of so short a window can come to {per_cent(edges)}."
        return replace(blank, answer=Answer.NOT_REPORTED, evidence=evidence, remedy="Lengthen the window.")
    remedy = "Requests were lost, counted twice, or piled up: see the outcomes and the trend, and measure again."
    return replace(blank, answer=Answer.FAILS, evidence=words, remedy=remedy)


def _in_flight(summary: CellSummary) -> tuple[float, float, str] | None:
    """How far one window is off, what its edges can come to, and both sides in words; None where one is not known.

    At each edge as many requests are cut as are in flight. In step they shift the sum by a whole time in flight; out of
    step, by the square root of their number, each side.
    """
    rate, mean_s = summary.closed_per_s, summary.mean_e2e_s
    law = little(summary.mean_in_flight, rate, mean_s)
    if law.ratio is None or law.expected is None or rate is None or mean_s is None:
        return None
    off = abs(law.ratio - 1)
    edges = max(1.0, 2 / math.sqrt(law.expected)) * mean_s / summary.window_s
    verb = "are" if off <= TOLERANCE else "would be"
    said = f"{summary.mean_in_flight:.2f} were in flight on average; {rate:.2f} a second of {seconds(mean_s)} each"
    return off, edges, f"{said} {verb} {law.expected:.2f} ({per_cent(law.ratio - 1, sign=True)})."


def times(cells: Sequence[CellFact]) -> Check:
    """No answer ends before its first token, and no stamp is impossible."""
    blank = _check("times", "End to end no shorter than first token", cells)
    remedy = "The client's stamps cannot be right: look at its clock and its host, and measure again."
    parts = _classes(cells)
    wrong = sum(part.wrong_times for part in parts)
    if wrong:
        ended = sum(part.outcomes.get("ok", 0) for part in parts)
        evidence = f"{wrong} of {ended} answers have times that cannot be, such as an end before the first token."
        return replace(blank, answer=Answer.FAILS, evidence=evidence, remedy=remedy)
    for part in parts:
        if crossed := _crossed(part):
            return replace(blank, answer=Answer.FAILS, evidence=crossed, remedy=remedy)
    if not any(part.ttft_ok_s.p95.n for part in parts):
        return replace(blank, evidence="No time is impossible; no answer has a time to its first token.")
    return replace(
        blank, evidence="No time is impossible, and no percentile of the first token is above that of the end."
    )


def _crossed(part: ClassSummary) -> str:
    """Over the same requests a percentile of the smaller of two times cannot be the larger."""
    first, end = part.ttft_ok_s, part.e2e_ok_s
    if first.p95.n != end.p95.n:
        return ""
    for name in ("p50", "p95", "p99"):
        early, late = getattr(first, name).value, getattr(end, name).value
        if early is not None and late is not None and early > late:
            return f"{name} of {part.class_name} is {seconds(early)} to the first token and {seconds(late)} to the end."
    return ""


def max_tokens(cells: Sequence[CellFact]) -> Check:
    """No answer has more tokens than were allowed, by the server's own count."""
    blank = _check("max_tokens", "Answers within their token limit", cells)
    told = [part for part in _classes(cells) if part.long_outputs is not None]
    if not told:
        return replace(
            blank, answer=Answer.NOT_REPORTED, evidence="The server counted no tokens, or nobody compared them.",
            remedy="Let the server report its usage with each answer, and measure again.",
        )  # fmt: skip
    answered = sum(part.success.hits for part in told)
    long = sum(part.long_outputs or 0 for part in told)
    if long:
        names = ", ".join(dict.fromkeys(part.class_name for part in told if part.long_outputs))
        return replace(
            blank, answer=Answer.FAILS,
            evidence=f"{long} of {answered} answers ({names}) have more tokens than they were allowed.",
            remedy="The server ignores max_tokens or counts wrongly: check the endpoint and its version, and measure again.",
        )  # fmt: skip
    return replace(blank, evidence=f"None of {answered} answers has more tokens than it was allowed.")


def achieved_rate(cells: Sequence[CellFact]) -> Check:
    """An open loop sent at least 95 % of the rate that was asked for."""
    blank = _check("rate", "Achieved rate", cells)
    asked = [s.open_loop for s in _summaries(cells) if s.open_loop is not None]
    if not asked:
        return replace(
            blank,
            answer=Answer.NOT_APPLICABLE,
            evidence="A closed loop sends when an answer has come: no rate was asked.",
        )
    known = [(one.sent_per_s, one.requested_per_s) for one in asked]
    pairs = [(sent, wanted) for sent, wanted in known if sent is not None and wanted]
    if len(pairs) < len(asked):
        return replace(blank, answer=Answer.NOT_REPORTED, evidence="A window never opened, so it has no rate.")
    sent, wanted = min(pairs, key=lambda pair: pair[0] / pair[1])
    share = sent / wanted
    floor = per_cent(ACHIEVED_SHARE)
    words = f"{sent:.2f} of {wanted:.2f} requests a second were sent, {per_cent(share, 1)}; at least {floor} is asked."
    if share >= ACHIEVED_SHARE:
        return replace(blank, evidence=words)
    remedy = "The client did not keep up: raise what it may have in flight, or give it its own cores or host."
    return replace(blank, answer=Answer.FAILS, evidence=words, remedy=remedy)


def conditions(facts: GridFacts, cells: Sequence[CellFact]) -> Check:
    """Power, room, parts and runtime of these cells were those of the first."""
    blank, told = _check("conditions", "Conditions unchanged", cells), facts.conditions
    of_cells = [words for cell in cells for words in told.of_cells.get(cell.cell_id, ())]
    differs = dict.fromkeys([*told.between, *(of_cells if told.of_cells or told.between else told.differs)])
    if differs:
        return replace(
            blank, answer=Answer.FAILS, evidence=f"Not as with the first cell: {'; '.join(differs)}.",
            remedy="Put it back and measure these cells again, or draw a new grid under the new conditions.",
        )  # fmt: skip
    if not told.recorded:
        return replace(
            blank, answer=Answer.NOT_REPORTED, evidence="Room and power were not recorded before and after.",
            remedy="Record them on the grid's page.",
        )  # fmt: skip
    return replace(blank, evidence="Power, room, parts and runtime were as with the first cell.")


def impossible_rates(cells: Sequence[CellFact]) -> Check:
    """No answer came faster than any sequence is decoded. A class that was held back as a whole is told there."""
    blank = _check("impossible_rates", "No impossible rate", cells)
    parts = [part for part in _classes(cells) if not part.buffered]
    found = sum(part.impossible_rates for part in parts)
    if found:
        answered = sum(part.success.hits for part in parts)
        evidence = f"{found} of {answered} answers came faster than 10,000 tokens a second: a buffer that was emptied."
        return replace(blank, answer=Answer.FAILS, evidence=evidence, remedy=UNBUFFER)
    return replace(blank, evidence="No answer came faster than 10,000 tokens a second.")


def server_counts(cells: Sequence[CellFact]) -> Check:
    """What the runtime counted in each window beside what the client counted: generated tokens, and refusals."""
    blank = _check("server_counts", "Server's counts agree", cells)
    found = [pair for summary in _summaries(cells) for pair in (_tokens(summary), _refusals(summary)) if pair]
    bad = [words for answer, words in found if answer == Answer.FAILS]
    if bad:
        remedy = "Somebody else loaded the server, or a count is wrong: make sure that nobody does, and measure again."
        return replace(blank, answer=Answer.FAILS, evidence=" ".join(dict.fromkeys(bad)), remedy=remedy)
    held = [words for answer, words in found if answer == Answer.HOLDS]
    if held:
        return replace(blank, evidence=held[0])
    short = next((words for _, words in found), "")
    blank = replace(blank, answer=Answer.NOT_REPORTED, substitute=_usage(cells))
    if short:
        return replace(blank, evidence=short, remedy="Lengthen the window.")
    return replace(
        blank, evidence="The runtime reports no count of tokens or refusals over the window.",
        remedy="Give the runtime its metrics address, or switch its metrics on.",
    )  # fmt: skip


def _usage(cells: Sequence[CellFact]) -> str:
    """What stands in for counters: the server's own count in every answer; empty where one was counted by somebody else."""
    counted = [(name, count) for part in _classes(cells) for name, count in part.token_sources.items() if count]
    if not counted or any(name != TokenSource.SERVER.value for name, _ in counted):
        return ""
    return f"The server's own count of tokens in each of {sum(count for _, count in counted):,} answers."


def _tokens(summary: CellSummary) -> tuple[Answer, str] | None:
    """Generated tokens, where the server counted the answers too. What is in flight at the window's edges is cut
    otherwise by each side, and what failed was generated and not counted here. The counter was read over a part of the
    window only, in which by chance more or fewer answers came than on average over all of it."""
    over_s = max((c.over_s for c in summary.counters if c.name == SERVER_TOKENS), default=0.0)
    theirs, rate = summary.counted(SERVER_TOKENS), summary.output_tokens_per_s
    sources = {name for part in summary.classes for name, count in part.token_sources.items() if count}
    answered = sum(part.success.hits for part in summary.classes)
    if theirs is None or rate is None or over_s <= 0 or not answered or sources != {TokenSource.SERVER.value}:
        return None
    ours = rate * over_s
    each = rate * summary.window_s / answered
    edges = each * max(summary.mean_in_flight or 0.0, 1.0)
    words = f"The server counted {theirs:,.0f} tokens generated in {over_s:,.1f} s, the client {ours:,.0f}."
    if ours <= 2 * edges:
        return Answer.NOT_REPORTED, f"{words} Too few for a word: those in flight at the edges come to {edges:,.0f}."
    chance = each * math.sqrt(ours / each * max(0.0, 1 - over_s / summary.window_s))
    allowed = COUNTS_WITHIN * ours + edges + CHANCE_SDS * chance
    more_known = answered == summary.scheduled
    off = theirs < ours - allowed or (more_known and theirs > ours + allowed)
    return (Answer.FAILS if off else Answer.HOLDS), words


def _refusals(summary: CellSummary) -> tuple[Answer, str] | None:
    theirs, ours = summary.counted(SERVER_REFUSED), summary.outcomes.get("rejected", 0)
    if theirs is None:
        return None
    words = f"The server counted {theirs:,.0f} refused, the client {ours:,}."
    allowed = COUNTS_WITHIN * max(theirs, ours) + max(2.0, 2 * math.sqrt(max(theirs, ours)))
    # A gateway in front refuses without the server's knowledge, so fewer than the client saw say nothing.
    return (Answer.FAILS if theirs > ours + allowed else Answer.HOLDS), words


def buffering(facts: GridFacts, cells: Sequence[CellFact]) -> Check:
    """Whether something held answers back. Their times to and between tokens are not graded then; the whole still is."""
    blank = _check("buffering", "Stream not held back", cells)
    held = [part.class_name for part in _classes(cells) if part.buffered]
    if not held:
        if not any(part.chunk_gap_s and part.chunk_gap_s.n for part in _classes(cells)):
            return replace(
                blank, answer=Answer.NOT_REPORTED, evidence="No gaps between chunks were recorded.",
                remedy="Ask for streamed answers, and measure again.", substitute=_whole_only(facts, [*facts.limits.classes]),
            )  # fmt: skip
        return replace(blank, evidence="Chunks came one after the other.")
    names = ", ".join(dict.fromkeys(held))
    whole = _whole_only(facts, held)
    evidence = (
        f"Answers of {names} were held back and came at once, so times to and between their tokens are not graded."
    )
    answer = Answer.NOT_REPORTED if whole else Answer.FAILS
    return replace(blank, answer=answer, evidence=evidence, remedy=UNBUFFER, substitute=whole)


def _whole_only(facts: GridFacts, names: Sequence[str]) -> str:
    """What stands in for a stream that was not seen; empty where a time to or between tokens has a limit."""
    limits = [facts.limits.classes.get(name, ClassLimits()) for name in names]
    if any(one.ttft_s is not None or one.tpot_s is not None for one in limits):
        return ""
    return "Only end-to-end times are limited, which nobody can hold back unseen."


def _of_gate(gate: Gate) -> Check:
    return Check(
        key=gate.key, title=gate.title, answer=gate.answer, evidence=gate.reason, remedy=gate.remedy, cells=gate.cells
    )


def _check(key: str, title: str, cells: Sequence[CellFact]) -> Check:
    return Check(key=key, title=title, answer=Answer.HOLDS, evidence="", cells=tuple(c.cell_id for c in cells))


def _summaries(cells: Sequence[CellFact]) -> list[CellSummary]:
    return [cell.summary for cell in cells if cell.summary is not None]


def _classes(cells: Sequence[CellFact]) -> list[ClassSummary]:
    return [part for summary in _summaries(cells) for part in summary.classes]
