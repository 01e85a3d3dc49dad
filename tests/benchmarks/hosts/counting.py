"""A target that counts who calls it, and says nothing that a client could use."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Target:
    """`connections` and `received` bytes since it listens. It answers with `answer`, by default that there is nothing."""

    port: int
    answer: bytes = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    connections: int = 0
    received: list[bytes] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.contextmanager
def counting(answer: bytes | None = None) -> Iterator[Target]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        target = Target(server.getsockname()[1])
        target.answer = answer or target.answer
        thread = threading.Thread(target=_serve, args=(server, target))
        thread.start()
        try:
            yield target
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def redirect_to(address: str, path: str = "/v1/models") -> bytes:
    return (
        f"HTTP/1.1 307 Temporary Redirect\r\nLocation: {address}{path}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    ).encode()


def _serve(server: socket.socket, target: Target) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        target.connections += 1
        with connection, contextlib.suppress(OSError):
            connection.settimeout(5)
            target.received.append(connection.recv(65536))
            connection.sendall(target.answer)
