"""Memory foreseen for hosts, runtimes and settings as they are registered; what is not known is never called safe."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from benchmarks import foreseen
from benchmarks.foreseen import Asked, Foreseen, NotKnown
from benchmarks.foreseen_words import plan_lines
from benchmarks.memory.geometry import as_json
from benchmarks.memory.prediction import GIB, Room
from benchmarks.models import Hardware, HardwareProbe, Runtime
from benchmarks.records.lengths import ClassLengths
from tests.benchmarks.memory.files import LLAMA_8B, geometry
from tests.factories import make_hardware, make_runtime

pytestmark = pytest.mark.django_db

CARD: dict[str, Any] = {"gpu": "A100", "gpu_count": 1, "vram_gib": 80.0, "name": "GPU host"}


def kept(weights_gib: float | None = 16.0) -> dict[str, object]:
    size = None if weights_gib is None else round(weights_gib * GIB)
    return as_json(geometry(**LLAMA_8B)) | {"weights_bytes": size}


def served(host: Hardware | None = None, **fields: Any) -> Runtime:
    plain: dict[str, Any] = {"kind": "tgi", "name": "Chat", "geometry": kept(), "max_active_sequences": None}
    return make_runtime(host or make_hardware(**CARD), **plain | fields)


def asked(in_flight: int = 8, tokens: int = 8192, **fields: Any) -> Asked:
    return Asked(classes=[of_length(tokens)], turns=1, in_flight=in_flight, **{"max_vram_share": 0.92} | fields)


def of_length(tokens: int, name: str = "long") -> ClassLengths:
    from benchmarks.engine.plan import Fixed

    return ClassLengths(name, 1.0, Fixed(tokens - 100), Fixed(100), None)


def probed(host: Hardware, **facts: object) -> HardwareProbe:
    at = datetime(2026, 11, 14, 9, 0, tzinfo=UTC)
    return HardwareProbe.objects.create(hardware=host, at=at, worker="w", facts=facts, digest="0" * 64)


def sure(runtime: Runtime, wanted: Asked) -> Foreseen:
    found = foreseen.foresee(runtime, wanted)
    assert isinstance(found, Foreseen), found
    return found


def room(host: Hardware, runtime: Runtime) -> Room | NotKnown:
    found = foreseen.foresee(runtime, asked())
    return found if isinstance(found, NotKnown) else found.room


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"geometry": None}, "The model's geometry is not recorded"),
        ({"geometry": kept(None)}, "The size of the model's weights is not recorded"),
        ({"geometry": {"architecture": "x"}}, "cannot be read"),
    ],
)
def test_what_is_missing_is_named_and_nothing_is_called_safe(fields: dict[str, Any], reason: str) -> None:
    found = foreseen.foresee(served(**fields), asked())
    assert isinstance(found, NotKnown)
    assert reason in found.reason
    lines = plan_lines(served(**fields), asked())
    assert [line.kind for line in lines] == ["info"]
    assert "nothing is said to fit" in lines[0].text


@pytest.mark.parametrize(
    ("declared", "facts", "expected"),
    [
        (CARD, {}, (80.0, "VRAM as declared", 1)),
        (CARD, {"gpus": [{"vram_bytes": 79 * GIB}]}, (79.0, "VRAM as probed", 1)),
        (CARD, {"gpus": [{"vram_bytes": "not supported"}]}, (80.0, "VRAM as declared", 1)),
        ({}, {"gpus": [{"vram_bytes": 40 * GIB}, {"vram_bytes": 40 * GIB}]}, (40.0, "VRAM as probed, 1 of 2 GPUs", 1)),
        ({**CARD, "gpu_count": 4, "vram_gib": 320.0}, {}, (80.0, "VRAM as declared, 1 of 4 GPUs", 1)),
        ({}, {}, (16.0, "host memory, without a GPU", 0)),
        ({}, {"gpus": "no NVIDIA GPU", "ram_bytes": 15 * GIB}, (15.0, "host memory, without a GPU", 0)),
    ],
)
def test_the_memory_of_a_host_is_probed_or_declared(
    declared: dict[str, Any], facts: dict[str, object], expected: tuple[float, str, int]
) -> None:
    host = make_hardware(**declared)
    if facts:
        probed(host, **facts)
    found = room(host, served(host))
    assert isinstance(found, Room)
    assert (found.total_bytes / GIB, found.words, found.gpus) == expected
    assert found.share == (0.92 if found.gpus else foreseen.HOST_SHARE)


@pytest.mark.parametrize(
    ("declared", "facts"),
    [
        ({"gpu": "A100", "gpu_count": 1}, {}),
        ({}, {"gpus": [{"vram_bytes": "not supported (NotSupported)"}]}),
        ({"ram_gib": None}, {}),
    ],
)
def test_a_host_whose_memory_nobody_knows(declared: dict[str, Any], facts: dict[str, object]) -> None:
    host = make_hardware(**declared)
    if facts:
        probed(host, **facts)
    assert isinstance(room(host, served(host)), NotKnown)


def test_tensor_parallel_ranks_and_llamacpp_use_more_than_one_gpu() -> None:
    four = make_hardware(**{**CARD, "gpu_count": 4, "vram_gib": 320.0})
    assert sure(served(four, kind="vllm", flags="vllm serve M -tp 2"), asked()).room.total_bytes == 160 * GIB
    found = sure(served(four, kind="llamacpp", flags="llama-server -np 2 -c 4096"), asked())
    assert (found.room.total_bytes, found.room.gpus) == (320 * GIB, 4)


@pytest.mark.parametrize(("in_flight", "most", "held"), [(8, None, 8), (8, 4, 4), (2, 4, 2)])
def test_what_waits_holds_no_kv(in_flight: int, most: int | None, held: int) -> None:
    found = sure(served(max_active_sequences=most), asked(in_flight))
    assert found.prediction.sequences == held
    assert found.prediction.kv_bytes == held * GIB


def test_the_longest_class_counts_and_the_context_bounds_it() -> None:
    runtime = served(context_per_sequence_tokens=4096)
    assert foreseen.longest_tokens(asked(tokens=8192), runtime) == 4096
    assert foreseen.longest_tokens(asked(tokens=1000), runtime) == 1000
    both = Asked(classes=[of_length(500), of_length(900)], turns=3, in_flight=1, max_vram_share=0.9)
    assert foreseen.longest_tokens(both, runtime) == 2700
    assert foreseen.longest_tokens(Asked((), 1, 1, 0.9), runtime) is None


@pytest.mark.parametrize(("in_flight", "kind"), [(56, "ok"), (57, "warn")])
def test_the_plan_warns_above_the_limit_with_the_figures(in_flight: int, kind: str) -> None:
    """80 GiB x 0.92 = 73.6: 16 of weights, 1 assumed, 1 for each sequence of 8,192 tokens."""
    line = plan_lines(served(), asked(in_flight))[0]
    assert line.kind == kind
    assert f"KV of {in_flight} sequences of 8,192 tokens {in_flight}.00 GiB" in line.text
    assert f"{in_flight + 17}.00 GiB" in line.text
    assert "80.00 GiB VRAM as declared" in line.text
    assert ("That is above 92\u00a0%: the worker will not run such cells" in line.text) == (kind == "warn")


def test_an_objective_may_allow_less() -> None:
    assert plan_lines(served(), asked(8, max_vram_share=0.30))[0].kind == "warn"


def test_what_slots_reserve_counts_whatever_is_sent() -> None:
    runtime = served(kind="llamacpp", flags="llama-server -m a.gguf -np 8 -c 65536")
    found = sure(runtime, asked(1, 100))
    assert found.prediction.kv_reserved_bytes == 8 * GIB
    assert "KV 8.00 GiB, as its slots reserve it" in found.sum_words


@pytest.mark.parametrize(
    ("flags", "tokens", "sentence"),
    [
        (
            "llama-server -np 4 -c 8192",
            2049,
            "A slot (8,192 / 4) has 2,048 tokens of context, and the longest tested request",
        ),
        ("llama-server -np 4 -c 8192", 2048, None),
        ("llama-server -np 3 -c 8192", 2800, None),
        ("llama-server -np 4 -c 8192 -kvu", 8193, "The pool of all slots has 8,192 tokens"),
        ("", 100_000, None),
        ("llama-server -np 4", 100_000, None),
    ],
)
def test_a_slot_too_small_for_the_longest_request_is_warned_of(flags: str, tokens: int, sentence: str | None) -> None:
    lines = plan_lines(served(kind="llamacpp", flags=flags, geometry=None), asked(tokens=tokens))
    found = [line.text for line in lines if line.kind == "warn"]
    assert len(found) == (sentence is not None)
    assert sentence is None or found[0].startswith(sentence)


def test_a_shared_pool_says_how_many_sequences_it_holds() -> None:
    runtime = served(kind="llamacpp", flags="llama-server -np 4 -c 8192 -kvu")
    texts = [(line.kind, line.text) for line in plan_lines(runtime, asked(4, 4096)) if "pool" in line.text]
    assert [kind for kind, _ in texts] == ["warn"]
    assert (
        "of 1.00 GiB that all sequences share holds 2 sequences if all are long (p99), 2 by the workload's"
        in texts[0][1]
    )
    assert "every active request of llama.cpp fails" in texts[0][1]


def test_the_pool_of_vllm_is_what_its_share_leaves() -> None:
    runtime = served(kind="vllm", flags="vllm serve M --gpu-memory-utilization 0.5")
    lines = plan_lines(runtime, asked(8))
    assert [line.kind for line in lines] == ["ok", "info"]
    assert "the runtime takes 40.00 GiB at its start" in lines[0].text
    assert "The KV pool of 23.00 GiB that all sequences share holds 23 sequences" in lines[1].text


def test_a_runtime_that_the_worker_starts_has_the_setting_as_its_slots() -> None:
    profile = {"kind": "llamacpp", "endpoint": "http://127.0.0.1:9", "settings": [1, 16], "context_per_sequence": 8192}
    host = make_hardware(**CARD, offers={"profiles": {"llama": profile}})
    runtime = served(host, kind="llamacpp", launch_profile="llama", max_active_sequences=4)
    found = sure(runtime, asked(16, managed=True))
    assert (found.prediction.sequences, found.prediction.kv_reserved_bytes) == (16, 16 * GIB)
    other = served(host, kind="vllm", launch_profile="llama", max_active_sequences=4)
    assert sure(other, asked(16, managed=True)).prediction.sequences == 16


def test_the_plan_says_what_a_runtime_without_windows_keeps() -> None:
    from benchmarks.memory.reading import geometry_of
    from tests.benchmarks.memory.files import public

    runtime = served(geometry=as_json(geometry_of(public("gpt-oss-20b"))) | {"weights_bytes": 12 * GIB})
    text = plan_lines(runtime, asked(1))[0].text
    assert "makes no use of windows and shared layers keeps 384.0 MiB of KV instead of 195.0 MiB" in text
