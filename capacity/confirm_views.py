"""Drawing the confirmation of a setting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from benchmarks.access import RUN, allow, person, posted
from benchmarks.drafts import MIXED, Confirms, DraftRefused, GridSpec, draft_grid
from benchmarks.models import Conditions, Grid, Team
from benchmarks.queries import grids_of, limits_of
from benchmarks.records.modes import ArrivalKind, Mode
from benchmarks.runtimes.terms import terms_of
from capacity.assessment import choose, confirm_words, queue_words, queueing
from capacity.assessment.headroom import headroom
from capacity.assessment.verdict import Answer, Confirmation, QueueCap, SettingRow
from capacity.confirm_forms import MOST_REPEATS, REPEATS, ConfirmForm, longer, most_in_flight, window_s
from capacity.queries import Result, result_of

UNPROCESSABLE = 422


@dataclass(frozen=True, slots=True)
class Proposal:
    """What the judge proposes for one setting: at which rate, through which cap, and why in words. `earlier` is what the
    newest open loop of the setting said, where one ran; `why` the reason for another rate than the stated one."""

    row: SettingRow
    rate_per_min: int
    cap: QueueCap | None
    queue_cap: int
    earlier: Confirmation
    why: str = ""


@allow(RUN)
@require_http_methods(["GET", "POST"])
def grid_confirm(request: HttpRequest, pk: int) -> HttpResponse:
    who = person(request)
    grid = get_object_or_404(grids_of(who.team.pk), pk=pk, mode=Mode.CLOSED)
    result = result_of(grid)
    safe = [row.setting for row in result.verdict.rows if row.safe]
    found = proposal(result, _setting(request, result, safe)) if safe else None
    if found is None:
        return render(request, "capacity/grid_confirm.html", {"grid": grid, "verdict": result.verdict, "form": None})
    form = ConfirmForm(posted(request), grid=grid, settings=safe, initial=_initial(result, found))
    drawing = request.method == "POST" and request.POST.get("action") != "plan"
    if form.is_bound and form.is_valid() and drawing:
        try:
            drawn = draft_grid(spec=_spec(who.team, grid, form), drawn_by=who.user, reason=form.cleaned_data["reason"])
        except DraftRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            messages.success(request, _("Drawn. It starts after a host owner other than you has authorised it."))
            return redirect("grid-detail", pk=drawn.pk)
    status = UNPROCESSABLE if drawing and form.errors else 200
    return render(request, "capacity/grid_confirm.html", _context(result, found, form), status=status)


def proposal(result: Result, setting: int) -> Proposal | None:
    """At what may be stated, before anything ran; after an open loop that did not hold, at the rate that it supports; after
    one that proved nothing, at its own rate again. None where nothing was measured at the setting."""
    row = result.verdict.row(setting)
    if row is None or row.good.value is None:
        return None
    room = headroom(result.facts, row)
    cap = queueing.queue_cap(result.facts, row, room)
    earlier = choose.stated_at(result.facts, row)[1]
    again = earlier.next_rate_per_min or (earlier.rate_per_min if _again(earlier) else None)
    if again is None or earlier.queue_cap is None:
        rate = max(1, floor(cap.arrivals_per_min if cap else room.stated_per_min))
        return Proposal(row, rate, cap, (cap.cap if cap else None) or 0, earlier)
    rate = max(1, floor(again))
    return Proposal(
        row, rate, queueing.cap_at(result.facts, row, float(rate)), earlier.queue_cap, earlier, earlier.next_why
    )


def _again(earlier: Confirmation) -> bool:
    """Whether it ran and proved nothing either way."""
    return bool(earlier.cells) and earlier.answer == Answer.NOT_TESTED


def _setting(request: HttpRequest, result: Result, safe: list[int]) -> int:
    """The one that is named and safe, else the recommended one."""
    named = request.POST.get("setting") or request.GET.get("setting") or ""
    return next((one for one in safe if str(one) == named), result.verdict.recommended or safe[0])


def _initial(result: Result, found: Proposal) -> dict[str, Any]:
    grid = result.evidence.grid
    replays = len(grid.workload.arrivals_s or ()) > 1
    ran = Grid.objects.filter(pk=found.earlier.grid_id or 0).first()
    return {
        "setting": found.row.setting,
        "rate_per_min": found.rate_per_min,
        "queue_cap": found.queue_cap,
        "runtime": ran.runtime_id if ran else grid.runtime_id,
        "arrivals": ArrivalKind.REPLAY if replays else ArrivalKind.POISSON,
        **_length(result, found, ran),
        "warmup_s": grid.warmup_s,
        "reason": f"Confirms {found.row.setting} in flight of grid {grid.pk}.",
        "room": _room(grid),
    }


def _length(result: Result, found: Proposal, ran: Grid | None) -> dict[str, int]:
    """Window and repeats: as long as a proof takes; longer or more often than an open loop that did not prove it."""
    shares = _shares(result.facts.class_weights)
    window, repeats = window_s(result.facts.limits.percentile, found.rate_per_min, shares, REPEATS), REPEATS
    earlier = found.earlier
    if ran is None or not earlier.indicative:
        return {"window_s": window, "repeats": repeats}
    lacking = max(earlier.claims, key=lambda one: one.needs, default=None)
    if earlier.needs and lacking is not None:
        window = longer(window, ran.window_s, lacking.n, lacking.needs)
        return {"window_s": window, "repeats": max(repeats, ran.repeats)}
    return {"window_s": max(window, ceil(ran.window_s)), "repeats": min(2 * max(repeats, ran.repeats), MOST_REPEATS)}


def _room(grid: Grid) -> str:
    """A place, which stays; power and temperature are of the day and are asked again."""
    before = grid.conditions.filter(phase=Conditions.Phase.BEFORE).first()
    return before.room if before else grid.hardware.place


def _shares(weights: dict[str, float]) -> list[float]:
    total = sum(weights.values()) or 1.0
    return [weight / total for weight in weights.values()]


def _spec(team: Team, grid: Grid, form: ConfirmForm) -> GridSpec:
    cleaned = form.cleaned_data
    return GridSpec(
        team=team,
        name=f"Confirmation of {cleaned['setting']} in flight, grid {grid.pk}",
        runtime=cleaned["runtime"],
        workload=grid.workload,
        setting_values=[cleaned["rate_per_min"]],
        class_names=[MIXED],
        repeats=cleaned["repeats"],
        window_s=cleaned["window_s"],
        warmup_s=cleaned["warmup_s"],
        limits=limits_of(grid),
        objective_digest=grid.objective_digest,
        objective_set_at=grid.objective_set_at,
        load=form.load(),
        on_guard=grid.on_guard,
        conditions=form.conditions(),
        confirms=Confirms(grid=grid, setting=cleaned["setting"], queue_cap=cleaned["queue_cap"]),
    )


def _context(result: Result, found: Proposal, form: ConfirmForm) -> dict[str, object]:
    grid = result.evidence.grid
    known: Mapping[str, Any] = form.cleaned_data if form.is_bound and form.is_valid() else form.initial
    rate, cap = known["rate_per_min"], known["queue_cap"]
    cap_there = found.cap if rate == found.rate_per_min else queueing.cap_at(result.facts, found.row, float(rate))
    foretold = queueing.predicted(result.facts, found.row, float(rate), cap)
    words = {term.setting: term.tools_word for term in terms_of(grid.runtime.kind) if term.tools_word}
    return {
        "grid": grid,
        "verdict": result.verdict,
        "form": form,
        "setting": found.row.setting,
        "rate": rate,
        "cap": cap,
        "cap_words": cap_there.words if cap_there else "",
        "foretold": confirm_words.foretold(foretold) if foretold else "",
        "active_word": words.get("active_sequences", ""),
        "queue_word": words.get("queue_cap", ""),
        "retry_after_s": cap_there.retry_after_s if cap_there else 1,
        "in_flight": most_in_flight(found.row.setting, cap),
        "why": found.why if rate == found.rate_per_min else "",
        "earlier": found.earlier if found.earlier.cells else None,
        "front": f"python -m tools.haproxy_front {grid.runtime.endpoint} --active {found.row.setting} --queue {cap} "
        f"--retry-after {cap_there.retry_after_s if cap_there else 1}",
        "waiting": queue_words.waiting(cap),
        "minutes": (known["window_s"] + known["warmup_s"]) * known["repeats"] / 60,
    }
