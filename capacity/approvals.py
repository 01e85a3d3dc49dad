"""Write verbs of decisions: propose, decide, withdraw, issue a statement. Each states its precondition in the UPDATE.

The same rules stand as constraints and triggers in the database; these verbs say them in words first.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

import msgspec
from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import IntegrityError, transaction
from django.utils import timezone, translation
from django.utils.translation import gettext

from benchmarks import audit
from benchmarks.models import Conditions, Grid
from benchmarks.queries import leaves_of
from capacity import documents
from capacity.assessment import none
from capacity.assessment.choose import headroom, policy_at, rollback_from, rubric_at, stated_at
from capacity.assessment.rubric import not_tested
from capacity.assessment.verdict import Answer, Grade, SettingRow
from capacity.models import Choice, Key, Objective, Statement
from capacity.queries import Result, result_of
from capacity.statement import issue as signing
from capacity.statement.document import Document
from capacity.statement.keys import KEYRING, KeyEntry, KeyFileError, KeySet, load_keyring, load_keyset

NO_DEMONSTRATION_KEY = (
    "A simulated result, or one that is neither complete nor waived nor that no setting is safe, is signed with a "
    "demonstration key only, and this site has none. Make one with `manage.py make_keys --demonstration`."
)
NO_REAL_KEY = "This site has no signing key. Make one with `manage.py make_keys`."
NOT_COMPLETE = "This result is graded not complete, and no key signs that: not even a demonstration states it."
NUMBER_TRIES = 5
"""How often a number is taken anew when another signer was quicker."""


class Refused(ValueError):
    """The decision cannot be taken; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Waiver:
    """Why a person answers for what was not tested, and the last day on which they do."""

    text: str
    until: date


@translation.override("en")  # what is recorded and signed reads the same in every language
def propose(*, grid: Grid, setting: int | None, reason: str, by: AbstractBaseUser) -> Choice:
    """Proposes one safe setting of a measured grid; None proposes that no setting of it is safe."""
    result = result_of(grid)
    if grid.status not in Grid.OVER:
        raise Refused("This grid is not finished yet. Wait until it is measured, or stop it.")
    row = _proposable(result, setting)
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
            rollback_setting=_rollback(result, setting),
            verdict=_claim(result, row),
            grade=rubric_at(result.facts, result.verdict, setting).grade,
            digest=_digest(result, setting),
            reason=reason,
            measured_by=grid.drawn_by,
            proposed_by_id=by.pk,
        )
        _record(choice, by, "proposed", reason)
    return choice


def _proposable(result: Result, setting: int | None) -> SettingRow | None:
    """The row of a safe setting; none where no setting is what can be proposed. Raises Refused."""
    if setting is None:
        if why := none.obstacle(result.verdict):
            raise Refused(f"This result is not that no setting is safe: {why}")
        return None
    row = result.verdict.row(setting)
    if row is None or not row.safe:
        why = "; ".join(row.reasons) if row else "not measured"
        raise Refused(f"{setting} requests in flight is not a safe setting of this grid: {why}")
    return row


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
    """Takes back a proposal, or an approval that no statement rests on, so that the grid can be proposed again."""
    with transaction.atomic():
        held = Choice.objects.select_for_update().get(pk=choice.pk)
        if not withdrawable(held):
            raise Refused("Only a proposal, or an approval that no statement rests on, can be withdrawn.")
        Choice.objects.filter(pk=held.pk).update(status=Choice.Status.WITHDRAWN)
        _record(choice, by, "withdrew", reason)


def withdrawable(choice: Choice) -> bool:
    """Whether it may still be taken back."""
    if choice.status == Choice.Status.APPROVED:
        return not choice.statements.exists()
    return choice.status == Choice.Status.PROPOSED


def obstacles(choice: Choice) -> list[str]:
    """What keeps an approved choice from being stated, each as a sentence that says what to do."""
    if choice.status != Choice.Status.APPROVED:
        return []
    found = []
    if choice.grade == Grade.NOT_COMPLETE:
        told = [NOT_COMPLETE, choice.verdict.get("grade_reason"), choice.verdict.get("next_cell")]
        found.append(" ".join(words for words in told if words))
    if _conditions(choice.grid) is None:
        found.append("No conditions are recorded for this grid. Record room and power on the grid's page first.")
    if not leaves_of(choice.grid):
        found.append(
            gettext("No cell of this grid ran under an authorisation, so nobody answers for the load on the host.")
        )
    return found


def title_for(choice: Choice) -> str:
    host = choice.grid.declared.get("name") or choice.grid.hardware.name
    return f"{choice.grid.workload.name} on {host}"[:120]


@translation.override("en")
def issue_statement(
    *, choice: Choice, by: AbstractBaseUser, title: str, valid_days: int, waiver: Waiver | None = None
) -> Statement:
    """Signs and stores a statement. Simulated results are signed with a demonstration key only."""
    choice = Choice.objects.select_related("grid", "measured_by", "proposed_by", "decided_by").get(pk=choice.pk)
    if choice.status != Choice.Status.APPROVED:
        raise Refused("Only an approved setting can be stated.")
    missing = obstacles(choice)
    conditions = _conditions(choice.grid)
    if missing or conditions is None:
        raise Refused(" ".join(missing))
    result = result_of(choice.grid)
    if _digest(result, choice.setting) != choice.digest:
        raise Refused(
            "The evidence or its judgement changed since this was approved. Withdraw the approval and propose it again."
        )
    waived = "" if waiver is None else _waived(choice, result, waiver, by)
    keyset = _keyset(choice, waived=bool(waived))
    for _ in range(NUMBER_TRIES):
        now = timezone.now().replace(microsecond=0)
        plan = documents.Issue(
            number=_next_number(now.year), title=title, by=by, at=now, valid_until=_until(now, valid_days, waiver),
            demonstration=keyset.entry.demonstration, waiver=waived,
        )  # fmt: skip
        # Rendering and signing take seconds, so they stand outside the transaction; the number is settled by the insert.
        signed = _signed(choice, result, conditions, plan, keyset)
        if statement := _stored(choice, result, conditions, plan, keyset, signed):
            return statement
    raise Refused("Other statements are being issued at this moment. Try again in a minute.")


def _waived(choice: Choice, result: Result, waiver: Waiver, by: AbstractBaseUser) -> str:
    """What is printed of a waiver: what was left out, who answers for that and until when. Raises Refused."""
    graded = rubric_at(result.facts, result.verdict, choice.setting)
    if graded.grade != Grade.NEEDS_REVISION or choice.grid.simulated:
        raise Refused("Only a result that needs revision, of a real runtime, can be waived. Leave the waiver empty.")
    if not graded.waivable:
        failed = "; ".join(one.reason.rstrip(".") for one in graded.open if one.answer == Answer.FAILS)
        raise Refused(f"A waiver is for what was not tested, never for what failed: {failed}.")
    if by.pk in (choice.proposed_by_id, choice.measured_by_id):
        raise Refused("You measured or proposed this setting, so another person waives what was not tested.")
    if waiver.until <= timezone.localdate():
        raise Refused("A waiver ends on a day that is still to come.")
    left_out = "; ".join(one.title for one in graded.open)
    return f"until {waiver.until:%d %b %Y} {by.get_username()} answers for what is open ({left_out}): {waiver.text}"


def _until(now: datetime, valid_days: int, waiver: Waiver | None) -> datetime:
    """A statement ends with its waiver, at the end of that day."""
    last = now + timedelta(days=valid_days)
    if waiver is None:
        return last
    return min(last, timezone.make_aware(datetime.combine(waiver.until + timedelta(days=1), time.min)))


def _signed(
    choice: Choice, result: Result, conditions: Conditions, plan: documents.Issue, keyset: KeySet
) -> signing.SignedStatement:
    try:
        document = documents.build(choice=choice, result=result, conditions=conditions, issue=plan)
        return signing.issue(document, keyset)
    except ValueError as contradiction:
        raise Refused(str(contradiction)) from contradiction


def _stored(
    choice: Choice,
    result: Result,
    conditions: Conditions,
    plan: documents.Issue,
    keyset: KeySet,
    signed: signing.SignedStatement,
) -> Statement | None:
    """The stored statement; None when another one took the number first."""
    with transaction.atomic():
        # Held to the end, so that nobody withdraws what is being stated.
        if Choice.objects.select_for_update().get(pk=choice.pk).status != Choice.Status.APPROVED:
            raise Refused("The approval was withdrawn while the statement was made.")
        try:
            with transaction.atomic():
                statement = Statement.objects.create(
                    number=plan.number,
                    choice=choice,
                    authorization=result.evidence.leaves[-1],
                    conditions=conditions,
                    key=_key_row(keyset.entry),
                    demonstration=keyset.entry.demonstration,
                    simulated=choice.grid.simulated,
                    envelope=signed.envelope,
                    pdf=signed.pdf,
                    digest=signed.digest,
                    issued_by_id=plan.by.pk,
                    issued_at=plan.at,
                    valid_until=plan.valid_until,
                )
        except IntegrityError:
            if not Statement.objects.filter(number=plan.number).exists():
                raise
            return None
        audit.record(
            actor=plan.by.get_username(),
            verb="issued",
            subject=f"statement {statement.number}",
            team=choice.grid.team,
            after=signed.digest,
            reason=plan.waiver,
        )
    return statement


def document_of(statement: Statement) -> Document:
    """The document inside a stored envelope; its signature is checked where the page shows a verdict."""
    return signing.document_in(bytes(statement.envelope))


def _digest(result: Result, setting: int | None) -> str:
    """Bound to setting, evidence, hardware, grade, controls and rollback: a change of any voids the approval. Where no
    setting is proposed, the judge's finding stands in its place."""
    verdict, evidence = result.verdict, result.evidence
    read = evidence.probe.digest if evidence.probe else None
    proposed = str(verdict.kind) if setting is None else setting
    grade = rubric_at(result.facts, verdict, setting).grade
    parts = [evidence.grid.digest, evidence.grid.declared, read, evidence.manifest_sha256(), proposed, grade]
    return audit.digest_of([*parts, _rollback(result, setting), verdict.method_version, *_controls(result, setting)])


def _controls(result: Result, setting: int | None) -> list[object]:
    """The stated rate, what confirms it, and the policy that goes with it; a later confirmation changes them."""
    verdict = result.verdict
    row = verdict.row(setting)
    if row is None:
        return []
    room, confirmed = stated_at(result.facts, row)
    bound = [confirmed.answer, confirmed.grid_id, list(confirmed.cells), confirmed.rate_per_min, confirmed.queue_cap]
    policy = policy_at(result.facts, verdict, row.setting)
    return [room.stated_per_min, bound, [[line.key, line.value] for line in policy]]


def _rollback(result: Result, setting: int | None) -> int | None:
    return rollback_from(result.facts, result.verdict.rows, result.verdict.row(setting))[0]


def _claim(result: Result, row: SettingRow | None) -> dict[str, object]:
    """The judge's words and numbers for what is proposed, as they stood then; of no setting there is no number."""
    verdict = result.verdict
    graded = rubric_at(result.facts, verdict, row.setting if row else None)
    said: dict[str, object] = {
        "heading": verdict.heading,
        "summary": verdict.summary,
        "recommended": verdict.recommended,
        "reasons": list(verdict.reasons),
        "why_not": [sentence for other in verdict.why_not for sentence in other.sentences],
        "not_tested": list(not_tested(graded) if row else none.not_tested(verdict)),
        "grade_reason": graded.reason,
        "next_cell": next((one.next_cell for one in graded.open if one.next_cell), ""),
        "cautions": list(verdict.cautions),
    }
    if row is None:
        return said | {"remedies": list(none.remedies(verdict))}
    return said | {
        "good_per_min": row.good.value,
        "stated_per_min": headroom(result.facts, row).stated_per_min,
        "worst_ratio": row.worst.ratio if row.worst else None,
        "worst_class": row.worst.label if row.worst else "",
        "indicative": row.indicative,
        "memory_peak_bytes": row.memory.peak_bytes,
        "memory_limit_bytes": row.memory.limit_bytes,
        "memory_words": row.memory.words,
        "policy": [msgspec.to_builtins(line) for line in policy_at(result.facts, verdict, row.setting)],
        "checks": msgspec.to_builtins(row.checks),
    }


def _conditions(grid: Grid) -> Conditions | None:
    return grid.conditions.filter(phase=Conditions.Phase.BEFORE).select_related("recorded_by").first()


def wants_real_key(choice: Choice, *, waived: bool = False) -> bool:
    """Whether a real key may sign: of a real runtime a complete result, that no setting is safe, or a result whose gaps a
    second person waived."""
    whole = choice.grade in (Grade.COMPLETE, Grade.NO_SAFE_SETTING)
    graded = whole or (choice.grade == Grade.NEEDS_REVISION and waived)
    return graded and not choice.grid.simulated


def may_waive(choice: Choice, user_id: int | None) -> bool:
    """Whether this person may answer for what was not tested. What failed is told when the statement is made."""
    second = user_id not in (choice.proposed_by_id, choice.measured_by_id)
    return second and choice.grade == Grade.NEEDS_REVISION and not choice.grid.simulated


def _keyset(choice: Choice, *, waived: bool) -> KeySet:
    """The newest key that may sign. A site without a key of its own signs even a complete result as a demonstration; a
    waiver says nothing of a demonstration, so it needs a real one."""
    demonstration = not wants_real_key(choice, waived=waived)
    try:
        entries = [entry for entry in load_keyring(settings.KEYS_DIR / KEYRING).keys if entry.revoked_at is None]
        fitting = [entry for entry in entries if entry.demonstration == demonstration]
        if not fitting and not demonstration and not waived:
            fitting = entries
        if not fitting:
            raise Refused(NO_DEMONSTRATION_KEY if demonstration else NO_REAL_KEY)
        return load_keyset(settings.KEYS_DIR / max(fitting, key=lambda entry: entry.created_at).name)
    except KeyFileError as problem:
        raise Refused(f"The signing key cannot be used: {problem}") from problem


def _key_row(entry: KeyEntry) -> Key:
    row, _ = Key.objects.get_or_create(
        keyid=entry.keyid,
        defaults={
            "name": entry.name,
            "public_pem": entry.public_pem(),
            "certificates_pem": entry.leaf_pem + entry.root_pem,
            "demonstration": entry.demonstration,
        },
    )
    return row


def _next_number(year: int) -> str:
    last = (
        Statement.objects.filter(number__startswith=f"CS-{year}-")
        .order_by("-id")
        .values_list("number", flat=True)
        .first()
    )
    return f"CS-{year}-{int(last.rsplit('-', 1)[1]) + 1 if last else 1:03d}"


def _record(choice: Choice, by: AbstractBaseUser, verb: str, reason: str) -> None:
    audit.record(
        actor=by.get_username(),
        verb=verb,
        subject=f"choice {choice.pk}",
        team=choice.grid.team,
        after=choice.digest,
        reason=reason,
    )
