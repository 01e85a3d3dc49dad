"""What the database refuses, whoever asks, on SQLite; tests/services asks PostgreSQL the same."""

import pytest
from django.db import IntegrityError, connection, transaction

from benchmarks import triggers
from benchmarks.models import Authorization, LengthClass
from capacity.models import Choice
from tests import factories
from tests.benchmarks.runs import protected

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("what", "sql", "words"), protected.STATEMENTS, ids=[row[0] for row in protected.STATEMENTS])
def test_raw_sql_meets_the_same_rules_as_the_code(what, sql, words):
    answer = protected.refusal(protected.filled(sql, protected.make_world()))
    assert (answer is None) if words is None else (answer is not None and words in answer), answer


def _leave(grid, requested_by, by, **fields):
    return Authorization.objects.create(
        grid=grid, requested_by=requested_by, authorized_by=by, target="http://127.0.0.1:9", valid_from=protected.NOON,
        valid_until=protected.LATE, max_concurrency=1, max_requests=1, max_tokens=1, max_minutes=1,
        **({"grid_digest": grid.digest} | fields),
    )  # fmt: skip


def test_an_authorisation_names_who_drew_the_grid_and_its_digest():
    grid = factories.make_grid(settings=(1,))
    owner, other = factories.make_user(grid.team, "host_owner"), factories.make_user(grid.team, "operator")
    for requested_by, fields in ((other, {}), (grid.drawn_by, {"grid_digest": "0" * 64})):
        with pytest.raises(IntegrityError, match="requested by who drew the grid"), transaction.atomic():
            _leave(grid, requested_by, owner, **fields)
    assert _leave(grid, grid.drawn_by, owner).pk


def test_nobody_authorises_their_own_grid_even_in_sql():
    grid = factories.make_grid(settings=(1,))
    with pytest.raises(IntegrityError, match="authorizer_is_not_requester"), transaction.atomic():
        _leave(grid, grid.drawn_by, grid.drawn_by)


def test_a_revoked_authorisation_stays_revoked():
    world = protected.make_world()
    Authorization.objects.filter(pk=world.leave.pk).update(revoked_at=protected.NOON)
    with pytest.raises(IntegrityError, match="stays revoked"), transaction.atomic():
        Authorization.objects.filter(pk=world.leave.pk).update(revoked_at=None)


def test_a_choice_names_who_drew_its_grid_as_measurer():
    grid = factories.make_grid(settings=(1,))
    people = [factories.make_user(grid.team, "operator") for _ in range(2)]
    fields = {
        "grid": grid,
        "objective": factories.make_objective(grid.team),
        "setting": 1,
        "verdict": {},
        "digest": "d" * 64,
    }
    with pytest.raises(IntegrityError, match="who drew its grid"), transaction.atomic():
        Choice.objects.create(measured_by=people[0], proposed_by=people[1], reason="r", **fields)
    assert Choice.objects.create(measured_by=grid.drawn_by, proposed_by=people[1], reason="r", **fields).pk


def test_a_statement_needs_an_approved_choice_and_the_papers_of_the_same_grid():
    world = protected.make_world()
    foreign = protected.authorized(world.draft)
    wrong = [
        {"authorization": foreign},
        {"conditions": world.draft.conditions.get()},
    ]
    for number, fields in enumerate(wrong):
        with pytest.raises(IntegrityError, match="approved choice"), transaction.atomic():
            protected.make_statement(world.choice, world.leave, f"CS-{number}", **fields)
    leave, conditions = protected.authorized(world.unstated.grid), world.unstated.grid.conditions.get()
    Choice.objects.filter(pk=world.unstated.pk).update(status="withdrawn")
    with pytest.raises(IntegrityError, match="approved choice"), transaction.atomic():
        protected.make_statement(
            world.unstated, leave, "CS-9", conditions=conditions, issued_by=world.choice.decided_by
        )


def test_a_choice_begins_as_a_proposal():
    world = protected.make_world()
    fields = {
        name: getattr(world.unstated, name)
        for name in ("grid", "objective", "setting", "verdict", "digest", "reason", "measured_by", "proposed_by")
    }
    Choice.objects.filter(pk=world.unstated.pk).update(status="withdrawn")
    with pytest.raises(IntegrityError, match="begins as a proposal"), transaction.atomic():
        Choice.objects.create(
            **fields, status="approved", decided_by=world.choice.decided_by, decided_at=protected.NOON
        )
    assert Choice.objects.create(**fields).pk


def test_a_measured_workload_gets_no_new_length_class():
    world = protected.make_world()
    with pytest.raises(IntegrityError, match="a length class of a measured workload"), transaction.atomic():
        LengthClass.objects.create(
            workload=world.grid.workload, name="new", weight=1, prompt_tokens={}, output_tokens={}
        )


def test_every_trigger_stands_and_one_that_is_dropped_is_named():
    assert triggers.missing() == []
    with connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER headroom_measured_cell")
    assert triggers.missing() == ["headroom_measured_cell"]
    assert [m.id for m in triggers.check_triggers(databases=["default"])] == ["benchmarks.W001"]
    triggers.reinstall()
    assert triggers.missing() == []
    assert triggers.check_triggers(databases=["default"]) == []


def test_without_a_migration_plan_nothing_is_taken_away():
    triggers.remove(plan=[])
    assert triggers.missing() == []
