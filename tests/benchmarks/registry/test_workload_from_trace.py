"""A trace file becomes a workload: read and shown first, kept only when the form is sent; refusals beside the file."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from benchmarks import registry
from benchmarks.imports.classes import MOST_PAIRS
from benchmarks.models import Event, Team, Workload
from benchmarks.records import lengths
from tests.benchmarks.imports.files import FOLDER, csv, file, own
from tests.factories import make_grid, make_hardware, make_runtime, make_team, make_user

pytestmark = pytest.mark.django_db
AZURE = "azure2023_conv_head300.csv"


@pytest.fixture
def team() -> Team:
    return make_team(slug="team")


@pytest.fixture
def operator(team: Team, client: Client) -> User:
    person = make_user(team, "operator", username="drawer")
    client.force_login(person)
    return person


def upload(client: Client, data: bytes, **fields: str) -> Any:
    file = BytesIO(data)
    file.name = "trace.csv"
    return client.post(reverse("workload-import"), {"file": file} | fields)


def page(response: Any) -> str:
    return " ".join(response.content.decode().split())


def as_sent(response: Any, **changes: str) -> dict[str, Any]:
    """What a browser sends when a person presses the button of the form that was shown."""
    form, classes = response.context["form"], response.context["classes"]
    fields = [field for each in (form, classes.management_form, *classes.forms) for field in each]
    shown = {field.html_name: field.value() for field in fields}
    return {name: value for name, value in shown.items() if value not in (None, False)} | changes


def test_a_trace_is_shown_with_its_facts_and_nothing_is_kept(client: Client, operator: User) -> None:
    answer = upload(client, file(AZURE))
    shown = page(answer)
    assert (answer.status_code, Workload.objects.count()) == (200, 0)
    assert (
        "Azure LLM inference trace 2023, Azure Public Dataset; Patel et al., Splitwise, ISCA 2024 (CC BY 4.0)" in shown
    )
    assert f"<dt>Requests</dt><dd>{300}</dd>" in shown
    assert 'action="/workloads/new/"' in shown
    assert [f["name"].value() for f in answer.context["classes"]] == ["short", "median", "long"]


def test_the_form_that_was_filled_in_registers_the_workload_with_its_source_pairs_and_arrivals(
    client: Client, operator: User
) -> None:
    made = client.post(reverse("workload-new"), as_sent(upload(client, file(AZURE)), name="Chat like Azure"))
    assert (made.status_code, made["Location"]) == (302, "/workloads/chat-like-azure/1/")
    workload = Workload.objects.get()
    assert workload.source.startswith("Azure LLM inference trace 2023, Azure Public Dataset; Patel et al.")
    assert workload.source.endswith("(CC BY 4.0); 300 requests, SHA-256 " + workload.source[-12:])
    assert (len(workload.arrivals_s or ()), (workload.arrivals_s or ())[:3]) == (300, [0.0, 4.3146, 4.5419])
    classes = list(workload.classes.all())
    assert [(c.name, c.weight, len(c.pairs)) for c in classes] == [
        ("short", 0.25, 75),
        ("median", 0.5, 150),
        ("long", 0.25, 75),
    ]
    assert all(lengths.read_pairs(c.pairs) for c in classes)
    shown = page(client.get(made["Location"]))
    assert "drawn together, as pairs, where a class has them" in shown
    assert "<dt>Arrivals kept</dt><dd>300, for a replay</dd>" in shown


def test_an_edit_that_changes_nothing_keeps_pairs_weights_and_arrivals_to_the_last_digit(
    client: Client, operator: User
) -> None:
    whole = file("mooncake_synthetic_lengths_all.jsonl.gz")
    client.post(reverse("workload-new"), as_sent(upload(client, whole), name="Mooncake"))
    before = Workload.objects.get()
    assert [len(c.pairs) for c in before.classes.all()] == [MOST_PAIRS] * 3
    edit = reverse("workload-edit", args=[before.slug, 1])
    client.post(edit, as_sent(client.get(edit)))
    after = Workload.objects.get()
    assert (after.digest, after.arrivals_s, after.version) == (before.digest, before.arrivals_s, 1)
    assert list(Event.objects.values_list("verb", "changes")[:1]) == [("registered", {})]


def test_the_next_version_of_a_used_workload_keeps_its_arrivals(client: Client, team: Team, operator: User) -> None:
    client.post(reverse("workload-new"), as_sent(upload(client, file(AZURE)), name="Chat"))
    make_grid(make_runtime(make_hardware(team)), Workload.objects.get(), operator)
    edit = reverse("workload-edit", args=["chat", 1])
    made = client.post(edit, as_sent(client.get(edit), turns="3", think_s="2"))
    assert made["Location"] == "/workloads/chat/2/"
    new, old = Workload.objects.all()
    assert (new.arrivals_s, new.turns, new.think_s) == (old.arrivals_s, 3, 2.0)
    assert [c.pairs for c in new.classes.all()] == [c.pairs for c in old.classes.all()]
    assert "turns of a conversation: 1 → 3" in page(client.get(made["Location"]))


@pytest.mark.parametrize(
    "data, fields, said",
    [
        (b"", {}, "The file is empty."),
        (csv("prompt,response", "What is a bank?,A bank is"), {}, "Only synthetic prompts are ever sent"),
        (csv("a,b", "1,2"), {}, "Which column holds the prompt tokens?"),
        (csv("a,b", "1,2"), {"prompt_column": "a", "output_column": "c"}, "The file has no column “c”"),
        (own((5, 0)), {}, "Every request in the file failed"),
        (
            file("servegen_deepseek-r1_chunk-1-trace.csv"),
            {},
            "This file holds rates (0.125 requests a second on average)",
        ),
        (b"0" * 20_000_001, {}, "at most 20 MB are read"),
    ],
    ids=lambda value: None if isinstance(value, bytes) else str(value),
)
def test_a_file_that_is_not_taken_says_why(
    client: Client, operator: User, data: bytes, fields: dict[str, str], said: str
) -> None:
    answer = upload(client, data, **fields)
    assert answer.status_code == 422
    assert said in page(answer)


def test_a_missing_file_is_asked_for(client: Client, operator: User) -> None:
    answer = client.post(reverse("workload-import"), {})
    assert (answer.status_code, "Choose the file of the trace." in page(answer)) == (422, True)


def test_own_columns_are_named_and_an_own_file_is_called_so(client: Client, operator: User) -> None:
    data = csv("when,p,o", *(f"{n * n},{100 + n},{20 + n % 9}" for n in range(60)))
    answer = upload(client, data, prompt_column="p", output_column="o", time_column="when", time_unit="ms")
    assert answer.context["form"]["source"].value().startswith("Own trace file; 60 requests, SHA-256 ")
    assert "Whose trace this is, the file does not say." in page(answer)
    assert answer.context["form"]["arrivals"].value().startswith("0 0.001 0.004 0.009")


def test_densities_become_classes_whose_lengths_are_drawn_by_themselves(client: Client, operator: User) -> None:
    window = {"input_tokens": "{40: 0.5, 900: 0.5}", "output_tokens": "{10: 0.5, 60: 0.5}"}
    client.post(reverse("workload-new"), as_sent(upload(client, json.dumps({"0": window}).encode()), name="ServeGen"))
    workload = Workload.objects.get()
    assert (workload.arrivals_s, workload.source[:31]) == (None, "ServeGen, Alibaba (Apache-2.0);")
    assert {c.pairs for c in workload.classes.all()} == {None}


@pytest.mark.parametrize(
    "arrivals, said",
    [
        ("0 1 2", None),
        ("", None),
        ("0 2 1", "they must be seconds that do not fall"),
        ("-1 2", "they must be seconds that do not fall"),
        ("0 inf", "they must be seconds that do not fall"),
        ("zero", "could not convert"),
        ("0 " * 10_001, "more than 10,000"),
    ],
)
def test_arrivals_that_were_tampered_with_are_refused(
    client: Client, operator: User, arrivals: str, said: str | None
) -> None:
    answer = client.post(reverse("workload-new"), as_sent(upload(client, file(AZURE)), arrivals=arrivals))
    assert answer.status_code == (302 if said is None else 422)
    if said is not None:
        assert said in page(answer)


def printed(capsys: Any, *arguments: str) -> str:
    call_command("import_trace", *arguments)
    return str(capsys.readouterr().out)


def test_the_command_shows_a_trace_and_keeps_nothing(capsys: Any) -> None:
    out = printed(capsys, str(FOLDER / "dynamo_mooncake_tiny.jsonl"))
    assert "16 requests, rank correlation of prompt and answer +0.46" in out
    assert "burstiness not known" in out
    assert "16.0% of the prompts' blocks were in an earlier prompt" in out
    assert "Warning: 16 requests only" in out
    assert Workload.objects.count() == 0


def test_the_command_registers_what_the_page_would(capsys: Any, client: Client, team: Team, operator: User) -> None:
    out = printed(capsys, str(FOLDER / AZURE), "--name", "By command", "--team", "team", "--as", "drawer")
    assert out.endswith("Registered by-command, version 1: /workloads/by-command/1/\n")
    client.post(reverse("workload-new"), as_sent(upload(client, file(AZURE)), name="By page"))
    by_command, by_page = Workload.objects.order_by("slug")
    assert by_command.digest == by_page.digest
    assert registry.classes_of(by_command) == registry.classes_of(by_page)


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["nowhere.csv"], "nowhere.csv cannot be read: No such file or directory."),
        ([str(FOLDER / "README.md")], "This is a running text. Only synthetic prompts are ever sent"),
        ([str(FOLDER / AZURE), "--name", "N"], "There is no team ''. Name it with --team."),
        ([str(FOLDER / AZURE), "--name", "N", "--team", "team"], "There is no account ''. Say whose workload it is"),
        (
            [str(FOLDER / AZURE), "--name", "N", "--team", "team", "--as", "viewer"],
            "viewer may not register workloads in team",
        ),
        ([str(FOLDER / AZURE), "--name", "N", "--team", "team", "--as", "outsider"], "outsider may not register"),
        (
            [str(FOLDER / AZURE), "--name", "N", "--team", "team", "--as", "both"],
            "both may not register workloads in team",
        ),
        ([str(FOLDER / AZURE), "--name", "!", "--team", "team", "--as", "drawer"], "Choose another --name."),
    ],
)
def test_the_command_refuses_what_a_page_would(arguments: list[str], said: str, team: Team, operator: User) -> None:
    other = make_team(slug="other")
    make_user(team, "viewer", username="viewer")
    make_user(other, "operator", username="outsider")
    both = make_user(team, "viewer", username="both")
    other.memberships.create(user=both, role="operator")
    with pytest.raises(CommandError, match=said):
        call_command("import_trace", *arguments)
    assert Workload.objects.count() == 0
