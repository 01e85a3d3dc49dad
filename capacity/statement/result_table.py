"""The words of page one's table and charts: every tested setting, failing ones kept in, and what confirmed the stated one."""

from __future__ import annotations

from capacity.statement import phrases
from capacity.statement.blocks import Head, Line, Table, TableCell
from capacity.statement.document import Absent, Claim, Confirmed, Document, Limit, Row, Tail, open_loop
from capacity.statement.sentences import ENGLISH, Sentences


def result_table(document: Document, say: Sentences = ENGLISH) -> Table:
    """Every tested setting; a confirming open loop stands apart at the end."""
    shown = shown_limits(document)
    per_min = say("table.per_min")
    head = [Head(phrases.capital(phrases.term_name(document.setting, say)), kind="label")]
    head += [Head(say("table.successful"), per_min), Head(say("table.all"), per_min)]
    head += [_limit_head(document.limits[place], say) for place in shown]
    if has_memory(document):
        limit = document.memory.limit_bytes
        text = "" if limit is None else say("table.limit", limit=f"{limit / phrases.GIB:.3g}{phrases.SPACE}GiB")
        head.append(Head(say("table.vram"), text))
    lines = [_line(document, row, shown, say) for row in document.rows]
    if (confirmed := open_loop(document)) is not None:
        lines.append(_confirmed_line(document, confirmed, shown, say))
    return Table(head=(*head, Head(say("table.verdict"))), lines=tuple(lines), caption=_caption(document, say))


def has_memory(document: Document) -> bool:
    """Whether any row has a measured peak to draw and to put in a column."""
    return any(isinstance(row.peak_vram_bytes, int) for row in document.rows)


def memory_note(document: Document, say: Sentences = ENGLISH) -> str:
    """The sentence that stands where the memory chart would."""
    words = document.rows[0].peak_vram_bytes
    said = say("memory.note", words=phrases.gib(words, say))
    return said + (f" {document.memory.note}" if document.memory.note else "")


def shown_limits(document: Document) -> tuple[int, ...]:
    """Places of the limits that have a column on page one: the first of each class. The annex has all."""
    first: dict[str, int] = {}
    for place, limit in enumerate(document.limits):
        first.setdefault(limit.class_name, place)
    return tuple(first.values())


def chart_alt(document: Document, say: Sentences = ENGLISH) -> str:
    """The charts in words, for people who do not see them."""
    parts = []
    for row in document.rows:
        ratio = worst_ratio(document, row.tails)
        rate = None if row.successful_per_minute is None else row.successful_per_minute.value
        parts.append(_alt_point(f"{row.setting}", rate, ratio, phrases.gib(row.peak_vram_bytes, say), say))
    if (one := open_loop(document)) is not None:
        name = say("chart.confirmed", setting=f"{document.setting.value}")
        ratio, vram = worst_ratio(document, one.claims), phrases.gib(one.peak_vram_bytes, say)
        parts.append(_alt_point(name, one.successful_per_minute.value, ratio, vram, say))
    return say("chart.alt", term=phrases.term_name(document.setting, say), points="; ".join(parts))


def _alt_point(name: str, rate: float | None, ratio: float | None, vram: str, say: Sentences) -> str:
    times = say("chart.alt_no_times") if ratio is None else say("chart.alt_times", ratio=f"{ratio:.2f}")
    return say("chart.alt_point", setting=name, rate=phrases.per_minute(rate, say), times=times, vram=vram)


def point_label(document: Document, setting: int, say: Sentences = ENGLISH) -> str:
    """4 active, 4 in flight: what stands beside a point of the chart."""
    name = "chart.active" if document.setting.term == "active sequences" else "chart.in_flight"
    return say(name, setting=f"{setting}")


def worst_ratio(document: Document, tails: tuple[Tail, ...] | tuple[Claim, ...]) -> float | None:
    """The largest p95 over its limit of a row, or None where some tail has no value; a class of which nothing was claimed
    counts nothing."""
    every: list[Tail | Claim] = [*tails]
    pairs = zip(document.limits, every, strict=True)
    ratios = [_ratio(limit, tail) for limit, tail in pairs if not (isinstance(tail, Claim) and tail.holds is None)]
    return None if any(ratio is None for ratio in ratios) else max(ratio for ratio in ratios if ratio is not None)


def _ratio(limit: Limit, tail: Tail | Claim) -> float | None:
    return None if tail.value_s is None else tail.value_s / limit.limit_s


def _limit_head(limit: Limit, say: Sentences) -> Head:
    return Head(phrases.limit_name(limit), say("table.limit", limit=phrases.limit_seconds(limit.limit_s)))


def _line(document: Document, row: Row, shown: tuple[int, ...], say: Sentences) -> Line:
    rate = row.successful_per_minute
    stated = row.chosen and open_loop(document) is None
    cells = [
        TableCell(say("table.approved", setting=f"{row.setting}") if stated else f"{row.setting}"),
        TableCell(phrases.per_minute(None if rate is None else rate.value, say)),
        TableCell(phrases.per_minute(row.all_per_minute, say)),
        *(_time(row.tails[place], say) for place in shown),
    ]
    if has_memory(document):
        cells.append(_vram(document, row.peak_vram_bytes, say))
    verdict = phrases.capital(say(f"verdict.{row.verdict}"))
    cells.append(TableCell(verdict, past=row.verdict == "fails"))
    return Line(cells=tuple(cells), chosen=stated)


def _confirmed_line(document: Document, one: Confirmed, shown: tuple[int, ...], say: Sentences) -> Line:
    cells = [
        TableCell(say("table.confirmed", setting=f"{document.setting.value}")),
        TableCell(phrases.per_minute(one.successful_per_minute.value, say)),
        TableCell(phrases.per_minute(one.all_per_minute, say)),
        *(_time(one.claims[place], say) for place in shown),
    ]
    if has_memory(document):
        cells.append(_vram(document, one.peak_vram_bytes, say))
    cells.append(TableCell(phrases.capital(say("verdict.holds"))))
    return Line(cells=tuple(cells), chosen=True, apart=True)


def _time(tail: Tail | Claim, say: Sentences) -> TableCell:
    return TableCell(phrases.tail_value(tail, say), past=tail.holds is False)


def _vram(document: Document, peak: int | Absent, say: Sentences) -> TableCell:
    limit = document.memory.limit_bytes
    past = limit is not None and isinstance(peak, int) and peak > limit
    return TableCell(phrases.gib(peak, say), past=past)


def _caption(document: Document, say: Sentences) -> str:
    return " ".join(
        part
        for part in (
            _counted(document, say),
            _of_open_loop(document, say),
            say("caption.past"),
            say("caption.indicative") if any(t.indicative for row in document.rows for t in row.tails) else "",
            say("caption.bounds"),
        )
        if part
    )


def _counted(document: Document, say: Sentences) -> str:
    classes = ", ".join(f"{one.name} {one.n:,}" for one in document.classes)
    counts = sorted({row.n for row in document.rows})
    n = f"{counts[0]:,}" if len(counts) == 1 else say("range", first=f"{counts[0]:,}", last=f"{counts[-1]:,}")
    name = "caption.n_in_all" if document.setting.value is None else "caption.n_stated"
    return say(name, n=n, classes=classes, repeats=repeats(document.tested.repeats, say))


def _of_open_loop(document: Document, say: Sentences) -> str:
    if (one := open_loop(document)) is None:
        return ""
    name = say("table.confirmed", setting=f"{document.setting.value}")
    return say("caption.confirmed", name=name, grid=phrases.clause(one.grid), n=f"{one.n:,}")


def repeats(number: int, say: Sentences = ENGLISH) -> str:
    """three repeats"""
    return say("caption.repeat" if number == 1 else "caption.repeats", count=phrases.count(number, say))
