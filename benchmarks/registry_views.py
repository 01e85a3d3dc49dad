"""Pages of hosts and runtimes. Workloads, looks at an endpoint and the lists stand beside them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, TypeVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect, render

from benchmarks import enrolling, foreseen_words, registry
from benchmarks.access import EVERYONE, OPERATE, REGISTER_HOST, allow, person, posted
from benchmarks.endpoint_views import endpoint_check, endpoint_check_detail, prefilled
from benchmarks.facts import declared_beside_probed, worker_state
from benchmarks.forms import HardwareForm, RuntimeForm
from benchmarks.memory.reading import MOST_BYTES
from benchmarks.models import Hardware, Runtime, RuntimeKind, Workload
from benchmarks.offered import launch_warnings
from benchmarks.runtimes import terms
from benchmarks.uploads import takes
from benchmarks.workload_views import workload_detail, workload_edit, workload_import, workload_new

__all__ = [
    "endpoint_check", "endpoint_check_detail", "hardware_detail", "hardware_edit",
    "hardware_new", "runtime_detail", "runtime_edit", "runtime_new", "workload_detail", "workload_edit",
    "workload_import", "workload_new",
]  # fmt: skip

Versioned = TypeVar("Versioned", Runtime, Workload)
UNPROCESSABLE = 422


def newest_of_each(rows: Iterable[Versioned]) -> list[Versioned]:
    """The newest version of each slug, from rows ordered by slug and falling version."""
    newest: dict[str, Versioned] = {}
    for row in rows:
        newest.setdefault(row.slug, row)
    return list(newest.values())


# --- hosts -----------------------------------------------------------------------------------------------------------


@allow(REGISTER_HOST)
def hardware_new(request: HttpRequest) -> HttpResponse:
    who = person(request)
    form = HardwareForm(posted(request), team=who.team)
    if request.method == "POST" and form.is_valid():
        host = registry.register_hardware(
            team=who.team, by=who.user, slug=form.cleaned_data["slug"], values=form.cleaned_data
        )
        messages.success(request, f"{host.name} is registered. Start a worker on it to read what it really has.")
        return redirect(host)
    return _form_page(request, "benchmarks/hardware_form.html", {"form": form})


@allow(EVERYONE)
def hardware_detail(request: HttpRequest, slug: str) -> HttpResponse:
    who = person(request)
    host = get_object_or_404(Hardware.objects.select_related("created_by"), team=who.team, slug=slug)
    probes = list(host.probes.all()[:10])
    context = {
        "hardware": host,
        "worker": worker_state(host),
        "facts": declared_beside_probed(host, probes[0] if probes else None),
        "probe": probes[0] if probes else None,
        "earlier": [(newer, older, _changed(older.facts, newer.facts)) for newer, older in pairwise(probes)],
        "runtimes": newest_of_each(host.runtimes.all()),
        "grids": host.grids.select_related("runtime", "workload")[:10],
        "history": registry.history(who.team.pk, f"hardware {host.slug}"),
        **enrolling.standing(host),
    }
    return render(request, "benchmarks/hardware_detail.html", context)


def _changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return sorted(key for key in {*before, *after} if before.get(key) != after.get(key))


@allow(REGISTER_HOST)
def hardware_edit(request: HttpRequest, slug: str) -> HttpResponse:
    who = person(request)
    host = get_object_or_404(Hardware, team=who.team, slug=slug)
    form = HardwareForm(posted(request), instance=get_object_or_404(Hardware, pk=host.pk), team=who.team)
    if request.method == "POST" and form.is_valid():
        changes = registry.edit_hardware(
            hardware=host, by=who.user, values=form.cleaned_data, reason=form.cleaned_data["reason"]
        )
        messages.success(request, f"{len(changes)} changed." if changes else "Nothing changed.")
        return redirect(host)
    return _form_page(request, "benchmarks/hardware_form.html", {"form": form, "hardware": host})


# --- runtimes --------------------------------------------------------------------------------------------------------


@allow(OPERATE)
@takes(3 * MOST_BYTES)
def runtime_new(request: HttpRequest) -> HttpResponse:
    who = person(request)
    if request.method == "POST":
        form = RuntimeForm(request.POST, request.FILES, team=who.team)
        if form.is_valid():
            runtime = registry.register_runtime(
                team=who.team, by=who.user, slug=form.cleaned_data["slug"], values=form.cleaned_data
            )
            messages.success(request, f"{runtime.name} is registered.")
            return redirect(runtime)
    else:
        form = RuntimeForm(team=who.team, initial={"hardware": request.GET.get("host"), **prefilled(request)})
    return _runtime_form(request, form)


@allow(EVERYONE)
def runtime_detail(request: HttpRequest, slug: str, version: int) -> HttpResponse:
    who = person(request)
    runtime = _runtime(request, slug, version)
    versions = Runtime.objects.filter(team=who.team, slug=slug)
    context = {
        "runtime": runtime,
        "versions": versions,
        "newest": versions[0],
        "in_use": registry.runtime_in_use(runtime),
        "terms": terms.terms_of(runtime.kind),
        "newer_than_read": terms.newer_than_read(runtime.kind, runtime.runtime_version),
        "launch_warnings": launch_warnings(runtime, managed=bool(runtime.launch_profile)),
        "queue_is_bounded": terms.queue_is_bounded(runtime.kind),
        "checks": _checks_of(runtime),
        "memory": foreseen_words.panel(runtime),
        "grids": runtime.grids.select_related("workload")[:10],
        "history": registry.history(who.team.pk, f"runtime {slug}"),
    }
    return render(request, "benchmarks/runtime_detail.html", context)


@allow(OPERATE)
@takes(3 * MOST_BYTES)
def runtime_edit(request: HttpRequest, slug: str, version: int) -> HttpResponse:
    who = person(request)
    runtime = _runtime(request, slug, version)
    instance = _runtime(request, slug, version)
    if request.method == "POST":
        form = RuntimeForm(request.POST, request.FILES, instance=instance, team=who.team)
        if form.is_valid():
            kept = registry.revise_runtime(
                runtime=runtime, by=who.user, values=form.cleaned_data, reason=form.cleaned_data["reason"]
            )
            return _revised(request, runtime, kept)
    else:
        form = RuntimeForm(instance=instance, team=who.team, initial=prefilled(request))
    return _runtime_form(request, form, runtime=runtime)


def _revised(request: HttpRequest, before: Runtime, after: Runtime) -> HttpResponseRedirect:
    if after is before:
        said = "Nothing changed."
    elif after.version == before.version:
        said = "Changed. No grid used it yet, so the version stays."
    else:
        said = f"Version {after.version} made. Version {before.version} stays as it was measured."
    messages.success(request, said)
    return HttpResponseRedirect(after.get_absolute_url())


def _runtime(request: HttpRequest, slug: str, version: int) -> Runtime:
    rows = Runtime.objects.select_related("hardware", "created_by")
    return get_object_or_404(rows, team=person(request).team, slug=slug, version=version)


def _checks_of(runtime: Runtime) -> Any:
    return runtime.hardware.checks.filter(team_id=runtime.team_id, endpoint=runtime.endpoint).select_related(
        "asked_by"
    )[:5]


def _runtime_form(request: HttpRequest, form: RuntimeForm, runtime: Runtime | None = None) -> HttpResponse:
    context = {
        "form": form,
        "runtime": runtime,
        "in_use": runtime is not None and registry.runtime_in_use(runtime),
        "kinds": [(kind.label, terms.terms_of(kind.value)) for kind in RuntimeKind],
        "hosts": Hardware.objects.filter(team=person(request).team).exists(),
    }
    return _form_page(request, "benchmarks/runtime_form.html", context)


def _form_page(request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
    """The page of a form: 422 when what was sent cannot be kept."""
    return render(request, template, context, status=UNPROCESSABLE if context["form"].is_bound else 200)
