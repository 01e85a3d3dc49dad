"""Tokens that a server does not count are counted by the model's own tokeniser, pinned by its digest, or stay unknown."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from benchmarks import preflight
from benchmarks.engine.columns import from_frames
from benchmarks.engine.summary import summarise
from benchmarks.engine.terms import RequestRecord, Uncounted
from benchmarks.records import parquet, tokenizers
from benchmarks.records.tokenizers import TokenizerError
from tests.benchmarks.engine.loads.running import run_cell
from tests.benchmarks.engine.scripted import DONE, GOOD, delta, finish, stream

THREE_WORDS = stream(delta(content="bebo"), delta(content=" loli bebo"), finish(), DONE)
THOUGHT = stream(delta(reasoning_content="bebo"), delta(content=" loli"), finish(), DONE)


@pytest.fixture(scope="module")
def pinned(tmp_path_factory) -> tuple[Path, str]:
    """A folder with a tokeniser that makes a token of each word and puts one more before each text, and its digest."""
    folder = tmp_path_factory.mktemp("tokenizers")
    made = Tokenizer(models.WordLevel({"[UNK]": 0, "[BOS]": 1, "bebo": 2, "loli": 3}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(single="[BOS] $A", special_tokens=[("[BOS]", 1)])
    path = folder / "some-model" / "tokenizer.json"
    path.parent.mkdir()
    made.save(str(path))
    return folder, hashlib.sha256(path.read_bytes()).hexdigest()


def measured(tmp_path, pinned, script, *, pin=True, **changes):
    folder, digest = pinned
    left = run_cell(
        tmp_path,
        [script],
        window_s=0.3,
        warmup_s=0.0,
        max_requests=6,
        tokenizer_sha256=digest if pin else "",
        **changes,
    )
    return left, from_frames(left.frames, counter=lambda sha256: tokenizers.opened(tokenizers.found(folder, sha256)))


@pytest.mark.parametrize(
    ("script", "pin", "tokens", "source"),
    [
        pytest.param(
            THREE_WORDS, True, 3, "tokenizer", id="no count, a pinned tokeniser: its words, without the begin"
        ),
        pytest.param(THREE_WORDS, False, None, "unknown", id="no count, nothing pinned"),
        pytest.param(GOOD, True, 2, "server", id="the server's own count stands"),
        pytest.param(THOUGHT, True, None, "unknown", id="reasoning is not kept, so its tokens cannot be counted"),
    ],
)
def test_a_success_is_counted_by_the_server_else_by_the_pinned_tokeniser_else_not(
    tmp_path, pinned, script, pin, tokens, source
):
    left, columns = measured(tmp_path, pinned, script, pin=pin)
    told = columns.requests.masked["output_tokens"]
    found = {int(n) if known else None for n, known in zip(told.values, told.known, strict=True)}
    assert (len(left.records), found) == (6, {tokens})
    summary = summarise(columns, columns.plan)
    assert set(summary.of_class("short").token_sources) == {source}
    assert (summary.of_class("short").output_tokens_per_s is None) == (tokens is None)


def test_what_was_counted_stands_in_the_evidence_and_the_texts_do_not(tmp_path, pinned):
    left, columns = measured(tmp_path, pinned, THREE_WORDS)
    assert sum(isinstance(frame, Uncounted) for frame in left.frames) == 6
    kept = parquet.write(columns)
    read = parquet.read(kept)
    assert read.requests.masked["output_tokens"].values.tolist() == [3] * 6
    assert summarise(read, read.plan) == summarise(columns, columns.plan)


def test_only_the_attempt_whose_text_it_is_gets_the_count(tmp_path, pinned):
    left, _ = measured(tmp_path, pinned, THREE_WORDS)
    frames = [f for f in left.frames if not isinstance(f, Uncounted)]
    one = next(frame for frame in left.frames if isinstance(frame, RequestRecord))
    frames.append(Uncounted(index=one.index, attempt=one.attempt, answer="bebo bebo"))
    told = from_frames(frames, counter=lambda _: lambda texts: [len(text.split()) for text in texts]).requests
    counted = told.masked["output_tokens"]
    assert [int(n) for n in told.plain["index"][counted.known]] == [one.index]
    assert counted.values[counted.known].tolist() == [2]


def test_a_tokeniser_that_is_gone_after_the_cell_leaves_its_tokens_unknown_and_the_rest_as_it_is(
    settings, tmp_path, pinned, caplog
):
    left, whole = measured(tmp_path, pinned, THREE_WORDS)
    settings.TOKENIZERS = tmp_path / "gone"
    columns = from_frames(left.frames, counter=preflight.counting_if_there)
    assert not columns.requests.masked["output_tokens"].known.any()
    assert len(columns.requests) == len(whole.requests) == 6
    assert summarise(columns, columns.plan).of_class("short").token_sources == {"unknown": 6}
    assert "Tokens that no server counted stay unknown" in caplog.text


def test_a_digest_that_no_file_has_says_where_to_put_the_file(pinned):
    with pytest.raises(TokenizerError, match=f"put the model's tokenizer.json into {pinned[0]}"):
        tokenizers.found(pinned[0], "0" * 64)


@pytest.mark.parametrize("content", [b"", b"{}", b"\x00\xff", b'{"version": "1.0"}'])
def test_a_file_that_is_no_tokeniser_is_refused_in_words(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(TokenizerError, match=r"tokenizer\.json is no tokenizer\.json that can be read"):
        tokenizers.opened(tokenizers.found(tmp_path, hashlib.sha256(content).hexdigest()))
