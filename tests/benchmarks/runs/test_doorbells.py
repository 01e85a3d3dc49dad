"""Doorbells: what rings, for whom, and that nothing but the database decides."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from benchmarks import tasks
from benchmarks.management.commands.worker import celery_command
from benchmarks.models import EndpointCheck, Hardware
from tests import factories
from tests.benchmarks.hosts.counting import counting
from tests.benchmarks.runs.made import claim, running_grid, states

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("named", "slug", "served"),
    [
        (None, "a", True),
        ("*", "a", True),
        ("a", "a", True),
        ("a,b", "b", True),
        ("a b", "b", True),
        ("a", "b", False),
        ("", "a", False),
    ],
)
def test_a_worker_serves_the_hosts_it_was_started_for(monkeypatch, named, slug, served):
    if named is None:
        monkeypatch.delenv("HEADROOM_HARDWARE", raising=False)
    else:
        monkeypatch.setenv("HEADROOM_HARDWARE", named)
    assert tasks.serves(slug) is served


def test_a_bell_for_a_host_that_is_not_served_claims_nothing(monkeypatch):
    grid = running_grid()
    monkeypatch.setenv("HEADROOM_HARDWARE", "another-host")
    tasks.ring(grid.hardware.slug)
    assert set(states(grid)) == {"queued"}


def test_a_doubled_bell_finds_nothing_to_do():
    host = factories.make_hardware()
    tasks.ring(host.slug)
    tasks.ring(host.slug)
    assert Hardware.objects.count() == 1


def test_each_host_has_a_queue_of_its_own_where_the_settings_say_so(settings):
    settings.HARDWARE_QUEUE = "hardware-{slug}"
    assert tasks.queue_for("lhr-gpu-01") == "hardware-lhr-gpu-01"
    settings.HARDWARE_QUEUE = "hardware"
    assert tasks.queue_for("lhr-gpu-01") == "hardware"


def test_a_probe_is_kept_beside_the_declared_facts_and_once_while_nothing_changes():
    host = factories.make_hardware(cpu="as declared")
    for _ in range(2):
        tasks.probe_hardware(host.slug)
    host.refresh_from_db()
    assert (host.cpu, host.worker_seen_at is not None) == ("as declared", True)
    assert "gpus" in host.probes.latest("at").facts


def _check(host, endpoint, **fields):
    user = factories.make_user(host.team, "operator", username=f"asks {host.slug}")
    return EndpointCheck.objects.create(
        team=host.team, hardware=host, kind="look", endpoint=endpoint, asked_by=user, **fields
    )


def test_a_look_at_a_host_that_is_not_on_the_workers_list_is_refused_in_words():
    check = _check(factories.make_hardware(), "http://192.0.2.1:8080")
    tasks.check_endpoint(check.pk)
    check.refresh_from_db()
    assert (check.status, "not on this worker's list" in check.result["problem"]) == ("failed", True)


def test_a_look_at_a_silent_port_ends_and_says_so():
    check = _check(factories.make_hardware(), "http://127.0.0.1:9")
    tasks.check_endpoint(check.pk)
    check.refresh_from_db()
    assert (check.status, check.result["reachable"], check.finished_at is not None) == ("done", False, True)


def test_a_look_beside_a_running_cell_of_the_host_is_refused_in_words_and_sends_no_byte():
    grid = running_grid()
    claim(grid)
    with counting() as target:
        check, elsewhere = (
            _check(host, target.address) for host in (grid.hardware, factories.make_hardware(grid.team))
        )
        tasks.check_endpoint(check.pk)
        assert target.connections == 0
        tasks.check_endpoint(elsewhere.pk)
        assert target.connections > 0
    check.refresh_from_db()
    assert (check.status, check.result["problem"]) == (
        "failed",
        f"Grid {grid.pk} is running on this host, and a request beside it would be in its figures. Try again after it.",
    )


def test_a_look_waits_while_something_else_loads_this_machine():
    check = _check(factories.make_hardware(), "http://127.0.0.1:9")
    with tasks._one_load_here():
        tasks.check_endpoint(check.pk)
    check.refresh_from_db()
    assert check.status == "queued"


def test_a_check_that_no_worker_takes_ends_after_a_while():
    check = _check(factories.make_hardware(), "http://127.0.0.1:9")
    EndpointCheck.objects.filter(pk=check.pk).update(asked_at=timezone.now() - timedelta(hours=1))
    tasks.sweep()
    check.refresh_from_db()
    assert (check.status, "No worker" in check.result["problem"]) == ("failed", True)


@pytest.mark.parametrize(
    ("hardware", "office", "schedule", "queues", "beat"),
    [
        ([], False, True, "office,hardware-host", True),
        (["host"], False, False, "hardware-host", False),
        ([], True, True, "office", True),
        (["host"], True, False, "hardware-host,office", False),
    ],
)
def test_one_command_starts_the_right_queues(settings, hardware, office, schedule, queues, beat):
    settings.HARDWARE_QUEUE = "hardware-{slug}"
    factories.make_hardware(slug="host")
    command = celery_command(hardware=hardware, office=office, schedule=schedule)
    assert (command[command.index("--queues") + 1], "--beat" in command) == (queues, beat)


def test_the_grid_command_lists_shows_and_stops_and_can_authorise_nothing():
    grid = running_grid(settings=(1,), class_names=("short",))
    out = StringIO()
    call_command("grid", "list", stdout=out)
    with pytest.raises(SystemExit):
        call_command("grid", "status", str(grid.pk), stdout=out)
    call_command("grid", "stop", str(grid.pk), "--as", grid.drawn_by.username, stdout=out)
    assert f"{grid.pk}" in out.getvalue()
    assert states(grid) == ["not_run"]
    with pytest.raises(Exception, match="invalid choice"):
        call_command("grid", "authorize", str(grid.pk))


@pytest.mark.django_db
def test_the_hourly_count_teaches_sqlite_how_its_tables_have_grown():
    if connection.vendor != "sqlite":
        tasks.count_rows()  # PostgreSQL counts by itself: nothing to do, and no error
        return
    factories.make_grid()
    tasks.count_rows()
    with connection.cursor() as cursor:
        cursor.execute("SELECT tbl FROM sqlite_stat1 WHERE tbl = 'benchmarks_grid'")
        assert cursor.fetchone() == ("benchmarks_grid",)
