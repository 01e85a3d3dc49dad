"""Before a cell: what the host is, frozen into the grid, and whether the endpoint is what it is registered as."""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.utils import timezone

from benchmarks import permits, preflight, probe, queries, runs, worker
from benchmarks.models import Authorization, Grid, Hardware, HardwareProbe
from tests import factories
from tests.benchmarks.runs.made import claim, running_grid, states

pytestmark = pytest.mark.django_db


@contextlib.contextmanager
def serving(owner, *, header=False, status=200):
    """An endpoint whose /v1/models names this owner."""

    class Models(BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps({"data": [{"id": "m", "owned_by": owner}]}).encode()
            self.send_response(status)
            if header:
                self.send_header("X-Headroom-Simulated", "1")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments):
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Models) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


SIMULATOR, VLLM = ("headroom-simulator", {}), ("vllm", {})


@pytest.mark.parametrize(
    ("kind", "answers", "words"),
    [
        ("simulator", SIMULATOR, None),
        ("vllm", VLLM, None),
        ("other", ("somebody", {}), None),
        ("vllm", SIMULATOR, "is the Headroom simulator, but is registered as vLLM"),
        ("other", SIMULATOR, "is the Headroom simulator"),
        ("vllm", ("vllm", {"header": True}), "is the Headroom simulator"),
        ("vllm", ("vllm", {"header": True, "status": 503}), "is the Headroom simulator"),
        ("simulator", VLLM, "does not answer as one"),
        ("vllm", ("vllm", {"status": 404}), None),
    ],
)
def test_a_cell_runs_only_where_the_label_simulated_is_true(kind, answers, words):
    owner, how = answers
    with serving(owner, **how) as endpoint:
        grid = factories.make_grid(factories.make_runtime(kind=kind, endpoint=endpoint))
        answer = preflight.refusal(grid)
    assert (answer is None) if words is None else (answer is not None and words in answer), answer


def test_an_endpoint_that_nobody_serves_is_left_to_the_engine():
    assert preflight.refusal(factories.make_grid(factories.make_runtime(kind="vllm"))) is None


def test_a_pinned_tokeniser_that_is_not_on_the_host_stops_the_grid_before_the_first_request(settings, tmp_path):
    settings.TOKENIZERS = tmp_path
    runtime = factories.make_runtime(kind="vllm", tokenizer_sha256="5" * 64)
    answer = preflight.refusal(factories.make_grid(runtime))
    assert answer is not None
    assert f"put the model's tokenizer.json into {tmp_path}" in answer


def test_the_simulator_under_another_name_stops_the_grid_before_the_first_request():
    with serving("headroom-simulator") as endpoint:
        runtime = factories.make_runtime(kind="llamacpp", endpoint=endpoint)
        grid = running_grid(runtime=runtime, settings=(1, 2), class_names=("short",))
        assert worker.run_cell(claim(grid)) is True
    grid.refresh_from_db()
    assert (grid.status, states(grid)) == ("stopped", ["not_run", "not_run"])
    assert "Register it as the simulator" in grid.stop_reason


def test_a_grid_keeps_what_the_host_was_before_its_first_cell():
    grid = factories.make_grid()
    assert queries.evidence(grid).probe is None
    preflight.freeze_probe(grid)
    first = Grid.objects.get(pk=grid.pk).probe
    assert first.facts["cpu"] == probe.host_facts()["cpu"]
    later = HardwareProbe.objects.create(
        hardware=grid.hardware, at=timezone.now(), worker="w", facts={"cpu": "another"}, digest="n" * 64
    )
    preflight.freeze_probe(Grid.objects.get(pk=grid.pk))
    kept = Grid.objects.select_related("probe").get(pk=grid.pk)
    assert (kept.probe, queries.evidence(kept).probe, grid.hardware.probes.first()) == (first, first, later)


CHANGES = [
    ("cpu", "64 cores", True),
    ("ram_gib", 512.0, True),
    ("gpu", "H200", True),
    ("gpu_count", 8, True),
    ("vram_gib", 141.0, True),
    ("power_cap_w", 300.0, True),
    ("name", "Renamed", False),
    ("place", "Room 2", False),
    ("notes", "Dusted.", False),
]


@pytest.mark.parametrize(("field", "value", "voids"), CHANGES)
def test_other_parts_of_the_host_void_the_authorisation_and_its_name_does_not(field, value, voids):
    drawn, running = factories.make_grid(), running_grid(settings=(1,), class_names=("short",))
    Hardware.objects.all().update(**{field: value})
    drawn, running = (Grid.objects.get(pk=grid.pk) for grid in (drawn, running))
    owner = factories.make_user(drawn.team, "host_owner")
    assert (runs.authorize_refusal(drawn, owner) == runs.CHANGED) is voids
    answer = permits.permit(running, setting=1, at=timezone.now())
    assert isinstance(answer, permits.Refusal) is voids
    assert Authorization.objects.count() == 1


@pytest.mark.parametrize("field", ["cpu", "gpu", "ram_gib", "name", "power_cap_w"])
def test_what_is_declared_is_part_of_the_digest(field):
    grid = factories.make_grid()
    assert queries.digest_of_grid(grid) == grid.digest
    grid.declared[field] = "something else"
    assert queries.digest_of_grid(grid) != grid.digest
