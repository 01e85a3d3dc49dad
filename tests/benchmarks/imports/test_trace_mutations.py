"""Whatever a file holds, reading it ends in a trace or in a sentence, never in another error."""

from __future__ import annotations

import random

import numpy as np
import pytest

from benchmarks.imports.classes import classes_of_densities, classes_of_trace
from benchmarks.imports.servegen import Densities, RateProfile
from benchmarks.imports.trace_facts import facts_of, warnings_about
from benchmarks.imports.trace_text import TraceRefused
from benchmarks.imports.traces import Trace, read_trace
from tests.benchmarks.imports.files import FOLDER, csv, file

SEEDS = (
    "azure2023_code_head300.csv", "burstgpt_1_head42.csv", "burstgpt_3_head4.csv", "dynamo_mooncake_tiny.jsonl",
    "servegen_deepseek-r1_chunk-1-trace.csv", "servegen_mm-image_chunk-16-dataset.json", "vidur_splitwise_code_head60.csv",
)  # fmt: skip
SPLICES = (
    b"", b"\x00", b"\xff", b"\r", b"\n", b"\r\n", b",", b",,", b'"', b"{", b"}", b"[", b"]", b":", b"-", b"nan", b"inf",
    b"1e999", b"1e-999", b"9" * 40, b"null", b"true", b"{}", b"[[]]", "١٢".encode(), "\u2028".encode(), b"\xef\xbb\xbf",
    b"2023-02-30 25:61:61", b"+24:00", b"Z", b" ", b"\t", b";", b"__import__('os')",
)  # fmt: skip


def mutated(data: bytes, dice: random.Random) -> bytes:
    """One to three bytes, runs or words changed, put in, taken out or doubled."""
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(data) + 1)
        end = min(len(data), at + dice.choice((0, 1, 1, 2, 5, 40)))
        put = dice.choice(SPLICES) if dice.random() < 0.8 else data[dice.randrange(len(data) + 1) :][:60]
        data = data[:at] + put + data[end:]
    return data


def whole(found: Trace | Densities | RateProfile) -> None:
    """What everything after the reader relies on."""
    if isinstance(found, RateProfile):
        assert (found.rates_per_s >= 0).all()
        assert len(found.steps()) == len(found.rates_per_s)
        return
    if isinstance(found, Densities):
        assert len(classes_of_densities(found)) == 3
        return
    assert len(found) == len(found.prompt_tokens) == len(found.output_tokens) > 0
    assert min(found.prompt_tokens.min(), found.output_tokens.min()) >= 1
    if found.offsets_s is not None:
        assert np.isfinite(found.offsets_s).all()
        assert found.offsets_s[0] == 0
        assert (np.diff(found.offsets_s) >= 0).all()
    warnings_about(found, facts_of(found))
    assert sum(c.weight for c in classes_of_trace(found)) == pytest.approx(1.0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", SEEDS)
def test_a_damaged_trace_is_read_or_refused_with_a_sentence(name: str) -> None:
    data, dice = file(name), random.Random(name)
    data = data if len(data) < 3000 else data[:3000].rpartition(b"\n")[0]
    refusals = []
    for _ in range(400):
        try:
            whole(read_trace(mutated(data, dice)))
        except TraceRefused as refusal:
            refusals.append(str(refusal))
    assert 0 < len(refusals) < 400
    assert [said for said in refusals if not said.endswith((".", "?")) or len(said) > 600] == []


@pytest.mark.parametrize("name", sorted(p.name for p in FOLDER.iterdir() if p.suffix in (".csv", ".jsonl", ".gz")))
def test_every_trace_kept_here_is_read_whole(name: str) -> None:
    whole(read_trace(file(name)))


@pytest.mark.parametrize(
    "cell, read",
    [
        ("5", True),
        (" 5 ", True),
        ("5.0", True),
        ("5e0", True),
        ("+5", True),
        ("5.5", False),
        ("0x5", False),
        ("5,0", False),
        ("five", False),
        ("", False),
        ("٥", True),
        ("1e7", False),
    ],
)
def test_a_length_is_a_whole_number_however_it_is_written(cell: str, read: bool) -> None:
    data = csv("prompt_tokens;output_tokens", f"{cell};7")
    if read:
        found = read_trace(data)
        assert isinstance(found, Trace)
        assert found.prompt_tokens.tolist() == [5]
    else:
        with pytest.raises(TraceRefused, match="is not a whole number of tokens"):
            read_trace(data)
