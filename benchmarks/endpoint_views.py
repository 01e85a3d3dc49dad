"""Looks at an endpoint: asked here, answered by the host's worker, used to fill in the runtime form."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from benchmarks import registry
from benchmarks.access import EVERYONE, OPERATE, allow, person
from benchmarks.facts import worker_state
from benchmarks.forms import EndpointCheckForm
from benchmarks.models import EndpointCheck

DRAFT = "runtime_draft"
KEPT_TYPED = (
    "name", "slug", "hardware", "kind", "runtime_version", "endpoint", "api_key_name", "model_name", "model_digest",
    "flags", "batching_mode", "max_active_sequences", "context_per_sequence_tokens", "metrics_url", "gpu_metrics_url",
    "notes", "reason",
)  # fmt: skip
UNPROCESSABLE = 422
LONG_WAIT = timedelta(seconds=15)


@require_POST
@allow(OPERATE)
def endpoint_check(request: HttpRequest) -> HttpResponse:
    """Asks the host's worker to look; what was typed into the runtime form waits in the session meanwhile."""
    who = person(request)
    form = EndpointCheckForm(request.POST, team=who.team)
    if not form.is_valid():
        return render(request, "benchmarks/endpoint_check.html", {"form": form}, status=UNPROCESSABLE)
    asked = {**form.cleaned_data, "runtime_kind": form.cleaned_data["kind"]}
    with transaction.atomic():
        check = registry.ask_endpoint(
            team=who.team, by=who.user, hardware=asked["hardware"], check=asked["check"], values=asked
        )
        transaction.on_commit(lambda: _ring(check))
    _keep_typed(request, check)
    return redirect("endpoint-check-detail", pk=check.pk)


@allow(EVERYONE)
def endpoint_check_detail(request: HttpRequest, pk: int) -> HttpResponse:
    """A page, or the fragment of it that polls until the worker has answered."""
    rows = EndpointCheck.objects.select_related("hardware", "asked_by")
    check = get_object_or_404(rows, pk=pk, team=person(request).team)
    waiting = check.status == EndpointCheck.Status.QUEUED
    context = {
        "check": check,
        "waiting": waiting,
        "long_wait": waiting and timezone.now() - check.asked_at > LONG_WAIT,
        "worker": worker_state(check.hardware),
        "found": found_values(check),
        "facts": _facts(check),
        "finding": None if waiting else _finding(check),
        "warnings": check.result.get("warnings", []) if check.result.get("reachable") else [],
        "back": _back(request, check),
    }
    fragment = bool(getattr(request, "htmx", False))
    template = "benchmarks/parts/endpoint_check.html" if fragment else "benchmarks/endpoint_check_detail.html"
    response = render(request, template, context)
    response.headers["Vary"] = "HX-Request, Cookie"
    return response


def _ring(check: EndpointCheck) -> None:
    # Imported late: pages can be read where no worker code is installed.
    from benchmarks import tasks

    tasks.ask_for_check(check)


def found_values(check: EndpointCheck) -> dict[str, Any]:
    """What the worker found, by the names of the runtime form's fields; empty until a look has answered."""
    answer = check.result
    models = list(answer.get("models") or ())
    found = {
        "kind": answer.get("detected_kind"),
        "runtime_version": answer.get("version"),
        "model_name": check.model_name if check.model_name in models else next(iter(models), None),
        "max_active_sequences": answer.get("max_active_sequences"),
        "context_per_sequence_tokens": answer.get("context_per_sequence_tokens"),
        "metrics_url": check.endpoint + answer["metrics_path"] if answer.get("metrics_path") else None,
    }
    return {name: value for name, value in found.items() if value not in (None, "")}


def _finding(check: EndpointCheck) -> tuple[str, str, str]:
    """Pill kind, what was found, and what to do about it."""
    answer = check.result
    if answer.get("problem"):
        return "bad", str(answer["problem"]), ""
    if "what" in answer:
        return "ok" if answer.get("ok") else "bad", str(answer["what"]), str(answer.get("do", ""))
    if answer.get("reachable") is False:
        return (
            "bad",
            next(iter(answer.get("warnings") or ()), "Nothing answered at this address."),
            ("Start the runtime, or correct the address and port."),
        )
    return "ok", "The endpoint answered.", ""


def _facts(check: EndpointCheck) -> list[tuple[str, Any]]:
    """What a look read, row by row; None is what the endpoint does not say."""
    answer = check.result
    if not answer.get("reachable"):
        return []
    return [
        ("Models", ", ".join(answer.get("models") or ()) or None),
        ("Version", answer.get("version")),
        ("Active sequences, at most", answer.get("max_active_sequences")),
        ("Context per sequence, tokens", answer.get("context_per_sequence_tokens")),
        ("KV cache, tokens", answer.get("kv_capacity_tokens")),
        ("Metrics", ", ".join(answer.get("metrics") or ()) or None),
    ]


def _keep_typed(request: HttpRequest, check: EndpointCheck) -> None:
    typed = {name: request.POST[name] for name in KEPT_TYPED if request.POST.get(name)}
    back = request.POST.get("back", "")
    if not url_has_allowed_host_and_scheme(back, allowed_hosts=None) or "/runtimes/" not in back:
        back = ""
    request.session[DRAFT] = {"check": check.pk, "typed": typed, "back": back}


def _back(request: HttpRequest, check: EndpointCheck) -> str:
    draft = request.session.get(DRAFT) or {}
    return str(draft.get("back", "")) if draft.get("check") == check.pk else ""


def prefilled(request: HttpRequest) -> dict[str, Any]:
    """Initial values of the runtime form after a look: what was typed, and over it what the worker found."""
    wanted = request.GET.get("check", "")
    if not wanted.isdecimal():
        return {}
    check = get_object_or_404(EndpointCheck, pk=int(wanted), team=person(request).team)
    asked = {
        "hardware": check.hardware_id, "kind": check.runtime_kind, "endpoint": check.endpoint,
        "model_name": check.model_name, "api_key_name": check.api_key_name,
    }  # fmt: skip
    draft = request.session.get(DRAFT) or {}
    typed = draft.get("typed", {}) if draft.get("check") == check.pk else {}
    return {**asked, **typed, **found_values(check)}
