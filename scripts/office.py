"""A small office with GPUs, made up for pictures: no machine that builds Headroom has such cards, and its pages must be seen
with what they read.

    HEADROOM_VAR=var/pictures-office python -m scripts.office [--awake]

`--awake` lets the workers of an office that is there call until it is ended.

Three hosts, four services, grids of the last weeks: one runs, one waits for leave, one was stopped by a guard; three settings
are approved, of which one ends soon and one was measured before the driver changed. Numbers are made up; every row goes
through the doors that people use, where there is one.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import django

from scripts import prepare
from scripts.big_house import PAGES, leave, newcomer, scheduled
from scripts.office_numbers import (
    CARDS,
    CLASSES,
    GIB,
    LIMITS,
    PACE_S,
    RUNS,
    SERVICES,
    WINDOW_S,
    Card,
    Run,
    Service,
    readings,
    summary_of,
)

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from benchmarks.models import Grid, Hardware, Runtime, Workload

BEATS_EVERY_S = 3


def host_of(team: Any, card: Card) -> Hardware:
    from tests import factories

    host = factories.make_hardware(
        team, name=card.slug, slug=card.slug, place=card.place, cpu="16 cores", ram_gib=card.ram_gib,
        gpu=card.gpu if card.count == 1 else f"{card.count} × {card.gpu}", gpu_count=card.count, vram_gib=card.vram_gib,
        power_cap_w=card.power_w,
    )  # fmt: skip
    read(host, card, card.driver)
    return host


def read(host: Hardware, card: Card, driver: str) -> Any:
    """What its worker would read there, with this driver."""
    from django.utils import timezone

    from benchmarks import audit
    from benchmarks.models import HardwareProbe

    one = {
        "name": card.gpu, "driver": driver, "vbios": "95.02.3c.00.8c",
        "vram_bytes": int(card.vram_gib / card.count * GIB), "power_limit_w": card.power_w / card.count,
    }  # fmt: skip
    facts = {"cpu": "16 cores", "ram_bytes": int(card.ram_gib * GIB), "gpus": [one] * card.count}
    return HardwareProbe.objects.create(
        hardware=host, at=timezone.now(), worker=f"{card.slug}|1", facts=facts, digest=audit.digest_of(facts)
    )


def runtime_of(host: Hardware, service: Service) -> Runtime:
    from tests import factories

    return factories.make_runtime(
        host, name=f"{service.kind} {service.version}, {service.name.lower()}", slug=slug_of(service),
        kind=service.kind, runtime_version=service.version, model_name=service.model, max_active_sequences=8,
        context_per_sequence_tokens=8192, flags=service.flags,
        endpoint=f"http://{host.slug}.example:8080", metrics_url=f"http://{host.slug}.example:8080/metrics",
    )  # fmt: skip


def workload_of(team: Any, service: Service, by: User) -> Workload:
    from benchmarks import registry

    lengths = [
        registry.ClassValues(
            name, weight, *({"kind": "uniform", "low": low, "high": high} for low, high in (asked, answered))
        )
        for name, (weight, asked, answered) in CLASSES.items()
    ]
    values = {"name": service.name, "seed": 7, "task": "words", "source": "token counts of one week, without any text"}
    return registry.register_workload(team=team, by=by, slug=slug_of(service), values=values, classes=lengths)


def objective_of(team: Any, service: Service, by: User) -> Any:
    from capacity import objectives

    values = {
        "name": service.name,
        "max_power_w": CARDS[service.card].power_w,
        "success_share": 0.98,
        "validity_share": 0.97,
    }
    classes = [objectives.ClassValues(name, e2e_s=limit, ttft_s=limit / 2) for name, limit in LIMITS.items()]
    return objectives.set_objective(team=team, by=by, slug=slug_of(service), values=values, classes=classes)


def slug_of(service: Service) -> str:
    return service.name.lower().replace(" ", "-")


def at_that_time(moment: datetime) -> Any:
    """What is drawn and authorised inside bears this time."""
    return mock.patch("django.utils.timezone.now", return_value=moment)


def grid_of(run: Run, runtime: Runtime, workload: Workload, people: Mapping[str, User], probe: Any) -> Grid:
    """Drawn, with leave where it has run, measured as far as it was."""
    from django.utils import timezone

    from benchmarks.models import Grid, Role
    from capacity import objectives
    from capacity.models import Objective
    from tests import factories
    from tests.capacity import stored

    service = SERVICES[run.service]
    begun = timezone.now() - timedelta(days=run.days, seconds=7 * PACE_S + 92)
    objective = Objective.objects.get(team=runtime.team, slug=workload.slug)
    with at_that_time(begun - timedelta(minutes=6)):
        grid = factories.make_grid(
            runtime, workload, people[Role.OPERATOR], settings=run.settings, repeats=run.repeats, name=service.name,
            limits=objectives.limits_of(objective), window_s=WINDOW_S, warmup_s=20.0,
            objective_digest=objective.digest, objective_set_at=begun - timedelta(days=1),
            conditions=factories.make_room(
                at=begun - timedelta(minutes=4), room=CARDS[service.card].place, power_source=run.power, ambient_c=run.room_c,
                ups_on_battery=run.power == "ups",
            ),
        )  # fmt: skip
        if run.state != "draft":
            leave(grid, dict(people))
    if run.state == "draft":
        return grid
    Grid.objects.filter(pk=grid.pk).update(probe=probe)
    stored.measure(
        grid,
        lambda cell: summary_of(cell, run),
        most=run.most,
        begun=begun,
        each_s=PACE_S,
        readings=lambda cell: readings(cell, run),
    )
    ended(grid, run)
    grid.refresh_from_db()
    return grid


def ended(grid: Grid, run: Run) -> None:
    """How the grid stands, where it is not plainly measured."""
    from benchmarks.models import Grid

    rest = grid.cells.exclude(status="measured")
    if run.state == "hot":
        words = f"GPU temperature 86 °C, over 85 °C, on generator power with the room at {run.room_c:g} °C"
        first = rest.order_by("position").first()
        assert first is not None
        rest.exclude(pk=first.pk).update(status="not_run", reason=words)
        grid.cells.filter(pk=first.pk).update(status="stopped", reason=words)
        Grid.objects.filter(pk=grid.pk).update(status="stopped", stop_reason=words)
    elif run.state == "cut":
        rest.update(status="not_run", reason="Stopped by operator.")
        Grid.objects.filter(pk=grid.pk).update(status="stopped", stop_reason="Stopped by operator.")


def running(grid: Grid, run: Run) -> None:
    """Its next cell runs: what the worker would say two thirds into the window."""
    from django.utils import timezone

    from benchmarks.models import Cell

    card, service, now = CARDS[SERVICES[run.service].card], SERVICES[run.service], timezone.now()
    grid.cells.exclude(status="measured").update(status="queued")
    first = grid.cells.filter(status="queued").order_by("position").first()
    assert first is not None
    readings = {
        "vram_used_bytes": (service.weights_gib + service.kv_gib * 4) * GIB, "vram_total_bytes": card.vram_gib * GIB,
        "gpu_temperature_c": 71.0, "gpu_power_w": 287.0, "host_memory_used_bytes": 21.8 * GIB,
        "host_memory_total_bytes": card.ram_gib * GIB,
    }  # fmt: skip
    Cell.objects.filter(pk=first.pk).update(
        status="running", attempt=1, claimed_by=f"{card.slug}|1", started_at=now - timedelta(seconds=92),
        heartbeat_at=now, progress={
            "phase": "window", "elapsed_s": 92.0, "sent": 122, "finished": 118, "ok": 118, "in_flight": 4, "attempts": 122,
            "tokens": 58_000, "p50_e2e_s": 1.31, "p95_e2e_s": 2.23, "p95_ttft_s": 0.41, "running": 4, "waiting": 0,
            "readings": readings,
        },
    )  # fmt: skip


def decide(grid: Grid, run: Run, people: Mapping[str, User]) -> None:
    """Proposed, approved by another person, and stated."""
    from benchmarks.models import Role
    from capacity import approvals

    choice = approvals.propose(grid=grid, setting=run.approve, reason="Inside every limit.", by=people[Role.OPERATOR])
    approvals.decide(choice=choice, by=people[Role.APPROVER], approve=True, reason="Read, with its behaviour.")
    choice.refresh_from_db()
    approvals.issue_statement(
        choice=choice, by=people[Role.SIGNER], title=approvals.title_for(choice), valid_days=run.valid_days
    )


def awake() -> None:
    """The workers have just called."""
    from django.utils import timezone

    from benchmarks.models import Cell, Hardware

    now = timezone.now()
    Hardware.objects.filter(slug__in=[card.slug for card in CARDS]).update(worker_seen_at=now)
    Cell.objects.filter(status="running").update(heartbeat_at=now)


def fill(home: Path) -> None:
    from django.contrib.auth.models import User
    from django.utils import timezone

    from benchmarks.models import Hardware, Role, Team

    people = {role: User.objects.get(username=role.value.replace("_", "-")) for role in Role}
    team = Team.objects.get(slug="demonstration")
    hosts = [host_of(team, card) for card in CARDS]
    probes = [host.probes.first() for host in hosts]
    operator = people[Role.OPERATOR]
    works = [(runtime_of(hosts[one.card], one), workload_of(team, one, operator)) for one in SERVICES]
    for one in SERVICES:
        objective_of(team, one, operator)
    numbers = {}
    for run in RUNS:
        grid = grid_of(run, *works[run.service], people, probes[SERVICES[run.service].card])
        if run.approve is not None:
            decide(grid, run, people)
        if run.state == "running":
            running(grid, run)
        numbers[run.state if run.approve is None else "approved"] = grid.pk
    read(hosts[1], CARDS[1], "575.57")
    Hardware.objects.filter(team=team).update(worker_seen_at=timezone.now())
    newcomer(home)
    scheduled()
    (home / PAGES).write_text(json.dumps(numbers))


def main(arguments: Sequence[str]) -> int:
    home = Path(os.environ["HEADROOM_VAR"])
    home.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "capacity.settings")
    django.setup()
    while "--awake" in arguments:
        awake()
        time.sleep(BEATS_EVERY_S)
    prepare.main()
    fill(home)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
