"""The registry's pages as a person uses them: without JavaScript, errors in words, 422, history, few queries."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client, override_settings
from django.urls import reverse

from benchmarks.models import EndpointCheck, Hardware, HardwareProbe, Runtime, Team, Workload
from tests.factories import make_grid, make_hardware, make_objective, make_runtime, make_team, make_user, make_workload

pytestmark = pytest.mark.django_db


@pytest.fixture
def team() -> Team:
    return make_team()


@pytest.fixture
def operator(team: Team, client: Client) -> User:
    person = make_user(team, "operator")
    client.force_login(person)
    return person


def page(response: Any) -> str:
    return " ".join(response.content.decode().split())


def runtime_form(host: Hardware, **changes: Any) -> dict[str, Any]:
    return {
        "name": "Chat on llama.cpp", "hardware": host.pk, "kind": "llamacpp", "endpoint": "http://127.0.0.1:8080/v1/",
        "model_name": "qwen", "batching_mode": "continuous",
    } | changes  # fmt: skip


def workload_form(*rows: dict[str, Any], **changes: Any) -> dict[str, Any]:
    management = {"classes-TOTAL_FORMS": len(rows), "classes-INITIAL_FORMS": 0}
    fields = {f"classes-{i}-{name}": value for i, row in enumerate(rows) for name, value in row.items()}
    return {"name": "Chat", "task": "words", "seed": 7} | management | fields | changes


def class_row(**changes: Any) -> dict[str, Any]:
    return {
        "name": "short", "weight": 60, "prompt_kind": "uniform", "prompt_low": 10, "prompt_high": 20,
        "output_kind": "quantiles", "output_points": "p0 5, p50 8, p100 30",
    } | changes  # fmt: skip


def test_a_host_is_registered_edited_and_shown_with_its_history(client: Client, operator: User) -> None:
    made = client.post(reverse("hardware-new"), {"name": "GPU host 1", "ram_gib": "64"})
    assert (made.status_code, made["Location"]) == (302, "/hosts/gpu-host-1/")
    edit = {"name": "GPU host 1", "ram_gib": "128", "reason": "More memory"}
    assert client.post("/hosts/gpu-host-1/edit/", edit).status_code == 302
    shown = page(client.get("/hosts/gpu-host-1/"))
    assert "RAM, GiB: 64.0 → 128.0" in shown
    assert "More memory" in shown
    assert "HEADROOM_HARDWARE=gpu-host-1 make worker" in shown


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"name": ""}, "This field is required."),
        ({"gpu": "A100"}, "How many of this GPU does the host have?"),
        ({"gpu_count": "2"}, "Which GPU is it?"),
        ({"vram_gib": "24"}, "VRAM without a GPU"),
        ({"slug": "taken"}, "“taken” is taken."),
        ({"slug": "a b"}, "Only letters, digits, - and _"),
        ({"slug": "new"}, "is taken by a page of Headroom"),
        ({"name": "Supports 50 users"}, "A capacity is not a number of users"),
        ({"notes": "good for twenty people"}, "A capacity is not a number of users"),
    ],
)
def test_a_host_form_says_what_to_change(client: Client, operator: User, changes: dict[str, Any], said: str) -> None:
    make_hardware(slug="taken")
    answer = client.post(reverse("hardware-new"), {"name": "Host"} | changes)
    assert answer.status_code == 422
    assert said in page(answer)


def test_declared_facts_stand_beside_probed_ones_and_differences_are_marked(
    client: Client, team: Team, operator: User
) -> None:
    host = make_hardware(team, cpu="Xeon Gold", ram_gib=64.0, gpu="A5000", gpu_count=1)
    facts = {
        "cpu": "Intel(R) Xeon(R) Gold 6338",
        "ram_bytes": 32 * 2**30,
        "gpus": "no NVIDIA GPU (not found)",
        "os": "Linux",
    }
    HardwareProbe.objects.create(hardware=host, at=datetime.now(UTC), worker="w", facts=facts, digest="")
    answer = client.get(host.get_absolute_url())
    got = {f.name: (f.declared, f.probed, f.differs) for f in answer.context["facts"]}
    assert got == {
        "CPU": ("Xeon Gold", "Intel(R) Xeon(R) Gold 6338", False),
        "RAM": ("64.0 GiB", "32.0 GiB", True),
        "GPU": ("A5000", "no NVIDIA GPU (not found)", True),
        "GPUs": ("1", "0", True),
        "VRAM of all GPUs": (None, None, False),
        "Power cap": (None, None, False),
        "Operating system": ("not asked for", "Linux", False),
    }
    assert "no NVIDIA GPU" in page(answer)


def test_a_runtime_is_registered_with_the_base_address(client: Client, team: Team, operator: User) -> None:
    host = make_hardware(team)
    assert client.post(reverse("runtime-new"), runtime_form(host)).status_code == 302
    assert list(Runtime.objects.values_list("slug", "endpoint", "version")) == [
        ("chat-on-llamacpp", "http://127.0.0.1:8080", 1)
    ]


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"endpoint": "http://10.0.0.5:8080"}, "The operator of the host must list it there"),
        ({"endpoint": "ftp://127.0.0.1"}, "Give a whole address with http:// or https://"),
        ({"endpoint": "127.0.0.1:8080"}, "Give a whole address with http:// or https://"),
        ({"endpoint": "http://me:secret@127.0.0.1"}, "No name or password in the address."),
        ({"endpoint": "http://127.0.0.1:99999"}, "This address cannot be read."),
        ({"endpoint": "http://127.0.0.1@10.0.0.5/"}, "No name or password in the address."),
        ({"metrics_url": "http://10.0.0.5/metrics"}, "is not on the list of hosts that may be loaded"),
        ({"api_key_name": "sk-abcdef0123456789"}, "Never the key itself"),
        ({"flags": "vllm serve m --api-key sk-abcdef0123456789"}, "There is a key in these flags."),
        ({"model_digest": "abc"}, "A SHA-256 has 64 hexadecimal digits."),
        ({"name": "serves 30 users"}, "A capacity is not a number of users"),
    ],
)
def test_a_runtime_form_says_what_to_change(
    client: Client, team: Team, operator: User, changes: dict[str, Any], said: str
) -> None:
    answer = client.post(reverse("runtime-new"), runtime_form(make_hardware(team)) | changes)
    assert (answer.status_code, Runtime.objects.count()) == (422, 0)
    assert said in page(answer)


@override_settings(TARGET_HOSTS=["vllm"])
def test_a_listed_host_needs_no_dot_in_its_name(client: Client, team: Team, operator: User) -> None:
    form = runtime_form(make_hardware(team), endpoint="http://vllm:8000", metrics_url="http://vllm:8000/metrics")
    assert client.post(reverse("runtime-new"), form).status_code == 302


def test_an_edit_of_a_used_runtime_makes_a_new_version_and_says_so(client: Client, team: Team, operator: User) -> None:
    runtime = make_runtime(make_hardware(team), slug="chat")
    make_grid(runtime, drawn_by=operator)
    form = runtime_form(runtime.hardware, endpoint="http://127.0.0.1:9", reason="Larger model")
    assert client.post("/runtimes/chat/1/edit/", form)["Location"] == "/runtimes/chat/2/"
    assert "Version 2 made. Version 1 stays as it was measured." in page(client.get("/runtimes/chat/2/"))
    assert "There is a newer version" in page(client.get("/runtimes/chat/1/"))


def test_a_runtime_page_shows_the_tools_own_words_and_warns_of_a_newer_version(
    client: Client, team: Team, operator: User
) -> None:
    runtime = make_runtime(make_hardware(team), kind="llamacpp", runtime_version="b9999999")
    shown = page(client.get(runtime.get_absolute_url()))
    for words in ("--parallel", "Active sequences", "is newer than", "without limit"):
        assert words in shown


def test_a_look_is_asked_answered_and_fills_in_the_form(
    client: Client, team: Team, operator: User, django_capture_on_commit_callbacks: Any
) -> None:
    host = make_hardware(team)
    with django_capture_on_commit_callbacks() as rings:
        asked = client.post(
            reverse("endpoint-check"), runtime_form(host, check="look", notes="typed before", model_name="")
        )
    check = EndpointCheck.objects.get()
    assert (asked["Location"], len(rings)) == (f"/runtimes/checks/{check.pk}/", 1)
    assert (check.kind, check.endpoint, check.status) == ("look", "http://127.0.0.1:8080", "queued")
    waiting = page(client.get(asked["Location"]))
    assert "Waiting for the worker" in waiting
    assert "hx-trigger" in waiting
    check.result = {
        "reachable": True, "models": ["qwen-14b", "other"], "version": "b6910", "max_active_sequences": 4,
        "context_per_sequence_tokens": 4096, "metrics": ["running"], "metrics_path": "/metrics", "detected_kind": "llamacpp",
        "warnings": ["Four slots is the default."], "kv_capacity_tokens": None,
    }  # fmt: skip
    check.status, check.finished_at = "done", datetime.now(UTC)
    check.save()
    answered = page(client.get(asked["Location"], headers={"HX-Request": "true"}))
    assert "hx-trigger" not in answered
    assert "Four slots is the default." in answered
    assert "<html" not in answered
    form = client.get(f"/runtimes/new/?check={check.pk}").context["form"]
    got = {
        name: form[name].value()
        for name in ("model_name", "runtime_version", "max_active_sequences", "metrics_url", "notes")
    }
    assert got == {
        "model_name": "qwen-14b",
        "runtime_version": "b6910",
        "max_active_sequences": 4,
        "metrics_url": "http://127.0.0.1:8080/metrics",
        "notes": "typed before",
    }


def test_a_failed_request_says_what_is_wrong_and_what_to_do(client: Client, team: Team, operator: User) -> None:
    check = EndpointCheck.objects.create(
        team=team, hardware=make_hardware(team), kind="test", endpoint="http://127.0.0.1:9", asked_by=operator,
        status="done", finished_at=datetime.now(UTC), result={"ok": False, "what": "No answer.", "do": "Start it."},
    )  # fmt: skip
    assert "<b>No answer.</b> Start it." in page(client.get(reverse("endpoint-check-detail", args=[check.pk])))


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"endpoint": "http://10.0.0.5"}, "is not on the list"),
        ({"check": "test", "model_name": ""}, "One request needs the name of a model."),
        ({"hardware": ""}, "This field is required."),
    ],
)
def test_nothing_is_asked_of_an_endpoint_that_may_not_be(
    client: Client, team: Team, operator: User, changes: dict[str, Any], said: str
) -> None:
    answer = client.post(reverse("endpoint-check"), runtime_form(make_hardware(team), check="look") | changes)
    assert (answer.status_code, EndpointCheck.objects.count()) == (422, 0)
    assert said in page(answer)


def test_a_workload_is_registered_from_its_classes(client: Client, operator: User) -> None:
    form = workload_form(
        class_row(), class_row(name="long", weight=20), {"prompt_kind": "lognormal", "output_kind": "lognormal"}
    )
    assert client.post(reverse("workload-new"), form).status_code == 302
    workload = Workload.objects.get()
    assert [(c.name, c.weight, c.prompt_tokens) for c in workload.classes.all()] == [
        ("short", 0.75, {"kind": "uniform", "low": 10, "high": 20}),
        ("long", 0.25, {"kind": "uniform", "low": 10, "high": 20}),
    ]
    shown = page(client.get(workload.get_absolute_url()))
    assert "11 / 15 / 19" in shown
    assert "short and long have the same lengths" in shown


@pytest.mark.parametrize(
    "row, said",
    [
        (class_row(name=""), "Give the class a name"),
        (class_row(weight=""), "What share of the requests is of this class?"),
        (class_row(prompt_low=""), "Uniform needs the least length."),
        (class_row(prompt_low=30), "The least length, 30, is above the most, 20."),
        (class_row(output_points="p50 8"), "Quantiles need at least two points."),
        (class_row(output_points="eight"), "is not a quantile"),
        (class_row(name="mixed"), "Choose another name for this class."),
        (class_row(DELETE="on"), "A workload needs at least one length class."),
    ],
)
def test_a_workload_form_says_what_to_change(client: Client, operator: User, row: dict[str, Any], said: str) -> None:
    answer = client.post(reverse("workload-new"), workload_form(row))
    assert (answer.status_code, Workload.objects.count()) == (422, 0)
    assert said in page(answer)


PAIRS = ", ".join(f"{100 + n}:{20 + n}" for n in range(41))


@pytest.mark.parametrize(
    "row, prompt",
    [
        (class_row(prompt_kind="quantiles", prompt_points="p0 1, p50 115, p100 999"), [[0, 1], [0.5, 115], [1, 999]]),
        (class_row(prompt_kind="quantiles", prompt_points="p0 1, p50 160, p100 999"), None),
        (class_row(prompt_kind="lognormal", prompt_low="", prompt_high=""), None),
        (class_row(), None),
    ],
    ids=["described", "not described", "empty", "another kind"],
)
def test_pairs_are_described_by_what_stands_beside_them_or_by_themselves(
    client: Client, operator: User, row: dict[str, Any], prompt: list[list[float]] | None
) -> None:
    assert client.post(reverse("workload-new"), workload_form(row | {"pairs": PAIRS})).status_code == 302
    kept = Workload.objects.get().classes.get()
    assert kept.pairs == [[100 + n, 20 + n] for n in range(41)]
    points = kept.prompt_tokens["points"]
    assert points == prompt if prompt else (points[0], points[5], points[-1]) == ([0, 100], [0.5, 120], [1, 140])


@pytest.mark.parametrize(
    "row, changes, said",
    [
        ({"pairs": "480"}, {}, "“480” is not a pair of lengths."),
        ({"pairs": "480:0"}, {}, "A length is between 1 and 1,000,000 tokens."),
        ({"pairs": "1:1 " * 1001}, {}, "at most 1,000 pairs of lengths"),
        ({}, {"turns": "51"}, "Ensure this value is less than or equal to 50."),
        ({}, {"turns": "0"}, "Ensure this value is greater than or equal to 1."),
        ({}, {"think_s": "2"}, "A pause needs a conversation"),
        ({}, {"shared_prefix_share": "96"}, "Ensure this value is less than or equal to 95."),
        ({}, {"task": "poem"}, "Select a valid choice."),
    ],
)
def test_what_is_sent_is_checked(
    client: Client, operator: User, row: dict[str, Any], changes: dict[str, str], said: str
) -> None:
    answer = client.post(reverse("workload-new"), workload_form(class_row(**row), **changes))
    assert (answer.status_code, Workload.objects.count()) == (422, 0)
    assert said in page(answer)


def test_a_shared_beginning_turns_and_a_pause_are_kept_and_shown(client: Client, operator: User) -> None:
    form = workload_form(class_row(), task="json", shared_prefix_share="25", turns="4", think_s="1.5")
    shown = page(client.get(client.post(reverse("workload-new"), form)["Location"]))
    assert list(Workload.objects.values_list("task", "shared_prefix_share", "turns", "think_s")) == [
        ("json", 0.25, 4, 1.5)
    ]
    for words in (
        "25.0 % of each prompt",
        "4 turns, 1.5 s between them",
        "One JSON object to a schema",
        "answers end by themselves",
    ):
        assert words in shown
    edit = client.get("/workloads/chat/1/edit/").context["form"]
    assert [edit[name].value() for name in ("shared_prefix_share", "turns", "think_s")] == [25.0, 4, 1.5]


def test_a_workload_page_names_the_runtime_whose_context_is_too_small(
    client: Client, team: Team, operator: User
) -> None:
    client.post(reverse("workload-new"), workload_form(class_row(prompt_low=3000, prompt_high=5000)))
    runtime = make_runtime(make_hardware(team), name="Small", context_per_sequence_tokens=4096)
    make_grid(runtime, Workload.objects.get(), operator)
    assert "exceed the 4,096 tokens a sequence of Small" in page(client.get("/workloads/chat/1/"))


def test_a_class_is_added_without_javascript_and_without_saving(client: Client, operator: User) -> None:
    answer = client.post(reverse("workload-new"), workload_form(class_row(), add_class="1"))
    assert (answer.status_code, len(answer.context["classes"].forms), Workload.objects.count()) == (200, 2, 0)


def test_a_preset_fills_in_the_form_with_its_source(client: Client, operator: User) -> None:
    answer = client.get("/workloads/new/?preset=azure2023-code")
    assert "CC BY 4.0" in answer.context["form"]["source"].value()
    assert [f["name"].value() for f in answer.context["classes"]] == ["short", "median", "long"]


@pytest.mark.parametrize("name", ["hardware-list", "runtime-list", "workload-list", "objective-list", "audit-list"])
def test_an_empty_list_says_what_comes_first(client: Client, operator: User, name: str) -> None:
    assert "hr-empty" in page(client.get(reverse(name)))


@pytest.mark.parametrize("name", ["hardware-list", "runtime-list", "workload-list", "objective-list", "audit-list"])
def test_a_list_of_three_needs_no_more_queries_than_a_list_of_one(
    client: Client, team: Team, operator: User, name: str
) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    counts = []
    for more in (1, 2):
        for _ in range(more):
            make_grid(make_runtime(make_hardware(team)), make_workload(team), operator)
            make_objective(team)
        with CaptureQueriesContext(connection) as captured:
            client.get(reverse(name))
        counts.append(len(captured))
    assert counts[0] == counts[1]


def test_the_audit_page_shows_the_teams_events_and_that_the_chain_holds(client: Client, operator: User) -> None:
    make_grid(make_runtime(make_hardware(make_team("Lahore"))))
    client.post(reverse("hardware-new"), {"name": "Mine"})
    shown = page(client.get(reverse("audit-list")))
    assert "The chain holds." in shown
    assert "registered hardware mine" in shown
    assert "drew grid" not in shown
