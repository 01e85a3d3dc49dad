"""Pages that list what the judge knows of: grids with their settings and grades, objectives, approvals, statements."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect, QueryDict
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from benchmarks.access import EVERYONE, allow, person
from benchmarks.grid_lists import grids_said
from benchmarks.listing import answer
from capacity import lists
from capacity.decision_tables import waiting
from capacity.standing import standing


@allow(EVERYONE)
@require_safe
def grid_list(request: HttpRequest) -> HttpResponseBase:
    if "compare" in request.GET:
        return _to_compare(request)
    return answer(
        request, "benchmarks/grid_list.html", lists.judged_grids(person(request).team.pk),
        table=lists.JudgedGridTable, filters=lists.JudgedGridFilter, sentence=grids_said,
    )  # fmt: skip


@allow(EVERYONE)
@require_safe
def objective_list(request: HttpRequest) -> HttpResponseBase:
    return answer(
        request, "capacity/objective_list.html", lists.objectives_of(person(request).team.pk),
        table=lists.ObjectiveTable, filters=lists.ObjectiveFilter, sentence=lists.objectives_said,
    )  # fmt: skip


@allow(EVERYONE)
@require_safe
def choice_list(request: HttpRequest) -> HttpResponseBase:
    """What waits for whom and what stands, above the list of all; a file is the list alone."""
    who = person(request)
    beside = {} if request.GET.get("format") else {"waiting": waiting(who), "approved": standing(who.team.pk)}
    return answer(
        request, "capacity/choice_list.html", lists.choices_of(who.team.pk),
        table=lists.ChoiceTable, filters=lists.ChoiceFilter, sentence=lists.choices_said, **beside,
    )  # fmt: skip


@allow(EVERYONE)
@require_safe
def statement_list(request: HttpRequest) -> HttpResponseBase:
    return answer(
        request, "capacity/statement_list.html", lists.statements_of(person(request).team.pk),
        table=lists.StatementTable, filters=lists.StatementFilter, sentence=lists.statements_said,
    )  # fmt: skip


def _to_compare(request: HttpRequest) -> HttpResponseRedirect:
    """The tray sends what is ticked: two grids go to be compared, the older as what is compared with."""
    picked = sorted(
        {int(one) for one in request.GET.getlist("grid") if one.isascii() and one.isdecimal() and len(one) < 10}
    )
    if len(picked) == 2:
        query = QueryDict(mutable=True)
        query.setlist("grid", [str(one) for one in picked])
        return HttpResponseRedirect(f"{reverse('compare')}?{query.urlencode()}")
    kept = request.GET.copy()
    for name in ("compare", "grid"):
        kept.pop(name, None)
    messages.warning(
        request, _("Two grids are compared; %(n)s are ticked. Tick two, then compare.") % {"n": len(picked)}
    )
    return HttpResponseRedirect(f"{reverse('grid-list')}?{kept.urlencode()}")
