"""The annex's words: every limit at every setting, headroom, grade, what was not tested, evidence, how to verify."""

from __future__ import annotations

from capacity.statement import phrases
from capacity.statement.blocks import Block, Head, Line, Pair, Table, TableCell
from capacity.statement.document import Document, Limit, Row, Tail

COMMAND = "manage.py verify_statement FILE --keyring keyring.json"


def annexes(document: Document, *, digest: str, address: str) -> tuple[Block, ...]:
    """All annexes in their order."""
    return (
        _not_tested(document),
        _every_limit(document),
        _headroom(document),
        _grade(document),
        _further(document),
        _evidence(document),
        _how_to_verify(digest, address),
    )


def _not_tested(document: Document) -> Block:
    items = document.not_tested or ("Nothing is listed as untested; the statement covers only what the table shows.",)
    return Block(heading="What was not tested", items=items)


def _every_limit(document: Document) -> Block:
    names = (phrases.capital(document.setting.term), "Limit", "n", "Measured", "Upper bound", "Verdict")
    head = tuple(Head(name) for name in names)
    lines = [
        _limit_line(row, limit, tail)
        for row in document.rows
        for limit, tail in zip(document.limits, row.tails, strict=True)
    ]
    caption = "The upper bound is the one-sided bound that the verdict was made with."
    reasons = tuple(f"{row.setting}: {row.reason}" for row in document.rows if row.reason)
    return Block(
        heading="Every limit at every setting",
        table=Table(head=head, lines=tuple(lines), caption=caption),
        items=reasons,
    )


def _limit_line(row: Row, limit: Limit, tail: Tail) -> Line:
    verdict = "indicative" if tail.indicative else {True: "holds", False: "fails", None: "not judged"}[tail.holds]
    cells = (
        TableCell(f"{row.setting}"),
        TableCell(f"{phrases.limit_name(limit)} at most {phrases.limit_seconds(limit.limit_s)}"),
        TableCell(f"{tail.n:,}"),
        TableCell(phrases.tail_value(tail), past=tail.holds is False),
        TableCell("none" if tail.bound_s is None else phrases.seconds(tail.bound_s)),
        TableCell(verdict),
    )
    return Line(cells=cells, chosen=row.chosen)


def _headroom(document: Document) -> Block:
    result = document.result
    if result is None:
        return Block(heading="Headroom", paragraphs=("No setting is stated, so no headroom is computed.",))
    pairs = [Pair("Measured", f"{phrases.per_minute(result.successful_per_minute.value)} successful requests a minute")]
    pairs += [
        Pair(phrases.capital(part.name), phrases.percent(part.share) + (f", {part.reason}" if part.reason else ""))
        for part in result.reserves
    ]
    stated = result.stated_per_minute
    words = "not stated" if stated is None else f"{phrases.per_minute(stated)} successful requests a minute"
    return Block(heading="Headroom", pairs=(*pairs, Pair("Plan for at most", words)))


def _grade(document: Document) -> Block:
    return Block(heading="Grade", paragraphs=(f"{phrases.capital(document.grade)}. {document.grade_reason}".strip(),))


def _further(document: Document) -> Block:
    tested, here = document.tested, document.conditions
    out = ["not recorded" if one.output_tokens is None else f"{one.output_tokens:,}" for one in document.classes]
    pairs = [
        Pair("Flags", tested.flags or "none recorded"),
        Pair("Hardware, declared", tested.hardware_declared),
        Pair("Hardware, probed", tested.hardware_probed or "not recorded"),
        Pair("Workload", tested.workload),
        Pair("Tokens out, p50", ", ".join(out)),
        Pair("Repeats, window", f"{tested.repeats}, {tested.window}"),
        *(Pair(fact.label, fact.text) for fact in tested.further),
        Pair("Measured", phrases.span(here.started_at, here.ended_at, document.zone)),
        Pair("Audit chain head", document.audit_head),
    ]
    return Block(heading="Configuration in full", pairs=tuple(pairs))


def _evidence(document: Document) -> Block:
    lines = tuple(
        Line(cells=(TableCell(cell.cell), TableCell(f"{cell.records:,}"), TableCell(cell.sha256)))
        for cell in document.evidence
    )
    caption = f"This list is attached as evidence-manifest.json; its sha256 is {document.evidence_digest}."
    return Block(
        heading="Evidence",
        table=Table(head=(Head("Cell"), Head("Records"), Head("sha256")), lines=lines, caption=caption, mono=True),
    )


def _how_to_verify(digest: str, address: str) -> Block:
    paragraphs = (
        f"Open {address}, or check the file offline with the publisher's keyring and the command below.",
        f"The attached statement.dsse.json holds the signed text; its payload, decoded from base64, has the sha256 "
        f"{digest}.",
        "Ways with openssl, sha256sum and pdfsig alone are described in the product's documentation, page Statements.",
    )
    return Block(heading="How to verify", paragraphs=paragraphs, code=(COMMAND,))
