"""What needs attention: the cause, what follows from it with the cost of the fix, and one thing to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from django.db.models import Exists, Model, OuterRef, QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from benchmarks.access import OPERATE, RUN, SIGN, Person
from benchmarks.facts import is_fresh
from benchmarks.models import Cell, Grid, Hardware
from benchmarks.queries import count_of, grids_of
from benchmarks.templatetags.headroom import since, when
from capacity import duties
from capacity.assessment.verdict import Grade
from capacity.standing import Standing

MOST = 12
OF_A_KIND = 4
NEWEST = 2
"""Of results that nobody has proposed: the list of grids has the others."""
YOURS, BROKEN, OTHERS, LAST = range(4)


Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class Attention:
    """`rank`: what is broken or waits for the person who looks stands before what waits for somebody else."""

    rank: int
    icon: str
    kind: str
    title: str
    consequence: str
    action: str
    url: str


def attention(who: Person, stands: Sequence[Standing], hosts: Sequence[Hardware]) -> list[Attention]:
    """The person's own duties first, then what broke, then what waits for others; of each kind in the order they were found."""
    rows = [
        *_changed(who, stands), *_ending(who, stands), *_incomplete(who, stands), *_silent(who, hosts), *_stopped(who),
        *_to_authorize(who), *_to_decide(who), *_to_state(who, stands), *_unproposed(who),
    ]  # fmt: skip
    return sorted(rows, key=lambda row: row.rank)[:MOST]


def _again(who: Person, grid: Grid) -> tuple[str, str]:
    """The button that measures again: a new grid filled in like the old one."""
    if who.may(RUN):
        return _("Plan re-test"), f"{reverse('grid-new')}?from={grid.pk}"
    return _("See the result"), grid.get_absolute_url()


def _changed(who: Person, stands: Sequence[Standing]) -> Iterable[Attention]:
    """One line for each change of a host, however many approvals rest on what was there before."""
    found: dict[tuple[int, tuple[str, ...]], list[Standing]] = {}
    for one in stands:
        if one.changed:
            key = one.choice.grid.hardware_id, tuple(change.sentence for change in one.changed)
            found.setdefault(key, []).append(one)
    for (_host, sentences), alike in found.items():
        first = alike[0]
        action, url = _again(who, first.choice.grid)
        *others, last = (one.choice.grid.name for one in alike)
        names = _("%(names)s and %(last)s") % {"names": ", ".join(others), "last": last} if others else last
        rests = ngettext(
            "The approval of %(names)s rests on what was there before.",
            "The approvals of %(names)s rest on what was there before.", len(alike),
        ) % {"names": names}  # fmt: skip
        retests = first.retest if len(alike) == 1 else _retests(alike)
        yield Attention(
            rank=BROKEN, icon="triangle-alert", kind="warn",
            title=_("%(what)s changed on %(host)s") % {"what": first.changed_words, "host": first.choice.grid.hardware.name},
            consequence=" ".join([*sentences, rests, retests]), action=action, url=url,
        )  # fmt: skip


def _retests(alike: Sequence[Standing]) -> str:
    minutes = sum(one.retest_minutes for one in alike)
    return _("The re-tests take about %(n)d minutes together.") % {"n": minutes}


def _ending(who: Person, stands: Iterable[Standing]) -> Iterable[Attention]:
    """Statements that ended or end soon."""
    for one in stands:
        if one.statement is None or not (one.ended or one.ends_soon):
            continue
        told = {"number": one.statement.number, "until": when(one.statement.valid_until), "left": one.left}
        about = {"name": one.choice.grid.name}
        action, url = _again(who, one.choice.grid)
        ended, soon = _("The statement about %(name)s has ended"), _("The statement about %(name)s ends %(left)s")
        title = (ended if one.ended else soon) % (told | about)
        said = _("%(number)s was valid until %(until)s.") if one.ended else _("%(number)s is valid until %(until)s.")
        yield Attention(
            rank=BROKEN, icon="hourglass", kind="bad" if one.ended else "warn", title=title,
            consequence=f"{said % told} {one.retest}", action=action, url=url,
        )  # fmt: skip


def _incomplete(who: Person, stands: Iterable[Standing]) -> Iterable[Attention]:
    """Approved, and no key signs it: what is missing can only be measured."""
    for one in [one for one in stands if one.choice.grade == Grade.NOT_COMPLETE and one.statement is None]:
        said: dict[str, str] = one.choice.verdict
        action, url = _again(who, one.choice.grid)
        told = {"title": one.choice.title, "name": one.choice.grid.name}
        why = " ".join(words for words in (said.get("grade_reason"), said.get("next_cell")) if words)
        yield Attention(
            rank=BROKEN, icon="circle-dashed", kind="warn",
            title=_("%(title)s for %(name)s cannot be stated: the result is not complete") % told,
            consequence=f"{why} {one.retest}".strip(), action=action, url=url,
        )  # fmt: skip


def _silent(who: Person, hosts: Sequence[Hardware]) -> Iterable[Attention]:
    """Hosts with work whose worker does not call. `hosts` carry `work`, the number of cells that wait or run."""
    for host in hosts:
        if not getattr(host, "work", 0) or is_fresh(host.worker_seen_at, timezone.now()):
            continue
        seen = (
            _("It was last seen %(ago)s.") % {"ago": since(host.worker_seen_at)}
            if host.worker_seen_at
            else _("It has never been seen.")
        )
        yield Attention(
            rank=BROKEN, icon="server-off", kind="bad",
            title=_("The worker of %(host)s does not call") % {"host": host.name},
            consequence=f"{seen} {_('What is authorised there is not measured until it runs again.')}",
            action=_("How to start it") if who.may(OPERATE) else _("See the host"), url=host.get_absolute_url(),
        )  # fmt: skip


def _newer() -> QuerySet[Grid]:
    """Later grids of the same service, a runtime with a workload, whichever versions."""
    return Grid.objects.filter(
        team=OuterRef("team"), runtime__slug=OuterRef("runtime__slug"), workload__slug=OuterRef("workload__slug"),
        pk__gt=OuterRef("pk"),
    )  # fmt: skip


def _stopped(who: Person) -> Iterable[Attention]:
    """Grids that a guard ended, until they are measured again or proposed."""
    guarded = Cell.objects.filter(status=Cell.Status.STOPPED).values("grid")
    rows = grids_of(who.team.pk).filter(
        ~Exists(_newer()), pk__in=guarded, status__in=[Grid.Status.STOPPED, Grid.Status.MEASURED], choices__isnull=True
    )
    plain = Cell.objects.filter(grid=OuterRef("pk"), probe="")
    rows = rows.annotate(total=count_of(plain), kept=count_of(plain.filter(status=Cell.Status.MEASURED)))
    for grid in rows.order_by("-pk")[:OF_A_KIND]:
        told = {"kept": grid.kept, "total": grid.total}
        yield Attention(
            rank=BROKEN, icon="octagon-x", kind="bad",
            title=_("%(grid)s was stopped at a limit") % {"grid": grid},
            consequence=f"{_sentence(grid.stop_reason)} {_('%(kept)d of %(total)d cells are kept.') % told}".strip(),
            action=_("See cells"), url=f"{grid.get_absolute_url()}#cells",
        )  # fmt: skip


def _sentence(words: str) -> str:
    words = words.strip()
    return words if not words or words.endswith((".", "!", "?")) else f"{words}."


def _own_first(mine: QuerySet[Row], every: QuerySet[Row]) -> list[tuple[Row, bool]]:
    """The newest of a kind and whether it waits for this person; what does is never pushed out by what does not."""
    own = list(mine[:OF_A_KIND])
    others = every.exclude(pk__in=[one.pk for one in own])[: OF_A_KIND - len(own)] if len(own) < OF_A_KIND else []
    return [*((one, True) for one in own), *((one, False) for one in others)]


def _to_authorize(who: Person) -> Iterable[Attention]:
    for grid, yours in _own_first(duties.to_authorize(who).order_by("-pk"), duties.drafts(who.team.pk).order_by("-pk")):
        told = {"grid": grid, "who": grid.drawn_by, "host": grid.hardware.name}
        yield Attention(
            rank=YOURS if yours else OTHERS, icon="key-round", kind="info",
            title=_("%(grid)s waits for your authorisation") % told if yours else _("%(grid)s waits for authorisation") % told,
            consequence=_(
                "Drawn by %(who)s for %(host)s. Nothing is sent there until its owner authorises exactly this plan."
            ) % told,
            action=_("Review") if yours else _("Look at the plan"),
            url=reverse("grid-authorize", args=[grid.pk]) if yours else grid.get_absolute_url(),
        )  # fmt: skip


def _to_decide(who: Person) -> Iterable[Attention]:
    for choice, yours in _own_first(duties.to_decide(who), duties.proposed(who.team.pk)):
        told = {"title": choice.title, "name": choice.grid.name, "who": choice.proposed_by}
        yield Attention(
            rank=YOURS if yours else OTHERS, icon="shield-check", kind="info",
            title=_("%(title)s: proposed for %(name)s") % told,
            consequence=_(
                "%(who)s proposed it. It holds for nobody until a person who neither ran nor proposed it approves."
            ) % told,
            action=_("Review") if yours else _("Look at it"), url=choice.get_absolute_url(),
        )  # fmt: skip


def _to_state(who: Person, stands: Iterable[Standing]) -> Iterable[Attention]:
    """Approved, with nothing issued: of what stands, so that replaced ones ask for nothing."""
    unstated = set(duties.unstated(who.team.pk).values_list("pk", flat=True))
    for one in [one for one in stands if one.choice.pk in unstated][:OF_A_KIND]:
        yours = who.may(SIGN)
        told = {"title": one.choice.title, "name": one.choice.grid.name}
        yield Attention(
            rank=YOURS if yours else OTHERS, icon="signature", kind="info",
            title=_("%(title)s: approved for %(name)s") % told,
            consequence=_("No capacity statement says so yet; a signer issues it."),
            action=_("Issue the statement") if yours else _("Look at it"), url=one.choice.get_absolute_url(),
        )  # fmt: skip


def _unproposed(who: Person) -> Iterable[Attention]:
    """Closed-loop grids with a result that decides nothing yet, until a later one of the service does."""
    rows = grids_of(who.team.pk).filter(
        status=Grid.Status.MEASURED, choices__isnull=True, confirms__isnull=True, mode="closed"
    )
    stopped = Cell.objects.filter(grid=OuterRef("pk"), status=Cell.Status.STOPPED)
    later = _newer().filter(choices__isnull=False)
    for grid in rows.filter(~Exists(stopped), ~Exists(later)).order_by("-pk")[:NEWEST]:
        yield Attention(
            rank=LAST, icon="circle-check", kind="info",
            title=_("%(grid)s is measured, nothing is proposed yet") % {"grid": grid},
            consequence=_("Its result decides nothing until somebody proposes it."),
            action=_("See the result"), url=grid.get_absolute_url(),
        )  # fmt: skip
