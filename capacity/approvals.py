"""Write verbs of decisions: propose, decide, withdraw, issue a statement. Each states its precondition in the UPDATE.

The same rules stand as constraints and triggers in the database; these verbs say them in words first.
"""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.utils import timezone

from benchmarks import audit
from benchmarks.models import Conditions, Grid
from benchmarks.queries import live_authorization
from capacity import documents
from capacity.assessment.verdict import as_json
from capacity.models import Choice, Key, Objective, Statement
from capacity.queries import Result, result_of
from capacity.statement import issue as signing
from capacity.statement.document import Document
from capacity.statement.keys import KeySet, NoKeys, load_keyset

PROPOSABLE = (Grid.Status.MEASURED, Grid.Status.STOPPED)


class Refused(ValueError):
    """The decision cannot be taken; the message says why and what to do."""


def propose(*, grid: Grid, setting: int, reason: str, by: AbstractBaseUser) -> Choice:
    """Proposes one safe setting of a measured grid."""
    result = result_of(grid)
    if grid.status not in PROPOSABLE:
        raise Refused("This grid is not finished yet. Wait until it is measured, or stop it.")
    row = result.verdict.row(setting)
    if row is None or not row.safe:
        raise Refused(f"{setting} requests in flight is not a safe setting of this grid: {'; '.join(row.reasons) if row else 'not measured'}")
    objective = Objective.objects.filter(team=grid.team, digest=grid.objective_digest).first()
    if objective is None:
        raise Refused("The objective that this grid was drawn with is no longer registered.")
    with transaction.atomic():
        if grid.choices.filter(status__in=[Choice.Status.PROPOSED, Choice.Status.APPROVED]).exists():
            raise Refused("A setting of this grid is already proposed or approved. Withdraw that one first.")
        choice = Choice.objects.create(
            grid=grid,
            objective=objective,
            setting=setting,
            rollback_setting=result.verdict.rollback,
            verdict=as_json(result.verdict),
            grade=result.verdict.grade,
            digest=_digest(result, setting),
            reason=reason,
            measured_by=grid.drawn_by,
            proposed_by_id=by.pk,
        )
        _record(choice, by, "proposed", reason)
    return choice


def decide(*, choice: Choice, by: AbstractBaseUser, approve: bool, reason: str) -> None:
    """Approves or rejects. The approver neither ran nor proposed it, and the evidence is the one that was proposed."""
    if by.pk == choice.proposed_by_id:
        raise Refused("You proposed this setting, so another person decides about it.")
    if by.pk == choice.measured_by_id:
        raise Refused("You ran this measurement, so another person decides about it.")
    if approve and _digest(result_of(choice.grid), choice.setting) != choice.digest:
        raise Refused("The evidence or its judgement changed since this was proposed. Withdraw it and propose again.")
    status = Choice.Status.APPROVED if approve else Choice.Status.REJECTED
    with transaction.atomic():
        changed = Choice.objects.filter(pk=choice.pk, status=Choice.Status.PROPOSED, digest=choice.digest).update(
            status=status, decided_by_id=by.pk, decided_at=timezone.now(), decision_reason=reason
        )
        if not changed:
            raise Refused("This choice was already decided or withdrawn.")
        _record(choice, by, str(status), reason)


def withdraw(*, choice: Choice, by: AbstractBaseUser, reason: str) -> None:
    """Takes back an undecided proposal."""
    with transaction.atomic():
        changed = Choice.objects.filter(pk=choice.pk, status=Choice.Status.PROPOSED).update(status=Choice.Status.WITHDRAWN)
        if not changed:
            raise Refused("Only a proposal that nobody has decided about can be withdrawn.")
        _record(choice, by, "withdrew", reason)


def obstacles(choice: Choice) -> list[str]:
    """What keeps an approved choice from being stated, each as a sentence that says what to do."""
    if choice.status != Choice.Status.APPROVED:
        return []
    found = []
    if _conditions(choice.grid) is None:
        found.append("No conditions are recorded for this grid. Record room and power on the grid's page first.")
    if live_authorization(choice.grid) is None:
        found.append("The grid has no authorisation in force, so nobody answers for the load it put on the host.")
    return found


def title_for(choice: Choice) -> str:
    return f"{choice.grid.workload.name} on {choice.grid.hardware.name}"[:120]


def issue_statement(*, choice: Choice, by: AbstractBaseUser, title: str, valid_days: int) -> Statement:
    """Signs and stores a statement. Simulated results are signed with a demonstration key only."""
    choice = Choice.objects.select_related("grid", "measured_by", "proposed_by", "decided_by").get(pk=choice.pk)
    if choice.status != Choice.Status.APPROVED:
        raise Refused("Only an approved setting can be stated.")
    missing = obstacles(choice)
    conditions, authorization = _conditions(choice.grid), live_authorization(choice.grid)
    if missing or conditions is None or authorization is None:
        raise Refused(" ".join(missing))
    keyset = _keyset(choice)
    result = result_of(choice.grid)
    if _digest(result, choice.setting) != choice.digest:
        raise Refused("The evidence or its judgement changed since this was approved. Propose it again.")
    with transaction.atomic():
        now = timezone.now().replace(microsecond=0)
        plan = documents.Issue(
            number=_next_number(now.year), title=title, by=by, at=now, valid_until=now + timedelta(days=valid_days),
            demonstration=keyset.demonstration,
        )  # fmt: skip
        try:
            document = documents.build(
                choice=choice, result=result, authorization=authorization, conditions=conditions, issue=plan
            )
        except ValueError as contradiction:
            raise Refused(str(contradiction)) from contradiction
        signed = signing.issue(document, keyset)
        statement = Statement.objects.create(
            number=plan.number,
            choice=choice,
            authorization=authorization,
            conditions=conditions,
            key=_key_row(keyset),
            demonstration=keyset.demonstration,
            simulated=choice.grid.simulated,
            envelope=signed.envelope,
            pdf=signed.pdf,
            digest=signed.digest,
            issued_by_id=by.pk,
            issued_at=plan.at,
            valid_until=plan.valid_until,
        )
        audit.record(
            actor=by.get_username(), verb="issued", subject=f"statement {statement.number}", team=choice.grid.team, after=signed.digest
        )
    return statement


def document_of(statement: Statement) -> Document:
    """The document inside a stored envelope; its signature is checked where the page shows a verdict."""
    return signing.document_in(bytes(statement.envelope))


def _digest(result: Result, setting: int) -> str:
    verdict, evidence = result.verdict, result.evidence
    parts = [evidence.grid.digest, evidence.manifest_sha256(), setting, verdict.grade, verdict.rollback, verdict.method_version]
    return audit.digest_of(parts)


def _conditions(grid: Grid) -> Conditions | None:
    return grid.conditions.filter(phase=Conditions.Phase.BEFORE).select_related("recorded_by").first()


def _keyset(choice: Choice) -> KeySet:
    try:
        keyset = load_keyset(settings.KEYS_DIR)
    except NoKeys as missing:
        raise Refused(str(missing)) from missing
    if choice.grid.simulated and not keyset.demonstration:
        raise Refused("A simulated result can never be signed with a real key. Measure a real runtime, or use demonstration keys.")
    return keyset


def _key_row(keyset: KeySet) -> Key:
    row, _ = Key.objects.get_or_create(
        keyid=keyset.keyid,
        defaults={
            "name": keyset.name,
            "public_pem": keyset.public_pem,
            "certificates_pem": keyset.certificates_pem,
            "demonstration": keyset.demonstration,
        },
    )
    return row


def _next_number(year: int) -> str:
    last = Statement.objects.filter(number__startswith=f"CS-{year}-").order_by("-id").values_list("number", flat=True).first()
    return f"CS-{year}-{int(last.rsplit('-', 1)[1]) + 1 if last else 1:03d}"


def _record(choice: Choice, by: AbstractBaseUser, verb: str, reason: str) -> None:
    audit.record(
        actor=by.get_username(), verb=verb, subject=f"choice {choice.pk}", team=choice.grid.team, after=choice.digest, reason=reason
    )
