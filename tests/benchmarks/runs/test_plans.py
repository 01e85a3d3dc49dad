"""From a cell to its plan: what the engine is told, and what it can never be told."""

import pytest
from django.utils import timezone

from benchmarks import host_file, plans
from benchmarks.engine import plan as engine_plan
from benchmarks.engine.load import Sessions
from benchmarks.permits import Permit, permit, target_refusal
from benchmarks.records import lengths
from tests import factories
from tests.benchmarks.runs.made import running_grid


def _plan(cell):
    leave = permit(cell.grid, setting=cell.setting, at=timezone.now())
    assert isinstance(leave, Permit)
    return plans.cell_plan(cell=cell, permit=leave)


@pytest.mark.django_db
def test_a_plan_carries_the_grid_the_limits_and_the_ceilings_and_reads_back_the_same():
    grid = running_grid(settings=(4,), class_names=("median",))
    plan = _plan(grid.cells.get())
    assert (plan.offered_concurrency, plan.class_name, [c.name for c in plan.classes]) == (4, "median", ["median"])
    assert (plan.base_url, plan.window_s, plan.warmup_s, plan.simulated) == ("http://127.0.0.1:9", 5.0, 1.0, True)
    assert plan.classes[0].limits.e2e_s == 2.0
    assert (plan.max_requests, plan.max_tokens, plan.max_wall_s) == (1_000_000, 100_000_000, 3600.0)
    assert engine_plan.decode(engine_plan.encode(plan)) == plan


@pytest.mark.django_db
def test_the_mixed_class_is_the_mix_of_all():
    grid = running_grid(settings=(1,), class_names=("mixed",))
    assert [c.name for c in _plan(grid.cells.get()).classes] == ["short", "median", "long"]


@pytest.mark.django_db
def test_the_lower_of_two_temperature_and_power_limits_holds():
    grid = running_grid(
        settings=(1,), class_names=("short",), limits=factories.make_limits(max_temperature_c=80, max_power_w=None)
    )
    guard = _plan(grid.cells.get()).guard
    assert (guard.max_temperature_c, guard.max_power_w) == (80, None)


def test_the_same_place_gives_the_same_seed_and_another_gives_another():
    assert plans.cell_seed(7, 0) == plans.cell_seed(7, 0)
    assert len({plans.cell_seed(7, 0), plans.cell_seed(7, 1), plans.cell_seed(8, 0)}) == 3


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("", ""),
        ("VLLM_API_KEY", "HEADROOM_KEY_VLLM_API_KEY"),
        ("SECRET_KEY", "HEADROOM_KEY_SECRET_KEY"),
        ("../x y", "HEADROOM_KEY__X_Y"),
    ],
)
def test_a_key_name_reaches_no_other_variable_of_the_worker(name, variable):
    assert host_file.key_variable(name) == variable


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("http://127.0.0.1:8080", True),
        ("http://localhost:8080/v1", True),
        ("http://[::1]:8080", True),
        ("", True),
        ("http://10.0.0.5:8080", False),
        ("http://127.0.0.1.example.com", False),
        ("http://127.0.0.1@example.com", False),
        ("file:///etc/passwd", False),
    ],
)
def test_a_worker_calls_only_hosts_on_its_own_list(address, allowed):
    assert (target_refusal("http://127.0.0.1:1", address) is None) is allowed


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("distribution", "most"),
    [
        ({"kind": "fixed", "tokens": 9}, 9),
        ({"kind": "uniform", "low": 2, "high": 12}, 12),
        ({"kind": "quantiles", "points": [[0, 1], [0.5, 4], [1, 30]]}, 30),
    ],
)
def test_the_largest_request_of_a_class_is_known(distribution, most):
    row = factories.make_workload().classes.first()
    row.prompt_tokens, row.output_tokens = distribution, lengths.plain(lengths.read({"kind": "fixed", "tokens": 1}))
    assert plans.largest_tokens(row) == most + 1


@pytest.mark.django_db
@pytest.mark.parametrize(("turns", "tokens"), [(1, 12), (4, 48)])
def test_the_largest_request_of_a_conversation_is_its_last_turn(turns, tokens):
    row = factories.make_workload(classes={"only": (9, 3)}, turns=turns).classes.select_related("workload").get()
    assert plans.largest_tokens(row) == tokens


@pytest.mark.django_db
def test_a_plan_carries_sessions_the_shared_beginning_and_pairs():
    grid = running_grid(settings=(4,), class_names=("median",))
    type(grid.workload).objects.filter(pk=grid.workload_id).update(turns=3, think_s=2.5, shared_prefix_share=0.25)
    grid.workload.classes.filter(name="median").update(pairs=[[100, 5], [40, 9]])
    plan = _plan(type(grid).objects.get(pk=grid.pk).cells.get())
    assert (plan.sessions, plan.shared_prefix_share) == (Sessions(turns=3, think_s=2.5), 0.25)
    assert plan.classes[0].pairs == ((100, 5), (40, 9))
    assert engine_plan.decode(engine_plan.encode(plan)) == plan


@pytest.mark.django_db
def test_a_workload_without_turns_has_no_sessions():
    plan = _plan(running_grid(settings=(4,), class_names=("median",)).cells.get())
    assert (plan.sessions, plan.shared_prefix_share, plan.classes[0].pairs) == (None, 0.0, None)


@pytest.mark.django_db
def test_the_way_to_a_target_is_the_hosts_own_setting(settings):
    cell = running_grid(settings=(1,), class_names=("short",)).cells.get()
    assert _plan(cell).connect == engine_plan.Connect()
    settings.TARGET_CA_FILE, settings.TARGET_PROXY_URL = "/etc/headroom/ca.pem", "http://127.0.0.1:3128"
    assert _plan(cell).connect == engine_plan.Connect(ca_file="/etc/headroom/ca.pem", proxy_url="http://127.0.0.1:3128")


@pytest.mark.django_db
@pytest.mark.parametrize("asked", [False, True])
def test_the_clients_priority_is_the_hosts_own_setting(settings, asked):
    settings.CLIENT_REALTIME = asked
    assert _plan(running_grid(settings=(1,), class_names=("short",)).cells.get()).client_realtime is asked
