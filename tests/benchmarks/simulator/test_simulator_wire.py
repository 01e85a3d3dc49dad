"""What clients may send, on a real socket: old HTTP, several requests at once, half requests, no HTTP at all."""

from __future__ import annotations

import json
import socket
from urllib.parse import urlsplit

import pytest

from .conftest import Start

BODY = json.dumps({"prompt": "bafa bada", "max_tokens": 2}).encode()


@pytest.fixture(scope="module")
def url(start_simulator: Start) -> str:
    return start_simulator()


def request(version: str = "1.1", *headers: str, body: bytes = BODY, path: str = "/v1/completions") -> bytes:
    lines = [f"POST {path} HTTP/{version}", "Host: x", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def said(url: str, *writes: bytes) -> bytes:
    """All that comes back until the server closes."""
    at = urlsplit(url)
    with socket.create_connection((at.hostname, at.port), timeout=10) as raw:
        for data in writes:
            raw.sendall(data)
        found = b""
        while data := raw.recv(65536):
            found += data
    return found


def test_close_is_honoured_and_said(url: str) -> None:
    found = said(url, request("1.1", "Connection: close"))
    assert found.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nconnection: close\r\n" in found


@pytest.mark.parametrize("headers", [(), ("Connection: keep-alive",)])
def test_an_old_client_gets_a_stream_without_chunks_up_to_the_end_of_the_connection(
    url: str, headers: tuple[str, ...]
) -> None:
    body = json.dumps({"prompt": "bafa", "max_tokens": 2, "stream": True}).encode()
    head, _, stream = said(url, request("1.0", *headers, body=body)).partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head
    assert stream.startswith(b"data: {")
    assert stream.endswith(b"data: [DONE]\n\n")


def test_requests_sent_at_once_are_answered_in_order(url: str) -> None:
    found = said(url, request() * 2 + request("1.1", "Connection: close", path="/nowhere"))
    assert [found.count(status) for status in (b"HTTP/1.1 200", b"HTTP/1.1 404")] == [2, 1]
    assert found.rindex(b"HTTP/1.1 200") < found.index(b"HTTP/1.1 404")


def test_many_requests_at_once_do_not_exhaust_the_stack(url: str) -> None:
    found = said(url, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 3000 + request("1.1", "Connection: close"))
    assert found.count(b'{"status":"ok"}') == 3000


def test_who_asks_for_the_head_gets_no_body(url: str) -> None:
    found = said(url, b"HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n" + request("1.1", "Connection: close"))
    assert found.startswith(b"HTTP/1.1 404")
    assert found.partition(b"\r\n\r\n")[2].startswith(b"HTTP/1.1 200")


def test_a_request_byte_by_byte_is_one_request(url: str) -> None:
    whole = request("1.1", "Connection: close")
    assert said(url, *[whole[i : i + 1] for i in range(len(whole))]).count(b"HTTP/1.1 200") == 1


def test_a_client_that_waits_for_leave_to_send_gets_it(url: str) -> None:
    found = said(url, request("1.1", "Connection: close", "Expect: 100-continue"))
    assert found.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize(
    ("sent", "status"),
    [(b"nonsense\r\n\r\n", b"400"), (request(body=b"x" * (4 * 1024 * 1024 + 1)), b"413")],
    ids=["no HTTP", "a body beyond all"],
)
def test_what_is_no_request_is_told_so_and_the_connection_ends(url: str, sent: bytes, status: bytes) -> None:
    found = said(url, sent)
    assert found.startswith(b"HTTP/1.1 " + status)
    assert b"connection: close" in found
