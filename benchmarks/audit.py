"""The hash-chained events of both apps: who did what to what, when and why. Append-only; a trigger refuses the rest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from benchmarks.models import Event, Team

GENESIS = "0" * 64


def digest_of(value: object) -> str:
    """SHA-256 of canonical JSON: sorted keys, no spaces, UTF-8."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def record(
    *,
    actor: str,
    verb: str,
    subject: str,
    team: Team | None = None,
    before: object = None,
    after: object = None,
    reason: str = "",
    changes: dict[str, object] | None = None,
) -> Event:
    """Appends one event. `subject` is like "grid 12"; `before` and `after` are digested, `changes` is kept as it is."""
    with transaction.atomic():
        # Writers queue on the first event's row, which a migration wrote, so there is always one to lock; the newest
        # event is read only after that, so no two take one number.
        list(Event.objects.select_for_update().filter(sequence=1).values_list("pk"))
        last = Event.objects.order_by("-sequence").first()
        event = Event(
            sequence=last.sequence + 1 if last else 1,
            at=timezone.now(),
            team=team,
            actor=actor,
            verb=verb,
            subject=subject,
            before_digest=digest_of(before) if before is not None else "",
            after_digest=digest_of(after) if after is not None else "",
            changes=json.loads(json.dumps(changes or {}, default=str)),
            reason=reason,
            previous_hash=last.hash if last else GENESIS,
        )
        event.hash = hash_of(event)
        event.save(force_insert=True)
    return event


def hash_of(event: Event) -> str:
    return digest_of(
        [
            event.sequence, event.at.isoformat(), event.team_id, event.actor, event.verb, event.subject, event.before_digest,
            event.after_digest, event.changes, event.reason, event.previous_hash,
        ]
    )  # fmt: skip


def head() -> str:
    """Hash of the newest event, as statements print it."""
    last = Event.objects.order_by("-sequence").values_list("hash", flat=True).first()
    return last or GENESIS


@dataclass(frozen=True, slots=True)
class BrokenLink:
    sequence: int
    what: str


def broken_links(events: Iterable[Event] | None = None) -> list[BrokenLink]:
    """Every place where the chain does not hold; empty when it does."""
    broken = []
    previous, expected = GENESIS, 1
    for event in events if events is not None else Event.objects.order_by("sequence").iterator():
        if event.sequence != expected:
            broken.append(BrokenLink(event.sequence, f"event {expected} is missing"))
        if event.previous_hash != previous:
            broken.append(BrokenLink(event.sequence, "does not follow the event before it"))
        if event.hash != hash_of(event):
            broken.append(BrokenLink(event.sequence, "was changed after it was written"))
        previous, expected = event.hash, event.sequence + 1
    return broken
