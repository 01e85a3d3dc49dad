"""Grids whose runtime the worker starts with each setting: drawn only where the host offers it, and shown as what they are."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from benchmarks import offered
from benchmarks.models import Cell, Grid, Hardware, Runtime, Team
from benchmarks.records.modes import ClosedTerms, OpenTerms
from capacity import objectives
from capacity.grid_plans import Wish, plan_of
from tests.capacity import stored
from tests.factories import CLASSES, make_grid, make_hardware, make_runtime, make_user, make_workload

pytestmark = pytest.mark.django_db
ENDPOINT = "http://127.0.0.1:8081"
OFFER = {
    "kind": "llamacpp",
    "endpoint": ENDPOINT,
    "settings": [1, 8],
    "ready_within_s": 90.0,
    "warnings": ["Its KV is odd."],
}
UNIFIED = "No slot count is given (-np)"


def host(team: Team) -> Hardware:
    return make_hardware(team, slug="gpu", offers={"path": "/etc/headroom/worker.toml", "profiles": {"llama": OFFER}})


def runtime(team: Team, **fields: Any) -> Runtime:
    chosen = {"kind": "llamacpp", "endpoint": ENDPOINT, "launch_profile": "llama", "name": "Chat server"} | fields
    return make_runtime(host(team), **chosen)


@pytest.mark.parametrize(
    ("fields", "settings", "load", "words"),
    [
        ({}, (1, 8), ClosedTerms(), None),
        ({"endpoint": ENDPOINT + "/"}, (1,), ClosedTerms(), None),
        ({}, (1, 9), ClosedTerms(), "allows 1 to 8 active sequences, not 9"),
        ({}, (1,), OpenTerms(), "in a closed loop"),
        ({"launch_profile": ""}, (1,), ClosedTerms(), "names no launch profile"),
        ({"launch_profile": "other"}, (1,), ClosedTerms(), "gpu offers no launch profile called other"),
        ({"kind": "vllm"}, (1,), ClosedTerms(), "starts llama.cpp at http://127.0.0.1:8081"),
        (
            {"endpoint": "http://127.0.0.1:8080"},
            (1,),
            ClosedTerms(),
            "registered as llama.cpp at http://127.0.0.1:8080",
        ),
    ],
)
def test_a_managed_grid_needs_a_profile_that_fits(team, fields, settings, load, words):
    said = offered.managed_fault(load, runtime(team, **fields), settings)
    assert said is None if words is None else words in said


@pytest.mark.parametrize(
    "offers", [{}, {"fault": "unreadable"}, {"profiles": {"llama": {"kind": 3}}}, {"profiles": []}]
)
def test_a_host_that_tells_nothing_useful_offers_nothing(team, offers):
    assert offered.profiles_of(make_hardware(team, offers=offers)) == {}


@pytest.fixture
def form(team: Team, operator: User) -> dict[str, Any]:
    limits = [objectives.ClassValues(name, 4.0) for name in CLASSES]
    objective = objectives.set_objective(team=team, by=operator, slug="chat", values={"name": "Chat"}, classes=limits)
    return {
        "name": "Slots", "runtime": runtime(team).pk, "workload": make_workload(team).pk, "class_names": list(CLASSES),
        "setting_values": ["1", "2", "4", "8"], "objective": objective.pk, "repeats": "1", "window_s": "30", "warmup_s": "5",
    }  # fmt: skip


@pytest.mark.parametrize(("typed", "managed"), [({}, False), ({"managed": "on"}, True)])
def test_the_form_draws_it_as_asked_and_the_digest_says_so(client, form, typed, managed):
    assert client.post("/grids/new/", form | typed).status_code == 302
    grid = Grid.objects.get()
    assert grid.managed is managed
    assert client.get(f"/grids/new/?from={grid.pk}").context["form"]["managed"].value() is managed


def test_the_form_says_why_it_cannot_be_drawn(client, form):
    answer = client.post("/grids/new/", form | {"managed": "on", "other_settings": "12"})
    assert (answer.status_code, Grid.objects.count()) == (422, 0)
    assert "allows 1 to 8 active sequences, not 12" in answer.content.decode()


def test_the_switch_is_there_only_where_the_runtime_names_a_profile(client, team, operator):
    with_one, without = runtime(team), make_runtime(make_hardware(team), kind="llamacpp")
    page = client.get(f"/grids/new/?runtime={with_one.pk}").content.decode()
    assert "The worker starts the runtime with each setting itself" in page
    assert "--parallel, -np (slots)" in page
    assert "itself" not in client.get(f"/grids/new/?runtime={without.pk}").context["managed_words"]


@pytest.mark.parametrize(
    ("fields", "managed", "warned"),
    [
        ({}, True, ["Its KV is odd."]),
        ({"flags": "llama-server -m a.gguf --fit off -cram 0"}, False, [UNIFIED]),
        ({"flags": "llama-server -m a.gguf -np 4 --fit off -cram 0"}, False, []),
        ({"flags": ""}, False, []),
        ({"kind": "vllm", "flags": "llama-server", "launch_profile": ""}, False, []),
    ],
)
def test_a_doubtful_start_is_warned_of_before_the_run(team, operator, fields, managed, warned):
    wish = Wish(
        runtime=runtime(team, **fields), workload=None, objective=None, settings=(1, 2), class_names=(), repeats=None,
        window_s=None, warmup_s=None, conditions=True, managed=managed,
    )  # fmt: skip
    ticks = [t.text for t in plan_of(wish, team_id=team.pk, person_id=operator.pk).ticks if t.kind == "warn"]
    assert [any(word in text for text in ticks) for word in warned] == [True] * len(warned)
    assert any(UNIFIED in text for text in ticks) == (UNIFIED in warned)


def test_the_page_of_a_runtime_warns_too(client, team, operator):
    row = runtime(team, launch_profile="", flags="llama-server -m a.gguf")
    assert UNIFIED in client.get(row.get_absolute_url()).content.decode()


def test_the_host_owner_reads_that_the_worker_starts_it_and_is_offered_its_time(client, team, operator):
    grid = make_grid(runtime(team), drawn_by=operator, settings=(1, 2), class_names=("short",), managed=True)
    plain = make_grid(grid.runtime, drawn_by=operator, settings=(1, 2), class_names=("short",))
    client.force_login(make_user(team, "host_owner"))
    pages = [client.get(reverse("grid-authorize", args=[one.pk])) for one in (grid, plain)]
    assert "Started by the worker" in pages[0].content.decode()
    assert "Started by the worker" not in pages[1].content.decode()
    minutes = [page.context["form"]["max_minutes"].value() for page in pages]
    assert minutes[0] - minutes[1] == 3  # two cells of at most 90 s


def test_what_was_read_back_stands_on_the_result_and_what_is_not_told_reads_not_reported(client, team, operator):
    grid = make_grid(runtime(team), drawn_by=operator, managed=True)
    first, second = grid.cells.order_by("position")[:2]
    has = {"active_sequences": None, "context_per_sequence_tokens": 1024, "kv_capacity_tokens": 4096}
    asked = {"active_sequences": 77, "context_per_sequence_tokens": None}
    ended = {"known": True, "left": 0, "rss_bytes": 2**30, "vram_returned": True, "port_free": True}
    kept = {"effective": has, "asked": asked, "ready_after_s": 1.25, "ended": ended}
    assert [row.name for row in offered.read_backs(grid)] == []
    Cell.objects.filter(pk=first.pk).update(progress={"runtime": kept})
    stored.measure(grid)
    page = client.get(grid.get_absolute_url()).content.decode()
    words = [
        "Runtime as started",
        "Active sequences of llama.cpp, which it calls --parallel, -np (slots)",
        ">77<",
        "not reported",
        "left to it",
        ">1024<",
        "VRAM back",
    ]
    assert [word for word in words if word not in page] == []
    assert [row.setting for row in offered.read_backs(grid)] == [first.setting]
    assert offered.read_backs(grid, second.pk) == []
