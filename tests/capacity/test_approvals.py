"""Decisions: two people, their passwords, conditions and authorisation; refused in the form and by the database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, IntegrityError, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchmarks.models import Authorization, Conditions, Grid, Role, Team
from benchmarks.records.claims import users_claim
from capacity import approvals
from capacity.models import Choice, Key, Statement
from capacity.statement.keys import KEYRING, load_keyring, make_keyset
from capacity.statement.verify import verify
from tests.capacity.stored import measure
from tests.capacity.synthetic import limits
from tests.factories import PASSWORD, make_grid, make_objective, make_runtime, make_team, make_user

pytestmark = pytest.mark.django_db


class Office:
    """One team with a measured, authorised grid and a person for each role."""

    def __init__(self, *, conditions: bool = True) -> None:
        self.team: Team = make_team()
        self.operator = make_user(self.team, Role.OPERATOR)
        self.owner = make_user(self.team, Role.HOST_OWNER)
        self.approver = make_user(self.team, Role.APPROVER)
        self.signer = make_user(self.team, Role.SIGNER)
        objective = make_objective(self.team)
        runtime = make_runtime()
        runtime.team = self.team
        runtime.hardware.team = self.team
        runtime.hardware.save()
        runtime.save()
        self.grid: Grid = make_grid(
            runtime,
            drawn_by=self.operator,
            limits=limits(),
            objective_digest=objective.digest,
            objective_set_at=timezone.now(),
        )
        if not conditions:
            self.grid.conditions.all().delete()
        now = timezone.now()
        Authorization.objects.create(
            grid=self.grid, grid_digest=self.grid.digest, requested_by=self.operator, authorized_by=self.owner,
            target=runtime.endpoint, valid_from=now, valid_until=now + timedelta(hours=1), max_concurrency=8,
            max_requests=10_000, max_tokens=1_000_000, max_minutes=60,
        )  # fmt: skip
        measure(self.grid)

    def proposed(self) -> Choice:
        return approvals.propose(grid=self.grid, setting=4, reason="Inside every limit.", by=self.operator)

    def approved(self) -> Choice:
        choice = self.proposed()
        approvals.decide(choice=choice, by=self.approver, approve=True, reason="Agreed.")
        choice.refresh_from_db()
        return choice


@pytest.fixture
def office() -> Office:
    return Office()


@pytest.fixture
def keys(settings: object, tmp_path: Path) -> Path:
    settings.KEYS_DIR = tmp_path  # type: ignore[attr-defined]
    make_keyset(tmp_path, name="demonstration", demonstration=True, now=datetime.now(UTC))
    return tmp_path


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_a_safe_setting_is_proposed_with_the_words_of_the_judge_and_its_rollback(office: Office) -> None:
    choice = office.proposed()
    assert (choice.setting, choice.rollback_setting, choice.status) == (4, 2, Choice.Status.PROPOSED)
    assert (choice.measured_by, choice.proposed_by) == (office.operator, office.operator)
    assert choice.verdict["recommended"] == 4
    assert choice.grade == "ungraded"


@pytest.mark.parametrize(("setting", "words"), [(8, "not a safe setting"), (16, "not measured")])
def test_what_is_not_safe_or_not_measured_cannot_be_proposed(office: Office, setting: int, words: str) -> None:
    with pytest.raises(approvals.Refused, match=words):
        approvals.propose(grid=office.grid, setting=setting, reason="More is more.", by=office.operator)


def test_a_second_proposal_waits_until_the_first_is_withdrawn(office: Office) -> None:
    first = office.proposed()
    with pytest.raises(approvals.Refused, match="already proposed"):
        office.proposed()
    approvals.withdraw(choice=first, by=office.operator, reason="Wrong words.")
    assert office.proposed().pk != first.pk


def test_nobody_approves_their_own_proposal_or_measurement(office: Office) -> None:
    choice = office.proposed()
    with pytest.raises(approvals.Refused, match="You proposed"):
        approvals.decide(choice=choice, by=office.operator, approve=True, reason="Mine.")
    with pytest.raises(IntegrityError, match="approver_is_not"), transaction.atomic():
        Choice.objects.filter(pk=choice.pk).update(
            status=Choice.Status.APPROVED, decided_by=office.operator, decided_at=timezone.now()
        )


def test_an_approval_without_a_person_is_refused_by_the_database(office: Office) -> None:
    choice = office.proposed()
    with pytest.raises(IntegrityError), transaction.atomic():
        Choice.objects.filter(pk=choice.pk).update(status=Choice.Status.APPROVED)


def test_evidence_that_changed_sends_an_approval_back(office: Office) -> None:
    choice = office.proposed()
    Choice.objects.filter(pk=choice.pk).update(digest="0" * 64)
    choice.refresh_from_db()
    with pytest.raises(approvals.Refused, match="changed since this was proposed"):
        approvals.decide(choice=choice, by=office.approver, approve=True, reason="Agreed.")


def test_a_decision_is_taken_once(office: Office) -> None:
    choice = office.approved()
    with pytest.raises(approvals.Refused, match="already decided"):
        approvals.decide(choice=choice, by=office.approver, approve=False, reason="On second thoughts.")


def test_a_statement_is_signed_and_verifies_as_a_demonstration(office: Office, keys: Path) -> None:
    choice = office.approved()
    statement = approvals.issue_statement(choice=choice, by=office.signer, title="Support on the host", valid_days=90)
    ring = load_keyring(keys / KEYRING)
    for data in (statement.envelope, statement.pdf):
        verdict = verify(bytes(data), ring, timezone.now())
        assert (verdict.state, verdict.demonstration, verdict.digest) == ("valid", True, statement.digest)
    assert statement.number == f"CS-{timezone.now().year}-001"
    assert Key.objects.get().keyid == ring.keys[0].keyid


def test_statements_are_numbered_in_a_row(office: Office, keys: Path) -> None:
    choice = office.approved()
    numbers = [
        approvals.issue_statement(choice=choice, by=office.signer, title="One", valid_days=1).number.rsplit("-", 1)[1]
        for _ in range(2)
    ]
    assert numbers == ["001", "002"]


def test_signing_without_conditions_is_refused_in_the_form(keys: Path) -> None:
    office = Office(conditions=False)
    choice = office.approved()
    data = {"title": "Support on the host", "valid_days": 90, "password": PASSWORD}
    response = signed_in(office.signer).post(reverse("statement-issue", args=[choice.pk]), data)
    assert response.status_code == 422
    assert "No conditions are recorded for this grid." in response.content.decode()
    assert Statement.objects.count() == 0


def _statement_fields(office: Office, choice: Choice) -> dict[str, object]:
    key = Key.objects.create(keyid="k" * 64, name="k", public_pem="", certificates_pem="", demonstration=True)
    now = timezone.now()
    return {
        "number": "CS-2026-900", "choice": choice, "authorization": office.grid.authorizations.get(),
        "conditions": office.grid.conditions.first(), "key": key, "demonstration": True, "simulated": True, "envelope": b"{}",
        "pdf": b"", "digest": "0" * 64, "issued_by": office.signer, "issued_at": now, "valid_until": now + timedelta(days=1),
    }  # fmt: skip


@pytest.mark.parametrize("missing", ["conditions", "authorization", "choice", "key"])
def test_the_database_refuses_a_statement_that_lacks_what_it_rests_on(office: Office, missing: str) -> None:
    fields = _statement_fields(office, office.approved())
    with pytest.raises(IntegrityError), transaction.atomic():
        Statement.objects.create(**fields | {missing: None})


def test_the_database_refuses_a_statement_of_a_choice_that_nobody_approved(office: Office) -> None:
    fields = _statement_fields(office, office.proposed())
    with pytest.raises(DatabaseError, match="approved"), transaction.atomic():
        Statement.objects.create(**fields)


def test_the_database_refuses_a_simulated_statement_with_a_real_key(office: Office) -> None:
    fields = _statement_fields(office, office.approved()) | {"demonstration": False}
    with pytest.raises(IntegrityError, match="simulated_only"), transaction.atomic():
        Statement.objects.create(**fields)


def test_an_issued_statement_never_changes(office: Office, keys: Path) -> None:
    statement = approvals.issue_statement(choice=office.approved(), by=office.signer, title="One", valid_days=1)
    with pytest.raises(DatabaseError), transaction.atomic():
        Statement.objects.filter(pk=statement.pk).update(digest="0" * 64)
    with pytest.raises(DatabaseError), transaction.atomic():
        Statement.objects.filter(pk=statement.pk).delete()


def test_without_a_key_the_signer_is_told_which_command_makes_one(
    office: Office, settings: object, tmp_path: Path
) -> None:
    settings.KEYS_DIR = tmp_path / "none"  # type: ignore[attr-defined]
    with pytest.raises(approvals.Refused, match="make_keys"):
        approvals.issue_statement(choice=office.approved(), by=office.signer, title="One", valid_days=1)


@pytest.mark.parametrize(("password", "status"), [(PASSWORD, 302), ("wrong", 422), ("", 422)])
def test_approving_asks_for_the_password_again(office: Office, password: str, status: int) -> None:
    choice = office.proposed()
    data = {"decision": "approve", "reason": "Agreed.", "password": password}
    response = signed_in(office.approver).post(reverse("choice-decide", args=[choice.pk]), data)
    choice.refresh_from_db()
    assert response.status_code == status
    assert (choice.status == Choice.Status.APPROVED) == (status == 302)


def test_approving_ones_own_proposal_is_refused_in_the_form(office: Office) -> None:
    choice = office.proposed()
    office.operator.memberships.create(team=office.team, role=Role.APPROVER)
    data = {"decision": "approve", "reason": "Mine.", "password": PASSWORD}
    response = signed_in(office.operator).post(reverse("choice-decide", args=[choice.pk]), data)
    assert response.status_code == 422
    assert "You proposed this setting, so another person decides about it." in response.content.decode()


@pytest.mark.parametrize("title", ["Supports 8 users", "Enough for 200 people"])
def test_a_title_that_claims_users_is_refused_with_the_sentence_to_use(office: Office, keys: Path, title: str) -> None:
    choice = office.approved()
    data = {"title": title, "valid_days": 90, "password": PASSWORD}
    response = signed_in(office.signer).post(reverse("statement-issue", args=[choice.pk]), data)
    assert response.status_code == 422
    instead = users_claim(title)
    assert instead is not None
    assert instead[:60] in response.content.decode()


def test_conditions_after_the_run_do_not_stand_in_for_those_before(keys: Path) -> None:
    office = Office(conditions=False)
    Conditions.objects.create(
        grid=office.grid,
        phase="after",
        at=timezone.now(),
        room="Room",
        power_source="grid",
        recorded_by=office.operator,
    )
    with pytest.raises(approvals.Refused, match="No conditions"):
        approvals.issue_statement(choice=office.approved(), by=office.signer, title="One", valid_days=1)
