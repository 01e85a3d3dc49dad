"""The audit chain holds, and every kind of tampering is named."""

import pytest

from benchmarks import audit
from benchmarks.models import Event
from tests.factories import make_team

pytestmark = pytest.mark.django_db


def three_events() -> list[Event]:
    team = make_team()
    return [
        audit.record(actor="ali", verb="drew", subject=f"grid {n}", team=team, after={"n": n}, reason="first look")
        for n in (1, 2, 3)
    ]


def test_each_event_follows_the_one_before_it() -> None:
    first, second, third = three_events()
    assert [e.sequence for e in (first, second, third)] == [first.sequence, first.sequence + 1, first.sequence + 2]
    assert (second.previous_hash, third.previous_hash) == (first.hash, second.hash)
    assert audit.broken_links() == []
    assert audit.head() == third.hash


def test_a_migration_wrote_the_first_link_so_every_writer_finds_a_row_to_lock() -> None:
    genesis = Event.objects.get()
    assert (genesis.sequence, genesis.actor, genesis.verb) == (1, "system", "began")
    assert (genesis.previous_hash, genesis.hash) == (audit.GENESIS, audit.hash_of(genesis))
    assert audit.record(actor="ali", verb="drew", subject="grid 1").previous_hash == genesis.hash
    assert audit.broken_links() == []


@pytest.mark.parametrize(
    ("field", "value"), [("actor", "mallory"), ("reason", "because"), ("subject", "grid 9"), ("after_digest", "0" * 64)]
)
def test_a_changed_event_is_named(field: str, value: str) -> None:
    events = three_events()
    setattr(events[1], field, value)
    broken = audit.broken_links([Event.objects.get(sequence=1), *events])
    assert [(b.sequence, b.what) for b in broken] == [(events[1].sequence, "was changed after it was written")]


def test_a_missing_event_is_named() -> None:
    first, _second, third = three_events()
    assert [b.what for b in audit.broken_links([Event.objects.get(sequence=1), first, third])] == [
        f"event {first.sequence + 1} is missing",
        "does not follow the event before it",
    ]


def test_the_digest_ignores_the_order_of_keys_and_nothing_else() -> None:
    assert audit.digest_of({"a": 1, "b": 2}) == audit.digest_of({"b": 2, "a": 1})
    assert audit.digest_of({"a": 1}) != audit.digest_of({"a": 2})
