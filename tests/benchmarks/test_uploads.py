"""A page says how much it takes before it reads; a corpus is refused wherever a file or a pasted text is read."""

from __future__ import annotations

import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from benchmarks.imports import trace_text
from benchmarks.memory import reading
from benchmarks.models import Role, Runtime, Workload
from tests.factories import make_hardware, make_team, make_user

pytestmark = pytest.mark.django_db
REASON = "Only synthetic prompts are ever sent"
CHATS = json.dumps([{"messages": [{"role": "user", "content": "What is a bank?"}]}])


@pytest.fixture
def operator(client: Client) -> Client:
    client.force_login(make_user(make_team(), Role.OPERATOR, username="operator"))
    return client


def words(answer: object) -> str:
    return " ".join(answer.content.decode().split())  # type: ignore[attr-defined]


def big(size: int) -> SimpleUploadedFile:
    return SimpleUploadedFile("big.bin", b"x" * size)


@pytest.mark.parametrize(
    ("name", "size", "most"),
    [
        ("verify", 11 * 2**20, "10.5"), ("login", 6 * 2**20, "5.2"),
        ("workload-import", 2 * trace_text.MOST_BYTES + 1, "40.0"), ("runtime-new", 3 * reading.MOST_BYTES + 1, "100.7"),
    ],
)  # fmt: skip
def test_a_request_larger_than_its_page_takes_is_refused_unread_with_the_limit(
    operator: Client, name: str, size: int, most: str
) -> None:
    answer = operator.post(reverse(name), {"file": big(size)})
    assert (answer.status_code, f"this page takes at most {most} MB" in words(answer)) == (413, True)
    assert "Nothing was read and nothing was kept" in words(answer)


@pytest.mark.parametrize("name", ["hardware-new", "grid-new", "verify"])
def test_a_stranger_cannot_fill_the_disk_either(client: Client, name: str) -> None:
    assert client.post(reverse(name), {"file": big(12 * 2**20)}).status_code == 413


def test_a_trace_over_its_limit_is_refused_on_its_own_page(operator: Client) -> None:
    answer = operator.post(reverse("workload-import"), {"file": big(trace_text.MOST_BYTES + 1)})
    assert (answer.status_code, "at most 20 MB are read" in words(answer)) == (422, True)
    assert f'data-most-bytes="{trace_text.MOST_BYTES}"' in words(answer)


@pytest.mark.parametrize("text", [CHATS, "prompt,response\nWhat is a bank?,A bank is\n"])
def test_a_corpus_is_refused_as_a_trace(operator: Client, text: str) -> None:
    answer = operator.post(reverse("workload-import"), {"file": SimpleUploadedFile("c.json", text.encode())})
    assert (answer.status_code, REASON in words(answer), Workload.objects.count()) == (422, True, 0)


@pytest.mark.parametrize("given", ["file", "text"])
def test_a_corpus_is_refused_where_a_configuration_is_read_and_what_was_typed_stays(
    operator: Client, given: str
) -> None:
    host = make_hardware(make_team())
    values: dict[str, object] = {"name": "My own runtime", "hardware": host.pk, "model_name": "m"}
    values |= (
        {"geometry_text": CHATS} if given == "text" else {"geometry_file": SimpleUploadedFile("c.json", CHATS.encode())}
    )
    answer = operator.post(reverse("runtime-new"), values)
    assert (answer.status_code, REASON in words(answer), Runtime.objects.count()) == (422, True, 0)
    assert 'value="My own runtime"' in words(answer)


def test_running_text_in_notes_is_welcome(operator: Client) -> None:
    answer = operator.post(reverse("hardware-new"), {"name": "Host", "gpu_count": "0", "notes": "A long note. " * 200})
    assert answer.status_code == 302
