"""Two GPU hosts and an office on one PostgreSQL and Redis: each worker serves its own host, whatever waits for the other."""

from __future__ import annotations

import httpx
import pytest

from tests.benchmarks.runs.installation import Installation, wait_for
from tests.factories import PASSWORD

pytestmark = [pytest.mark.service, pytest.mark.slow]

HOSTS = ("host-a", "host-b")
GRIDS_EACH = 100
MEASURED_EACH = 3
DRAWN = """
from datetime import timedelta
from django.utils import timezone
from benchmarks import enrolling, runs
from benchmarks.engine.probe_plan import LimitsProbe
from tests import factories
team, now, answer = factories.make_team(), timezone.now(), {{}}
owner = factories.make_user(team, "host_owner", username="owner")
operator = factories.make_user(team, "operator", username="operator")
workload = factories.make_workload(team, classes={{"short": (8, 8)}})
ceilings = runs.Ceilings(max_concurrency=8, max_requests=100_000, max_tokens=10_000_000, max_minutes=30)
for slug, endpoint in {endpoints!r}.items():
    hardware = factories.make_hardware(team, slug=slug)
    runtime = factories.make_runtime(hardware, endpoint=endpoint, metrics_url="", model_name="headroom-simulated-demo")
    for number in range({grids}):
        grid = factories.make_grid(runtime, workload, drawn_by=operator, settings=(1,), window_s=1.0, warmup_s=0.2,
            limits=factories.make_limits(classes=("short",), e2e_s=60.0),
            probes=() if number else (LimitsProbe(rate_requests=3, rate_s=2.0),))
        runs.authorize(grid=grid, by=owner, valid_from=now, valid_until=now + timedelta(hours=1), ceilings=ceilings)
    answer[slug] = enrolling.make_key(hardware=hardware, by=owner)[1]
"""
MEASURED = """
SELECT h.slug, count(*) FROM benchmarks_cell c JOIN benchmarks_hardware h ON h.id = c.hardware_id
WHERE c.status = 'measured' GROUP BY h.slug ORDER BY h.slug
"""
SIGNED_BY = """
SELECT DISTINCT h.slug, o.slug FROM benchmarks_evidence e JOIN benchmarks_cell c ON c.id = e.cell_id
JOIN benchmarks_hardware h ON h.id = c.hardware_id JOIN benchmarks_workerkey k ON k.id = e.key_id
JOIN benchmarks_hardware o ON o.id = k.hardware_id ORDER BY h.slug
"""
PROBED = """
SELECT DISTINCT h.slug, c.verdict ->> 'probe', c.status FROM benchmarks_cell c
JOIN benchmarks_hardware h ON h.id = c.hardware_id WHERE c.verdict IS NOT NULL ORDER BY h.slug
"""
LEFT = "SELECT count(*) FROM benchmarks_cell WHERE status IN ('queued', 'running', 'measured')"


@pytest.fixture
def place(tmp_path, postgres, broker):
    """Makes installations that share the services and nothing else."""
    made = []

    def one(name: str, **environment: str) -> Installation:
        (tmp_path / name).mkdir()
        made.append(Installation(tmp_path / name, DATABASE_URL=postgres, BROKER_URL=broker, **environment))
        return made[-1]

    yield one
    for house in reversed(made):
        house.close()


def test_each_worker_serves_its_own_host_and_the_office_shows_both(place, tmp_path):
    office, hosts = place("office"), {slug: place(slug) for slug in HOSTS}
    office.migrate()
    endpoints = {slug: house.start_simulator() for slug, house in hosts.items()}
    tokens = office.script(DRAWN.format(endpoints=endpoints, grids=GRIDS_EACH))
    for slug, house in hosts.items():
        house.environment["HEADROOM_ENROL_KEY"] = tokens[slug]
        assert "trusts this worker now" in house.manage("enrol", "--hardware", slug)
        del house.environment["HEADROOM_ENROL_KEY"]
        house.start("manage.py", "worker", "--hardware", slug, log="worker.log")
    office.start("manage.py", "worker", "--office", "--schedule", log="worker.log")

    def enough() -> bool:
        found = dict(office.rows(MEASURED))
        return all(found.get(slug, 0) >= MEASURED_EACH for slug in HOSTS)

    wait_for("cells of both hosts", enough)
    assert office.rows(SIGNED_BY) == [(slug, slug) for slug in HOSTS]
    assert office.rows(PROBED) == [(slug, "limits", "measured") for slug in HOSTS]
    assert office.rows(LEFT) == [(2 * (GRIDS_EACH + 1),)]  # the first grid of each host has a behaviour probe too
    assert seen_in_the_office(office, tmp_path) == (200, True)


def seen_in_the_office(office: Installation, folder) -> tuple[int, bool]:
    """Status of the list of grids for a person who signs in, and whether it names all of them."""
    socket = folder / "web.sock"
    office.environment |= {"ALLOWED_HOSTS": "office"}
    office.start("-m", "gunicorn", "--bind", f"unix:{socket}", "--threads", "2", "capacity.wsgi", log="web.log")
    wait_for("the web server", socket.exists)
    with httpx.Client(
        transport=httpx.HTTPTransport(uds=str(socket)), base_url="http://office", follow_redirects=True, timeout=60
    ) as person:
        person.get("/login/").raise_for_status()
        token = {"csrfmiddlewaretoken": person.cookies["csrftoken"], "username": "operator", "password": PASSWORD}
        person.post("/login/", data=token, headers={"Referer": "http://office/"}).raise_for_status()
        page = person.get("/grids/")
        return page.status_code, f"{2 * GRIDS_EACH} grids" in page.text
