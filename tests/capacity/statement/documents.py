"""Example documents: one honest statement, and the knobs that tests turn."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec

from capacity.statement.document import (
    Cell,
    Claim,
    Conditions,
    Confirmed,
    Control,
    Criterion,
    Document,
    EvidenceCell,
    Fact,
    Finding,
    LengthClass,
    Limit,
    Memory,
    NoSafeSetting,
    Rate,
    Reserve,
    Result,
    Row,
    Setting,
    Share,
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
    *(
        (16 + 8 * step, 21.0 - 2 * step, 71.0, (14.2 + step, 19.5 + step, 55.3 + step, 130.0), 23.5)
        for step in range(1, 7)
    ),
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


def confirmed(*, classes: int = 3, refused: int = 4, queue_cap: int = 8, memory: bool = True) -> Confirmed:
    """The setting of four in an open loop of 50 a minute."""
    claims = tuple(
        Claim(
            n=n * 2, value_s=value * 1.15, bound_s=round(value * 1.3, 3), p99_s=value * 1.6, n_effective=n * 2 - 12,
            misses=refused, holds=True,
        )
        for (_, limit, _, n, _), value in zip(CLASSES[:classes], (2.5, 5.4, 14.1, 38.0), strict=False)
        if value * 1.3 <= limit
    )  # fmt: skip
    return Confirmed(
        grid="Grid 131", rate_per_minute=50.0, queue_cap=queue_cap, repeats=3, n=1080,
        successful_per_minute=Rate(value=49.1, lower=48.0, upper=50.3), all_per_minute=49.8,
        refused=Share(hits=refused, n=1080, lower=0.001, upper=0.009), accepted=Share(hits=1073, n=1076), claims=claims,
        peak_vram_bytes=int(16.6 * GIB) if memory else "not applicable",
        started_at=datetime(2026, 11, 15, 10, 5, tzinfo=PKT), ended_at=datetime(2026, 11, 15, 10, 31, tzinfo=PKT),
        authorised=(Signature(did="Authorised by", name="Hina Qureshi", at=datetime(2026, 11, 15, 9, 50, tzinfo=PKT)),),
        conditions=CONDITIONS,
    )  # fmt: skip


def with_confirmed(*, of: Confirmed | None = None, **changes: Any) -> Document:
    """The honest statement once an open loop confirmed its setting, with everything that the annexes may hold."""
    one = of or confirmed()
    grid = EvidenceCell(cell="grid 131, open loop 50 a minute, r1", sha256="ab" * 32, records=360, leave="A-20")
    cells = (*(msgspec.structs.replace(cell, leave="A-19") for cell in evidence()), grid)
    stated = Result(
        successful_per_minute=one.successful_per_minute, stated_per_minute=47.4,
        reserves=(Reserve(name="growth", share=0.10), Reserve(name="variance", share=0.05)),
    )  # fmt: skip
    return document(
        **{"confirmed": one, "result": stated, "evidence": cells, "grade": "complete", **FURTHER, **changes}
    )


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
FURTHER: dict[str, Any] = {
    "grade_reason": "Realistic lengths, tail latency, useful work, memory, valid answers and overload controls determine it.",
    "controls": (
        Control(title="Queue cap", value="8", words="So many may wait; beyond it a request is refused at once.",
                source="Confirmed in the open loop of grid 131."),
        Control(title="Overload answer", value="503 or 429, Retry-After 5 s", words="Within a second, never after a wait."),
    ),
    "criteria": (
        Criterion(title="Objective set before the run", answer="holds", reason="p95 of 3 classes was limited before."),
        Criterion(title="Tenants kept apart", answer="not applicable", reason="One tenant is declared."),
        Criterion(title="Overload refused clearly", answer="not tested", reason="No overload probe ran."),
        Criterion(title="Recovery in time", answer="fails", reason="It came back after 90 s, later than 60 s."),
    ),
    "diagnosis": (
        Finding(title="Unbounded queue that hides rejection", found="not found", evidence=("30 % were refused at once.",)),
        Finding(title="One long request blocks every short one", found="watch", settings=(8,), evidence=("Ratio 1.4.",)),
        Finding(title="Timeouts retried at once", found="not tested", evidence=("No client policy is declared.",)),
    ),
    "cells": tuple(
        Cell(cell=f"{setting}-mixed-r1", started_at=datetime(2026, 11, 14, 10, 2 + setting, tzinfo=PKT), window_s=180.0,
             n=540, answered=538, good=530, good_per_minute=57.0)
        for setting in (1, 2, 4, 8)
    ),
    "method_version": 2,
}  # fmt: skip
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
LONG = "Wolfeschlegelsteinhausenbergerdorff-und_Verwaltungsmodernisierung"
WAIVED = (
    "until 12 Dec 2026 usman.tariq answers for what is open (Fairness beside long requests; Cancellation frees in time; "
    "Retries contained; Recovery in time): the pilot serves one desk, and the probes run before it is opened to others."
)
POLICY = (
    "at most 4 requests in flight at the server", "at most 8 more waiting, the next one refused", "at most 6,000 tokens in",
    "at most 600 tokens out", "26,400 active tokens in total", "40 s a request, then given up",
    "12.3 a minute for each client", "batch lane 1 of 4 places, 22:00 to 06:00", "batch checkpoint every 12 items",
    "overload answered with 503 or 429, Retry-After 5 s",
    "client retries: 3 tries, 0.5 to 20 s, budget 10% of requests",
)  # fmt: skip
PEOPLE = tuple(msgspec.structs.replace(one, name=LONG) for one in SIGNATURES)
NAMED = msgspec.structs.replace(TESTED, model=LONG * 2, runtime=LONG, hardware_declared=LONG)
PAGES: dict[str, Callable[[], Document]] = {
    "normal": document,
    "confirmed": with_confirmed,
    "confirmed without a queue": lambda: with_confirmed(of=confirmed(queue_cap=0, refused=0)),
    "no safe setting": lambda: document(chosen=None, solo_mode=True, simulated=True),
    "waiver": lambda: document(
        demonstration=False, grade="needs revision", waiver=WAIVED, **FURTHER | {"grade_reason": ""}
    ),
    "long names": lambda: with_confirmed(title=f"{LONG} on {LONG}", tested=NAMED, signatures=PEOPLE),
    "batch": lambda: with_confirmed(operating_limits=POLICY, simulated=True),
    "twelve settings": lambda: document(settings=12, operating_limits=POLICY, simulated=True),
    "without a GPU": lambda: with_confirmed(of=confirmed(memory=False), memory=False),
}
"""Every kind of statement, by name: each holds its result on one page."""
