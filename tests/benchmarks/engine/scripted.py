"""A server that answers as its script says, byte for byte and pause for pause, over a real socket."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Pause:
    seconds: float


class Reset:
    """Abort the connection: the client sees ECONNRESET."""


class Close:
    """Close the connection in good order."""


class Hang:
    """Keep the connection open and silent until the client leaves."""


@dataclass(frozen=True)
class Endless:
    """The same again and again, until the client leaves."""

    data: bytes


Step = bytes | Pause | Reset | Close | Hang | Endless
Script = Sequence[Step]

SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
DONE = b"data: [DONE]\n\n"


def piece(data: bytes) -> bytes:
    """One HTTP chunk."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(payload: object) -> bytes:
    return b"data: " + json.dumps(payload, ensure_ascii=False).encode() + b"\n\n"


def delta(**fields: object) -> bytes:
    return event({"choices": [{"index": 0, "delta": fields, "finish_reason": None}]})


def finish(reason: str = "stop") -> bytes:
    return event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})


def usage(prompt: int, completion: int) -> bytes:
    return event({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}})


def stream(*events: bytes) -> bytes:
    """A whole answer in one write."""
    return SSE_HEAD + piece(b"".join(events)) + LAST_CHUNK


def plain(status: int, body: bytes, *headers: str, kind: str = "application/json") -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"content-type: {kind}", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


GOOD = stream(delta(content="bebo"), delta(content=" loli"), finish(), usage(4, 2), DONE)


@dataclass
class Scripted:
    """Request number n gets script n; after the last one the last repeats. Use as `async with`."""

    scripts: Sequence[Script]
    requests: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    accepted: int = 0
    tls: ssl.SSLContext | None = None

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Scripted:
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
        self.accepted += 1
        task.add_done_callback(self._tasks.discard)
        try:
            await self._connection(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = True
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            if first:
                self.connections += 1
                first = False
            length = next(
                (
                    int(line.split(b":")[1])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length:")
                ),
                0,
            )
            self.bodies.append(await reader.readexactly(length))
            script = self.scripts[min(len(self.requests), len(self.scripts) - 1)]
            self.requests.append(head)
            if not await self._play(script, reader, writer):
                return

    async def _play(self, script: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """False when the connection is over."""
        for step in script:
            match step:
                case Pause(seconds=seconds):
                    await asyncio.sleep(seconds)
                case Hang():
                    await reader.read()
                    return False
                case Close():
                    return False
                case Reset():
                    sock = writer.get_extra_info("socket")
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    writer.transport.abort()
                    return False
                case Endless(data=data):
                    while not writer.transport.is_closing():
                        writer.write(data)
                        await writer.drain()
                    return False
                case bytes():
                    writer.write(step)
                    await writer.drain()
        return True
