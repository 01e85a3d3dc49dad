"""The truth is complete and lies next to the socket: what a client's own stamps are held against."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
import pytest

from benchmarks.simulator.prefixes import PrefixCache
from benchmarks.simulator.profiles import CALIBRATE
from benchmarks.simulator.truth import prompt_digest

from .conftest import Start
from .test_simulator_server import CHAT, chat, events

STREAMS, TOKENS = 256, 12


async def _read_all(url: str) -> list[tuple[str, int]]:
    """256 streams at once; for each the text and the time of its end."""
    limits = httpx.Limits(max_connections=STREAMS)
    async with httpx.AsyncClient(trust_env=False, timeout=60.0, limits=limits) as client:

        async def one(number: int) -> tuple[str, int]:
            prompt = f"bafa bada {number}"
            answer = await client.post(url + CHAT, json=chat(prompt, max_tokens=TOKENS, stream=True))
            return answer.text, time.monotonic_ns()

        return await asyncio.gather(*(one(number) for number in range(STREAMS)))


@pytest.fixture(scope="module")
def calibrated(start_simulator: Start) -> tuple[list[tuple[str, int]], list[dict[str, Any]]]:
    url = start_simulator("--profile", "calibrate")
    read = asyncio.run(_read_all(url))
    return read, httpx.get(url + "/truth", trust_env=False).json()["requests"]


def test_of_256_streams_every_token_has_its_stamp(calibrated: tuple[list[Any], list[Any]]) -> None:
    _, truths = calibrated
    assert len(truths) == STREAMS
    assert {len(truth["t_tokens_ns"]) for truth in truths} == {TOKENS}
    assert {truth["outcome"] for truth in truths} == {"finished"}
    for truth in truths:
        stamps = [truth["t_received_ns"], truth["t_head_ns"], *truth["t_tokens_ns"], truth["t_end_ns"]]
        assert stamps == sorted(stamps)


def test_every_truth_is_joined_to_its_request_by_the_prompt(calibrated: tuple[list[Any], list[Any]]) -> None:
    read, truths = calibrated
    by_digest = {truth["prompt_digest"]: truth for truth in truths}
    assert len(by_digest) == STREAMS
    for number, (text, ended_ns) in enumerate(read):
        truth = by_digest[prompt_digest(f"bafa bada {number}")]
        assert events(text)[0]["id"] == truth["id"]
        assert truth["t_end_ns"] < ended_ns


def test_the_profile_for_calibrating_keeps_its_pace_whatever_the_load() -> None:
    assert [CALIBRATE.decode_step_s(active) for active in (1, 64, 256, 1024)] == pytest.approx([0.02] * 4)


def test_a_request_may_wait_with_its_head_already_sent_or_with_nothing(
    start_simulator: Start, client: httpx.Client
) -> None:
    """Behind a slot that is taken: by default the head comes at once and the text later, with headers_late together."""
    url = start_simulator("--active", "1")
    for fault in ("", "headers_late"):
        long = chat(max_tokens=200, stream=True)
        with client.stream("POST", url + CHAT, json=long), httpx.Client(trust_env=False, timeout=20.0) as other:
            headers = {"X-Headroom-Fault": fault} if fault else {}
            other.post(url + CHAT, json=chat(max_tokens=1, stream=True), headers=headers)
        ahead, waited = client.get(url + "/truth?last=2").json()["requests"]
        assert waited["t_first_ns"] > ahead["t_last_ns"]
        assert (waited["t_head_ns"] < ahead["t_last_ns"]) == (fault == "")


@pytest.mark.parametrize(
    ("prompts", "cached"),
    [
        (["a " * 15, "a " * 15], [0, 0]),
        (["a " * 17, "a " * 17], [0, 16]),
        (["a " * 16, "a " * 16], [0, 15]),  # the last token must be computed for a first output
        (["a " * 40, "a " * 16 + "b " * 24], [0, 16]),
        (["a " * 40, "b " * 16 + "a " * 24], [0, 0]),
        (["a " * 40, "a " * 80], [0, 32]),
        (["", ""], [0, 0]),
    ],
)
def test_whole_blocks_of_a_known_beginning_are_cached(prompts: list[str], cached: list[int]) -> None:
    cache = PrefixCache(1024)
    assert [cache.cached_tokens(prompt) for prompt in prompts] == cached


def test_a_full_prefix_cache_forgets_the_oldest() -> None:
    cache = PrefixCache(64)  # four blocks
    first, others = "a " * 33, ["b " * 33, "c " * 33]
    assert [cache.cached_tokens(prompt) for prompt in (first, first, *others, first)] == [0, 32, 0, 0, 0]
