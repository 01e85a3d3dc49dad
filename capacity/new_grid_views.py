"""The new-grid page: it reads objectives, so it stands above the wall. Nothing runs of it; a draft is all it makes."""

from __future__ import annotations

from typing import Any, TypeVar

from django.contrib import messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _

from benchmarks.access import RUN, Person, allow, person
from benchmarks.drafts import MIXED, DraftRefused, GridSpec, draft_grid
from benchmarks.models import Conditions, Grid, Runtime, Workload
from benchmarks.offered import managed_words
from benchmarks.records import probes
from benchmarks.records.mode_words import WORDS
from benchmarks.records.modes import Mode, Terms
from benchmarks.runtimes import terms
from benchmarks.workload_views import class_lengths, class_rows
from capacity import objectives
from capacity.forms import GridForm
from capacity.grid_plans import Wish, plan_of
from capacity.mode_forms import OFFERED, ModeForm, StepsField, mode_called, terms_typed, was_shown
from capacity.models import Objective
from capacity.probe_forms import ProbesForm, from_kept, probes_typed

Row = TypeVar("Row", bound=Model)
UNPROCESSABLE = 422


@allow(RUN)
def grid_new(request: HttpRequest) -> HttpResponse:
    """Filled in from an earlier grid; *Update the plan* shows what the form says without drawing anything."""
    who = person(request)
    if request.method != "POST":
        return _grid_page(request, who, _start(request, who))
    typed = _typed(request.POST)
    if request.POST.get("action") == "plan":
        return _grid_page(request, who, typed)
    workload = _chosen(Workload.objects.filter(team=who.team), typed.get("workload"))
    mode = mode_called(typed.get("mode"))
    form = GridForm(request.POST, team=who.team, classes=_class_names(workload), mode=mode)
    shown = was_shown(mode, request.POST)
    mode_form, probes_form = ModeForm(request.POST if shown else None, mode=mode), ProbesForm(request.POST)
    valid = [form.is_valid(), mode_form.is_valid(), probes_form.is_valid()]
    if not shown:
        form.add_error(
            "mode", _("%(mode)s needs more than was shown. Look at it below, then draw.") % {"mode": WORDS[mode].name}
        )
    if all(valid):
        try:
            grid = draft_grid(
                spec=_spec(who, form, mode_form.terms(), probes_form),
                drawn_by=who.user,
                reason=form.cleaned_data["reason"],
            )
        except DraftRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            messages.success(request, _("Drawn. It starts after a host owner other than you has authorised it."))
            return redirect("grid-detail", pk=grid.pk)
    return _grid_page(request, who, typed, forms=(form, mode_form, probes_form))


def _spec(who: Person, form: GridForm, load: Terms, probes_form: ProbesForm) -> GridSpec:
    cleaned = form.cleaned_data
    objective: Objective = cleaned["objective"]
    return GridSpec(
        team=who.team,
        name=cleaned["name"],
        runtime=cleaned["runtime"],
        workload=cleaned["workload"],
        setting_values=cleaned["settings"],
        class_names=cleaned["class_names"],
        repeats=cleaned["repeats"],
        window_s=cleaned["window_s"],
        warmup_s=cleaned["warmup_s"],
        limits=objectives.limits_of(objective),
        objective_digest=objective.digest,
        objective_set_at=objective.set_at,
        conditions=form.conditions(),
        load=load,
        managed=cleaned["managed"],
        on_guard=cleaned["on_guard"] or "cancel",
        probes=probes_form.wanted(slots=_slots(cleaned["runtime"], cleaned["settings"])),
    )


def _grid_page(
    request: HttpRequest, who: Person, typed: dict[str, Any], forms: tuple[GridForm, ModeForm, ProbesForm] | None = None
) -> HttpResponse:
    runtime = _chosen(Runtime.objects.filter(team=who.team).select_related("hardware"), typed.get("runtime"))
    workload = _chosen(Workload.objects.filter(team=who.team).prefetch_related("classes"), typed.get("workload"))
    objective = _chosen(Objective.objects.filter(team=who.team).prefetch_related("classes"), typed.get("objective"))
    names, mode = _class_names(workload), mode_called(typed.get("mode"))
    typed = {
        **typed,
        "mode": mode,
        "class_names": [n for n in typed.get("class_names", []) if n in (*names, MIXED)] or names,
        # What another way of loading left ticked is not on the page any more, so it is in no plan.
        "setting_values": [n for n in typed.get("setting_values", []) if n in map(str, OFFERED[mode])],
    }
    slots = _slots(runtime, _settings(typed))
    wish = Wish(
        runtime=runtime,
        workload=workload,
        objective=objective,
        settings=_settings(typed),
        class_names=typed["class_names"],
        repeats=_whole(typed.get("repeats")),
        window_s=_number(typed.get("window_s")),
        warmup_s=_number(typed.get("warmup_s")),
        conditions=bool(typed.get("power_source")),
        load=terms_typed(mode, typed),
        managed=bool(typed.get("managed")),
        probes=probes_typed(typed, slots=slots) if mode == Mode.CLOSED else (),
    )
    form, mode_form, probes_form = forms or (
        GridForm(team=who.team, classes=names, mode=mode, initial=typed),
        ModeForm(mode=mode, initial=typed),
        ProbesForm(initial=typed),
    )
    context = {
        "form": form,
        "earlier": _earlier(request, who),
        "mode_form": mode_form,
        "probes_form": probes_form,
        "probe_options": (options := probes_form.options(slots=slots)),
        "probes_ticked": any(option.ticked for option in options),
        "mode": mode,
        "modes": [(other, WORDS[other]) for other in Mode],
        "mode_words": WORDS[mode],
        "runtime": runtime,
        "objective": objective,
        "class_rows": class_rows(class_lengths(workload)) if workload else [],
        "workload": workload,
        "word": _tools_word(runtime),
        "managed_words": managed_words(runtime) if runtime and runtime.launch_profile else "",
        "plan": plan_of(wish, team_id=who.team.pk, person_id=who.user.pk),
    }
    return render(request, "capacity/grid_new.html", context, status=UNPROCESSABLE if forms else 200)


def _tools_word(runtime: Runtime | None) -> terms.Term | None:
    words = terms.terms_of(runtime.kind) if runtime else ()
    return next((term for term in words if term.setting == "active_sequences"), None)


def _slots(runtime: Runtime | None, settings: list[int]) -> int:
    """Requests at a time that fill the runtime, as far as the page knows."""
    return max([*settings, (runtime.max_active_sequences if runtime else None) or 1])


def _start(request: HttpRequest, who: Person) -> dict[str, Any]:
    """From the grid that is named, else from the newest one; a first grid starts with defaults."""
    earlier = _earlier(request, who)
    base = _from_grid(earlier, who) if earlier else _first(who)
    chosen = {name: request.GET[name] for name in ("runtime", "workload", "objective", "mode") if request.GET.get(name)}
    if mode_called(chosen.get("mode", base.get("mode"))) != mode_called(base.get("mode")):
        # Settings of one way of loading mean nothing in another.
        base = {name: value for name, value in base.items() if name not in ("setting_values", "other_settings")}
    return {**base, **chosen, **_asked_settings(request.GET.get("settings", ""), chosen.get("mode", base.get("mode")))}


def _first(who: Person) -> dict[str, Any]:
    """Of a runtime that no grid was drawn of: the newest workload and objective, which may be meant, and defaults."""
    newest = {
        "workload": Workload.objects.filter(team=who.team).order_by("-pk").values_list("pk", flat=True).first(),
        "objective": Objective.objects.filter(team=who.team).order_by("-pk").values_list("pk", flat=True).first(),
    }
    known = {name: str(pk) for name, pk in newest.items() if pk is not None}
    return {"setting_values": ["1", "2", "4", "8"], "repeats": 3, "window_s": 30, "warmup_s": 5} | known


def _earlier(request: HttpRequest, who: Person) -> Grid | None:
    """The grid that the form was filled in from: the one that is named, else the newest, of the runtime where one is."""
    grids = Grid.objects.filter(team=who.team)
    if request.method == "POST":
        return _chosen(grids, request.POST.get("earlier"))
    wanted = request.GET.get("from", "")
    named = wanted.isdecimal() and len(wanted) < 10
    if named:
        return get_object_or_404(grids, pk=int(wanted))
    runtime = _chosen(Runtime.objects.filter(team=who.team), request.GET.get("runtime"))
    return grids.filter(runtime__slug=runtime.slug).first() if runtime else grids.first()


def _asked_settings(text: str, mode: Any) -> dict[str, Any]:
    """The settings that a link asks for, split as the form has them; nothing where it asks for none."""
    asked = sorted({int(part) for part in text.split(",") if part.isdecimal() and len(part) <= 6} - {0})
    if not asked:
        return {}
    offered = OFFERED[mode_called(mode)]
    return {
        "setting_values": [str(one) for one in asked if one in offered],
        "other_settings": ", ".join(str(one) for one in asked if one not in offered),
    }


def _from_grid(grid: Grid, who: Person) -> dict[str, Any]:
    objective = Objective.objects.filter(team=who.team, digest=grid.objective_digest).first()
    before = grid.conditions.filter(phase=Conditions.Phase.BEFORE).first()
    offered = OFFERED[Mode(grid.mode)]
    usual = [str(s) for s in grid.setting_values if s in offered]
    return {
        "mode": grid.mode,
        "managed": grid.managed,
        "on_guard": grid.on_guard,
        **from_kept(probes.read(grid.probes)),
        **{name: StepsField().prepare_value(v) if name == "steps" else v for name, v in grid.load.items()},
        "name": grid.name,
        "runtime": grid.runtime_id,
        "workload": grid.workload_id,
        "objective": objective.pk if objective else None,
        "class_names": grid.class_names,
        "setting_values": usual,
        "other_settings": ", ".join(str(s) for s in grid.setting_values if s not in offered),
        "repeats": grid.repeats,
        "window_s": f"{grid.window_s:g}",
        "warmup_s": f"{grid.warmup_s:g}",
        # Room is a place and stays; power and temperature are of the day and are asked again.
        "room": before.room if before else grid.hardware.place,
    }


def _typed(data: QueryDict) -> dict[str, Any]:
    """The form as it was sent, for showing it again unjudged."""
    lists = {name: data.getlist(name) for name in ("class_names", "setting_values", "probes")}
    names = [*GridForm.base_fields, *ModeForm.base_fields, *ProbesForm.base_fields]
    plain = {name: data[name] for name in names if name not in lists and name in data}
    return {**plain, **lists}


def _class_names(workload: Workload | None) -> list[str]:
    return [c.name for c in workload.classes.all()] if workload else []


def _chosen(rows: QuerySet[Row], value: Any) -> Row | None:
    """The row that the form names; None for none, for another team's and for nonsense."""
    return rows.filter(pk=int(value)).first() if str(value or "").isdecimal() else None


def _settings(typed: dict[str, Any]) -> list[int]:
    others = str(typed.get("other_settings") or "").replace(";", ",").replace(" ", ",").split(",")
    numbers = [_whole(text) for text in [*typed.get("setting_values", []), *others]]
    return [n for n in numbers if n]


def _whole(value: Any) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number == int(number) and 0 < number < 10**6 else None


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if 0 <= number < 10**9 else None
