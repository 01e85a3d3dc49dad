"""Pages of workloads: length classes from a preset or by hand, with warnings about what such a test would not show."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.text import slugify

from benchmarks import registry
from benchmarks.access import EVERYONE, OPERATE, allow, person, posted
from benchmarks.imports.preset_table import PRESETS, preset_called
from benchmarks.imports.presets import Preset
from benchmarks.imports.trace_text import MOST_BYTES
from benchmarks.lengths_forms import (
    DEFAULT_CLASSES,
    BaseLengthClassFormSet,
    LengthClassFormSet,
    classes_from_lengths,
    classes_from_preset,
    initial_of,
    with_one_more_class,
)
from benchmarks.models import Workload
from benchmarks.records import length_shapes, lengths, linter
from benchmarks.records.trace_drafts import TraceDraft, notes_text, source_line
from benchmarks.uploads import takes
from benchmarks.workload_forms import TraceForm, WorkloadForm, arrivals_as_text

UNPROCESSABLE = 422


@allow(OPERATE)
def workload_new(request: HttpRequest) -> HttpResponse:
    who = person(request)
    if request.method == "POST":
        form, classes = _posted(request)
        if _complete(request, form, classes):
            workload = registry.register_workload(
                team=who.team, by=who.user, slug=form.cleaned_data["slug"], values=form.cleaned_data,
                classes=classes.classes(),
            )  # fmt: skip
            messages.success(request, f"{workload.name} is registered.")
            return redirect(workload)
        return _form_page(request, form, classes)
    preset = preset_called(request.GET.get("preset", ""))
    form = WorkloadForm(team=who.team, initial=_initial_from(preset))
    start = classes_from_preset(preset) if preset else DEFAULT_CLASSES
    return _form_page(request, form, _formset(start), preset=preset)


@allow(OPERATE)
@takes(2 * MOST_BYTES)
def workload_import(request: HttpRequest) -> HttpResponse:
    """A trace file, read and shown as the form of a workload; nothing is kept before that form is sent."""
    form = TraceForm(posted(request), request.FILES or None)
    if not form.is_valid():
        status = UNPROCESSABLE if form.is_bound else 200
        return render(request, "benchmarks/workload_import.html", {"form": form}, status=status)
    draft = form.draft
    start = WorkloadForm(team=person(request).team, initial=_initial_from_trace(draft))
    return _form_page(request, start, _formset(classes_from_lengths(draft.classes)), trace=draft)


@allow(EVERYONE)
def workload_detail(request: HttpRequest, slug: str, version: int) -> HttpResponse:
    who = person(request)
    workload = _workload(request, slug, version)
    classes = class_lengths(workload)
    versions = Workload.objects.filter(team=who.team, slug=slug)
    context = {
        "workload": workload,
        "versions": versions,
        "newest": versions[0],
        "in_use": registry.workload_in_use(workload),
        "classes": class_rows(classes),
        "picture": length_shapes.picture_of(classes),
        "quantile_names": [f"p{share * 100:g}" for share in length_shapes.SHARES],
        "paired": any(c.pairs for c in classes),
        "warnings": linter.warnings_about(_sent(workload, classes), _contexts(workload)),
        "grids": workload.grids.select_related("runtime")[:10],
        "history": registry.history(who.team.pk, f"workload {slug}"),
    }
    return render(request, "benchmarks/workload_detail.html", context)


@allow(OPERATE)
def workload_edit(request: HttpRequest, slug: str, version: int) -> HttpResponse:
    who = person(request)
    workload = _workload(request, slug, version)
    if request.method == "POST":
        form, classes = _posted(request, instance=_workload(request, slug, version))
        if _complete(request, form, classes):
            kept = registry.revise_workload(
                workload=workload, by=who.user, values=form.cleaned_data, classes=classes.classes(),
                reason=form.cleaned_data["reason"],
            )  # fmt: skip
            messages.success(request, _said(workload, kept))
            return redirect(kept)
        return _form_page(request, form, classes, workload=workload)
    form = WorkloadForm(instance=_workload(request, slug, version), team=who.team)
    return _form_page(request, form, _formset(registry.classes_of(workload)), workload=workload)


def class_lengths(workload: Workload) -> list[lengths.ClassLengths]:
    return [
        lengths.ClassLengths(
            c.name, c.weight, lengths.read(c.prompt_tokens), lengths.read(c.output_tokens), lengths.read_pairs(c.pairs)
        )
        for c in workload.classes.all()
    ]


def _sent(workload: Workload, classes: list[lengths.ClassLengths]) -> linter.Sent:
    return linter.Sent(
        classes=classes,
        task=workload.task,
        source=workload.source,
        shared_prefix_share=workload.shared_prefix_share,
        turns=workload.turns,
        arrivals_s=workload.arrivals_s or (),
    )


def _contexts(workload: Workload) -> dict[str, int]:
    """Context per sequence of each runtime that a grid sent this workload to, where it is known."""
    rows = workload.grids.order_by().values_list("runtime__name", "runtime__context_per_sequence_tokens").distinct()
    return {name: tokens for name, tokens in rows if tokens is not None}


def class_rows(classes: list[lengths.ClassLengths]) -> list[dict[str, Any]]:
    """What the table of a workload shows: share of all requests, p10 / p50 / p90 of both lengths, both in words."""
    total = sum(c.weight for c in classes)
    return [
        {
            "name": c.name,
            "share": c.weight / total,
            "prompt": lengths.p10_p50_p90(c.prompt_tokens),
            "output": lengths.p10_p50_p90(c.output_tokens),
            "prompt_words": lengths.in_words(c.prompt_tokens),
            "output_words": lengths.in_words(c.output_tokens),
            "pairs": len(c.pairs) if c.pairs else None,
        }
        for c in classes
    ]


def _posted(request: HttpRequest, instance: Workload | None = None) -> tuple[WorkloadForm, BaseLengthClassFormSet]:
    form = WorkloadForm(request.POST, instance=instance, team=person(request).team)
    if "add_class" in request.POST:
        return form, LengthClassFormSet(with_one_more_class(request.POST), prefix="classes")
    return form, LengthClassFormSet(request.POST, prefix="classes")


def _complete(request: HttpRequest, form: WorkloadForm, classes: BaseLengthClassFormSet) -> bool:
    """Both must be asked, so that all errors are shown at once; adding a class never saves."""
    valid = [form.is_valid(), classes.is_valid()]
    return all(valid) and "add_class" not in request.POST


def _formset(classes: Any) -> BaseLengthClassFormSet:
    return LengthClassFormSet(initial=initial_of(classes), prefix="classes")


def _initial_from(preset: Preset | None) -> dict[str, str]:
    if preset is None:
        return {}
    return {"name": preset.title, "slug": slugify(preset.title), "source": preset.source}


def _initial_from_trace(draft: TraceDraft) -> dict[str, object]:
    return {
        "name": draft.title,
        "source": source_line(draft),
        "notes": notes_text(draft),
        "arrivals": arrivals_as_text(draft.arrivals_s),
    }


def _workload(request: HttpRequest, slug: str, version: int) -> Workload:
    rows = Workload.objects.select_related("created_by").prefetch_related("classes")
    return get_object_or_404(rows, team=person(request).team, slug=slug, version=version)


def _said(before: Workload, after: Workload) -> str:
    if after is before:
        return "Nothing changed."
    if after.version == before.version:
        return "Changed. No grid used it yet, so the version stays."
    return f"Version {after.version} made. Version {before.version} stays as it was measured."


def _form_page(
    request: HttpRequest,
    form: WorkloadForm,
    classes: BaseLengthClassFormSet,
    *,
    workload: Workload | None = None,
    preset: Preset | None = None,
    trace: TraceDraft | None = None,
) -> HttpResponse:
    adding = "add_class" in request.POST
    context = {
        "form": form,
        "classes": classes,
        "workload": workload,
        "in_use": workload is not None and registry.workload_in_use(workload),
        "preset": preset,
        "trace": trace,
        "trace_rows": class_rows([*trace.classes]) if trace else [],
        "adding": adding,
        "presets": PRESETS,
    }
    status = UNPROCESSABLE if form.is_bound and not adding else 200
    return render(request, "benchmarks/workload_form.html", context, status=status)
