"""A bounded queue in front of a runtime that refuses nobody: exactly so many wait, the rest is told when to come back, and
who leaves the queue never reaches the runtime."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import httpx
import pytest

from tests.benchmarks.engine.simulated import simulator, truths
from tests.benchmarks.runtimes.haproxy import HOW, in_front_of

pytestmark = pytest.mark.needs("haproxy", HOW)
CHAT = "/v1/chat/completions"
LONG = {"messages": [{"role": "user", "content": "bebo"}], "max_tokens": 100}


def at_once(url: str, model: str, count: int, *, apart_s: float = 0.01) -> list[httpx.Response]:
    async def run() -> list[httpx.Response]:
        async with httpx.AsyncClient(trust_env=False, timeout=30) as client:

            async def one(number: int) -> httpx.Response:
                await asyncio.sleep(number * apart_s)
                return await client.post(url + CHAT, json={**LONG, "model": model})

            return list(await asyncio.gather(*(one(number) for number in range(count))))

    return asyncio.run(run())


@pytest.mark.parametrize("active, queue, status", [(2, 3, 503), (1, 1, 429)])
def test_exactly_the_active_and_the_waiting_are_served_and_the_rest_refused_at_once(active, queue, status):
    with simulator() as (runtime, model):
        arguments = ["--active", str(active), "--queue", str(queue), "--retry-after", "7", "--status", str(status)]
        with in_front_of(runtime, *arguments) as url:
            answers = at_once(url, model, 12)
        assert len(truths(runtime)) == active + queue
    served = [answer for answer in answers if answer.status_code == 200]
    refused = [answer for answer in answers if answer.status_code == status]
    assert (len(served), len(refused)) == (active + queue, 12 - active - queue)
    assert {answer.headers["retry-after"] for answer in refused} == {"7"}
    assert {answer.json()["error"]["code"] for answer in refused} == {status}
    assert max(answer.elapsed.total_seconds() for answer in refused) < 0.3


def test_pages_are_read_around_a_full_queue():
    with simulator() as (runtime, model), in_front_of(runtime, "--active", "1", "--queue", "1") as url:

        async def run() -> int:
            async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
                asked = [
                    asyncio.ensure_future(client.post(url + CHAT, json={**LONG, "model": model})) for _ in range(3)
                ]
                await asyncio.sleep(0.2)
                began_s = time.monotonic()
                page = await client.get(url + "/metrics")
                assert time.monotonic() - began_s < 0.2
                await asyncio.gather(*asked)
                return page.status_code

        assert asyncio.run(run()) == 200


def test_who_leaves_the_queue_never_reaches_the_runtime():
    with simulator() as (runtime, model), in_front_of(runtime, "--active", "1", "--queue", "4") as url:

        async def run() -> None:
            async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
                first = asyncio.ensure_future(client.post(url + CHAT, json={**LONG, "model": model}))
                await asyncio.sleep(0.1)
                with pytest.raises(httpx.ReadTimeout):
                    await client.post(url + CHAT, json={**LONG, "model": model}, timeout=0.1)
                await first
                await asyncio.sleep(0.2)

        asyncio.run(run())
        assert len(truths(runtime)) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("http://127.0.0.1:9", "--active", "1", "--queue", "0"),
        ("http://127.0.0.1:9", "--active", "0", "--queue", "1"),
        ("http://192.0.2.1:80", "--active", "1", "--queue", "1"),
    ],
)
def test_what_would_mean_no_limit_or_another_machine_is_refused(arguments):
    command = [sys.executable, "-m", "tools.haproxy_front", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 2
    assert "must be" in done.stderr
