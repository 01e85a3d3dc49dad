"""What the frame of every page shows beside the page: what runs, and what waits for the person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, IntegerField, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from benchmarks.access import Person
from benchmarks.models import Grid, Team
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
        _count(running), _count(duties.to_authorize(who)), _count(duties.to_decide(who)), _count(duties.to_state(who))
    )
    found = counts.first() or (0, 0, 0, 0)
    return Side(running=found[0], authorize=found[1], decide=found[2] + found[3])


def _count(rows: QuerySet[Any, Any]) -> Coalesce:
    """How many rows there are, as a part of another query. Nobody's rows are none."""
    if rows.query.is_empty():
        return Coalesce(Value(0), Value(0), output_field=IntegerField())
    counted = rows.order_by().select_related(None).annotate(one=Value(1)).values("one").annotate(n=Count("pk"))
    return Coalesce(Subquery(counted.values("n"), output_field=IntegerField()), Value(0))
