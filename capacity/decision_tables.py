"""What the pages of decisions show: whom each choice waits for, what an approval rests on, and which statement came after."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from benchmarks.access import SIGN, Person
from benchmarks.models import Conditions, Grid, Membership, Role
from capacity import duties
from capacity.assessment import compare_key
from capacity.models import Choice, Statement
from capacity.standing import retest_words
from capacity.stated import person as named

SHOWN = 25
NAMED = 3
KEPT = ("cpu", "gpus", "driver", "power_cap_w", "vbios")
"""Fields of the key that a worker reads on the host."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A choice that waits, for whom in words, and the next step of the person who looks."""

    choice: Choice
    what: str
    whom: str
    yours: bool
    step: str


def waiting(who: Person) -> list[Waiting]:
    """Proposals and approvals without a statement, the person's own duties first."""
    people = list(
        Membership.objects.filter(team=who.team, role__in=[Role.APPROVER, Role.SIGNER]).select_related("user")
    )
    rows = [_proposal(who, choice, people) for choice in duties.proposed(who.team.pk)[:SHOWN]]
    rows += [_unstated(who, choice, people) for choice in duties.unstated(who.team.pk)[:SHOWN]]
    return sorted(rows, key=lambda row: not row.yours)


def _proposal(who: Person, choice: Choice, people: Sequence[Membership]) -> Waiting:
    own = (choice.proposed_by_id, choice.measured_by_id)
    able = [one.user for one in people if one.role == Role.APPROVER and one.user_id not in own]
    yours = who.user.pk in [user.pk for user in able]
    whom = (
        _named(able, who)
        or _("nobody: no approver of the team neither ran nor proposed it. An administrator gives somebody the role.")
    )  # fmt: skip
    step = _("Review and decide") if yours else _("Look at it")
    return Waiting(choice=choice, what=_("Decision"), whom=whom, yours=yours, step=step)


def _unstated(who: Person, choice: Choice, people: Sequence[Membership]) -> Waiting:
    able = [one.user for one in people if one.role == Role.SIGNER]
    whom = _named(able, who) or _("nobody: the team has no signer. An administrator gives somebody the role.")
    yours = who.may(SIGN)
    step = _("Issue the statement") if yours else _("Look at it")
    return Waiting(choice=choice, what=_("Statement"), whom=whom, yours=yours, step=step)


def _named(people: Iterable[AbstractBaseUser], who: Person) -> str:
    """ "you, or Ayesha Khan, Sana Iqbal and 2 more"; empty for nobody."""
    found = sorted(people, key=lambda user: user.pk != who.user.pk)
    names = [_("you") if user.pk == who.user.pk else named(user) for user in found]
    if len(names) > NAMED:
        return _("%(names)s or %(n)d more") % {"names": ", ".join(names[:NAMED]), "n": len(names) - NAMED}
    return _(" or ").join(names)


def rests_on(grid: Grid) -> list[tuple[str, str]]:
    """What must stay as it is for an approval to stand, name and value, of what is recorded; a change ends it early."""
    read = grid.probe.facts if grid.probe else {}
    key = compare_key.key_of(declared=grid.declared, read=read)
    before = grid.conditions.filter(phase=Conditions.Phase.BEFORE).first()
    runtime = grid.runtime
    told = [
        (_("Runtime"), f"{runtime.get_kind_display()} {runtime.runtime_version}".strip()),
        (_("Model"), runtime.model_name),
        (_("Flags"), runtime.flags),
        (_("Workload"), _("%(name)s, version %(n)d") % {"name": grid.workload.name, "n": grid.workload.version}),
        *((compare_key.NAMES[name], _plain(getattr(key, name))) for name in KEPT),
        (_("Power source"), before.get_power_source_display() if before else ""),
    ]
    return [(name, value) for name, value in told if value]


def _plain(value: object) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def retest_of(grid: Grid) -> str:
    return retest_words(grid, grid.cells.filter(probe="").count())


def _of_service(statement: Statement) -> QuerySet[Statement]:
    """Every statement of the team about the same runtime and workload, whichever version."""
    grid = statement.choice.grid
    rows = Statement.objects.filter(
        choice__grid__team_id=grid.team_id, choice__grid__runtime__slug=grid.runtime.slug,
        choice__grid__workload__slug=grid.workload.slug,
    )  # fmt: skip
    return rows.defer("pdf", "envelope")


def replaced_by(statement: Statement) -> Statement | None:
    """The newest later statement about the same service; None while this one is the newest. A demonstration replaces none
    that is signed with a real key."""
    rows = _of_service(statement).filter(pk__gt=statement.pk)
    if not statement.demonstration:
        rows = rows.filter(demonstration=False)
    return rows.order_by("-pk").first()


def replaces(statement: Statement) -> Statement | None:
    """The last earlier one about the same service that this one may replace."""
    rows = _of_service(statement).filter(pk__lt=statement.pk)
    if statement.demonstration:
        rows = rows.filter(demonstration=True)
    return rows.order_by("-pk").first()
