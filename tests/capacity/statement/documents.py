"""Example documents: one honest statement, and the knobs that tests turn."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec

from capacity.statement.document import (
    Conditions,
    Document,
    EvidenceCell,
    Fact,
    LengthClass,
    Limit,
    Memory,
    NoSafeSetting,
    Rate,
    Reserve,
    Result,
    Row,
    Setting,
    Signature,
    Tail,
    Tested,
    Zone,
    manifest_digest,
)

PKT = timezone(timedelta(hours=5))
GIB = 1024**3
ISSUED = datetime(2026, 11, 16, 4, 30, tzinfo=UTC)
DURING = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
AFTER = datetime(2027, 3, 1, 12, 0, tzinfo=UTC)

CLASSES = (
    ("short", 4.0, 0.6, 240, 180),
    ("median", 8.0, 0.3, 180, 900),
    ("long", 20.0, 0.1, 120, 4800),
    ("huge", 60.0, 0.0, 40, 16000),
)
MEASURED = (
    (1, 24.6, 24.9, (1.3, 3.7, 9.1, 25.0), 11.5),
    (2, 40.7, 41.3, (1.7, 4.4, 11.3, 29.0), 13.1),
    (4, 57.5, 58.4, (2.8, 6.2, 16.4, 41.0), 16.4),
    (8, 38.5, 69.7, (6.6, 9.9, 26.1, 70.0), 22.8),
    (12, 30.2, 70.4, (9.9, 14.0, 40.2, 95.0), 23.1),
    (16, 21.0, 70.9, (14.2, 19.5, 55.3, 130.0), 23.4),
)


def evidence(settings: int = 4) -> tuple[EvidenceCell, ...]:
    """One cell per setting."""
    return tuple(
        EvidenceCell(cell=f"c{row[0]}", sha256=hashlib.sha256(f"cell {row[0]}".encode()).hexdigest(), records=540)
        for row in MEASURED[:settings]
    )


def rows(settings: int = 4, classes: int = 3, *, chosen: int | None = 4, memory: bool = True) -> tuple[Row, ...]:
    """The measured rows; each p95 beside its limit decides whether it holds."""
    return tuple(_row(row, classes, chosen=chosen, memory=memory) for row in MEASURED[:settings])


def _row(
    row: tuple[int, float, float, tuple[float, ...], float], classes: int, *, chosen: int | None, memory: bool
) -> Row:
    setting, good, every, p95s, vram_gib = row
    tails = tuple(
        Tail(n=n, value_s=value, bound_s=round(value * 1.1, 3), holds=value * 1.1 <= limit)
        for value, (_, limit, _, n, _) in zip(p95s, CLASSES[:classes], strict=False)
    )
    failed = [name for tail, (name, *_) in zip(tails, CLASSES, strict=False) if tail.holds is False]
    return Row(
        setting=setting,
        successful_per_minute=Rate(value=good, lower=round(good * 0.97, 1), upper=round(good * 1.031, 1)),
        all_per_minute=every,
        n=540,
        tails=tails,
        peak_vram_bytes=int(vram_gib * GIB) if memory else "not applicable",
        verdict="fails" if failed else "holds",
        reason=f"p95 past the objective of {', '.join(failed)}" if failed else "",
        chosen=setting == chosen,
    )


def document(
    *, settings: int = 4, classes: int = 3, chosen: int | None = 4, memory: bool = True, **changes: Any
) -> Document:
    """An honest statement of a demonstration; `changes` replace fields."""
    cells = changes.pop("evidence", evidence(settings))
    chosen = chosen if chosen is None or settings >= 3 else MEASURED[settings - 1][0]
    table = rows(settings, classes, chosen=chosen, memory=memory)
    if chosen is None:
        table = tuple(msgspec.structs.replace(row, verdict="fails", reason=QUEUES) for row in table)
    stated = [row.successful_per_minute for row in table if row.chosen and row.successful_per_minute]
    result = Result(
        successful_per_minute=stated[0] if stated else Rate(value=0),
        stated_per_minute=round(stated[0].value * 0.855, 1) if stated else None,
        reserves=(Reserve(name="growth", share=0.10, reason="the usual reserve"), Reserve(name="variance", share=0.05)),
    )
    fields: dict[str, Any] = {
        "number": "CS-2026-014",
        "title": "Support chat on lhr-gpu-01",
        "zone": Zone(name="PKT", offset_minutes=300),
        "setting": Setting(value=chosen),
        "result": None if chosen is None else result,
        "limits": tuple(
            Limit(class_name=name, measure="end to end", limit_s=limit) for name, limit, *_ in CLASSES[:classes]
        ),
        "classes": tuple(
            LengthClass(name=name, share=share, n=n, input_tokens=tokens, output_tokens=tokens // 4)
            for name, _, share, n, tokens in CLASSES[:classes]
        ),
        "rows": table,
        "memory": Memory(limit_bytes=22 * GIB)
        if memory
        else Memory(note="This host has no NVIDIA GPU; peak RAM was 1.2 GiB."),
        "tested": TESTED,
        "conditions": CONDITIONS,
        "operating_limits": OPERATING_LIMITS,
        "rollback": "Rollback is two active sequences, measured at 40.7 a minute.",
        "not_tested": NOT_TESTED,
        "ends_early": (
            "the driver, runtime, model or power cap changes",
            "the request mix moves by more than 20%",
            "measured p95 stays past an objective for 15 minutes",
        ),
        "grade": "ungraded",
        "grade_reason": "Parts of the method do not exist yet: the overload and fairness probes.",
        "signatures": SIGNATURES,
        "issued_at": ISSUED,
        "valid_until": ISSUED + timedelta(days=90),
        "demonstration": True,
        "simulated": False,
        "audit_head": hashlib.sha256(b"head").hexdigest(),
        "evidence": cells,
        "evidence_digest": manifest_digest(cells),
        "verify_base_url": "https://headroom.example/v",
    }
    if chosen is None:
        fields |= {"operating_limits": (), "rollback": "", "no_safe_setting": NONE_SAFE}
    return Document(**(fields | changes))


QUEUES = "Beyond capacity nothing is refused: the wait grows as long as the load lasts."
NONE_SAFE = NoSafeSetting(
    reasons=(
        f"At every setting: {QUEUES}",
        "8 active sequences: p95 of short is 6.60 s, over the limit of 4.00 s (n = 240).",
    ),
    remedies=("Put a gateway with a bounded queue in front.",),
)


TESTED = Tested(
    model="Qwen2.5-14B-Instruct Q4_K_M",
    runtime="llama.cpp b6910, 8,192 tokens a slot",
    flags="-np 4 -c 32768 -b 2048",
    hardware_declared="RTX 4090 24 GB, 350 W cap, driver 575.57",
    hardware_probed="NVIDIA GeForce RTX 4090, 24,564 MiB, driver 575.57.08, 16 cores, 64 GiB RAM",
    workload="Support chat, version 3",
    synthetic=True,
    seed=128,
    grid="128",
    repeats=3,
    window="180 s",
)
CONDITIONS = Conditions(
    started_at=datetime(2026, 11, 14, 10, 2, tzinfo=PKT),
    ended_at=datetime(2026, 11, 14, 11, 47, tzinfo=PKT),
    place="Lahore office, server room",
    power="Mains, no transfer",
    ambient="27 °C to 29 °C",
    ambient_source="declared",
    operator="Bilal Ahmed",
    further=(Fact(label="GPU, highest", text="77 °C, 331 W at four active"),),
)
OPERATING_LIMITS = (
    "queue of at most 12 requests and 2 s, then 429 with Retry-After 5 s",
    "at most 6,000 tokens in and 600 out",
    "32,768 active tokens in total",
    "45 s a request, then cancelled",
    "20 requests a minute for each client",
)
NOT_TESTED = (
    "Short requests beside long ones (fairness).",
    "Cancellation of queued requests.",
    "Load above the stated rate, and what is answered then.",
    "Concurrency above 8, and any other request mix.",
)
SIGNATURES = (
    Signature(did="Authorised by", name="Hina Qureshi", at=datetime(2026, 11, 14, 9, 40, tzinfo=PKT)),
    Signature(did="Measured by", name="Bilal Ahmed", at=datetime(2026, 11, 14, 11, 52, tzinfo=PKT)),
    Signature(did="Proposed by", name="Bilal Ahmed", at=datetime(2026, 11, 15, 16, 20, tzinfo=PKT)),
    Signature(did="Approved by", name="Ayesha Khan", at=datetime(2026, 11, 16, 9, 14, tzinfo=PKT)),
    Signature(did="Signed by", name="Usman Tariq", at=datetime(2026, 11, 16, 9, 30, tzinfo=PKT)),
)
