"""No client on a GPU host follows a redirect: the address it leads to is never connected to, counted there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import httpx
import pytest

from benchmarks import managed
from benchmarks.engine.scrape import http_get
from benchmarks.engine.terms import Outcome
from benchmarks.models import RuntimeKind
from benchmarks.runtimes import look
from tests.benchmarks.engine.loads.running import run_program
from tests.benchmarks.engine.plans import a_plan
from tests.benchmarks.hosts.counting import counting, redirect_to


def scraped(address: str) -> None:
    with pytest.raises(httpx.HTTPStatusError, match="HTTP 307"):
        http_get(secure=False)(f"{address}/metrics")


def waited_for(address: str) -> None:
    with managed.health_client() as client:
        assert managed.answers(client, f"{address}/health") is False


CLIENTS: list[tuple[str, Callable[[str], object]]] = [
    *((f"look at {kind}", partial(look.look_at, kind=kind, api_key="secret")) for kind in RuntimeKind.values),
    ("is it a simulator", lambda address: look.is_simulator(address, api_key="secret")),
    ("test request", lambda address: look.test_request(address, "model", api_key="secret")),
    ("metrics", scraped),
    ("wait for a started runtime", waited_for),
]  # fmt: skip


@pytest.mark.parametrize(("what", "ask"), CLIENTS, ids=[row[0] for row in CLIENTS])
def test_a_look_a_test_and_a_reading_stay_where_they_were_sent(what: str, ask: Callable[[str], object]) -> None:
    with counting() as elsewhere, counting(redirect_to(elsewhere.address)) as target:
        ask(target.address)
    assert target.connections >= 1
    assert elsewhere.connections == 0


def test_the_load_engine_with_its_readings_stays_where_it_was_sent(tmp_path: Path) -> None:
    with counting() as elsewhere, counting(redirect_to(elsewhere.address)) as target:
        pages = {"metrics_url": f"{target.address}/metrics", "gpu_metrics_url": f"{target.address}/gpu"}
        plan = a_plan(base_url=target.address, window_s=1.5, **pages)
        _, words, left = run_program(plan, tmp_path)
    assert left.outcomes, words
    assert set(left.outcomes) == {Outcome.REFUSED}
    paths = {first.split(b" ")[1] for first in target.received if first}
    assert {b"/metrics", b"/gpu", b"/v1/chat/completions"} <= paths
    assert elsewhere.connections == 0
