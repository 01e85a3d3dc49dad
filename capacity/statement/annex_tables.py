"""The annexes that are tables: the open loop's claims, every limit, controls, criteria, diagnosis, cells, evidence."""

from __future__ import annotations

from collections.abc import Sequence

from capacity.statement import phrases
from capacity.statement.blocks import Block, Head, Line, Pair, Table, TableCell
from capacity.statement.document import Cell, Claim, Confirmed, Document, Limit, Row, Tail, open_loop
from capacity.statement.result_table import repeats
from capacity.statement.sentences import Sentences


def confirmed(document: Document, say: Sentences) -> Block | None:
    """The open loop whose rate and times the statement gives."""
    if (one := open_loop(document)) is None:
        return None
    sure = f"{100 - one.error_percent:g}{phrases.SPACE}%"
    names = ("every.n", "open.effective", "open.over", "every.measured", "open.p99")
    head = (
        Head(say("every.limit"), kind="words"),
        *(Head(say(name)) for name in names),
        Head(say("open.bound", percent=sure)),
        Head(say("every.verdict")),
    )
    lines = [_claim(limit, claim, say) for limit, claim in zip(document.limits, one.claims, strict=True)]
    caption = say("open.caption", error=f"{one.error_percent:g}{phrases.SPACE}%")
    return Block(
        heading=say("open"),
        paragraphs=(say("open.words"),),
        pairs=_loop(document, one, say),
        table=Table(head=head, lines=tuple(lines), caption=caption),
    )


def _loop(document: Document, one: Confirmed, say: Sentences) -> tuple[Pair, ...]:
    rate, here = one.successful_per_minute, one.conditions
    ci = phrases.interval(rate, say)
    room = () if here is None else (
        Pair(
            say("open.room"),
            say(
                "open.room_words", place=here.place, ambient=here.ambient, source=here.ambient_source, power=here.power
            ),
        ),
    )  # fmt: skip
    return (
        Pair(say("open.grid"), one.grid),
        Pair(say("open.offered"), say("open.offered_rate", rate=phrases.per_minute(one.rate_per_minute, say))),
        Pair(say("open.queue"), say("open.queue_cap", cap=f"{one.queue_cap}", setting=f"{document.setting.value}")),
        Pair(say("open.rate"), say("open.rate_words", rate=phrases.per_minute(rate.value, say), interval=ci).strip()),
        Pair(say("open.refused"), phrases.share_of(one.refused, say)),
        Pair(say("open.accepted"), phrases.share_of(one.accepted, say)),
        Pair(say("open.repeats"), say("open.repeats_n", repeats=repeats(one.repeats, say), n=f"{one.n:,}")),
        Pair(say("open.when"), phrases.span(one.started_at, one.ended_at, document.zone, say)),
        *room,
        *(
            Pair(say("open.authorised"), say("open.person", name=who.name, at=phrases.when(who.at, document.zone, say)))
            for who in one.authorised
        ),
    )


def _claim(limit: Limit, claim: Claim, say: Sentences) -> Line:
    known = [claim.n_effective, claim.misses]
    verdict = say("verdict.not judged") if claim.holds is None else say("verdict.holds")
    cells = (
        TableCell(_limit(limit, say)),
        TableCell(f"{claim.n:,}"),
        *(TableCell(say("not_recorded") if number is None else f"{number:,}") for number in known),
        TableCell(phrases.tail_value(claim, say)),
        TableCell(say("not_recorded") if claim.p99_s is None else phrases.seconds(claim.p99_s)),
        TableCell(say("every.no_bound") if claim.bound_s is None else phrases.seconds(claim.bound_s)),
        TableCell(verdict),
    )
    return Line(cells=cells, chosen=claim.holds is True)


def every_limit(document: Document, say: Sentences) -> Block:
    """Each limit at each setting of the comparison, with n and the bound."""
    names = ("every.n", "every.measured", "every.bound", "every.verdict")
    head = (
        Head(phrases.capital(phrases.term_name(document.setting, say)), kind="label"),
        Head(say("every.limit"), kind="words"),
        *(Head(say(name)) for name in names),
    )
    lines = [
        _limit_line(row, limit, tail, say)
        for row in document.rows
        for limit, tail in zip(document.limits, row.tails, strict=True)
    ]
    caption = say("every.caption" if open_loop(document) is None else "every.caption_closed")
    reasons = [say("every.reason", setting=f"{row.setting}", reason=row.reason) for row in document.rows if row.reason]
    return Block(
        heading=say("every"), table=Table(head=head, lines=tuple(lines), caption=caption), items=tuple(reasons)
    )


def _limit_line(row: Row, limit: Limit, tail: Tail, say: Sentences) -> Line:
    judged = {True: "holds", False: "fails", None: "not judged"}[tail.holds]
    verdict = "indicative" if tail.indicative else judged
    cells = (
        TableCell(f"{row.setting}"),
        TableCell(_limit(limit, say)),
        TableCell(f"{tail.n:,}"),
        TableCell(phrases.tail_value(tail, say), past=tail.holds is False),
        TableCell(say("every.no_bound") if tail.bound_s is None else phrases.seconds(tail.bound_s)),
        TableCell(say(f"verdict.{verdict}"), past=verdict == "fails"),
    )
    return Line(cells=cells, chosen=row.chosen)


def _limit(limit: Limit, say: Sentences) -> str:
    return say("every.at_most", name=phrases.limit_name(limit), limit=phrases.limit_seconds(limit.limit_s))


def controls(document: Document, say: Sentences) -> Block | None:
    """Every control that goes with the setting."""
    if not document.controls:
        return None
    lines = [(one.title, one.value, " ".join(filter(None, (one.words, one.source)))) for one in document.controls]
    names = ("controls.title", "controls.value", "controls.words")
    return Block(heading=say("controls"), table=_of_words(names, lines, "", say))


def grade(document: Document, say: Sentences) -> Block:
    """The grade, and each criterion by which it was computed."""
    graded = phrases.capital(say(f"grade.{document.grade}"))
    words = say("grade.words", grade=graded, reason=document.grade_reason).strip()
    if not document.criteria:
        return Block(heading=say("grade"), paragraphs=(words,))
    lines = [(one.title, say(f"verdict.{one.answer}"), one.reason) for one in document.criteria]
    names = ("grade.criterion", "grade.answer", "grade.reason")
    table = _of_words(names, lines, say("grade.caption"), say, past=say("verdict.fails"))
    return Block(heading=say("grade"), paragraphs=(words,), table=table)


def diagnosis(document: Document, say: Sentences) -> Block | None:
    """The classic mistakes, and what was found of each."""
    if not document.diagnosis:
        return None
    lines = []
    for one in document.diagnosis:
        found = say(f"found.{one.found}")
        if one.settings:
            found = say("diagnosis.at", found=found, settings=phrases.numbers(list(one.settings), say))
        lines.append((one.title, found, " ".join(one.evidence)))
    names = ("diagnosis.case", "diagnosis.found", "diagnosis.evidence")
    return Block(heading=say("diagnosis"), paragraphs=(say("diagnosis.words"),), table=_of_words(names, lines, "", say))


def _of_words(
    names: Sequence[str], lines: Sequence[tuple[str, ...]], caption: str, say: Sentences, *, past: str = ""
) -> Table:
    """A table of sentences; a second cell that says `past` is marked."""
    head = tuple(Head(say(name), kind="words" if place == 2 else "label") for place, name in enumerate(names))
    rows = tuple(
        Line(cells=tuple(TableCell(text, past=place == 1 and text == past != "") for place, text in enumerate(line)))
        for line in lines
    )
    return Table(head=head, lines=rows, caption=caption)


def cells(document: Document, say: Sentences) -> Block | None:
    """Every window that was measured."""
    if not document.cells:
        return None
    names = ("cells.window", "cells.n", "cells.answered", "cells.good", "cells.rate")
    labels = (Head(say("cells.cell"), kind="label"), Head(say("cells.started"), kind="label"))
    head = (*labels, *(Head(say(name)) for name in names))
    lines = tuple(_cell(document, one, say) for one in document.cells)
    return Block(heading=say("cells"), table=Table(head=head, lines=lines, caption=say("cells.caption")))


def _cell(document: Document, one: Cell, say: Sentences) -> Line:
    started = one.started_at
    texts = (
        one.cell,
        say("not_recorded") if started is None else phrases.when(started, document.zone, say),
        f"{one.window_s:,.0f}{phrases.SPACE}s",
        f"{one.n:,}",
        f"{one.answered:,}",
        say("not_recorded") if one.good is None else f"{one.good:,}",
        phrases.per_minute(one.good_per_minute, say),
    )
    return Line(cells=tuple(TableCell(text) for text in texts))


def evidence(document: Document, say: Sentences) -> Block:
    """The evidence manifest, with the authorisation that each cell ran under where that is listed."""
    with_leave = any(isinstance(cell.leave, str) for cell in document.evidence)
    head = [Head(say("cells.cell"), kind="label"), Head(say("evidence.records"))]
    head += [Head(say("evidence.leave"))] if with_leave else []
    lines = []
    for cell in document.evidence:
        texts = [cell.cell, f"{cell.records:,}"]
        texts += [cell.leave if isinstance(cell.leave, str) else say("not_recorded")] if with_leave else []
        lines.append(Line(cells=tuple(TableCell(text) for text in (*texts, cell.sha256))))
    caption = say("evidence.caption", digest=document.evidence_digest)
    table = Table(head=(*head, Head("sha256", kind="digest")), lines=tuple(lines), caption=caption)
    return Block(heading=say("evidence"), table=table)
