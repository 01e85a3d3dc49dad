"""A runtime's memory on its pages: a file given, read and not kept; refusals in words; what its sequences need."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from benchmarks.memory import reading
from benchmarks.models import Event, Hardware, Runtime, Team
from tests.benchmarks.memory.files import LLAMA_8B, config, gguf_of, public
from tests.factories import make_grid, make_hardware, make_team, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def team() -> Team:
    return make_team()


@pytest.fixture
def operator(team: Team, client: Client) -> User:
    person = make_user(team, "operator")
    client.force_login(person)
    return person


@pytest.fixture
def host(team: Team) -> Hardware:
    return make_hardware(team)


def page(response: Any) -> str:
    return " ".join(response.content.decode().split())


def form(host: Hardware, **changes: Any) -> dict[str, Any]:
    return {
        "name": "Chat", "hardware": host.pk, "kind": "vllm", "endpoint": "http://127.0.0.1:8080", "model_name": "llama",
        "batching_mode": "continuous", "max_active_sequences": 8, "context_per_sequence_tokens": 8192,
    } | changes  # fmt: skip


def upload(name: str, content: bytes) -> SimpleUploadedFile:
    return SimpleUploadedFile(name, content)


def test_an_uploaded_config_becomes_a_geometry_with_its_source(client: Client, operator: User, host: Hardware) -> None:
    content = public("llama-3.1-8b")
    answer = client.post(
        reverse("runtime-new"), form(host, geometry_file=upload("config.json", content), weights_gib="15")
    )
    assert answer.status_code == 302
    runtime = Runtime.objects.get()
    assert runtime.geometry_source == reading.source_line("config.json", content)
    assert runtime.geometry["weights_bytes"] == 15 << 30
    shown = page(client.get(answer["Location"]))
    assert "131,072 bytes in bf16" in shown
    assert "KV of 8 sequences of 8,192 tokens" in shown
    assert "8.00 GiB" in shown
    assert runtime.geometry_source in shown


def test_a_pasted_config_is_read_too(client: Client, operator: User, host: Hardware) -> None:
    text = public("gpt-oss-20b").decode()
    answer = client.post(reverse("runtime-new"), form(host, geometry_text=text, max_active_sequences=1))
    shown = page(client.get(answer["Location"]))
    assert "24 layers: 12 keep the last 128, 12 keep every token" in shown
    assert "195.4 MiB, 384.0 MiB without use of windows and shared layers" in shown
    assert "pasted config.json, SHA-256" in shown


def test_the_head_of_a_gguf_file_tells_its_weights(
    client: Client, operator: User, host: Hardware, tmp_path: Path
) -> None:
    from tools import tiny_gguf

    path = tmp_path / "tiny.gguf"
    tiny_gguf.write(path, tiny_gguf.Shape(layers=2, width=64, heads=4, kv_heads=2, vocabulary=4096, context=512))
    changes = {
        "kind": "llamacpp",
        "flags": "-np 2 -c 1024",
        "max_active_sequences": "",
        "context_per_sequence_tokens": "",
    }
    answer = client.post(
        reverse("runtime-new"), form(host, geometry_file=upload("tiny.gguf", path.read_bytes()), **changes)
    )
    shown = page(client.get(answer["Location"]))
    assert "256 bytes in f16" in shown
    assert "KV of 2 sequences of 512 tokens" in shown
    assert "not recorded" not in page_part(shown, "Weights")


def page_part(shown: str, name: str) -> str:
    return shown.partition(f"<dt>{name}</dt>")[2].partition("</dd>")[0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"geometry_text": "{"}, "This is no JSON"),
        (
            {"geometry_text": json.dumps({**LLAMA_8B, "model_type": "nobody"})},
            "Nobody has read how a model “nobody” keeps",
        ),
        ({"geometry_file": upload("a.gguf", gguf_of("llama")[:30])}, "goes on beyond the 30 bytes given"),
        (
            {"geometry_file": upload("a.json", config(**LLAMA_8B)), "geometry_text": "{}"},
            "Give the file or its text, not both.",
        ),
        ({"geometry_file": upload("a.json", b"")}, "This file is empty."),
        ({"weights_gib": "15"}, "says little without the model&#x27;s file"),
        ({"weights_gib": "-1", "geometry_text": json.dumps(LLAMA_8B)}, "greater than or equal to 0.001"),
    ],
)
def test_what_cannot_be_read_is_refused_beside_its_field(
    client: Client, operator: User, host: Hardware, changes: dict[str, Any], said: str
) -> None:
    answer = client.post(reverse("runtime-new"), form(host, **changes))
    assert answer.status_code == 422
    assert said in page(answer)
    assert not Runtime.objects.exists()


def test_a_whole_model_is_refused_with_the_command_that_cuts_it(
    client: Client, operator: User, host: Hardware, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MOST_BYTES", 1 << 20)
    answer = client.post(reverse("runtime-new"), form(host, geometry_file=upload("a.gguf", b"GGUF" + bytes(1 << 20))))
    assert "This file has more than 1 MiB" in page(answer)
    assert "head -c 1M model.gguf" in page(answer)


def test_an_edit_keeps_replaces_or_forgets_what_was_read(client: Client, operator: User, host: Hardware) -> None:
    first = form(host, geometry_text=json.dumps(LLAMA_8B), weights_gib="15")
    place = client.post(reverse("runtime-new"), first)["Location"]
    kept = Runtime.objects.get().geometry
    assert 'value="15.0"' in page(client.get(f"{place}edit/"))
    client.post(f"{place}edit/", form(host, notes="new", weights_gib="15.0"))
    assert Runtime.objects.get().geometry == kept
    client.post(f"{place}edit/", form(host, weights_gib="16"))
    assert Runtime.objects.get().geometry == {**kept, "weights_bytes": 16 << 30}
    client.post(
        f"{place}edit/", form(host, geometry_text=json.dumps({**LLAMA_8B, "num_hidden_layers": 16}), weights_gib="16.0")
    )
    assert Runtime.objects.get().geometry["weights_bytes"] is None, "the size was that of another file"
    client.post(f"{place}edit/", form(host, geometry_forget="on"))
    assert (Runtime.objects.get().geometry, Runtime.objects.get().geometry_source) == (None, "")
    assert "The model&#x27;s geometry is not recorded" in page(client.get(place))


def test_a_measured_version_keeps_its_geometry(client: Client, operator: User, host: Hardware) -> None:
    place = client.post(reverse("runtime-new"), form(host, geometry_text=json.dumps(LLAMA_8B)))["Location"]
    make_grid(Runtime.objects.get())
    client.post(f"{place}edit/", form(host, geometry_forget="on"))
    assert [bool(row.geometry) for row in Runtime.objects.order_by("version")] == [True, False]


def test_the_history_says_that_the_geometry_changed(client: Client, operator: User, host: Hardware) -> None:
    place = client.post(reverse("runtime-new"), form(host))["Location"]
    client.post(f"{place}edit/", form(host, geometry_text=json.dumps(LLAMA_8B)))
    assert set(Event.objects.order_by("-sequence").first().changes) == {"geometry", "geometry_source"}
    assert "memory of the model: as before → changed" in page(client.get(place))


def test_a_kept_geometry_of_another_time_is_no_error(client: Client, operator: User, host: Hardware) -> None:
    place = client.post(reverse("runtime-new"), form(host, geometry_text=json.dumps(LLAMA_8B)))["Location"]
    Runtime.objects.update(geometry={"architecture": "x"})
    assert "The kept geometry of the model cannot be read" in page(client.get(place))
    assert client.get(f"{place}edit/").status_code == 200
