"""The registry's verbs: what is used never changes, what is not changes in place, and both leave an event."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks import audit, registry
from benchmarks.models import Event, Hardware, Runtime, Workload
from benchmarks.registry import ClassValues
from tests.factories import make_grid, make_hardware, make_runtime, make_team, make_user, make_workload

pytestmark = pytest.mark.django_db
TWO = [ClassValues("a", 0.5, {"kind": "fixed", "tokens": 5}, {"kind": "fixed", "tokens": 6})]


def events() -> list[tuple[str, str, dict[str, Any]]]:
    """All but the first, which a migration wrote."""
    return [(e.verb, e.subject, e.changes) for e in Event.objects.filter(sequence__gt=1).order_by("sequence")]


def test_an_edited_host_keeps_its_row_and_its_history() -> None:
    team = make_team()
    person = make_user(team, "operator")
    host = registry.register_hardware(team=team, by=person, slug="gpu-1", values={"name": "One", "ram_gib": 64.0})
    changes = registry.edit_hardware(hardware=host, by=person, values={"name": "One", "ram_gib": 128.0}, reason="More.")
    assert changes == {"ram_gib": {"before": 64.0, "after": 128.0}}
    assert events() == [("registered", "hardware gpu-1", {}), ("edited", "hardware gpu-1", changes)]
    assert Hardware.objects.get().ram_gib == 128.0
    assert [line.changes for line in registry.history(team.pk, "hardware gpu-1")] == [(("RAM, GiB", 64.0, 128.0),), ()]


def test_an_edit_that_changes_nothing_leaves_no_event() -> None:
    host = make_hardware(ram_gib=64.0)
    person = make_user(host.team, "operator")
    assert registry.edit_hardware(hardware=host, by=person, values={"ram_gib": 64.0}) == {}
    assert events() == []


@pytest.mark.parametrize("used, versions", [(False, [(1, "new")]), (True, [(2, "new"), (1, "simulated")])])
def test_a_runtime_changes_in_place_until_a_grid_uses_it(used: bool, versions: list[tuple[int, str]]) -> None:
    runtime = make_runtime()
    person = make_user(runtime.team, "operator")
    if used:
        make_grid(runtime)
    kept = registry.revise_runtime(runtime=runtime, by=person, values={"model_name": "new"}, reason="Another model.")
    assert list(Runtime.objects.values_list("version", "model_name")) == versions
    assert kept.digest == registry.digest_of_runtime(kept) != runtime.digest
    last = Event.objects.first()
    assert last is not None
    assert (last.verb, last.subject, last.reason) == (
        "made from v1" if used else "edited",
        f"runtime {runtime.slug} v{kept.version}",
        "Another model.",
    )
    assert last.changes == {"model_name": {"before": "simulated", "after": "new"}}


def test_an_edit_of_an_old_version_takes_the_next_free_number() -> None:
    runtime = make_runtime()
    person = make_user(runtime.team, "operator")
    make_grid(runtime)
    registry.revise_runtime(runtime=runtime, by=person, values={"model_name": "second"})
    third = registry.revise_runtime(runtime=runtime, by=person, values={"model_name": "third"})
    assert (third.version, Runtime.objects.count()) == (3, 3)


def test_the_digest_of_a_runtime_covers_what_a_measurement_depends_on_and_not_its_name() -> None:
    runtime = make_runtime()
    before = registry.digest_of_runtime(runtime)
    changed = {}
    for name in (*registry.RUNTIME_MEASURED, "name", "notes"):
        kept = getattr(runtime, name)
        setattr(runtime, name, "another")
        changed[name] = registry.digest_of_runtime(runtime) != before
        setattr(runtime, name, kept)
    assert changed == {**dict.fromkeys(registry.RUNTIME_MEASURED, True), "name": False, "notes": False}


@pytest.mark.parametrize("used, versions", [(False, [1]), (True, [2, 1])])
def test_a_workload_changes_in_place_until_a_grid_uses_it(used: bool, versions: list[int]) -> None:
    workload = make_workload()
    person = make_user(workload.team, "operator")
    if used:
        make_grid(make_runtime(make_hardware(workload.team)), workload)
    kept = registry.revise_workload(workload=workload, by=person, values={"seed": 8}, classes=TWO)
    assert list(Workload.objects.values_list("version", flat=True)) == versions
    assert [c.name for c in registry.classes_of(kept)] == ["a"]
    assert [c.name for c in registry.classes_of(workload)] == (["short", "median", "long"] if used else ["a"])


def test_the_digest_of_a_workload_from_before_sessions_and_pairs_stays_what_it_was() -> None:
    """Literal: grids and statements of older versions carry it."""
    workload = make_workload(source="", seed=7)
    assert (
        registry.digest_of_workload(workload, TWO) == "83380c0f8e9cda52c20c9e23545f7db886ce89d3403509c3f032659708f7381c"
    )


@pytest.mark.parametrize(
    "name, value, default",
    [
        ("shared_prefix_share", 0.25, 0.0),
        ("turns", 2, 1),
        ("think_s", 1.5, 0.0),
        ("arrivals_s", [0.0, 1.0], None),
        ("arrivals_s", [0.0, 2.0], []),
    ],
)
def test_what_is_sent_is_part_of_a_workloads_digest(name: str, value: Any, default: Any) -> None:
    workload = make_workload()
    before = registry.digest_of_workload(workload, TWO)
    setattr(workload, name, value)
    assert registry.digest_of_workload(workload, TWO) != before
    setattr(workload, name, default)
    assert registry.digest_of_workload(workload, TWO) == before


def test_pairs_of_lengths_are_part_of_a_workloads_digest_and_no_pairs_are_not() -> None:
    workload = make_workload()
    digests = [
        registry.digest_of_workload(workload, [replace(TWO[0], pairs=pairs)])
        for pairs in (None, [], [(5, 6)], [[5, 6]], [(5, 7)])
    ]
    assert digests[0] == digests[1] == registry.digest_of_workload(workload, TWO)
    assert digests[2] == digests[3]
    assert len(set(digests)) == 3


def test_a_broken_chain_is_found_by_the_command(capsys: Any) -> None:
    from django.core.management import call_command

    host = make_hardware()
    audit.record(actor="a", verb="did", subject="x", team=host.team)
    call_command("verify_audit", head=audit.head())
    assert capsys.readouterr().out == f"The chain holds: 2 events, head {audit.head()}\n"
    with pytest.raises(SystemExit) as stopped:
        call_command("verify_audit", head="f" * 64)
    assert stopped.value.code == 1


@pytest.mark.parametrize(
    "change, said",
    [({"reason": "another"}, "was changed after it was written"), ({"sequence": 7}, "event 1 is missing")],
)
def test_a_changed_or_missing_event_breaks_the_chain(change: dict[str, Any], said: str) -> None:
    """On rows in memory: the database refuses such a change, so nobody could make it there."""
    event = audit.record(actor="a", verb="did", subject="x")
    for name, value in change.items():
        setattr(event, name, value)
    assert said in [link.what for link in audit.broken_links([event])]
