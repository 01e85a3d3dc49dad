"""Our word beside the tool's own, with both definitions and their source; and who bounds a queue."""

from __future__ import annotations

import re

import msgspec

from benchmarks.runtimes.facts import all_facts, facts_of


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """One setting. `tools_word` None: the tool has no such setting, `tools_definition` says what happens instead."""

    setting: str
    our_word: str
    our_definition: str
    our_unit: str
    tools_word: str | None
    tools_definition: str
    tools_default: str
    tools_unit: str
    since: str
    source: str
    version_read: str
    read_on: str


class QueueFact(msgspec.Struct, frozen=True, kw_only=True):
    """`bounded` None: it depends on a setting, or is not known; the sentence says which."""

    bounded: bool | None
    sentence: str
    source: str


def terms_of(kind: str) -> tuple[Term, ...]:
    """Every setting that was read for this kind, in the order of our words. Empty for a kind nobody has read."""
    facts = facts_of(kind)
    return tuple(
        Term(
            setting=setting,
            our_word=ours.name,
            our_definition=ours.definition,
            our_unit=ours.unit,
            tools_word=tools.word,
            tools_definition=tools.definition,
            tools_default=tools.default,
            tools_unit=tools.unit,
            since=tools.since,
            source=facts.source,
            version_read=facts.version_read,
            read_on=facts.read_on,
        )
        for setting, ours in all_facts().our_words.items()
        if (tools := facts.words.get(setting)) is not None
    )


def queue_is_bounded(kind: str) -> QueueFact:
    """Whether the bare runtime refuses when too many wait."""
    queue = facts_of(kind).queue
    return QueueFact(bounded=queue.bounded, sentence=queue.sentence, source=queue.source)


def newer_than_read(kind: str, version: str) -> str | None:
    """A warning when the runtime is newer than what was read, or cannot be compared; None when it is not newer.

    An empty version says nothing and gets no sentence here.
    """
    facts = facts_of(kind)
    if not version.strip() or not facts.version_read:
        return None
    read, runs = version_parts(facts.version_read), version_parts(version)
    if read is None or runs is None or (len(read) == 1) != (len(runs) == 1):
        return (
            f"{facts.name} reports version {version}, which cannot be compared with {facts.version_read}, "
            f"the version these words were read from on {facts.read_on}."
        )
    if runs > read:
        return (
            f"{facts.name} {version} is newer than {facts.version_read}, the version these words were read from "
            f"on {facts.read_on}: names and defaults may have changed."
        )
    return None


def version_parts(version: str) -> tuple[int, ...] | None:
    """Numbers that can be compared: llama.cpp's build (b6910, or 2026.10.11549 of a package) or a dotted version.

    None for what packages leave behind (b0-unknown, b1-7e4c0a9), commits and words.
    """
    text = version.strip().removeprefix("v")
    build = re.fullmatch(r"b(\d+)(?:-.*)?", text) or re.fullmatch(r"20\d\d\.\d+\.(\d{4,})(?:[.+-].*)?", text)
    if build:
        number = int(build.group(1))
        return (number,) if number >= 1000 else None
    dotted = re.match(r"(\d+(?:\.\d+)+)", text)
    if dotted is None:
        return None
    parts = [int(part) for part in dotted.group(1).split(".")]
    return tuple(parts + [0] * (4 - len(parts)))
