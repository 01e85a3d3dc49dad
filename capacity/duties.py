"""What waits for whom: grids to authorise, proposals to decide about, approvals to state. Each rule stands once, for the
side bar, the overview and the approvals."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from benchmarks.access import APPROVE, AUTHORIZE, SIGN, Person
from benchmarks.models import Grid
from capacity.assessment.verdict import Grade
from capacity.models import Choice


def choices_of(team_id: int) -> QuerySet[Choice]:
    """Choices of a team with what their rows show, newest first."""
    related = ("grid", "grid__hardware", "grid__runtime", "grid__workload", "objective")
    people = ("proposed_by", "measured_by", "decided_by")
    return Choice.objects.filter(grid__team_id=team_id).select_related(*related, *people)


def proposed(team_id: int) -> QuerySet[Choice]:
    """Waits for an approver who neither ran nor proposed it."""
    return choices_of(team_id).filter(status=Choice.Status.PROPOSED)


def unstated(team_id: int) -> QuerySet[Choice]:
    """Approved, and no statement says so yet. What is not complete waits for another measurement, not for a signer."""
    rows = choices_of(team_id).filter(status=Choice.Status.APPROVED, statements__isnull=True)
    return rows.exclude(grade=Grade.NOT_COMPLETE)


def to_decide(who: Person) -> QuerySet[Choice]:
    """Proposals that this person may decide about."""
    if not who.may(APPROVE):
        return Choice.objects.none()
    return proposed(who.team.pk).exclude(Q(proposed_by_id=who.user.pk) | Q(measured_by_id=who.user.pk))


def to_state(who: Person) -> QuerySet[Choice]:
    """Approvals whose statement this person may issue."""
    return unstated(who.team.pk) if who.may(SIGN) else Choice.objects.none()


def drafts(team_id: int) -> QuerySet[Grid]:
    """Grids that wait for the leave to load their host."""
    return Grid.objects.filter(team_id=team_id, status=Grid.Status.DRAFT).select_related("hardware", "drawn_by")


def to_authorize(who: Person) -> QuerySet[Grid]:
    """Grids that this person may authorise: somebody else drew them."""
    return drafts(who.team.pk).exclude(drawn_by_id=who.user.pk) if who.may(AUTHORIZE) else Grid.objects.none()
