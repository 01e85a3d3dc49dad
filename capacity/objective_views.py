"""Pages of objectives, and the new-grid page: it reads objectives, so it stands above the wall."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TypeVar

from django.contrib import messages
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _

from benchmarks.access import EVERYONE, OPERATE, Person, allow, person
from benchmarks.models import Grid
from benchmarks.registry import history
from capacity import objectives
from capacity.assessment import terms_words
from capacity.forms import BaseClassObjectiveFormSet, ClassObjectiveFormSet, ObjectiveForm
from capacity.models import Objective
from capacity.terms_forms import TermsForm

Row = TypeVar("Row", bound=Model)
UNPROCESSABLE = 422
START_CLASSES = ({"class_name": "short"}, {"class_name": "median"}, {"class_name": "long"})


@dataclass(frozen=True, slots=True)
class Typed:
    """The three parts of the objective form."""

    form: ObjectiveForm
    classes: BaseClassObjectiveFormSet
    terms: TermsForm


# --- objectives ------------------------------------------------------------------------------------------------------


@allow(OPERATE)
def objective_new(request: HttpRequest) -> HttpResponse:
    who = person(request)
    if request.method != "POST":
        classes = ClassObjectiveFormSet(prefix="classes", initial=START_CLASSES)
        return _objective_form(request, Typed(ObjectiveForm(team=who.team), classes, TermsForm(team=who.team)))
    typed = _typed_objective(request, who)
    if not _complete(request, typed):
        return _objective_form(request, typed)
    row = objectives.set_objective(
        team=who.team, by=who.user, slug=typed.form.cleaned_data["slug"], values=typed.form.cleaned_data,
        classes=typed.classes.classes(), terms=typed.terms.terms(),
    )  # fmt: skip
    words = _("%(name)s is set. Grids drawn from now on can be judged by it.") % {"name": row.name}
    messages.success(request, words)
    return redirect(row)


@allow(EVERYONE)
def objective_detail(request: HttpRequest, slug: str, version: int) -> HttpResponse:
    who = person(request)
    objective = _objective(who, slug, version)
    versions = Objective.objects.filter(team=who.team, slug=slug)
    context = {
        "objective": objective,
        "versions": versions,
        "newest": versions[0],
        "terms": terms_words.lines(objectives.terms_of(objective)),
        "in_use": objectives.in_use(objective),
        "grids": Grid.objects.filter(team=who.team, objective_digest=objective.digest).select_related(
            "runtime", "workload"
        )[:10],
        "history": history(who.team.pk, f"objective {slug}"),
    }
    return render(request, "capacity/objective_detail.html", context)


@allow(OPERATE)
def objective_edit(request: HttpRequest, slug: str, version: int) -> HttpResponse:
    who = person(request)
    objective = _objective(who, slug, version)
    instance = _objective(who, slug, version)
    if request.method != "POST":
        rows = [asdict(c) for c in objectives.classes_of(objective)]
        classes = ClassObjectiveFormSet(prefix="classes", initial=rows)
        terms = TermsForm(team=who.team, kept=objectives.terms_of(objective))
        return _objective_form(
            request, Typed(ObjectiveForm(instance=instance, team=who.team), classes, terms), objective
        )
    typed = _typed_objective(request, who, instance)
    if not _complete(request, typed):
        return _objective_form(request, typed, objective)
    kept = objectives.revise_objective(
        objective=objective, by=who.user, values=typed.form.cleaned_data, classes=typed.classes.classes(),
        terms=typed.terms.terms(), reason=typed.form.cleaned_data["reason"],
    )  # fmt: skip
    messages.success(request, _said(objective, kept))
    return redirect(kept)


def _objective(who: Person, slug: str, version: int) -> Objective:
    rows = Objective.objects.select_related("created_by").prefetch_related("classes")
    return get_object_or_404(rows, team=who.team, slug=slug, version=version)


def _said(before: Objective, after: Objective) -> str:
    if after is before:
        return _("Nothing changed.")
    if after.version == before.version:
        return _("Changed. No grid was drawn with it yet, so the version stays.")
    words = _("Version %(new)s made. Grids drawn with version %(old)s keep its limits.")
    return words % {"new": after.version, "old": before.version}


def _posted_classes(request: HttpRequest) -> BaseClassObjectiveFormSet:
    data: QueryDict = request.POST
    if "add_class" in data:
        data = data.copy()
        data["classes-TOTAL_FORMS"] = str(int(data.get("classes-TOTAL_FORMS") or 0) + 1)
    return ClassObjectiveFormSet(data, prefix="classes")


def _typed_objective(request: HttpRequest, who: Person, instance: Objective | None = None) -> Typed:
    kept = objectives.terms_of(instance) if instance else None
    return Typed(
        ObjectiveForm(request.POST, instance=instance, team=who.team), _posted_classes(request),
        TermsForm(request.POST, team=who.team, kept=kept),
    )  # fmt: skip


def _complete(request: HttpRequest, typed: Typed) -> bool:
    """All three are asked, so that all errors show at once; adding a row never saves."""
    valid = [typed.form.is_valid(), typed.classes.is_valid(), typed.terms.is_valid()]
    return all(valid) and "add_class" not in request.POST


def _objective_form(request: HttpRequest, typed: Typed, objective: Objective | None = None) -> HttpResponse:
    adding = "add_class" in request.POST
    context = {
        "form": typed.form,
        "classes": typed.classes,
        "terms": typed.terms,
        "sections": typed.terms.sections(),
        "objective": objective,
        "in_use": objective is not None and objectives.in_use(objective),
        "adding": adding,
    }
    refused = typed.form.is_bound and not adding
    return render(request, "capacity/objective_form.html", context, status=UNPROCESSABLE if refused else 200)
