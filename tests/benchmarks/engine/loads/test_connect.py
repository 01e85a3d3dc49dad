"""Every way to a target that a plan can name, over real sockets: which transport it was is in the log, and what goes
wrong on the way has its own outcome or is said before anything is asked."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from benchmarks.engine import plan as plans
from benchmarks.engine.columns import from_log
from benchmarks.engine.exchange import Due
from benchmarks.engine.plan import Connect
from benchmarks.engine.prompts import Workload
from benchmarks.engine.terms import Outcome, Phase, RequestRecord
from benchmarks.engine.usable import BadPlanError, check
from benchmarks.engine.wire import Slot, Target
from tests.benchmarks.engine.loads.doors import Authority, OnHttp2, OnUnixSocket, Proxy
from tests.benchmarks.engine.loads.running import command_line
from tests.benchmarks.engine.plans import a_plan
from tests.benchmarks.engine.scripted import DONE, GOOD, Pause, Scripted, delta, finish, plain, usage

EVENTS = (delta(content="bebo"), delta(content=" loli"), finish(), usage(4, 2), DONE)


async def asked(times: int = 1, **changes) -> list[RequestRecord]:
    """So many requests in a row on one slot."""
    plan = plans.decode(plans.encode(a_plan(**changes)))
    check(plan)
    slot, workload, records = Slot(Target(plan)), Workload(plan), []
    await slot.open()
    for index in range(times):
        prepared = workload.build(index)
        exchange = await slot.ask((Due(prepared, time.monotonic_ns(), Phase.WINDOW),), prepared.body)
        records += exchange.records()
    await slot.close()
    return records


def good(record: RequestRecord) -> bool:
    counted = (record.prompt_tokens, record.output_tokens) == (4, 2)
    stamps = (record.t_scheduled_ns, record.t_sent_ns, record.t_headers_ns, record.t_first_ns, record.t_end_ns)
    return record.outcome is Outcome.OK and counted and list(stamps) == sorted(stamps)


# ── a unix socket ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("secure", [False, True])
def test_a_unix_socket_is_reached_by_the_transport_made_for_measuring(tmp_path, secure):
    authority = Authority(tmp_path)

    async def go() -> tuple[list[RequestRecord], OnUnixSocket]:
        tls = authority.server_context() if secure else None
        async with OnUnixSocket([[GOOD]], tls=tls, path=tmp_path / "socket") as server:
            connect = Connect(unix_socket=str(server.path), ca_file=str(authority.ca_file) if secure else "")
            records = await asked(3, base_url=f"http{'s' if secure else ''}://localhost", connect=connect)
            return records, server

    records, server = asyncio.run(go())
    assert [good(record) for record in records] == [True] * 3
    assert server.connections == 1
    assert b"\r\nHost: localhost\r\n" in server.requests[0]


def test_a_unix_socket_that_is_not_there_is_a_connect_error(tmp_path):
    (record,) = asyncio.run(asked(connect=Connect(unix_socket=str(tmp_path / "none"))))
    assert record.outcome is Outcome.CONNECT_ERROR


# ── certificates ───────────────────────────────────────────────────────────────────────────────────────────────────


def secured(tmp_path, *, wants_client: bool, trusts: bool, shows: str) -> list[RequestRecord]:
    authority, other = Authority(tmp_path), Authority(tmp_path, "stranger")
    pairs = {"its own": authority.pair("client"), "a stranger's": other.pair("strange"), "none": ("", "")}

    async def go() -> list[RequestRecord]:
        async with Scripted([[GOOD]], tls=authority.server_context(wants_client=wants_client)) as server:
            cert_file, key_file = pairs[shows]
            connect = Connect(
                ca_file=str((authority if trusts else other).ca_file), client_cert_file=str(cert_file),
                client_key_file=str(key_file),
            )  # fmt: skip
            return await asked(2, base_url=server.url, connect=connect)

    return asyncio.run(go())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("wants_client", "trusts", "shows", "is_good"),
    [
        (False, True, "none", True),
        (False, False, "none", False),
        (True, True, "its own", True),
        (True, True, "none", False),
        (True, True, "a stranger's", False),
    ],
)
def test_a_private_authority_and_a_client_certificate_are_what_both_sides_ask(
    tmp_path, wants_client, trusts, shows, is_good
):
    records = secured(tmp_path, wants_client=wants_client, trusts=trusts, shows=shows)
    assert [good(record) for record in records] == [is_good] * 2
    if not is_good:
        assert {record.outcome for record in records} == {Outcome.CONNECT_ERROR}
        assert all("certificate" in record.detail.lower() or "Error" in record.detail for record in records)


# ── a proxy ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("secure", [False, True])
def test_a_proxy_is_asked_and_only_it(tmp_path, secure, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    authority = Authority(tmp_path)

    async def go() -> tuple[list[RequestRecord], Proxy, Scripted]:
        tls = authority.server_context() if secure else None
        async with Scripted([[Pause(0.05), GOOD]], tls=tls) as server, Proxy() as proxy:
            connect = Connect(proxy_url=proxy.url, ca_file=str(authority.ca_file) if secure else "")
            return await asked(2, base_url=server.url, connect=connect), proxy, server

    records, proxy, server = asyncio.run(go())
    assert [good(record) for record in records] == [True] * 2
    place = f"127.0.0.1:{server.port}"
    line = f"CONNECT {place} HTTP/1.1" if secure else f"POST http://{place}/v1/chat/completions HTTP/1.1"
    assert proxy.lines[0] == line
    assert server.connections == 1
    assert [record.connect_us > 0 for record in records] == [True, False]
    assert all(record.t_sent_ns < record.t_headers_ns - 40_000_000 for record in records)  # the pause is the server's


def test_a_proxy_that_refuses_is_not_an_answer_of_the_target(tmp_path):
    async def go() -> list[RequestRecord]:
        async with Scripted([[GOOD]]) as server, Proxy(refuses=True) as proxy:
            return await asked(base_url=server.url.replace("http:", "https:"), connect=Connect(proxy_url=proxy.url))

    (record,) = asyncio.run(go())
    assert record.outcome in (Outcome.CONNECT_ERROR, Outcome.CLIENT_FAULT)
    assert "407" in record.detail


# ── HTTP/2 ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("secure", [False, True])
def test_http2_is_spoken_where_the_plan_asks_for_it(tmp_path, secure):
    authority = Authority(tmp_path)

    async def go() -> tuple[list[RequestRecord], OnHttp2]:
        tls = authority.server_context(protocols=("h2",)) if secure else None
        async with OnHttp2(EVENTS, tls=tls) as server:
            connect = Connect(http2=True, ca_file=str(authority.ca_file) if secure else "")
            return await asked(3, base_url=server.url, connect=connect), server

    records, server = asyncio.run(go())
    assert [good(record) for record in records] == [True] * 3
    assert (server.connections, len(server.requests)) == (1, 3)
    assert server.requests[0][":path"] == "/v1/chat/completions"


def test_a_server_of_http1_alone_is_told_apart_where_http2_is_asked_for():
    async def go() -> list[RequestRecord]:
        async with Scripted([[plain(200, b"{}")]]) as server:
            return await asked(base_url=server.url, connect=Connect(http2=True), total_timeout_s=3.0)

    (record,) = asyncio.run(go())
    assert record.outcome not in (Outcome.OK, Outcome.CLIENT_FAULT)


# ── limits and words ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ([Pause(5.0), GOOD], Outcome.FIRST_BYTE_TIMEOUT),
        ([plain(503, b"{}", "retry-after: 1")], Outcome.REJECTED),
        ([GOOD[:90]], Outcome.FIRST_BYTE_TIMEOUT),
    ],
)
def test_outcomes_through_a_standard_transport_are_the_same(script, outcome):
    async def go() -> list[RequestRecord]:
        async with Scripted([script]) as server, Proxy() as proxy:
            return await asked(
                base_url=server.url, connect=Connect(proxy_url=proxy.url), first_byte_timeout_s=0.4, idle_timeout_s=0.4
            )

    (record,) = asyncio.run(go())
    assert record.outcome is outcome


@pytest.mark.parametrize(
    ("connect", "words"),
    [
        ({}, "headroom"),
        ({"unix_socket": "SOCKET"}, "headroom"),
        ({"proxy_url": "PROXY"}, "httpx: a proxy asked for"),
    ],
)
def test_the_log_says_which_transport_it_was(tmp_path, connect, words):
    async def go() -> int:
        async with (
            Scripted([[GOOD]]) as server,
            OnUnixSocket([[GOOD]], path=tmp_path / "socket") as local,
            Proxy() as proxy,
        ):
            places = {"SOCKET": str(local.path), "PROXY": proxy.url}
            named = {name: places[value] for name, value in connect.items()}
            plan = a_plan(base_url=server.url, connect=Connect(**named), max_requests=3, window_s=10.0)
            pipe = asyncio.subprocess.PIPE
            child = await asyncio.create_subprocess_exec(*command_line(plan, tmp_path), stdin=pipe, stdout=pipe)
            await child.stdout.read()
            return await child.wait()

    assert asyncio.run(go()) == 0
    columns = from_log(tmp_path / "cell.log")
    assert columns.header.transport == words
    assert columns.end.sent == 3
    assert json.loads(plans.encode(columns.plan))["connect"].keys() == {
        "unix_socket", "ca_file", "client_cert_file", "client_key_file", "proxy_url", "http2"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("connect", "words"),
    [
        ({"proxy_url": "socks5://127.0.0.1:1"}, "is not an http or https address"),
        ({"proxy_url": "127.0.0.1:1"}, "is not an http or https address"),
        ({"ca_file": "/nowhere/ca.pem"}, "cannot be used"),
        ({"client_cert_file": "/nowhere/c.pem", "client_key_file": "/nowhere/c.key"}, "cannot be used"),
        ({"unix_socket": "/s", "proxy_url": "http://127.0.0.1:1"}, "without proxy"),
        ({"unix_socket": "/s", "http2": True}, "without proxy"),
    ],
)
def test_a_way_that_cannot_be_gone_is_said_before_anything_is_asked(connect, words):
    with pytest.raises(BadPlanError, match=words):
        check(a_plan(base_url="https://127.0.0.1:9", connect=Connect(**connect)))
