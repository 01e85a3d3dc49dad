"""The annexes' words: what was not tested, the open loop, every limit, headroom, grade, configuration, method, evidence."""

from __future__ import annotations

from math import prod

from capacity.statement import annex_tables, phrases
from capacity.statement.blocks import Block, Pair
from capacity.statement.document import Document, Row, open_loop
from capacity.statement.sentences import Sentences

COMMAND = "manage.py verify_statement FILE --keyring keyring.json"
CLEARLY_MORE = 1.01
"""Beside rounding."""
DEFINED = ("successful", "setting", "percentile", "bound", "interval", "headroom", "verdicts", "loops")


def annexes(document: Document, say: Sentences, *, digest: str, address: str) -> tuple[Block, ...]:
    """All annexes in their order; what a document does not hold has none."""
    blocks = (
        _not_tested(document, say),
        annex_tables.confirmed(document, say),
        annex_tables.every_limit(document, say),
        _headroom(document, say),
        annex_tables.controls(document, say),
        annex_tables.grade(document, say),
        annex_tables.diagnosis(document, say),
        _configuration(document, say),
        annex_tables.cells(document, say),
        _method(document, say),
        _people(document, say),
        annex_tables.evidence(document, say),
        _how_to_verify(say, digest, address),
    )
    return tuple(block for block in blocks if block is not None)


def _not_tested(document: Document, say: Sentences) -> Block:
    return Block(heading=say("annex.not_tested"), items=document.not_tested or (say("annex.nothing_untested"),))


def _headroom(document: Document, say: Sentences) -> Block:
    result = document.result
    if result is None:
        return Block(heading=say("headroom"), paragraphs=(say("headroom.none"),))
    chosen = next(row for row in document.rows if row.chosen)
    reserves = [
        Pair(
            phrases.capital(part.name),
            say("headroom.reserve", share=phrases.percent(part.share), reason=part.reason)
            if part.reason
            else phrases.percent(part.share),
        )
        for part in result.reserves
    ]
    return Block(
        heading=say("headroom"), pairs=(*_measured(document, chosen, say), *reserves, *_plan(document, chosen, say))
    )


def _plan(document: Document, chosen: Row, say: Sentences) -> list[Pair]:
    """What is stated, and what the reserves alone would leave where that is more, so that the sum can be followed."""
    assert document.result is not None
    stated, rate = document.result.stated_per_minute, chosen.successful_per_minute
    if stated is None:
        return [Pair(say("headroom.plan"), say("headroom.not_stated"))]
    words = say("headroom.rate", rate=phrases.per_minute(stated, say))
    left = (
        None
        if rate is None or rate.value is None
        else rate.value * prod(1 - part.share for part in document.result.reserves)
    )
    if left is None or left <= stated * CLEARLY_MORE:
        return [Pair(say("headroom.plan"), words)]
    after = Pair(say("headroom.after"), say("headroom.rate", rate=phrases.per_minute(left, say)))
    return [after, Pair(say("headroom.plan"), say("headroom.lower", rate=words))]


def _measured(document: Document, chosen: Row, say: Sentences) -> list[Pair]:
    """What headroom is kept of: the closed loop's rate, beside what an open loop confirmed of it."""
    one, rate = open_loop(document), chosen.successful_per_minute
    words = say("headroom.rate", rate=phrases.per_minute(None if rate is None else rate.value, say))
    if one is None:
        return [Pair(say("headroom.measured"), words)]
    good = phrases.per_minute(one.successful_per_minute.value, say)
    offered = say("headroom.offered", rate=phrases.per_minute(one.rate_per_minute, say), good=good)
    return [Pair(say("headroom.closed"), words), Pair(say("headroom.confirmed"), offered)]


def _configuration(document: Document, say: Sentences) -> Block:
    tested, here = document.tested, document.conditions
    out = [say("not_recorded") if one.output_tokens is None else f"{one.output_tokens:,}" for one in document.classes]
    pairs = [
        Pair(say("config.flags"), tested.flags or say("config.no_flags")),
        Pair(say("config.declared"), tested.hardware_declared),
        Pair(say("config.probed"), tested.hardware_probed or say("not_recorded")),
        Pair(say("config.workload"), tested.workload),
        Pair(say("config.tokens_out"), ", ".join(out)),
        Pair(say("config.repeats"), say("config.repeats_words", repeats=f"{tested.repeats}", window=tested.window)),
        *(Pair(fact.label, fact.text) for fact in tested.further),
        Pair(say("config.measured"), phrases.span(here.started_at, here.ended_at, document.zone, say)),
        Pair(say("config.audit"), document.audit_head),
    ]
    return Block(heading=say("config"), pairs=tuple(pairs))


def _method(document: Document, say: Sentences) -> Block:
    version = document.method_version
    pairs = [Pair(say(f"method.{name}"), say(f"method.{name}_words")) for name in DEFINED]
    if isinstance(version, int):
        pairs.insert(0, Pair(say("method.version"), say("method.version_words", version=f"{version}")))
    return Block(heading=say("method"), pairs=tuple(pairs))


def _people(document: Document, say: Sentences) -> Block:
    pairs = [
        Pair(say(f"did.{one.did}"), say("people.person", name=one.name, at=phrases.when(one.at, document.zone, say)))
        for one in document.signatures
    ]
    return Block(heading=say("people"), pairs=tuple(pairs))


def _how_to_verify(say: Sentences, digest: str, address: str) -> Block:
    paragraphs = (say("verify.open", address=address), say("verify.payload", digest=digest), say("verify.tools"))
    return Block(heading=say("verify"), paragraphs=paragraphs, code=(COMMAND,))
