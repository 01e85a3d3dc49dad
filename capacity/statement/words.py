"""The words of a statement: from the document to headings, sentences and table rows.

The screen page and the PDF both show what `page` returns and add no sentence of their own; a test compares them.
"""

from __future__ import annotations

import msgspec

from capacity.statement import phrases
from capacity.statement.annexes import annexes
from capacity.statement.blocks import Block, Head, Line, Pair, Person, Span, Table, TableCell
from capacity.statement.canonical import digest_of, payload_bytes
from capacity.statement.document import Document, Limit, Row, Tail, what_to_change, why_none

NOT_USERS = "This is not a number of users."
DEMONSTRATION = "Demonstration: signed with a demonstration key. It proves nothing about a real service."
SIMULATED = "Simulated: measured on the built-in simulated runtime, not on a real model or accelerator."
DEMONSTRATION_LABEL = "Demonstration"
SIMULATED_LABEL = "Simulated"
SOLO = "Solo mode: one person measured, proposed and approved."
DIFFERENT = "It says nothing about a different request mix, model, runtime, host or room."
ALL_REASONS = "All reasons of every setting are in the annex."
CHART_RATE = "Requests per minute"
CHART_RATIO = "p95 ÷ objective, worst class (ratio)"
CHART_OBJECTIVE = "objective"
CHART_ALL = "all requests"
CHART_MEMORY = "Peak VRAM (GiB)"


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a person reads in a statement, in reading order."""

    label: str
    number: str
    dates: str
    labels: tuple[str, ...]
    title: str
    notices: tuple[str, ...]
    lead: tuple[Span, ...]
    not_users: str
    not_users_rest: str
    result_heading: str
    chart_alt: str
    memory_note: str
    table: Table
    blocks: tuple[Block, ...]
    paragraphs: tuple[Block, ...]
    people: tuple[Person, ...]
    key_line: str
    digest_label: str
    digest_groups: tuple[str, ...]
    covers: str
    verify_url: str
    scan: str
    annex_heading: str
    annexes: tuple[Block, ...]
    footer: str
    provenance: str


def page(document: Document) -> Page:
    """All words of the statement."""
    digest = digest_of(payload_bytes(document))
    return Page(
        label="Capacity statement",
        number=document.number,
        dates=dates(document),
        labels=labels(document),
        title=document.title,
        notices=notices(document),
        lead=lead(document),
        not_users=NOT_USERS,
        not_users_rest=not_users_rest(document),
        result_heading="Result",
        chart_alt=chart_alt(document),
        memory_note="" if has_memory(document) else memory_note(document),
        table=result_table(document),
        blocks=(tested_block(document), conditions_block(document)),
        paragraphs=(*finding_blocks(document), ends_block(document)),
        people=tuple(Person(one.did, one.name, phrases.when(one.at, document.zone)) for one in document.signatures),
        key_line=f"Signed, Ed25519 key {document.key_name or 'not named'}",
        digest_label="sha256",
        digest_groups=phrases.grouped(digest),
        covers=covers(document),
        verify_url=verify_url(document, digest),
        scan="Scan to verify",
        annex_heading="Annex",
        annexes=annexes(document, digest=digest, address=verify_url(document, digest)),
        footer=f"{document.number}, sha256 {digest[:12]}",
        provenance=provenance(document),
    )


def result_sentence(document: Document) -> str:
    """The result in one plain sentence, for lists and the verify page."""
    return "".join(span.text for span in lead(document)[:3])


def lead(document: Document) -> tuple[Span, ...]:
    """The result sentence in parts; the rate stands out."""
    if document.result is None or document.setting.value is None:
        return _no_safe_setting(document)
    kept = phrases.objectives(len(document.limits))
    rate = document.result.successful_per_minute
    ci = phrases.interval(rate)
    stated = document.result.stated_per_minute
    return (
        Span(f"With {phrases.setting_phrase(document.setting.value, document.setting)} this configuration finished "),
        Span(f"{phrases.per_minute(rate.value)} requests a minute", strong=True),
        Span(f" inside {kept}{' ' + ci if ci else ''}, for the request mix below."),
        Span("" if stated is None else f" With headroom kept, plan for at most {phrases.per_minute(stated)} a minute."),
    )


def _no_safe_setting(document: Document) -> tuple[Span, ...]:
    """The same where no setting is safe: no rate is in it. What stands out cannot be read as its opposite."""
    tried = [row.setting for row in document.rows]
    failed = [row.setting for row in document.rows if row.verdict == "fails"]
    left = [setting for setting in tried if setting not in failed]
    several = len(tried) > 1
    what = "each was tested and failed" if several else "it was tested and failed"
    if left:
        verb = "was" if len(left) == 1 else "were"
        what = f"{phrases.numbers(failed)} failed, and {phrases.numbers(left)} {verb} not tested enough to say"
    named = phrases.settings_phrase(tried, document.setting)
    found = f"No setting of {named} was" if several else f"The only setting tested, {named}, was not"
    return (
        Span(f"{found} found safe", strong=True),
        Span(f" for the request mix below: {what}. This statement gives no rate and no capacity."),
    )


def not_users_rest(document: Document) -> str:
    """What else the figure does not say, with the failing setting next above the stated one."""
    if document.setting.value is None:
        return DIFFERENT
    floor = document.setting.value
    failed = [row for row in document.rows if row.verdict == "fails" and row.setting > floor]
    return " ".join([DIFFERENT, *(phrases.failed_phrase(row, document.setting) for row in failed[:1])])


def dates(document: Document) -> str:
    """Issued 16 Nov 2026, valid to 12 Feb 2027"""
    first, last = (phrases.day(moment, document.zone) for moment in (document.issued_at, document.valid_until))
    return f"Issued {first}, valid to {last}"


def labels(document: Document) -> tuple[str, ...]:
    """The words that stand on every page."""
    known = ((document.demonstration, DEMONSTRATION_LABEL), (document.simulated, SIMULATED_LABEL))
    return tuple(label for holds, label in known if holds)


def notices(document: Document) -> tuple[str, ...]:
    """Sentences that limit what the statement is worth, before anything else is read."""
    known = (
        (document.demonstration, DEMONSTRATION),
        (document.simulated, SIMULATED),
        (document.solo_mode, SOLO),
        (bool(document.waiver), f"Waiver: {document.waiver}"),
    )
    return tuple(sentence for holds, sentence in known if holds)


def has_memory(document: Document) -> bool:
    """Whether any row has a measured peak to draw and to put in a column."""
    return any(isinstance(row.peak_vram_bytes, int) for row in document.rows)


def memory_note(document: Document) -> str:
    """The sentence that stands where the memory chart would."""
    words = document.rows[0].peak_vram_bytes
    return f"Peak VRAM: {words}." + (f" {document.memory.note}" if document.memory.note else "")


def shown_limits(document: Document) -> tuple[int, ...]:
    """Places of the limits that have a column on page one: the first of each class. The annex has all."""
    first: dict[str, int] = {}
    for place, limit in enumerate(document.limits):
        first.setdefault(limit.class_name, place)
    return tuple(first.values())


def result_table(document: Document) -> Table:
    """Every tested setting, failing ones kept in."""
    shown = shown_limits(document)
    head = [Head(phrases.capital(document.setting.term)), Head("Successful", "per min"), Head("All", "per min")]
    head += [_limit_head(document.limits[place]) for place in shown]
    if has_memory(document):
        limit = document.memory.limit_bytes
        head.append(Head("Peak VRAM", "" if limit is None else f"limit {limit / phrases.GIB:.3g} GiB"))
    lines = tuple(_line(document, row, shown) for row in document.rows)
    return Table(head=(*head, Head("Verdict")), lines=lines, caption=_caption(document))


def chart_alt(document: Document) -> str:
    """The charts in words, for people who do not see them."""
    parts = []
    for row in document.rows:
        rate = (
            "not recorded" if row.successful_per_minute is None else phrases.per_minute(row.successful_per_minute.value)
        )
        ratio = worst_ratio(document, row)
        times = "without a p95" if ratio is None else f"at {ratio:.2f} times the objective"
        parts.append(f"{row.setting}: {rate} successful a minute {times}, peak VRAM {phrases.gib(row.peak_vram_bytes)}")
    return f"Requests a minute against p95 over objective by {document.setting.term}. {'; '.join(parts)}."


def point_label(document: Document, setting: int) -> str:
    """4 active, 4 in flight: what stands beside a point of the chart."""
    return f"{setting} {'active' if document.setting.term == 'active sequences' else 'in flight'}"


def worst_ratio(document: Document, row: Row) -> float | None:
    """The largest p95 over its limit in a row, or None where some tail has no value."""
    ratios = [_ratio(limit, tail) for limit, tail in zip(document.limits, row.tails, strict=True)]
    return None if any(ratio is None for ratio in ratios) else max(ratio for ratio in ratios if ratio is not None)


def tested_block(document: Document) -> Block:
    """What was tested, and on what."""
    tested = document.tested
    prompts = ("Synthetic" if tested.synthetic else "Recorded") + (
        "" if tested.seed is None else f", seed {tested.seed}"
    )
    shares = [f"{phrases.percent(one.share)} {one.name}" for one in document.classes if one.share is not None]
    tokens = ["not recorded" if one.input_tokens is None else f"{one.input_tokens:,}" for one in document.classes]
    pairs = [
        Pair("Model", tested.model),
        Pair("Runtime", tested.runtime),
        Pair("Host", tested.hardware_declared),
        Pair("Request mix", ", ".join(shares) or "not recorded"),
        Pair("Tokens in, p50", ", ".join(tokens)),
        Pair("Prompts", prompts),
    ]
    return Block(heading="What was tested", pairs=tuple(pairs))


def conditions_block(document: Document) -> Block:
    """When, where, under what power."""
    here = document.conditions
    pairs = [
        Pair("Date", phrases.span(here.started_at, here.ended_at, document.zone)),
        Pair("Place", here.place),
        Pair("Power", here.power),
        Pair("Room", f"{here.ambient} ({here.ambient_source})"),
        Pair("Operator", here.operator),
        *(Pair(fact.label, fact.text) for fact in here.further),
        Pair("Grid", document.tested.grid),
        Pair("Grade", phrases.capital(document.grade)),
    ]
    return Block(heading="Conditions", pairs=tuple(pairs))


def finding_blocks(document: Document) -> tuple[Block, ...]:
    """The limits that belong to the setting; where there is none, why, and what to change that is not said there."""
    if document.setting.value is None:
        said = " ".join(why_none(document))
        left = tuple(text for text in what_to_change(document) if text not in said)
        change = (Block(heading="What to change before measuring again", paragraphs=left),) if left else ()
        return (Block(heading="Why no setting is safe", paragraphs=(*why_none(document), ALL_REASONS)), *change)
    return (limits_block(document),)


def limits_block(document: Document) -> Block:
    """The limits under which alone the figure holds, and what to go back to."""
    limits = "; ".join(_clause(text) for text in document.operating_limits) or "none was set"
    return Block(
        heading="Operating limits",
        paragraphs=(f"The figure holds only with these limits in force: {limits}. {document.rollback}",),
    )


def ends_block(document: Document) -> Block:
    """What makes the statement void before its last day."""
    return Block(
        heading="Ends early if",
        paragraphs=(phrases.capital("; ".join(_clause(text) for text in document.ends_early)) + ".",),
    )


def covers(document: Document) -> str:
    """What the signature is over."""
    records = sum(cell.records for cell in document.evidence)
    return f"Covers this text and the {records:,} request records."


def verify_url(document: Document, digest: str) -> str:
    """The public page that says whether the statement stands."""
    return f"{document.verify_base_url}/{document.number}/{digest[:12]}/"


def provenance(document: Document) -> str:
    """Hardware, room, power and date, for the foot of every page."""
    here = document.conditions
    date = phrases.day(here.started_at, document.zone)
    return f"{document.tested.hardware_declared}; {here.place}; {here.power}; {date}"


def _clause(text: str) -> str:
    """A sentence as part of a longer one: no full stop, and a small first letter unless it begins an abbreviation."""
    bare = text.strip().rstrip(".")
    return bare[:1].lower() + bare[1:] if bare[1:2].islower() or bare[1:2] == " " else bare


def _limit_head(limit: Limit) -> Head:
    return Head(phrases.limit_name(limit), f"limit {phrases.limit_seconds(limit.limit_s)}")


def _line(document: Document, row: Row, shown: tuple[int, ...]) -> Line:
    rate = row.successful_per_minute
    cells = [
        TableCell(f"{row.setting}, approved" if row.chosen else f"{row.setting}"),
        TableCell(phrases.per_minute(None if rate is None else rate.value)),
        TableCell(phrases.per_minute(row.all_per_minute)),
        *(TableCell(phrases.tail_value(row.tails[place]), past=row.tails[place].holds is False) for place in shown),
    ]
    if has_memory(document):
        limit, peak = document.memory.limit_bytes, row.peak_vram_bytes
        past = limit is not None and isinstance(peak, int) and peak > limit
        cells.append(TableCell(phrases.gib(peak), past=past))
    cells.append(TableCell(phrases.capital(row.verdict), past=row.verdict == "fails"))
    return Line(cells=tuple(cells), chosen=row.chosen)


def _caption(document: Document) -> str:
    parts = ", ".join(f"{one.name} {one.n:,}" for one in document.classes)
    repeats = document.tested.repeats
    counts = sorted({row.n for row in document.rows})
    n = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    where = " in all" if document.setting.value is None else " at the stated one"
    times = f"{phrases.count(repeats)} repeat{'s' * (repeats != 1)}"
    sentence = f"n = {n} requests a setting ({parts}{where}), {times}."
    dagger = any(tail.indicative for row in document.rows for tail in row.tails)
    return (
        f"{sentence} Underlined is past its objective or limit."
        + (" † indicative: too few requests for a claim." if dagger else "")
        + " Bounds are in the annex."
    )


def _ratio(limit: Limit, tail: Tail) -> float | None:
    return None if tail.value_s is None else tail.value_s / limit.limit_s
