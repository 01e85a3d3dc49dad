"""The load engine's own HTTP/1.1 over real sockets: framings, splits, ends, reuse, TLS, on both event loops."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
import time

import httpx
import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from benchmarks.engine import transport
from benchmarks.engine.connection import Headers
from benchmarks.engine.prompts import Workload
from benchmarks.engine.terms import Outcome, RequestRecord
from benchmarks.engine.transport import OneConnection, serialised
from benchmarks.engine.usable import BadPlanError, check
from benchmarks.engine.wire import Slot, Target
from tests.benchmarks.engine.asking import ask, one
from tests.benchmarks.engine.plans import MS, a_plan
from tests.benchmarks.engine.scripted import (
    DONE,
    GOOD,
    LAST_CHUNK,
    SSE_HEAD,
    Close,
    Hang,
    Pause,
    Scripted,
    delta,
    finish,
    piece,
    plain,
    usage,
)
from tests.benchmarks.engine.test_wire import SLOW, VOCABULARY, due

EVENTS = delta(content="baba") + delta(content=" bada") + finish() + usage(4, 2) + DONE
HALF = len(EVENTS) // 2
TYPE = b"content-type: text/event-stream\r\n"
CHUNKED = TYPE + b"transfer-encoding: chunked\r\n\r\n"
PLAIN = SSE_HEAD + piece(EVENTS) + LAST_CHUNK
NO_CHECK = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

FRAMINGS = {
    "chunked": PLAIN,
    "chunk extensions and a trailer": (
        b"HTTP/1.1 200 OK\r\n" + CHUNKED
        + b'%x;name=value;other="a;b"\r\n%s\r\n' % (HALF, EVENTS[:HALF])
        + b"%x;last\r\n%s\r\n0\r\nx-trailer: 1\r\n\r\n" % (len(EVENTS) - HALF, EVENTS[HALF:])
    ),
    "content-length": b"HTTP/1.1 200 OK\r\n" + TYPE + b"content-length: %d\r\n\r\n" % len(EVENTS) + EVENTS,
    "HTTP/1.0 to the end of the connection": b"HTTP/1.0 200 OK\r\n" + TYPE + b"\r\n" + EVENTS,
    "HTTP/1.1 to the end of the connection": b"HTTP/1.1 200 OK\r\n" + TYPE + b"\r\n" + EVENTS,
    "100 Continue first": b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN,
    "103 Early Hints first": b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\ncontent-length: 9\r\n\r\n" + PLAIN,
    "bare line feeds in the head": SSE_HEAD.replace(b"\r\n", b"\n") + piece(EVENTS) + LAST_CHUNK,
}  # fmt: skip


def without_times(record: RequestRecord) -> tuple[object, ...]:
    return (
        record.outcome, record.detail, record.http_status, record.finish_reason, record.prompt_tokens,
        record.output_tokens, record.valid, record.resent, len(record.gaps_us) // 4, record.t_end_ns is not None,
    )  # fmt: skip


WHOLE = (Outcome.OK, "", 200, "stop", 4, 2, True, False, 1, True)


@pytest.mark.parametrize("framing", FRAMINGS)
def test_every_framing_is_the_same_record_whole_or_byte_by_byte(framing):
    raw = FRAMINGS[framing]
    single = [step for i in range(len(raw)) for step in (raw[i : i + 1], Pause(0))]
    records, _ = ask([raw, Close()], [*single, Close()], times=2, pause_s=0.02)
    assert [without_times(r) for r in records] == [WHOLE, WHOLE]


def test_every_split_in_two_is_the_same_record():
    raw = FRAMINGS["chunk extensions and a trailer"]
    splits = [[raw[:at], Pause(0.001), raw[at:]] for at in range(1, len(raw))]
    records, server = ask(*splits, times=len(splits))
    assert {without_times(r) for r in records} == {WHOLE}
    assert server.connections == 1


ENDS = [
    ("closed inside a chunk", [SSE_HEAD + b"40\r\n" + EVENTS[:20], Pause(0.02), Close()], Outcome.TRUNCATED),
    ("closed before the last chunk", [SSE_HEAD + piece(EVENTS[:HALF]), Pause(0.02), Close()], Outcome.TRUNCATED),
    ("closed before its content-length", [plain(200, EVENTS, kind="text/event-stream")[:-90], Close()], Outcome.TRUNCATED),
    ("a chunk length that is none", [SSE_HEAD + piece(EVENTS[:HALF]) + b"zz\r\n"], Outcome.TRUNCATED),
    ("garbage", [b"\x16\x03\x01\x00\xa5 what is this"], Outcome.MALFORMED),
    ("a status that is none", [b"HTTP/1.1 2x0 OK\r\n\r\n"], Outcome.MALFORMED),
    ("closed inside the head", [SSE_HEAD[:25], Pause(0.02), Close()], Outcome.MALFORMED),
    ("another protocol", [b"HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: y\r\n\r\n"], Outcome.MALFORMED),
    ("closed after an interim answer", [b"HTTP/1.1 100 Continue\r\n\r\n", Pause(0.02), Close()], Outcome.MALFORMED),
    ("whole, then closed inside the last chunk", [SSE_HEAD + piece(EVENTS) + b"0\r", Pause(0.02), Close()], Outcome.OK),
]  # fmt: skip


@pytest.mark.parametrize("script, outcome", [row[1:] for row in ENDS], ids=[row[0] for row in ENDS])
def test_each_bad_end_has_its_outcome(script, outcome):
    record = one(*script)
    assert record.outcome is outcome, record.detail


@pytest.mark.parametrize("script, outcome", [row[1:] for row in VOCABULARY], ids=[row[0] for row in VOCABULARY])
def test_the_outcomes_are_the_same_under_uvloop(script, outcome):
    record = one(*script, loop_factory=uvloop.new_event_loop)
    assert record.outcome is outcome, record.detail


@pytest.mark.parametrize("script, limits, outcome", [row[1:] for row in SLOW], ids=[row[0] for row in SLOW])
def test_the_limits_are_the_same_under_uvloop(script, limits, outcome):
    record = one(*script, loop_factory=uvloop.new_event_loop, **limits)
    assert record.outcome is outcome, record.detail


FRESH = [
    ("Connection: close", [GOOD.replace(b"\r\n", b"\r\nconnection: close\r\n", 1)]),
    ("HTTP/1.0", [FRAMINGS["HTTP/1.0 to the end of the connection"], Close()]),
    ("bytes after the answer", [GOOD + b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"]),
    ("bytes a while after the answer", [GOOD, Pause(0.02), b"junk"]),
    ("closed while idle", [GOOD, Pause(0.02), Close()]),
]


@pytest.mark.parametrize("script", [row[1] for row in FRESH], ids=[row[0] for row in FRESH])
def test_what_ends_a_connection_costs_a_fresh_one_and_no_resend(script):
    records, server = ask(script, times=3, pause_s=0.1)
    assert [(r.outcome, r.resent) for r in records] == [(Outcome.OK, False)] * 3
    assert server.connections == 3


@pytest.mark.parametrize("expiry_s, connections", [(0.05, 3), (4.0, 1)])
def test_an_idle_connection_is_closed_by_us_first(monkeypatch, expiry_s, connections):
    monkeypatch.setattr(transport, "KEEPALIVE_EXPIRY_S", expiry_s)
    records, server = ask([GOOD], times=3, pause_s=0.15)
    assert [(r.outcome, r.resent) for r in records] == [(Outcome.OK, False)] * 3
    assert server.connections == connections


@pytest.mark.parametrize("open_ahead, fresh", [(True, False), (False, True)])
def test_a_connection_opened_ahead_is_the_one_the_first_request_uses(open_ahead, fresh):
    async def run() -> tuple[bool, int]:
        async with Scripted([[GOOD]]) as server:
            plan = a_plan(base_url=server.url)
            slot = Slot(Target(plan))
            if open_ahead:
                await slot.open()
            exchange = await slot.ask(due(Workload(plan).build(0)), Workload(plan).build(0).body)
            await slot.close()
            return exchange.fresh_connection, server.accepted

    assert asyncio.run(run()) == (fresh, 1)


def test_a_connection_opened_ahead_that_the_server_dropped_is_replaced():
    records, server = ask([Close()], [GOOD], open_ahead=True)
    assert [(r.outcome, r.resent) for r in records] == [(Outcome.OK, True)]
    assert server.accepted == 2


def certificate(folder) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's context with a self-signed certificate for 127.0.0.1, and a client's that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(7)
        .not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(private)
    (folder / "cert.pem").write_bytes(signed.public_bytes(pem))
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return served, ssl.create_default_context(cafile=str(folder / "cert.pem"))


@pytest.mark.parametrize("loop_factory", [None, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_self_signed_certificate_that_the_context_trusts(tmp_path, loop_factory):
    records, server = ask([PLAIN], times=3, tls=certificate(tmp_path), loop_factory=loop_factory)
    assert [without_times(r) for r in records] == [WHOLE] * 3
    assert server.connections == 1


def test_a_certificate_that_nobody_vouches_for_is_a_connect_error(tmp_path):
    served, _ = certificate(tmp_path)
    record = ask([GOOD], tls=(served, ssl.create_default_context()))[0][0]
    assert (record.outcome, record.t_sent_ns) == (Outcome.CONNECT_ERROR, None)
    assert "certificate" in record.detail


def test_a_key_with_a_line_end_is_never_sent(monkeypatch):
    monkeypatch.setenv("TARGET_KEY", "secret\r\nx-other: 1")
    with pytest.raises(BadPlanError, match="the key in TARGET_KEY holds a line end or a null byte"):
        check(a_plan(api_key_env="TARGET_KEY"))
    with pytest.raises(httpx.LocalProtocolError):
        Target(a_plan(api_key_env="TARGET_KEY"))


class Heard:
    """A receiver that keeps what it is told."""

    def __init__(self) -> None:
        self.sent_ns = 0
        self.words: list[str] = []

        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def sent(self, t_ns: int) -> None:
        self.sent_ns = t_ns
        self.words.append("sent")

    def head(self, status: int, headers: Headers, t_ns: int) -> None:
        self.words.append(f"head {status}")

    def body(self, data: bytes, t_ns: int) -> None:
        self.words.append(f"{len(data)} bytes")

    def finish(self, error: Exception | None, t_ns: int) -> None:
        self.words.append("in good order" if error is None else str(error))
        self.over.set_result(None)


@pytest.mark.parametrize("loop_factory", [None, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_request_is_sent_once_its_last_byte_is_with_the_socket(loop_factory):
    body = b"x" * 32 * 1024 * 1024  # more than both sockets' buffers hold

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.3)
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(len(body))
        writer.write(plain(200, b"done"))
        await writer.drain()
        await reader.read()
        writer.close()

    async def run() -> tuple[Heard, int]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        heard, transport = Heard(), OneConnection(NO_CHECK)
        connection = await transport.open(httpx.URL(url), 1.0)
        began_ns = time.monotonic_ns()
        connection.send(serialised(httpx.Request("POST", url, content=body), body), heard)
        await heard.over
        await transport.aclose()
        server.close()
        await asyncio.sleep(0.05)
        return heard, heard.sent_ns - began_ns

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        heard, took_ns = runner.run(run())
    assert heard.words == ["sent", "head 200", "4 bytes", "in good order"]
    assert took_ns >= 290 * MS


def test_it_is_a_transport_for_httpx_like_any_other():
    async def run() -> list[str]:
        async with (
            Scripted([[plain(200, b"one")], [plain(404, b"two")]]) as server,
            httpx.AsyncClient(transport=OneConnection(NO_CHECK), trust_env=False) as client,
        ):
            texts = [(await client.get(server.url)).text for _ in range(2)]
            assert server.connections == 1
            return texts

    assert asyncio.run(run()) == ["one", "two"]


def test_nobody_in_time_is_a_connect_timeout_and_nobody_at_all_a_connect_error():
    async def run(timeout_s: float) -> None:
        await OneConnection(NO_CHECK).open(httpx.URL("http://127.0.0.1:1"), timeout_s)

    with pytest.raises(httpx.ConnectTimeout, match="no connection within 0 s"):
        asyncio.run(run(0.0))
    with pytest.raises(httpx.ConnectError):
        asyncio.run(run(5.0))


def test_a_body_left_early_costs_the_connection():
    async def run() -> int:
        async with (
            Scripted([[SSE_HEAD + piece(b"a"), Hang()], [GOOD]]) as server,
            httpx.AsyncClient(transport=OneConnection(NO_CHECK), trust_env=False) as client,
        ):
            async with client.stream("GET", server.url) as response:
                assert response.status_code == 200
            assert (await client.get(server.url)).status_code == 200
            return server.connections

    assert asyncio.run(run()) == 2


def test_a_slot_takes_any_other_transport_of_httpx():
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=EVENTS)

    async def run() -> RequestRecord:
        plan = a_plan()
        slot = Slot(Target(plan), transport=httpx.MockTransport(answer))
        exchange = await slot.ask(due(Workload(plan).build(0)), Workload(plan).build(0).body)
        await slot.close()
        return exchange.records()[0]

    assert without_times(asyncio.run(run())) == WHOLE
