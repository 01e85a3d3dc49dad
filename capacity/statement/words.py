"""The words of a statement: from the document to headings, sentences and table rows.

The screen page and the PDF both show what `page` returns and add no sentence of their own; a test compares them. The fixed
words stand in `sentences`, in one language or another; what is signed is the document.
"""

from __future__ import annotations

import msgspec

from capacity.statement import phrases
from capacity.statement.annexes import annexes
from capacity.statement.blocks import Block, Pair, Person, Span, Table
from capacity.statement.canonical import digest_of, payload_bytes
from capacity.statement.document import Confirmed, Document, Result, Signature, open_loop, what_to_change, why_none
from capacity.statement.result_table import chart_alt, has_memory, memory_note, result_table
from capacity.statement.sentences import ENGLISH, Sentences

SIMULATED = ENGLISH("notice.simulated")


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a person reads in a statement, in reading order."""

    language: str
    direction: str
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


def page(document: Document, say: Sentences = ENGLISH) -> Page:
    """All words of the statement."""
    digest = digest_of(payload_bytes(document))
    address = verify_url(document, digest)
    return Page(
        language=say.language,
        direction=say.direction,
        label=say("label"),
        number=document.number,
        dates=dates(document, say),
        labels=labels(document, say),
        title=document.title,
        notices=notices(document, say),
        lead=lead(document, say),
        not_users=say("not_users"),
        not_users_rest=not_users_rest(document, say),
        result_heading=say("result"),
        chart_alt=chart_alt(document, say),
        memory_note="" if has_memory(document) else memory_note(document, say),
        table=result_table(document, say),
        blocks=(tested_block(document, say), conditions_block(document, say)),
        paragraphs=(*finding_blocks(document, say), ends_block(document, say)),
        people=people(document, say),
        key_line=say("key", name=document.key_name or say("key.not_named")),
        digest_label="sha256",
        digest_groups=phrases.grouped(digest),
        covers=covers(document, say),
        verify_url=address,
        scan=say("scan"),
        annex_heading=say("annex"),
        annexes=annexes(document, say, digest=digest, address=address),
        footer=say("foot", number=document.number, digest=digest[:12]),
        provenance=provenance(document, say),
    )


def result_sentence(document: Document, say: Sentences = ENGLISH) -> str:
    """The result in one plain sentence, for lists and the verify page."""
    return "".join(span.text for span in lead(document, say)[:3])


def lead(document: Document, say: Sentences = ENGLISH) -> tuple[Span, ...]:
    """The result sentence in parts; the rate stands out."""
    if document.result is None or document.setting.value is None:
        return _no_safe_setting(document, say)
    one, stated = open_loop(document), document.result.stated_per_minute
    setting = phrases.setting_phrase(document.setting.value, document.setting, say)
    rate = phrases.per_minute(document.result.successful_per_minute.value, say)
    return (
        Span(_begins(setting, one, say)),
        Span(say("lead.rate", rate=rate), strong=True),
        Span(_inside(document, document.result, one, say)),
        Span("" if stated is None else say("lead.plan", rate=phrases.per_minute(stated, say))),
    )


def _begins(setting: str, one: Confirmed | None, say: Sentences) -> str:
    if one is None:
        return say("lead.with", setting=setting)
    if one.queue_cap == 0:
        return say("lead.with_no_queue", setting=setting)
    return say("lead.with_queue", setting=setting, cap=phrases.count(one.queue_cap, say))


def _inside(document: Document, result: Result, one: Confirmed | None, say: Sentences) -> str:
    ci = phrases.interval(result.successful_per_minute, say)
    filled = {"objectives": phrases.objectives(len(document.limits), say), "interval": f" {ci}" if ci else ""}
    if one is None:
        return say("lead.inside", **filled)
    filled["offered"] = phrases.per_minute(one.rate_per_minute, say)
    if not one.refused.hits:
        return say("lead.confirmed_none", **filled)
    return say("lead.confirmed", **filled, refused=phrases.percent(one.refused.hits / one.refused.n))


def _no_safe_setting(document: Document, say: Sentences) -> tuple[Span, ...]:
    """The same where no setting is safe: no rate is in it. What stands out cannot be read as its opposite."""
    tried = [row.setting for row in document.rows]
    failed = [row.setting for row in document.rows if row.verdict == "fails"]
    left = [setting for setting in tried if setting not in failed]
    several = len(tried) > 1
    what = say("none.each_failed" if several else "none.it_failed")
    if left:
        name = "none.some_failed_one_left" if len(left) == 1 else "none.some_failed"
        what = say(name, failed=phrases.numbers(failed, say), left=phrases.numbers(left, say))
    named = phrases.settings_phrase(tried, document.setting, say)
    found = say("none.several" if several else "none.one", named=named)
    return (Span(found, strong=True), Span(say("none.rest", what=what)))


def not_users_rest(document: Document, say: Sentences = ENGLISH) -> str:
    """What else the figure does not say, with the failing setting next above the stated one."""
    floor = document.setting.value
    if floor is None:
        return say("different")
    failed = [row for row in document.rows if row.verdict == "fails" and row.setting > floor]
    told = [say("closed_loop")] if open_loop(document) is None else []
    return " ".join(
        [say("different"), *told, *(phrases.failed_phrase(row, document.setting, say) for row in failed[:1])]
    )


def dates(document: Document, say: Sentences = ENGLISH) -> str:
    """Issued 16 Nov 2026, valid to 12 Feb 2027"""
    first, last = (phrases.day(moment, document.zone, say) for moment in (document.issued_at, document.valid_until))
    return say("dates", first=first, last=last)


def labels(document: Document, say: Sentences = ENGLISH) -> tuple[str, ...]:
    """The words that stand on every page."""
    known = ((document.demonstration, "label.demonstration"), (document.simulated, "label.simulated"))
    return tuple(say(name) for holds, name in known if holds)


def notices(document: Document, say: Sentences = ENGLISH) -> tuple[str, ...]:
    """Sentences that limit what the statement is worth, before anything else is read."""
    known = (
        (document.demonstration, say("notice.demonstration")),
        (document.simulated, say("notice.simulated")),
        (document.solo_mode, say("notice.solo")),
        (bool(document.waiver), say("notice.waiver", text=document.waiver)),
    )
    translated = say("translated")
    return (*([translated] if translated else []), *(sentence for holds, sentence in known if holds))


def tested_block(document: Document, say: Sentences) -> Block:
    """What was tested, and on what."""
    tested, one = document.tested, open_loop(document)
    prompts = say("tested.synthetic" if tested.synthetic else "tested.recorded")
    if tested.seed is not None:
        prompts = say("tested.seed", prompts=prompts, seed=f"{tested.seed}")
    shares = [f"{phrases.percent(one.share)} {one.name}" for one in document.classes if one.share is not None]
    loop = (
        say("tested.closed") if one is None else say("tested.open", rate=phrases.per_minute(one.rate_per_minute, say))
    )
    pairs = [
        Pair(say("tested.model"), tested.model),
        Pair(say("tested.runtime"), tested.runtime),
        Pair(say("tested.host"), tested.hardware_declared),
        Pair(say("tested.mix"), ", ".join(shares) or say("not_recorded")),
        Pair(say("tested.tokens_in"), tokens([one.input_tokens for one in document.classes], say)),
        Pair(say("tested.prompts"), prompts),
        Pair(say("tested.loop"), loop),
    ]
    return Block(heading=say("tested"), pairs=tuple(pairs))


def tokens(counts: list[int | None], say: Sentences) -> str:
    """Token counts of the classes in their order."""
    return ", ".join(say("not_recorded") if one is None else f"{one:,}" for one in counts)


def conditions_block(document: Document, say: Sentences) -> Block:
    """When, where, under what power."""
    here, one = document.conditions, open_loop(document)
    grid = document.tested.grid
    pairs = [
        Pair(say("conditions.date"), phrases.span(here.started_at, here.ended_at, document.zone, say)),
        Pair(say("conditions.place"), here.place),
        Pair(say("conditions.power"), here.power),
        Pair(say("conditions.room"), f"{here.ambient} ({here.ambient_source})"),
        Pair(say("conditions.operator"), here.operator),
        *(Pair(fact.label, fact.text) for fact in here.further),
        Pair(
            say("conditions.grid"),
            grid if one is None else say("conditions.grids", grid=grid, other=phrases.clause(one.grid)),
        ),
        Pair(say("conditions.grade"), phrases.capital(say(f"grade.{document.grade}"))),
    ]
    return Block(heading=say("conditions"), pairs=tuple(pairs))


def finding_blocks(document: Document, say: Sentences = ENGLISH) -> tuple[Block, ...]:
    """The limits that belong to the setting; where there is none, why, and what to change that is not said there."""
    if document.setting.value is not None:
        return (limits_block(document, say),)
    said = " ".join(why_none(document))
    left = tuple(text for text in what_to_change(document) if text not in said)
    change = (Block(heading=say("change"), paragraphs=left),) if left else ()
    return (Block(heading=say("why_none"), paragraphs=(*why_none(document), say("why_none.all"))), *change)


def limits_block(document: Document, say: Sentences = ENGLISH) -> Block:
    """The limits under which alone the figure holds, and what to go back to."""
    limits = "; ".join(phrases.clause(text) for text in document.operating_limits) or say("limits.none")
    text = say("limits.in_force", limits=limits, rollback=document.rollback).strip()
    return Block(heading=say("limits"), paragraphs=(text,))


def ends_block(document: Document, say: Sentences = ENGLISH) -> Block:
    """What makes the statement void before its last day."""
    ends = phrases.capital("; ".join(phrases.clause(text) for text in document.ends_early)) + "."
    return Block(heading=say("ends"), paragraphs=(ends,))


def people(document: Document, say: Sentences = ENGLISH) -> tuple[Person, ...]:
    """Each person once for each thing they did, the last time they did it; the annex has every time."""
    last: dict[tuple[str, str], Signature] = {}
    for one in document.signatures:
        last[(one.did, one.name)] = one
    return tuple(
        Person(say(f"did.{one.did}"), one.name, phrases.when(one.at, document.zone, say)) for one in last.values()
    )


def covers(document: Document, say: Sentences = ENGLISH) -> str:
    """What the signature is over."""
    return say("covers", records=f"{sum(cell.records for cell in document.evidence):,}")


def verify_url(document: Document, digest: str) -> str:
    """The public page that says whether the statement stands."""
    return f"{document.verify_base_url}/{document.number}/{digest[:12]}/"


def provenance(document: Document, say: Sentences = ENGLISH) -> str:
    """Hardware, room, power and date, for the foot of every page."""
    here = document.conditions
    date = phrases.day(here.started_at, document.zone, say)
    return f"{document.tested.hardware_declared}; {here.place}; {here.power}; {date}"
