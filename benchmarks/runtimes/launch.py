"""How a runtime is started with one setting: launch lines to copy, what their placeholders stand for, what it must say of
itself afterwards, and what is warned of before.

Nothing here starts anything: the words to execute come from the host's own file alone.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

from benchmarks.runtimes.endpoint import EndpointFacts
from benchmarks.runtimes.facts import facts_of

LLAMACPP = "llamacpp"
EXAMPLE_CONTEXT, EXAMPLE_SETTINGS, EXAMPLE_READY_S = 4096, (1, 16), 300
_CONTEXT_PLACES = ("{context}", "{context_total}")


class LaunchLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`context_multiple`: the runtime rounds the tokens of one sequence up to a multiple of this."""

    command: tuple[str, ...]
    port: int
    health: str
    setting: str
    reads_back: tuple[str, ...]
    environment: dict[str, str] = {}
    context_multiple: int = 1


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the runtime was started for. None where the profile leaves the context to the runtime."""

    active_sequences: int
    context_per_sequence_tokens: int | None


class Effective(msgspec.Struct, frozen=True, kw_only=True):
    """What the runtime says of itself; None where it does not tell. `sources`: fact -> page that said it."""

    active_sequences: int | None
    context_per_sequence_tokens: int | None
    kv_capacity_tokens: int | None
    version: str | None
    sources: dict[str, str]


@cache
def _lines() -> dict[str, LaunchLine]:
    raw = Path(__file__).with_name("launch_lines.yaml").read_bytes()
    return msgspec.yaml.decode(raw, type=dict[str, LaunchLine])


def kinds() -> tuple[str, ...]:
    """Kinds that have a launch line of their own, and `other`."""
    return tuple(_lines())


def line_of(kind: str) -> LaunchLine:
    """The launch line of a kind; the generic one for a kind that has none."""
    return _lines().get(kind, _lines()["other"])


def example(kind: str) -> str:
    """A profile of this kind as the host file wants it, in TOML, for the operator to complete."""
    line = line_of(kind)
    texts = (*line.command, *line.environment.values())
    wants_context = any(place in text for text in texts for place in _CONTEXT_PLACES)
    rows = [
        f"[profiles.{kind}]",
        f'kind = "{kind}"',
        f"command = {_toml_list(line.command)}",
        f'endpoint = "http://127.0.0.1:{line.port}"',
        f"settings = [{EXAMPLE_SETTINGS[0]}, {EXAMPLE_SETTINGS[1]}]",
        *([f"context_per_sequence = {EXAMPLE_CONTEXT}"] if wants_context else []),
        f"ready_within_s = {EXAMPLE_READY_S}",
        *([f"environment = {_toml_table(line.environment)}"] if line.environment else []),
    ]
    return "\n".join(rows) + "\n"


def asked(kind: str, *, setting: int, context_per_sequence: int | None) -> Asked:
    """The setting, and the context as this runtime rounds it: llama.cpp to a multiple of 256."""
    multiple = line_of(kind).context_multiple
    tokens = None if context_per_sequence is None else -(-context_per_sequence // multiple) * multiple
    return Asked(active_sequences=setting, context_per_sequence_tokens=tokens)


def values_of(wanted: Asked, *, port: int) -> dict[str, object]:
    """What each placeholder of a command stands for. All sequences together have `context_total` tokens."""
    tokens = wanted.context_per_sequence_tokens or 0
    return {
        "setting": wanted.active_sequences,
        "port": port,
        "context": tokens,
        "context_total": tokens * wanted.active_sequences,
    }


def effective(kind: str, facts: EndpointFacts) -> Effective:
    """What was read back. llama.cpp does not tell its KV capacity, which is that of all slots together."""
    slots, tokens, capacity = (
        facts.max_active_sequences, facts.context_per_sequence_tokens, facts.kv_capacity_tokens
    )  # fmt: skip
    sources = {name: path for name, path in facts.sources.items() if name != "models"}
    if kind == LLAMACPP and capacity is None and slots and tokens:
        capacity, sources = slots * tokens, sources | {"kv_capacity_tokens": "slots × context per slot"}
    return Effective(
        active_sequences=slots,
        context_per_sequence_tokens=tokens,
        kv_capacity_tokens=capacity,
        version=facts.version,
        sources=sources,
    )


def difference(kind: str, wanted: Asked, found: Effective) -> str | None:
    """Why what runs is not what was asked for; None when it is, as far as the runtime tells."""
    facts = facts_of(kind)
    word = facts.words["active_sequences"].word if "active_sequences" in facts.words else None
    said = f" ({word})" if word else ""
    runs, context = found.active_sequences, found.context_per_sequence_tokens
    if runs is not None and runs != wanted.active_sequences:
        return (
            f"{facts.name} was asked for {wanted.active_sequences:,} active sequences{said} and says it has {runs:,}. "
            "Look at the profile's command in the host file."
        )
    asked_tokens = wanted.context_per_sequence_tokens
    if asked_tokens is None or context is None or context == asked_tokens:
        return None
    unified = kind == LLAMACPP and context == asked_tokens * wanted.active_sequences
    why = "its KV cache is unified: add --no-kv-unified" if unified else "look at the profile's command and the model"
    return f"{facts.name} was asked for {asked_tokens:,} tokens a sequence and says it has {context:,}: {why}."


def warnings_about(kind: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """What in a launch line makes a measurement doubtful, as sentences. Only llama.cpp has such defaults."""
    if kind != LLAMACPP or not command:
        return ()
    given, surroundings = tuple(command), environment or {}
    if not _is_own_server(given):
        return tuple(_about_shared_pool(given, surroundings))
    found = [*_about_unified_kv(given, surroundings)]
    if _value(given, ("--fit", "-fit"), surroundings, "LLAMA_ARG_FIT") not in ("off", "0", "false"):
        found.append(
            "llama.cpp changes context and offload to fit the memory it finds, unless it is started with --fit off."
        )
    if _value(given, ("--cache-ram", "-cram"), surroundings, "LLAMA_ARG_CACHE_RAM") != "0":
        found.append(
            "llama.cpp keeps up to 8,192 MiB of earlier prompts in host memory: start it with --cache-ram 0, so that no "
            "prompt is answered from there."
        )
    return tuple(found)


def warnings_of_flags(kind: str, flags: str) -> tuple[str, ...]:
    """The same for flags as a person typed them; none where nothing is recorded or the text cannot be taken apart."""
    try:
        return warnings_about(kind, shlex.split(flags, comments=True))
    except ValueError:
        return ()


def _is_own_server(command: tuple[str, ...]) -> bool:
    """Whether these are llama.cpp's own words, not those of a program that starts it: of that nothing is known."""
    return command[0].startswith("-") or any("llama-server" in word or "llama.cpp:server" in word for word in command)


def _about_unified_kv(command: tuple[str, ...], environment: Mapping[str, str]) -> list[str]:
    if _value(command, ("-np", "--parallel"), environment, "LLAMA_ARG_N_PARALLEL") in (None, "-1"):
        return [
            "No slot count is given (-np): llama.cpp then takes 4 slots on one unified KV cache that all share, and when "
            "it is full every running request fails. Start it with -np N --no-kv-unified."
        ]
    return _about_shared_pool(command, environment)


def _about_shared_pool(command: tuple[str, ...], environment: Mapping[str, str]) -> list[str]:
    on = any(word in ("-kvu", "--kv-unified") for word in command) or environment.get("LLAMA_ARG_KV_UNIFIED") == "1"
    if not on or any(word in ("-no-kvu", "--no-kv-unified") for word in command):
        return []
    return [
        "The KV cache is unified (-kvu): all slots share one pool, and when it is full every running request fails. "
        "Start it with --no-kv-unified, so that each slot has its own."
    ]


def _value(
    command: tuple[str, ...], names: tuple[str, ...], environment: Mapping[str, str], variable: str
) -> str | None:
    """The value after the last of these names, or of the environment variable; None where neither is there."""
    found = environment.get(variable)
    for word, following in zip(command, (*command[1:], ""), strict=True):
        name, sign, value = word.partition("=")
        if word in names:
            found = following
        elif sign and name in names:
            found = value
    return found


def _toml_list(words: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{word}"' for word in words) + "]"


def _toml_table(values: Mapping[str, str]) -> str:
    return "{ " + ", ".join(f'{name} = "{value}"' for name, value in values.items()) + " }"
