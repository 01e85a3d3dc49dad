"""Ways to a scripted server: a unix socket, certificates of a private authority, a proxy, HTTP/2."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import ipaddress
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import h2.config
import h2.connection
import h2.events
import h2.exceptions
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.benchmarks.engine.scripted import Scripted

PEM = serialization.Encoding.PEM


@dataclass
class OnUnixSocket(Scripted):
    path: Path = Path()

    async def __aenter__(self) -> OnUnixSocket:
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_unix_server(self._serve, str(self.path), ssl=self.tls)
        return self


class Authority:
    """A private certificate authority in a folder: `ca.pem`, and pairs NAME.pem, NAME.key that it has signed."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.folder, self.ca_file = folder, folder / f"{name}-ca.pem"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._cert = self._signed(self._name, self._key, is_authority=True)
        self.ca_file.write_bytes(self._cert.public_bytes(PEM))

    def pair(self, name: str) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        cert = self._signed(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key, is_authority=False)
        cert_file, key_file = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        cert_file.write_bytes(cert.public_bytes(PEM))
        plain = serialization.NoEncryption()
        key_file.write_bytes(key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, plain))
        return cert_file, key_file

    def server_context(self, *, wants_client: bool = False, protocols: tuple[str, ...] = ()) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.pair("server"))
        if wants_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.ca_file)
        if protocols:
            context.set_alpn_protocols(list(protocols))
        return context

    def _signed(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, is_authority: bool) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        here = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
        constraints = x509.BasicConstraints(ca=is_authority, path_length=None)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(constraints, critical=True)
            .add_extension(x509.SubjectAlternativeName(here), critical=False)
            .sign(self._key, hashes.SHA256())
        )


class Door:
    """A server on loopback whose connections all end with it."""

    port: int
    tls: ssl.SSLContext | None = None

    async def __aenter__(self) -> Self:
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with contextlib.suppress(ConnectionError, ssl.SSLError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await self._talk(reader, writer)
        await _closed(writer)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        await writer.wait_closed()


@dataclass
class Proxy(Door):
    """Forwards absolute requests and CONNECT tunnels; `lines` are the request lines that it saw."""

    lines: list[str] = field(default_factory=list)
    refuses: bool = False
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        line, _, rest = head.partition(b"\r\n")
        self.lines.append(line.decode())
        method, place, _ = line.decode().split(" ")
        if self.refuses:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
            return
        host, _, port = place.removeprefix("http://").partition("/")[0].rpartition(":")
        onward_reader, onward = await asyncio.open_connection(host, int(port))
        try:
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            else:
                path = "/" + place.removeprefix("http://").partition("/")[2]
                onward.write(f"{method} {path} HTTP/1.1\r\n".encode() + rest)
            await asyncio.gather(_pump(reader, onward), _pump(onward_reader, writer))
        finally:
            await _closed(onward)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


@dataclass
class OnHttp2(Door):
    """Answers every request with the events of `body`, a frame each, over HTTP/2 alone."""

    body: tuple[bytes, ...]
    tls: ssl.SSLContext | None = None
    requests: list[dict[str, str]] = field(default_factory=list)
    connections: int = 0
    port: int = 0

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        with contextlib.suppress(h2.exceptions.ProtocolError):
            while data := await reader.read(65536):
                for event in connection.receive_data(data):
                    self._answer(connection, event)
                writer.write(connection.data_to_send())
                await writer.drain()

    def _answer(self, connection: h2.connection.H2Connection, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.RequestReceived):
            self.requests.append({k.decode(): v.decode() for k, v in event.headers})
        if isinstance(event, h2.events.StreamEnded):
            connection.send_headers(event.stream_id, [(":status", "200"), ("content-type", "text/event-stream")])
            for piece in self.body:
                connection.send_data(event.stream_id, piece)
            connection.end_stream(event.stream_id)
