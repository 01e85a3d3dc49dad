"""How runtimes are started with one setting: lines, what placeholders stand for, what must be read back, what is warned of."""

from __future__ import annotations

import tomllib
from io import StringIO

import msgspec
import pytest
from django.core.management import call_command

from benchmarks import host_file
from benchmarks.host_file import LaunchProfile
from benchmarks.runtimes import launch
from benchmarks.runtimes.endpoint import EndpointFacts
from benchmarks.runtimes.launch import Asked, Effective

UNIFIED = "No slot count is given (-np)"
POOL = "all slots share one pool"
FIT, RAM = "--fit off", "--cache-ram 0"


def filled(kind: str, setting: int, context: int) -> tuple[list[str], dict[str, str]]:
    """The example of a kind as the worker would start it."""
    profile = msgspec.convert(tomllib.loads(launch.example(kind))["profiles"][kind], LaunchProfile)
    wanted = launch.asked(kind, setting=setting, context_per_sequence=context)
    values = launch.values_of(wanted, port=profile.port)
    surroundings = {name: host_file.filled(text, values) for name, text in profile.environment.items()}
    return [host_file.filled(word, values) for word in profile.command], surroundings


@pytest.mark.parametrize(
    ("kind", "flag", "value"),
    [
        ("llamacpp", "-np", "4"),
        ("llamacpp", "-c", "5120"),
        ("llamacpp", "--port", "8080"),
        ("vllm", "--max-num-seqs", "4"),
        ("vllm", "--max-model-len", "1100"),
        ("sglang", "--max-running-requests", "4"),
        ("sglang", "--context-length", "1100"),
        ("tgi", "--max-batch-size", "4"),
        ("tgi", "--max-total-tokens", "1100"),
        ("trtllm", "--max_batch_size", "4"),
        ("trtllm", "--max_seq_len", "1100"),
        ("simulator", "--active", "4"),
        ("other", "--parallel", "4"),
    ],
)
def test_each_runtime_gets_setting_context_and_port_by_its_own_flags(kind, flag, value):
    command, _ = filled(kind, 4, 1100)
    assert command[command.index(flag) + 1] == value
    assert not any("{" in word for word in command)


def test_ollama_gets_them_by_its_environment():
    _, surroundings = filled("ollama", 4, 1100)
    assert {name: surroundings[name] for name in ("OLLAMA_NUM_PARALLEL", "OLLAMA_CONTEXT_LENGTH", "OLLAMA_HOST")} == {
        "OLLAMA_NUM_PARALLEL": "4", "OLLAMA_CONTEXT_LENGTH": "1100", "OLLAMA_HOST": "127.0.0.1:11434",
    }  # fmt: skip


@pytest.mark.parametrize("kind", launch.kinds())
def test_the_host_file_takes_every_example_and_none_is_warned_of(settings, tmp_path, kind):
    settings.HOST_FILE = tmp_path / "worker.toml"
    settings.HOST_FILE.write_text(launch.example(kind))
    profile = host_file.read().profiles[kind]
    assert profile.kind == kind
    assert launch.warnings_about(kind, profile.command, profile.environment) == ()


def test_the_command_prints_what_the_host_file_takes():
    said = StringIO()
    call_command("launch_profile", "llamacpp", stdout=said)
    assert tomllib.loads(said.getvalue())["profiles"]["llamacpp"]["settings"] == [1, 16]
    assert "-np: slots" in said.getvalue()


@pytest.mark.parametrize(
    ("kind", "setting", "context", "each", "total"),
    [
        ("llamacpp", 1, 4096, 4096, 4096),
        ("llamacpp", 3, 1, 256, 768),
        ("llamacpp", 2, 256, 256, 512),
        ("llamacpp", 2, 257, 512, 1024),
        ("llamacpp", 8, 1000, 1024, 8192),
        ("vllm", 8, 1000, 1000, 8000),
    ],
)
def test_llama_cpp_rounds_the_context_of_a_slot_up_to_256_and_gets_that_of_all_slots(
    kind, setting, context, each, total
):
    values = launch.values_of(launch.asked(kind, setting=setting, context_per_sequence=context), port=1)
    assert (values["context"], values["context_total"]) == (each, total)


def facts(slots: int | None, context: int | None, capacity: int | None = None) -> EndpointFacts:
    return EndpointFacts(
        kind="x", detected_kind=None, reachable=True, simulated=False, models=(), version="b1", max_active_sequences=slots,
        context_per_sequence_tokens=context, kv_capacity_tokens=capacity, metrics=(), metrics_path=None,
        sources={"max_active_sequences": "/props", "models": "/v1/models"}, warnings=(),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "slots", "context", "capacity", "read"),
    [
        ("llamacpp", 4, 1024, None, 4096),
        ("llamacpp", None, 1024, None, None),
        ("llamacpp", 4, 1024, 9, 9),
        ("vllm", 4, 1024, None, None),
    ],
)
def test_kv_capacity_is_read_or_for_llama_cpp_that_of_all_slots(kind, slots, context, capacity, read):
    assert launch.effective(kind, facts(slots, context, capacity)).kv_capacity_tokens == read


@pytest.mark.parametrize(
    ("kind", "asked", "found", "words"),
    [
        ("llamacpp", (4, 1024), (4, 1024), None),
        ("llamacpp", (4, 1024), (None, None), None),
        ("llamacpp", (4, None), (4, 77), None),
        ("llamacpp", (1, 1024), (4, 1024), "asked for 1 active sequences (--parallel, -np (slots)) and says it has 4"),
        ("llamacpp", (4, 1024), (4, 4096), "its KV cache is unified"),
        ("llamacpp", (4, 1024), (4, 512), "asked for 1,024 tokens a sequence and says it has 512"),
        ("sglang", (4, 1024), (2, 1024), "asked for 4 active sequences (--max-running-requests) and says it has 2"),
        ("vllm", (4, 1024), (None, 4096), "look at the profile's command"),
    ],
)
def test_what_was_not_asked_for_is_told_and_what_is_not_reported_is_no_difference(kind, asked, found, words):
    wanted = Asked(active_sequences=asked[0], context_per_sequence_tokens=asked[1])
    has = Effective(
        active_sequences=found[0], context_per_sequence_tokens=found[1], kv_capacity_tokens=None, version=None, sources={}
    )  # fmt: skip
    said = launch.difference(kind, wanted, has)
    assert said is None if words is None else words in said


@pytest.mark.parametrize(
    ("flags", "warned"),
    [
        ("", []),
        ("llama-server -m a.gguf", [UNIFIED, FIT, RAM]),
        ("llama-server -m a.gguf -np -1 --fit off --cache-ram 0", [UNIFIED]),
        ("llama-server -m a.gguf -np 4 --fit off --cache-ram 0", []),
        ("llama-server -m a.gguf --parallel=4 --fit off --cache-ram 0", []),
        ("llama-server -m a.gguf -np 4 -kvu --fit off -cram 0", [POOL]),
        ("llama-server -m a.gguf -np 4 -kvu --no-kv-unified --fit off -cram 0", []),
        ("-m a.gguf -c 4096 --fit off -cram 0", [UNIFIED]),
        ("/opt/llama.cpp/build/bin/llama-server -np 2 --fit on -cram 0", [FIT]),
        ("docker run ghcr.io/ggml-org/llama.cpp:server -m a.gguf --fit off -cram 0", [UNIFIED]),
        ("python -m tools.llamacpp_server a.gguf --slots 4", []),
        ("python -m tools.llamacpp_server a.gguf --slots 4 --kv-unified 4096", [POOL]),
        ("llama-server 'no closing quote", []),
    ],
)
def test_a_unified_kv_cache_and_moving_defaults_of_llama_cpp_are_warned_of(flags, warned):
    found = launch.warnings_of_flags("llamacpp", flags)
    assert [any(word in text for word in warned) for text in found] == [True] * len(warned)
    assert launch.warnings_of_flags("vllm", flags) == ()


def test_the_environment_counts_as_the_flags_do():
    surroundings = {"LLAMA_ARG_N_PARALLEL": "4", "LLAMA_ARG_FIT": "off", "LLAMA_ARG_CACHE_RAM": "0"}
    assert launch.warnings_about("llamacpp", ["llama-server"], surroundings) == ()
    assert POOL in launch.warnings_about("llamacpp", ["llama-server"], surroundings | {"LLAMA_ARG_KV_UNIFIED": "1"})[0]
