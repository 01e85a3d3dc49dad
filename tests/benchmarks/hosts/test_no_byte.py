"""What a worker may not do, it does not begin: no connection reaches the target, counted there.

Each change is made as somebody would who can write everything in the database, so the triggers are taken away first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.utils import timezone

from benchmarks import claims, enrolling, queries, registry, runs, signing, tasks, triggers, worker
from benchmarks.models import Attempt, Authorization, Cell, Grid, Hardware, Runtime
from benchmarks.records import signatures
from tests import factories
from tests.benchmarks.hosts.counting import Target, counting
from tests.benchmarks.runs.made import claim, states

pytestmark = pytest.mark.django_db

NOW = timezone.now()


@pytest.fixture
def target() -> Iterator[Target]:
    with counting() as found:
        yield found


@pytest.fixture
def home(tmp_path: Path, settings) -> Path:
    settings.VAR, settings.WEB_KEY_FILE, settings.HOST_FILE = tmp_path, tmp_path / "web-key", tmp_path / "worker.toml"
    return tmp_path


def authorized_grid(address: str) -> Grid:
    """On a simulator, which the target does not answer as: so a worker that may look at it looks once and gives back."""
    runtime = factories.make_runtime(endpoint=address)
    grid = factories.make_grid(runtime, settings=(2,), class_names=("short",))
    now = timezone.now()
    runs.authorize(
        grid=grid, by=factories.make_user(grid.team, "host_owner"), valid_from=now - timedelta(hours=2),
        valid_until=now + timedelta(hours=1),
        ceilings=runs.Ceilings(max_concurrency=2, max_requests=100, max_tokens=10_000, max_minutes=5),
    )  # fmt: skip
    triggers.take_away()
    return grid


def test_an_authorised_grid_reaches_the_target(home: Path, target: Target) -> None:
    """The other side of the edge: with nothing changed, the worker calls the address and learns that it is no simulator."""
    grid = authorized_grid(target.address)
    tasks.ring(grid.hardware.slug)
    assert target.connections == 1
    assert "does not answer as one" in Cell.objects.get().reason


def edit(**fields: object) -> Callable[[Grid], object]:
    return lambda grid: Authorization.objects.filter(grid=grid).update(**fields)


def swap_plan(grid: Grid) -> None:
    """Another plan under the same authorisation, with every digest computed again."""
    Grid.objects.filter(pk=grid.pk).update(window_s=600)
    digest = queries.digest_of_grid(Grid.objects.get(pk=grid.pk))
    Grid.objects.filter(pk=grid.pk).update(digest=digest)
    Authorization.objects.filter(grid=grid).update(grid_digest=digest)


def swap_target(grid: Grid) -> None:
    """Another address of the same host, in the runtime, its digest, the plan and the authorisation alike."""
    address = grid.runtime.endpoint.replace("127.0.0.1", "localhost")
    Runtime.objects.filter(pk=grid.runtime_id).update(endpoint=address)
    runtime = Runtime.objects.get(pk=grid.runtime_id)
    Runtime.objects.filter(pk=runtime.pk).update(digest=registry.digest_of_runtime(runtime))
    swap_plan(grid)
    Authorization.objects.filter(grid=grid).update(target=address)


def move_to_another_host(grid: Grid) -> None:
    other = factories.make_hardware(grid.team)
    enrolling.enrol_beside_the_web(other, worker="w", at=timezone.now())
    Grid.objects.filter(pk=grid.pk).update(hardware=other)
    Cell.objects.filter(grid=grid).update(hardware=other)


def sign_with_another_key(grid: Grid) -> None:
    key, leave = signatures.new_private_key(), grid.authorizations.get()
    signature = signatures.sign(key, signatures.AUTHORIZATION, signing.facts_of_authorization(leave))
    by = signatures.fingerprint(signatures.public_key(key))
    Authorization.objects.filter(grid=grid).update(signature=signature, signed_by=by)


def sign_as_the_web_without_its_key(grid: Grid) -> None:
    sign_with_another_key(grid)
    ours = signatures.fingerprint(signing.web_public_key())
    Authorization.objects.filter(grid=grid).update(signed_by=ours)


def take_the_signature_of_another_grid(grid: Grid) -> None:
    other = authorized_grid("http://127.0.0.1:9").authorizations.get()
    Authorization.objects.filter(grid=grid).update(signature=other.signature)
    Grid.objects.filter(pk=other.grid_id).update(status="withdrawn")


def expire(grid: Grid) -> None:
    """Signed by the web, for a time that is over."""
    leave = grid.authorizations.get()
    leave.valid_until = timezone.now() - timedelta(hours=1)
    signing.sign_authorization(leave)
    leave.save()


def lower_the_ceiling(grid: Grid) -> None:
    leave = grid.authorizations.get()
    leave.max_concurrency = 1
    signing.sign_authorization(leave)
    leave.save()


def use_up(grid: Grid) -> None:
    Cell.objects.filter(grid=grid).update(progress={"spent": {"requests": 100}}, started_at=timezone.now())


def use_up_tokens(grid: Grid) -> None:
    Cell.objects.filter(grid=grid).update(progress={"spent": {"tokens": 10_000}}, started_at=timezone.now())


def use_up_minutes(grid: Grid) -> None:
    now = timezone.now()
    Attempt.objects.create(
        cell=grid.cells.get(), number=99, authorization=grid.authorizations.get(), worker="w", ended_at=now,
        started_at=now - timedelta(minutes=5),
    )  # fmt: skip


def confirm_something(grid: Grid) -> None:
    """What confirms another grid is guarded less closely."""
    Grid.objects.filter(pk=grid.pk).update(confirms=grid, confirms_setting=2, confirms_queue_cap=1)


def trust_another_worker(grid: Grid) -> None:
    kept = signing.enrolled(grid.hardware.slug)
    owner = factories.make_user(grid.team, "host_owner")
    _, token = enrolling.make_key(hardware=grid.hardware, by=owner)
    enrolling.enrol(hardware=grid.hardware, token=token, worker="another", at=timezone.now())
    if kept:
        signing.keep_enrolled(kept)


def revoke_the_worker(grid: Grid) -> None:
    enrolling.enrol_beside_the_web(grid.hardware, worker="w", at=timezone.now())
    key = enrolling.live_key(grid.hardware_id)
    assert key
    enrolling.revoke_key(key=key, by=factories.make_user(grid.team, "host_owner"))


def forge(**fields: object) -> Callable[[Grid], object]:
    """The row of a cell, written past the application: under the ceilings, and not what was authorised."""

    def change(grid: Grid) -> None:
        names = ", ".join(f"{name} = %s" for name in fields)
        with connection.cursor() as sql:
            sql.execute(f"UPDATE benchmarks_cell SET {names} WHERE grid_id = %s", [*fields.values(), grid.pk])

    return change


def forge_another_host(grid: Grid) -> None:
    forge(hardware_id=factories.make_hardware(grid.team).pk)(grid)


CHANGES: list[tuple[str, Callable[[Grid], object], str]] = [
    ("more requests than were allowed", edit(max_requests=10_000), "is not what was signed"),
    ("more tokens", edit(max_tokens=10**9), "is not what was signed"),
    ("more at a time", edit(max_concurrency=64), "is not what was signed"),
    ("more minutes", edit(max_minutes=600.0), "is not what was signed"),
    ("a hotter GPU", edit(max_temperature_c=120.0), "is not what was signed"),
    ("a longer window", edit(valid_until=NOW + timedelta(days=9)), "is not what was signed"),
    ("an earlier window", edit(valid_from=NOW - timedelta(days=9)), "is not what was signed"),
    ("another plan", swap_plan, "is not what was signed"),
    ("another address", swap_target, "is not what was signed"),
    ("another address in the authorisation only", edit(target="http://127.0.0.1:1"), "the runtime is at"),
    (
        "another plan in the grid only",
        lambda grid: Grid.objects.filter(pk=grid.pk).update(window_s=600),
        "plan changed",
    ),
    ("what it confirms", confirm_something, "plan changed"),
    ("another host", move_to_another_host, "is not what was signed"),
    ("the time is over", expire, "ended at"),
    ("revoked", edit(revoked_at=NOW), "was revoked"),
    ("over its ceiling", lower_the_ceiling, "allows 1 at a time"),
    ("its requests are used up", use_up, "all sent"),
    ("its tokens are used up", use_up_tokens, "all used"),
    ("its minutes are used up", use_up_minutes, "all used"),
    ("not signed", edit(signature="", signed_by=""), "is not signed"),
    ("signed by another key", sign_with_another_key, "was signed by key"),
    ("signed by another key in the web's name", sign_as_the_web_without_its_key, "is not what was signed"),
    ("the signature of another grid", take_the_signature_of_another_grid, "is not what was signed"),
    ("not a signature", edit(signature="?"), "is not what was signed"),
    ("a cell of another setting", forge(setting=1), "is none of the authorised plan"),
    ("a cell of another class", forge(class_name="long"), "is none of the authorised plan"),
    ("a cell of one repeat more", forge(repeat=2), "is none of the authorised plan"),
    ("a cell that is a probe", forge(class_name="mixed", probe="overload"), "is none of the authorised plan"),
    ("a cell of another host", forge_another_host, "is none of the authorised plan"),
]
IDS = [row[0] for row in CHANGES]


def reason_of(grid: Grid) -> str:
    return str(grid.cells.get().reason)


@pytest.mark.parametrize(("what", "change", "words"), CHANGES, ids=IDS)
def test_a_bell_for_such_an_authorisation_reaches_nobody(home: Path, target: Target, what, change, words) -> None:
    grid = authorized_grid(target.address)
    change(grid)
    for slug in Hardware.objects.values_list("slug", flat=True):
        tasks.ring(slug)
    assert (target.connections, states(grid)) == (0, ["queued"])
    assert words in reason_of(grid)


@pytest.mark.parametrize(("what", "change", "words"), CHANGES, ids=IDS)
def test_a_change_between_claim_and_start_reaches_nobody_either(home, target: Target, what, change, words) -> None:
    grid = authorized_grid(target.address)
    taken = claim(grid)
    change(grid)
    assert worker.run_cell(taken) is True
    assert (target.connections, states(grid)) == (0, ["not_run"])
    assert words in reason_of(grid)


BEFORE_ONLY = ("over its ceiling", "its requests are used up", "its tokens are used up", "its minutes are used up")
DURING = [row for row in CHANGES if row[0] not in BEFORE_ONLY and not row[0].startswith("a cell ")]


@pytest.mark.parametrize(("what", "change", "words"), DURING, ids=[row[0] for row in DURING])
def test_a_change_during_the_cell_cancels_it_at_the_next_heartbeat(home, target: Target, what, change, words) -> None:
    grid = authorized_grid(target.address)
    taken = claim(grid)
    assert claims.beat(claim=taken, progress={}).stop == ""
    change(grid)
    assert claims.beat(claim=taken, progress={}).stop == "cancel"


def test_a_worker_that_the_host_does_not_trust_takes_no_cell_and_says_nothing(home, target: Target) -> None:
    grid = authorized_grid(target.address)
    trust_another_worker(grid)
    (home / "enrolled" / f"{grid.hardware.slug}.json").unlink()
    tasks.ring(grid.hardware.slug)
    assert (target.connections, states(grid), reason_of(grid)) == (0, ["queued"], "")


def test_of_two_workers_the_newest_key_decides(home, target: Target) -> None:
    grid = authorized_grid(target.address)
    enrolling.enrol_beside_the_web(grid.hardware, worker="w", at=timezone.now())
    ours = signing.enrolled(grid.hardware.slug)
    trust_another_worker(grid)
    assert signing.enrolled(grid.hardware.slug) == ours
    tasks.ring(grid.hardware.slug)
    assert (target.connections, states(grid)) == (0, ["queued"])


def test_a_revoked_worker_says_what_to_do_and_does_not_enrol_itself_again(home, target: Target) -> None:
    grid = authorized_grid(target.address)
    revoke_the_worker(grid)
    tasks.ring(grid.hardware.slug)
    assert (target.connections, states(grid)) == (0, ["queued"])
    assert "was revoked. Enrol it again." in reason_of(grid)


def test_a_worker_without_any_enrolment_says_how_it_gets_one(home, target: Target, settings) -> None:
    grid = authorized_grid(target.address)
    settings.DATABASE_URL, settings.WEB_KEY_FILE = "postgres://elsewhere", home / "not-here"
    tasks.ring(grid.hardware.slug)
    assert (target.connections, states(grid)) == (0, ["queued"])
    assert f"manage.py enrol --hardware {grid.hardware.slug}" in reason_of(grid)


@pytest.mark.parametrize(
    ("content", "runtime", "words"),
    [
        ('targets = ["http://127.0.0.1:9"]', {}, "is not on this worker's list of targets"),
        ("targets = []", {}, "is not on this worker's list of targets"),
        ("target = []", {}, "unknown field `target`"),
        ("", {"metrics_url": "http://10.0.0.1:9090/metrics"}, "http://10.0.0.1:9090/metrics is not on"),
        ("", {"gpu_metrics_url": "http://10.0.0.1:9400/metrics"}, "http://10.0.0.1:9400/metrics is not on"),
        ('api_keys = ["office"]', {"api_key_name": "other"}, 'The API key "other" is not on'),
        (
            'api_keys = [{ name = "office", targets = ["http://127.0.0.1:9"] }]',
            {"api_key_name": "office"},
            'The API key "office" may not be sent to http://127.0.0.1:',
        ),
    ],
)
def test_what_the_host_does_not_list_is_not_called(
    home: Path, target: Target, settings, content, runtime, words
) -> None:
    settings.HOST_FILE.write_text(content)
    grid = factories.make_grid(
        factories.make_runtime(endpoint=target.address, **runtime), settings=(1,), class_names=("short",)
    )
    now = timezone.now()
    runs.authorize(
        grid=grid, by=factories.make_user(grid.team, "host_owner"), valid_from=now, valid_until=now + timedelta(hours=1),
        ceilings=runs.Ceilings(max_concurrency=2, max_requests=100, max_tokens=10_000, max_minutes=5),
    )  # fmt: skip
    tasks.ring(grid.hardware.slug)
    assert (target.connections, states(grid)) == (0, ["not_run"])
    assert words in reason_of(grid)
