"""What the frame of every page shows beside the page: what runs, and what waits for the person."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from benchmarks.access import Person
from benchmarks.models import Grid, Team
from benchmarks.queries import count_of
from capacity import duties


@dataclass(frozen=True, slots=True)
class Side:
    """`running` grids of the team; `authorize` and `decide` are what waits for this person alone."""

    running: int = 0
    authorize: int = 0
    decide: int = 0


def side_bar(request: HttpRequest) -> dict[str, object]:
    """For every template. Read from the database only where a template shows it, and then in one query."""
    who: Person | None = getattr(request, "person", None)
    return {"side": SimpleLazyObject(lambda: side_of(who) if who else Side())}


def side_of(who: Person) -> Side:
    """Counts in one query, whatever the roles."""
    running = Grid.objects.filter(team_id=who.team.pk, status=Grid.Status.RUNNING)
    counts = Team.objects.filter(pk=who.team.pk).values_list(
        count_of(running),
        count_of(duties.to_authorize(who)),
        count_of(duties.to_decide(who)),
        count_of(duties.to_state(who)),
    )
    found = counts.first() or (0, 0, 0, 0)
    return Side(running=found[0], authorize=found[1], decide=found[2] + found[3])
