"""Words, versions and queues of each runtime; and the facts behind them."""

from __future__ import annotations

import hashlib

import pytest

from benchmarks.registry_models import RuntimeKind
from benchmarks.runtimes.facts import all_facts, facts_of, kinds
from benchmarks.runtimes.metrics import CANONICAL
from benchmarks.runtimes.terms import newer_than_read, queue_is_bounded, terms_of, version_parts
from benchmarks.runtimes.vocabulary import WORD_SET, WORDS


def test_every_kind_that_can_be_registered_has_facts_and_no_other_has() -> None:
    assert set(kinds()) == {kind.value for kind in RuntimeKind}


@pytest.mark.parametrize("kind", sorted(set(kinds()) - {"other"}))
def test_every_read_kind_names_version_date_and_source_in_each_term(kind: str) -> None:
    terms = terms_of(kind)
    assert len(terms) >= 5
    assert {
        bool(t.version_read and t.read_on and t.source and t.tools_definition and t.our_definition) for t in terms
    } == {True}
    assert [t.setting for t in terms] == [s for s in all_facts().our_words if s in facts_of(kind).words]


@pytest.mark.parametrize("kind", kinds())
def test_facts_speak_of_known_settings_and_metrics_only(kind: str) -> None:
    facts = facts_of(kind)
    assert set(facts.words) <= set(all_facts().our_words)
    assert set(facts.metrics) <= set(CANONICAL)
    assert facts.metrics_path is None or facts.metrics_path in facts.look
    assert facts.queue.sentence.endswith(".")


def test_an_unknown_kind_has_no_terms() -> None:
    assert terms_of("abacus") == terms_of("other") == ()


@pytest.mark.parametrize(
    ("kind", "setting", "word"),
    [
        ("vllm", "active_sequences", "--max-num-seqs"),
        ("vllm", "tokens_per_step", "--max-num-batched-tokens"),
        ("sglang", "active_sequences", "--max-running-requests"),
        ("llamacpp", "active_sequences", "--parallel, -np (slots)"),
        ("llamacpp", "queue_cap", None),
        ("ollama", "active_sequences", "OLLAMA_NUM_PARALLEL"),
        ("tgi", "queue_cap", "--max-concurrent-requests"),
        ("trtllm", "active_sequences", "--max_batch_size"),
        ("lmdeploy", "active_sequences", "--max-batch-size"),
    ],
)
def test_our_word_stands_beside_the_tools_own(kind: str, setting: str, word: str | None) -> None:
    assert {t.setting: t.tools_word for t in terms_of(kind)}[setting] == word


def test_vllm_counts_running_requests_in_its_queue_cap_and_has_it_from_0_29() -> None:
    term = next(t for t in terms_of("vllm") if t.setting == "queue_cap")
    assert "waiting AND running" in term.tools_definition
    assert term.since == "0.29.0"


@pytest.mark.parametrize(
    ("kind", "bounded"),
    [
        ("llamacpp", False),
        ("ollama", False),
        ("lmdeploy", False),
        ("tgi", True),
        ("vllm", None),
        ("sglang", None),
        ("trtllm", None),
        ("triton", None),
        ("simulator", None),
        ("other", None),
        ("abacus", None),
    ],
)
def test_whether_a_bare_runtime_bounds_its_queue(kind: str, bounded: bool | None) -> None:
    assert queue_is_bounded(kind).bounded is bounded


@pytest.mark.parametrize(
    ("kind", "version", "warns"),
    [
        ("llamacpp", "b6910", None),
        ("llamacpp", "b11549", None),
        ("llamacpp", "b11550", "newer"),
        ("llamacpp", "b11550-0c1e57098", "newer"),
        ("llamacpp", "2026.10.11549", None),
        ("llamacpp", "2026.11.11550", "newer"),
        ("llamacpp", "b0-unknown", "cannot be compared"),
        ("llamacpp", "b1-7e4c0a9", "cannot be compared"),
        ("llamacpp", "0.10434.0", "cannot be compared"),
        ("vllm", "0.33.0", None),
        ("vllm", "v0.33.0", None),
        ("vllm", "0.9.2", None),
        ("vllm", "0.33.1", "newer"),
        ("vllm", "0.100", "newer"),
        ("vllm", "1.0.0rc1", "newer"),
        ("vllm", "main", "cannot be compared"),
        ("ollama", "0.33.0", "cannot be compared"),
        ("vllm", "", None),
        ("other", "9.9", None),
    ],
)
def test_a_runtime_newer_than_what_was_read_is_warned_of(kind: str, version: str, warns: str | None) -> None:
    warning = newer_than_read(kind, version)
    assert (warning is None) == (warns is None)
    assert warns is None or (warns in (warning or "") and version in (warning or ""))


@pytest.mark.parametrize(
    ("version", "parts"),
    [
        ("0.33", (0, 33, 0, 0)),
        ("0.33.0", (0, 33, 0, 0)),
        ("b6910", (6910,)),
        ("2026.10.11549", (11549,)),
        ("b999", None),
        ("commit fb3076099", None),
    ],
)
def test_versions_become_numbers_that_compare(version: str, parts: tuple[int, ...] | None) -> None:
    assert version_parts(version) == parts


def test_the_words_are_256_pairs_of_consonant_and_vowel_in_a_fixed_order() -> None:
    assert len(WORDS) == len(WORD_SET) == 256
    assert list(WORDS) == sorted(WORDS)
    assert {(w[0] in "bdfgklmnprstvz", w[1] in "aeiou", w[2] in "bdfgklmnprstvz", w[3] in "aeiou") for w in WORDS} == {
        (True,) * 4
    }
    assert {len(word) for word in WORDS} == {4}
    digest = hashlib.sha256(" ".join(WORDS).encode()).hexdigest()
    assert digest == "cbec8ff2a2b216d886eb684b989ed43423c9da54459fae2d2be68388bb2e2110"  # never to change
