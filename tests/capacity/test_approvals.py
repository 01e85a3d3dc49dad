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

from benchmarks.facts import declared_words, probed_words
from benchmarks.models import Authorization, Conditions, Grid, Hardware, HardwareProbe, Role, Team
from benchmarks.queries import evidence
from benchmarks.records.claims import users_claim
from capacity import approvals, documents
from capacity.models import Choice, Key, Statement
from capacity.queries import facts_of, provenance
from capacity.statement.keys import KEYRING, load_keyring, make_keyset
from capacity.statement.verify import verify
from tests.capacity.stored import STARTED, measure
from tests.capacity.synthetic import limits
from tests.factories import PASSWORD, make_grid, make_hardware, make_objective, make_runtime, make_team, make_user

pytestmark = pytest.mark.django_db


class Office:
    """One team with a measured, authorised grid and a person for each role."""

    def __init__(
        self, *, conditions: bool = True, kind: str = "simulator", set_at: datetime = STARTED - timedelta(hours=1)
    ) -> None:
        self.set_at = set_at
        self.team: Team = make_team()
        self.operator = make_user(self.team, Role.OPERATOR)
        self.owner = make_user(self.team, Role.HOST_OWNER)
        self.approver = make_user(self.team, Role.APPROVER)
        self.signer = make_user(self.team, Role.SIGNER)
        self.objective = make_objective(self.team)
        self.runtime = make_runtime(make_hardware(self.team), kind=kind)
        self.grid: Grid = self.drawn(recorded=conditions)
        self.authorize(self.grid, self.owner)
        measure(self.grid)

    def drawn(self, *, recorded: bool = True) -> Grid:
        return make_grid(
            self.runtime,
            drawn_by=self.operator,
            limits=limits(),
            objective_digest=self.objective.digest,
            objective_set_at=self.set_at,
            recorded=recorded,
        )

    def authorize(self, grid: Grid, owner: User) -> Authorization:
        """In place of an earlier leave."""
        now = timezone.now()
        grid.authorizations.filter(revoked_at__isnull=True).update(revoked_at=now, revoked_by=owner)
        return Authorization.objects.create(
            grid=grid, grid_digest=grid.digest, requested_by=self.operator, authorized_by=owner,
            target=self.runtime.endpoint, valid_from=now, valid_until=now + timedelta(hours=1), max_concurrency=8,
            max_requests=10_000, max_tokens=1_000_000, max_minutes=60,
        )  # fmt: skip

    def with_another_digest(self) -> Choice:
        """As if the evidence had changed after the proposal: it was bound to another digest from the start."""
        choice = Choice(
            grid=self.grid, objective=self.objective, setting=4, verdict={}, digest="0" * 64, reason="It held.",
            measured_by=self.operator, proposed_by=self.operator,
        )  # fmt: skip
        choice.save()
        return choice

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
    assert choice.grade == "needs revision"
    assert choice.verdict["next_cell"]


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
    choice = office.with_another_digest()
    with pytest.raises(approvals.Refused, match="changed since this was proposed"):
        approvals.decide(choice=choice, by=office.approver, approve=True, reason="Agreed.")


def test_an_approval_whose_evidence_changed_is_withdrawn_and_proposed_again(office: Office, keys: Path) -> None:
    choice = office.with_another_digest()
    Choice.objects.filter(pk=choice.pk).update(
        status="approved", decided_by=office.approver, decided_at=timezone.now(), decision_reason="Agreed."
    )
    with pytest.raises(approvals.Refused, match="Withdraw the approval and propose it again"):
        approvals.issue_statement(choice=choice, by=office.signer, title="One", valid_days=1)
    address = reverse("choice-withdraw", args=[choice.pk])
    browser = signed_in(office.operator)
    assert address in browser.get(choice.get_absolute_url()).content.decode()
    browser.post(address, {"reason": "The evidence changed."})
    choice.refresh_from_db()
    assert choice.status == Choice.Status.WITHDRAWN
    assert approvals.issue_statement(choice=office.approved(), by=office.signer, title="One", valid_days=1).pk


def test_what_a_statement_rests_on_is_not_withdrawn(office: Office, keys: Path) -> None:
    choice = office.approved()
    approvals.issue_statement(choice=choice, by=office.signer, title="One", valid_days=1)
    with pytest.raises(approvals.Refused, match="no statement rests on"):
        approvals.withdraw(choice=choice, by=office.operator, reason="Second thoughts.")
    page = signed_in(office.operator).get(choice.get_absolute_url()).content.decode()
    assert reverse("choice-withdraw", args=[choice.pk]) not in page


def test_a_number_that_another_signer_took_first_is_taken_anew(
    office: Office, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = office.approved()
    first = approvals.issue_statement(choice=choice, by=office.signer, title="One", valid_days=1)
    true_number, seen = approvals._next_number, iter([first.number, first.number])
    monkeypatch.setattr(approvals, "_next_number", lambda year: next(seen, None) or true_number(year))
    second = approvals.issue_statement(choice=choice, by=office.signer, title="Two", valid_days=1)
    assert (first.number[-3:], second.number[-3:]) == ("001", "002")
    assert approvals.document_of(second).number == second.number
    monkeypatch.setattr(approvals, "_next_number", lambda _year: first.number)
    with pytest.raises(approvals.Refused, match="Try again in a minute"):
        approvals.issue_statement(choice=choice, by=office.signer, title="Three", valid_days=1)


@pytest.mark.parametrize("field, value", [("cpu", "64 cores"), ("gpu", "H200"), ("ram_gib", 512.0), ("name", "Other")])
def test_a_statement_prints_the_host_as_it_was_when_it_was_drawn(
    office: Office, keys: Path, field: str, value: object
) -> None:
    before = (declared_words(office.grid.declared), probed_words(None))
    Hardware.objects.filter(pk=office.grid.hardware_id).update(**{field: value})
    HardwareProbe.objects.create(
        hardware=office.grid.hardware, at=timezone.now(), worker="w", facts={"cpu": "another"}, digest="n" * 64
    )
    choice = office.approved()
    grid = Grid.objects.get(pk=office.grid.pk)
    assert str(value) not in provenance(evidence(grid)).words
    tested = approvals.document_of(
        approvals.issue_statement(choice=choice, by=office.signer, title="One", valid_days=1)
    ).tested
    assert (tested.hardware_declared, tested.hardware_probed) == before


def test_a_statement_prints_what_the_worker_read_before_the_first_cell(office: Office, keys: Path) -> None:
    facts = {"cpu": "Xeon", "ram_bytes": 16 * 1024**3, "gpus": "no NVIDIA GPU (none)", "os": "Linux"}
    probe = HardwareProbe.objects.create(
        hardware=office.grid.hardware,
        at=datetime(2026, 11, 14, 9, 58, tzinfo=UTC),
        worker="w",
        facts=facts,
        digest="p" * 64,
    )
    Grid.objects.filter(pk=office.grid.pk).update(probe=probe)
    office.grid.refresh_from_db()
    statement = approvals.issue_statement(choice=office.approved(), by=office.signer, title="One", valid_days=1)
    tested = approvals.document_of(statement).tested
    assert tested.hardware_probed == "Xeon, 16.0 GiB RAM, no NVIDIA GPU (none), Linux, read 2026-11-14 09:58 UTC"


def test_a_statement_names_everybody_who_authorised_the_cells_that_it_rests_on(office: Office, keys: Path) -> None:
    """Cells of the first two settings ran under the first leave; the leave given after the run names nobody."""
    first = office.grid.authorizations.get()
    runs_end = timezone.now()
    other, third = make_user(office.team, Role.HOST_OWNER), make_user(office.team, Role.HOST_OWNER)
    office.grid = office.drawn()
    leaves = [office.authorize(office.grid, first.authorized_by)]
    measure(office.grid, settings=[1, 2])
    leaves.append(office.authorize(office.grid, other))
    measure(office.grid, settings=[4, 8])
    office.authorize(office.grid, third)
    statement = approvals.issue_statement(choice=office.approved(), by=office.signer, title="One", valid_days=1)
    document = approvals.document_of(statement)
    named = [signature.name for signature in document.signatures if signature.did == "Authorised by"]
    assert named == [first.authorized_by.get_username(), other.get_username()]
    assert (statement.authorization, statement.issued_at >= runs_end.replace(microsecond=0)) == (leaves[1], True)


@pytest.mark.parametrize("grade, printed", [("ungraded", "ungraded"), ("needs revision", "needs revision")])
def test_a_statement_prints_the_grade_that_was_approved(office: Office, grade: str, printed: str) -> None:
    choice = office.approved()
    choice.grade = grade
    assert documents._grade(choice) == printed
    choice.grade = "excellent"
    with pytest.raises(ValueError, match="no grade called excellent"):
        documents._grade(choice)


@pytest.mark.parametrize(
    "declared, read, known",
    [
        ({}, None, None),
        ({"gpu": "H200"}, None, True),
        ({"gpu_count": 2}, None, True),
        ({}, "no NVIDIA GPU (Driver Not Loaded)", False),
        ({"gpu": "MI300"}, "no NVIDIA GPU (Driver Not Loaded)", True),
        ({}, [{"name": "H200"}], True),
    ],
)
def test_a_host_has_no_gpu_only_where_somebody_looked(
    declared: dict[str, object], read: object, known: bool | None
) -> None:
    grid = make_grid(make_runtime(make_hardware(**declared)))
    if read is not None:
        grid.probe = HardwareProbe.objects.create(
            hardware=grid.hardware, at=timezone.now(), worker="w", facts={"gpus": read}, digest="p" * 64
        )
    assert facts_of(grid).has_gpu is known


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
