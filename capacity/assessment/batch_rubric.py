"""The grade of a static batch, and what to do with it: the rubric of settings, asked of a night.

1. No objective before the run, or no room for one interruption: *Not complete*.
2. No batch size is done in its window safely: *No safe setting found*.
3. Else, as long as one criterion is not met: *Needs revision*.
4. Else *Complete*.

What only people who wait could feel is not asked: fairness, cancellation, refusals, a queue. A batch is no setting for
interactive requests, so it is neither proposed nor signed by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from capacity.assessment import batch, clock, rubric
from capacity.assessment.answer import Answer
from capacity.assessment.batch_types import BatchRow, BatchVerdict
from capacity.assessment.criteria import criterion, listed
from capacity.assessment.facts import GridFacts
from capacity.assessment.knee import STATEMENT_REPEATS
from capacity.assessment.verdict import Criterion, Gate, Grade, Rubric

NOTHING_ASKED = "The objective asks nothing of a batch, so its time is held to nothing."
COMPLETE = "Finish time with its bound, an outage or a restart, items, answers and host determine the batch size."
NO_SIZE = "No batch size is done in its window safely."
READ = "Let the worker on the host read it, GPUs included where there are any, then run the batch again."
AGAIN = "Draw the grid again with more repeats, or let a run hold more items."
LANE = "It is no setting for interactive requests, so it is not proposed by itself: open a lane for it while its window lasts."


def graded(facts: GridFacts, held: BatchVerdict, power: str) -> Rubric:
    """One grade for every grid of static batches; `power` is what it was measured on, empty where not recorded."""
    if not held.asked or not any(row.cells for row in held.rows):
        return Rubric(grade=Grade.UNGRADED, reason=NOTHING_ASKED if not held.asked else "Nothing is measured yet.")
    row = held.chosen or next(row for row in held.rows if row.cells)
    asked, finish = _objective(facts, held), _finish(held, row)
    if held.answer == Answer.FAILS and asked.met:
        return Rubric(grade=Grade.NO_SAFE_SETTING, reason=NO_SIZE, criteria=(asked, finish))
    checked = batch.safety(facts, facts.at(row.setting))
    found = rubric.graded(
        (
            asked, _room(held, row), finish, _sample(row), _length(facts, row), _validity(checked, row),
            rubric.conditions(facts, None), _power(facts, power), _readings(checked),
        )
    )  # fmt: skip
    return replace(found, reason=COMPLETE) if found.grade == Grade.COMPLETE else found


def steps(held: BatchVerdict, graded: Rubric) -> tuple[str, ...]:
    """What a person does next: how to run the night, what an interruption asks for, and what to measure first."""
    row = held.chosen
    first = next((one.next_cell for one in graded.open if one.next_cell), "")
    if graded.grade == Grade.NOT_COMPLETE:
        return (first,)
    if row is None or held.answer != Answer.HOLDS:
        remedies = dict.fromkeys(one.remedy for one in held.rows if one.remedy)
        return (*remedies, *((first,) if first and first not in remedies else ()))
    ends = f"at {row.stated_latest} at the latest" if row.stated_latest else f"at about {row.stated_finish}"
    again = "1 item is" if row.done_again == 1 else f"{row.done_again:,} items are"
    room = row.restarts_left or 0
    fits = f"There is room for {room:,} more such {'restart' if room == 1 else 'restarts'} before {held.latest_finish}."
    return (
        *((f"Before relying on it: {first}",) if first else ()),
        f"Run the night with batches of {row.setting:,} from {row.start}, in a lane of its own; by what was measured it ends "
        f"{ends}.",
        f"After an interruption go on with the same ledger, and give each item an idempotency key: at most {again} asked again. "
        f"{fits}",
        LANE,
    )


def _objective(facts: GridFacts, held: BatchVerdict) -> Criterion:
    """Of a batch its window alone: nobody waits for one item."""
    found = criterion("objective", "Objective set before the run", band=Grade.NOT_COMPLETE)
    if facts.objective_before_run:
        return replace(found, reason=f"Set before the first run: {held.asked}.")
    return replace(
        found,
        answer=Answer.FAILS,
        reason="The objective was not set before the run, so this result is no test of it.",
        next_cell="Draw the grid again with the objective as it stands.",
    )


def _finish(held: BatchVerdict, row: BatchRow) -> Criterion:
    found = replace(criterion("finish", "Done in its window", cells=row.cells), doc="finish", reason=row.words)
    if row.answer == Answer.HOLDS and not row.indicative:
        return found
    answer = Answer.NOT_TESTED if row.answer == Answer.HOLDS else row.answer
    if held.answer == Answer.NOT_TESTED and answer == Answer.FAILS:
        return replace(found, answer=Answer.NOT_TESTED, next_cell="Run the batch sizes that have no run yet.")
    return replace(found, answer=answer, next_cell=row.remedy or AGAIN)


def _room(held: BatchVerdict, row: BatchRow) -> Criterion:
    """The headroom of a night: a stated outage that the finish includes, or time for at least one restart."""
    found = replace(
        criterion("room", "Room for an interruption", band=Grade.NOT_COMPLETE), doc="finish", cells=row.cells
    )
    if row.answer != Answer.HOLDS:
        return replace(
            found, answer=Answer.NOT_APPLICABLE, reason="Asked as soon as a batch size is done in its window."
        )
    if held.outage_s:
        return replace(found, reason=f"The finish includes {clock.span_words(held.outage_s)} without power.")
    if row.restarts_left:
        return replace(found, reason=f"{row.restarts_left:,} restarts fit before {held.latest_finish}.")
    return replace(
        found,
        answer=Answer.FAILS,
        reason=f"No outage is stated, and not one restart fits before {held.latest_finish}: any interruption makes it late.",
        next_cell="Allow a later finish or fewer items in the objective, then draw the grid again.",
    )


def _sample(row: BatchRow) -> Criterion:
    found = replace(
        criterion("sample", "Enough requests for a claim", cells=row.cells), title="Enough runs for a bound"
    )
    if row.runs >= STATEMENT_REPEATS:
        return replace(found, doc="pace", reason=f"{row.runs} runs, so that their spread is known.")
    return replace(
        found,
        doc="pace",
        answer=Answer.NOT_TESTED,
        reason=f"{row.runs} of {STATEMENT_REPEATS} runs: how much they differ is not known well enough.",
        next_cell=f"Draw the grid again with at least {STATEMENT_REPEATS} repeats.",
    )


def _length(facts: GridFacts, row: BatchRow) -> Criterion:
    """A minute of items says nothing of the heat of a night."""
    found = replace(criterion("length", "Runs as long as they stand for", cells=row.cells), doc="pace")
    items = facts.terms.batch.items if facts.terms.batch else 0
    measured = min((run.items for run in batch.runs(facts, facts.at(row.setting))), default=0)
    least = -(-items // int(batch.FAR_BEYOND))
    if measured >= least:
        return replace(found, reason=f"Runs of {measured:,} items stand for {items:,}.")
    return replace(
        found,
        answer=Answer.NOT_TESTED,
        reason=f"Runs of {measured:,} items stand for {items:,}, over {batch.FAR_BEYOND:g} times as many.",
        next_cell=f"Draw the grid again with at least {least:,} items a run.",
    )


def _validity(checked: Sequence[Gate], row: BatchRow) -> Criterion:
    found = criterion("validity", "Validity of answers", cells=row.cells)
    gate = next((gate for gate in checked if gate.key == "validity"), None)
    if gate is None:
        return replace(found, answer=Answer.NOT_TESTED, reason="No answer of it was looked at.", next_cell=AGAIN)
    answer = Answer.NOT_TESTED if gate.answer == Answer.HOLDS and gate.indicative else gate.answer
    met = answer in (Answer.HOLDS, Answer.NOT_APPLICABLE)
    return replace(found, answer=answer, reason=gate.reason, next_cell="" if met else gate.remedy or AGAIN)


def _power(facts: GridFacts, power: str) -> Criterion:
    found = replace(criterion("power", "On the power that the window expects"), doc="rubric-conditions")
    expected = facts.terms.batch.power_expected if facts.terms.batch else ""
    if not power:
        why, todo = "On which power it was measured is not recorded.", "Record the conditions, before and after."
        return replace(found, answer=Answer.NOT_TESTED, reason=why, next_cell=todo)
    if power != expected:
        why = f"Measured on {batch.on(power)}, and the window is expected on {batch.on(expected)}."
        return replace(found, answer=Answer.NOT_TESTED, reason=why, next_cell=f"Measure it on {batch.on(expected)}.")
    return replace(found, reason=f"Measured on {batch.on(power)}, as expected.")


def _readings(checked: Sequence[Gate]) -> Criterion:
    found = criterion("readings", "Readings, or what stands in for them")
    missing = [
        gate
        for gate in checked
        if gate.answer == Answer.NOT_REPORTED and not gate.substitute and gate.key != "validity"
    ]
    if not missing:
        return replace(found, reason="Every reading was reported, or something named stands in for it.")
    return replace(
        found,
        answer=Answer.NOT_REPORTED,
        reason=f"Not reported, and nothing stands in for it: {listed([gate.title for gate in missing])}.",
        next_cell=next((gate.remedy for gate in missing if gate.remedy), READ),
        cells=missing[0].cells,
    )
