"""Who may open what: every address of the URLconf against a literal table, with every role, a stranger and an outsider."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from benchmarks.access import person_of
from benchmarks.models import Authorization, Conditions, EndpointCheck, Grid, Role, WorkerKey
from capacity.models import Choice, Key, Statement
from capacity.statement import dsse
from capacity.statement.canonical import normal, payload_bytes
from tests.capacity.statement.documents import document
from tests.factories import make_grid, make_hardware, make_objective, make_runtime, make_team, make_user, make_workload

pytestmark = pytest.mark.django_db

VIEWER, OPERATOR, HOST_OWNER, APPROVER, SIGNER, ADMINISTRATOR = Role
EVERYONE = frozenset(Role)
OPERATE = frozenset({OPERATOR, ADMINISTRATOR})
HOSTS = frozenset({HOST_OWNER, OPERATOR, ADMINISTRATOR})
RUN = frozenset({OPERATOR})
AUTHORIZE = frozenset({HOST_OWNER})
APPROVE = frozenset({APPROVER})
SIGN = frozenset({SIGNER})
PUBLIC: frozenset[Role] = frozenset()

# URL name -> who may open it. A new address fails the first test until somebody writes it here.
TABLE: dict[str, frozenset[Role]] = {
    "login": PUBLIC,
    "logout": PUBLIC,
    "healthz-live": PUBLIC,
    "healthz-ready": PUBLIC,
    "docs": PUBLIC,
    "set-language": PUBLIC,
    "docs-page": PUBLIC,
    "verify": PUBLIC,
    "verify-keyring": PUBLIC,
    "verify-statement": PUBLIC,
    "overview": EVERYONE,
    "search": EVERYONE,
    "objective-list": EVERYONE,
    "objective-new": OPERATE,
    "objective-detail": EVERYONE,
    "objective-edit": OPERATE,
    "grid-new": RUN,
    "grid-list": EVERYONE,
    "grid-detail": EVERYONE,
    "grid-cells": EVERYONE,
    "grid-behaviour": EVERYONE,
    "grid-checks": EVERYONE,
    "grid-chart": EVERYONE,
    "compare": EVERYONE,
    "compare-file": EVERYONE,
    "compare-chart": EVERYONE,
    "grid-policy": EVERYONE,
    "grid-rubric": EVERYONE,
    "grid-quality": EVERYONE,
    "grid-quality-file": EVERYONE,
    "cell-detail": EVERYONE,
    "grid-live": EVERYONE,
    "grid-authorize": AUTHORIZE,
    "grid-stop": HOSTS,
    "grid-pause": HOSTS,
    "grid-resume": RUN,
    "grid-withdraw": RUN,
    "grid-conditions": HOSTS,
    "grid-propose": RUN,
    "grid-batch": EVERYONE,
    "grid-queue": EVERYONE,
    "grid-confirm": RUN,
    "evidence-download": EVERYONE,
    "authorization-list": EVERYONE,
    "authorization-detail": EVERYONE,
    "authorization-revoke": AUTHORIZE,
    "choice-list": EVERYONE,
    "choice-detail": EVERYONE,
    "choice-decide": APPROVE,
    "choice-withdraw": RUN,
    "statement-issue": SIGN,
    "statement-list": EVERYONE,
    "statement-detail": EVERYONE,
    "statement-json": EVERYONE,
    "statement-pdf": EVERYONE,
    "hardware-list": EVERYONE,
    "hardware-new": HOSTS,
    "hardware-detail": EVERYONE,
    "hardware-edit": HOSTS,
    "hardware-enrol": AUTHORIZE,
    "worker-key-revoke": AUTHORIZE,
    "runtime-list": EVERYONE,
    "runtime-new": OPERATE,
    "runtime-detail": EVERYONE,
    "runtime-edit": OPERATE,
    "endpoint-check": OPERATE,
    "endpoint-check-detail": EVERYONE,
    "workload-list": EVERYONE,
    "workload-new": OPERATE,
    "workload-import": OPERATE,
    "workload-detail": EVERYONE,
    "workload-edit": OPERATE,
    "workload-modes": EVERYONE,
    "workload-modes-file": EVERYONE,
    "audit-list": EVERYONE,
}

# How to address one object of each kind; a name that is not here takes no arguments.
ARGUMENTS: dict[str, dict[str, str]] = {
    "docs-page": {"slug": "word"},
    "verify-statement": {"number": "word", "digest12": "word"},
    "objective-detail": {"slug": "objective.slug", "version": "one"},
    "objective-edit": {"slug": "objective.slug", "version": "one"},
    "grid-detail": {"pk": "grid.pk"},
    "grid-cells": {"pk": "grid.pk", "fmt": "csv"},
    "grid-behaviour": {"pk": "grid.pk", "fmt": "csv"},
    "grid-checks": {"pk": "grid.pk", "fmt": "csv"},
    "grid-chart": {"pk": "grid.pk", "chart": "trade-off", "kind": "csv"},
    "compare-chart": {"kind": "csv"},
    "compare-file": {"fmt": "csv"},
    "grid-policy": {"pk": "grid.pk", "fmt": "csv"},
    "grid-rubric": {"pk": "grid.pk", "fmt": "csv"},
    "grid-quality": {"pk": "grid.pk"},
    "grid-quality-file": {"pk": "grid.pk", "fmt": "csv"},
    "cell-detail": {"pk": "grid.pk", "cell_id": "cell.pk"},
    "grid-live": {"pk": "grid.pk"},
    "grid-authorize": {"pk": "grid.pk"},
    "grid-stop": {"pk": "grid.pk"},
    "grid-pause": {"pk": "grid.pk"},
    "grid-resume": {"pk": "grid.pk"},
    "grid-withdraw": {"pk": "grid.pk"},
    "grid-conditions": {"pk": "grid.pk", "phase": "after"},
    "grid-propose": {"pk": "grid.pk"},
    "grid-batch": {"pk": "grid.pk", "fmt": "csv"},
    "grid-queue": {"pk": "grid.pk", "fmt": "csv"},
    "grid-confirm": {"pk": "grid.pk"},
    "evidence-download": {"pk": "grid.pk", "cell_id": "cell.pk"},
    "authorization-detail": {"pk": "authorization.pk"},
    "authorization-revoke": {"pk": "authorization.pk"},
    "choice-detail": {"pk": "choice.pk"},
    "choice-decide": {"pk": "choice.pk"},
    "choice-withdraw": {"pk": "choice.pk"},
    "statement-issue": {"pk": "choice.pk"},
    "statement-detail": {"number": "statement.number"},
    "statement-json": {"number": "statement.number"},
    "statement-pdf": {"number": "statement.number"},
    "hardware-detail": {"slug": "hardware.slug"},
    "hardware-edit": {"slug": "hardware.slug"},
    "hardware-enrol": {"slug": "hardware.slug"},
    "worker-key-revoke": {"slug": "hardware.slug", "pk": "worker_key.pk"},
    "runtime-detail": {"slug": "runtime.slug", "version": "one"},
    "runtime-edit": {"slug": "runtime.slug", "version": "one"},
    "endpoint-check-detail": {"pk": "check.pk"},
    "workload-detail": {"slug": "workload.slug", "version": "one"},
    "workload-edit": {"slug": "workload.slug", "version": "one"},
    "workload-modes": {"slug": "workload.slug", "version": "one"},
    "workload-modes-file": {"slug": "workload.slug", "version": "one", "fmt": "csv"},
}
OBJECT_NAMES = sorted(name for name, arguments in ARGUMENTS.items() if TABLE[name])


def patterns(resolver: URLResolver | None = None) -> Iterator[URLPattern]:
    for pattern in (resolver or get_resolver()).url_patterns:
        if isinstance(pattern, URLResolver):
            yield from patterns(pattern)
        else:
            yield pattern


@pytest.fixture
def world() -> dict[str, Any]:
    """One object of each kind in one team, by the names that ARGUMENTS uses."""
    team = make_team("Karachi")
    drawer, owner = make_user(team, OPERATOR, username="drawer"), make_user(team, HOST_OWNER, username="owner")
    hardware = make_hardware(team)
    worker_key = WorkerKey.objects.create(hardware=hardware, token_sha256="0" * 64, expires_at=datetime.now(UTC))
    runtime, workload, objective = make_runtime(hardware), make_workload(team), make_objective(team)
    grid = make_grid(runtime, workload, drawer)
    check = EndpointCheck.objects.create(
        team=team, hardware=hardware, kind="look", endpoint="http://127.0.0.1:9", asked_by=drawer
    )
    now = datetime.now(UTC)
    authorization = Authorization.objects.create(
        grid=grid, grid_digest=grid.digest, requested_by=drawer, authorized_by=owner, target="http://127.0.0.1:9",
        valid_from=now, valid_until=now + timedelta(hours=1), max_concurrency=8, max_requests=100, max_tokens=10_000,
        max_minutes=10,
    )  # fmt: skip
    choice = _approved_choice(grid, objective, drawer)
    return {
        "team": team, "hardware": hardware, "worker_key": worker_key, "runtime": runtime, "workload": workload,
        "objective": objective,
        "grid": grid, "cell": grid.cells.first(), "check": check, "authorization": authorization, "choice": choice,
        "statement": _statement(choice, authorization, now), "one": 1, "word": "word", "csv": "csv",
        "trade-off": "trade-off", "after": "after",
    }  # fmt: skip


def _approved_choice(grid: Grid, objective: Any, drawer: User) -> Choice:
    choice = Choice.objects.create(
        grid=grid, objective=objective, setting=4, verdict={}, digest="0" * 64, reason="It held.",
        measured_by=drawer, proposed_by=drawer,
    )  # fmt: skip
    decider = make_user(grid.team, APPROVER, username="decider")
    Choice.objects.filter(pk=choice.pk).update(status="approved", decided_by=decider, decided_at=datetime.now(UTC))
    choice.refresh_from_db()
    return choice


def _envelope() -> bytes:
    """A whole one, signed with a key that nobody knows: the page says so, and shows what it states."""
    return dsse.sign(payload_bytes(normal(document())), Ed25519PrivateKey.generate())


def _statement(choice: Choice, authorization: Authorization, now: datetime) -> Statement:
    key = Key.objects.create(
        keyid="k" * 64, name="Demonstration key", public_pem="", certificates_pem="", demonstration=True
    )
    return Statement.objects.create(
        number="CS-2026-001", choice=choice, authorization=authorization,
        conditions=Conditions.objects.get(grid=choice.grid, phase="before"), key=key, demonstration=True, simulated=True,
        envelope=_envelope(), pdf=b"%PDF-1.7", digest="0" * 64, issued_by=choice.decided_by, issued_at=now,
        valid_until=now + timedelta(days=90),
    )  # fmt: skip


def address(name: str, world: dict[str, Any]) -> str:
    def value(path: str) -> Any:
        kind, _, field = path.partition(".")
        return getattr(world[kind], field) if field else world[kind]

    return reverse(name, kwargs={key: value(path) for key, path in ARGUMENTS.get(name, {}).items()})


def verdict(response: Any) -> str:
    """refused, sign in, or let through: what a page says inside is the page's own test. An error is neither."""
    assert response.status_code < 500, response.request["PATH_INFO"]
    if response.status_code == 403:
        return "refused"
    to_login = response.status_code == 302 and response["Location"].startswith(reverse("login"))
    return "sign in" if to_login else "let through"


def test_the_table_names_every_address_and_no_other() -> None:
    assert sorted(TABLE) == sorted(str(pattern.name) for pattern in patterns())


def test_every_view_states_the_roles_of_the_table() -> None:
    stated = {str(p.name): getattr(p.callback, "allowed_roles", "states no roles") for p in patterns()}
    assert stated == TABLE


CLOSED = sorted(name for name, roles in TABLE.items() if roles)


@pytest.mark.parametrize("role", list(Role))
def test_pages_let_in_their_roles_and_refuse_the_others(role: Role, world: dict[str, Any]) -> None:
    client = Client()
    client.force_login(make_user(world["team"], role, username=f"only-{role}"))
    got = {
        name: (verdict(client.get(address(name, world))), verdict(client.post(address(name, world)))) for name in CLOSED
    }
    expected = {name: ("let through",) * 2 if role in TABLE[name] else ("refused",) * 2 for name in CLOSED}
    assert got == expected


def test_a_stranger_is_sent_to_the_sign_in_except_from_public_pages(world: dict[str, Any]) -> None:
    got = {name: verdict(Client().get(address(name, world))) for name in TABLE}
    assert got == {name: "sign in" if roles else "let through" for name, roles in TABLE.items()}


def test_a_person_without_a_team_is_refused(world: dict[str, Any], client: Client) -> None:
    client.force_login(make_user(None, username="nobody"))
    assert {name: verdict(client.get(address(name, world))) for name in CLOSED} == dict.fromkeys(CLOSED, "refused")


def test_an_object_of_another_team_is_not_found(world: dict[str, Any], client: Client) -> None:
    """405 stands for an address that answers the other method only."""
    client.force_login(make_user(make_team("Lahore"), *Role, username="outsider"))
    got = {
        name: {client.get(address(name, world)).status_code, client.post(address(name, world)).status_code} - {405}
        for name in OBJECT_NAMES
    }
    assert got == {name: {404} for name in OBJECT_NAMES}


def test_lists_show_nothing_of_another_team(world: dict[str, Any], client: Client) -> None:
    client.force_login(make_user(make_team("Lahore"), *Role, username="outsider"))
    names = [
        "hardware-list",
        "runtime-list",
        "workload-list",
        "objective-list",
        "grid-list",
        "choice-list",
        "audit-list",
    ]
    shown = {
        name: world["grid"].name in (page := client.get(reverse(name)).content.decode()) or "Karachi" in page
        for name in names
    }
    assert shown == dict.fromkeys(names, False)


def test_the_roles_of_one_team_do_not_count_in_another(world: dict[str, Any], client: Client) -> None:
    person = make_user(make_team("Lahore"), *Role, username="both")
    world["team"].memberships.create(user=person, role=VIEWER)
    client.force_login(person)
    session = client.session
    session["team"] = world["team"].slug
    session.save()
    assert (client.get(reverse("hardware-list")).status_code, client.get(reverse("hardware-new")).status_code) == (
        200,
        403,
    )


@pytest.mark.parametrize(
    ("wanted", "team", "roles"),
    [
        (None, "Alpha", {VIEWER, SIGNER}),
        ("beta", "Beta", {OPERATOR}),
        ("of-others", "Alpha", {VIEWER, SIGNER}),
    ],
)
def test_a_person_in_two_teams_has_the_roles_of_the_one_they_work_in_by_one_read(
    wanted: str | None, team: str, roles: set[Role]
) -> None:
    user = make_user(make_team("Alpha", slug="alpha"), VIEWER, SIGNER)
    user.memberships.create(team=make_team("Beta", slug="beta"), role=OPERATOR)
    make_team("Of others", slug="of-others")
    with CaptureQueriesContext(connection) as asked:
        found = person_of(user, wanted)
    assert found is not None
    assert (found.team.name, found.team.slug, found.roles) == (team, wanted if team == "Beta" else "alpha", roles)
    assert len(asked) == 1
