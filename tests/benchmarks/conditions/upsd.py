"""A UPS daemon for tests: answers the protocol's commands over real sockets, from rows that a test can change."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Upsd:
    """`supplies` maps a name to its variables; `answers` overrules the reply to a whole command, line ends included."""

    supplies: dict[str, dict[str, str]]
    answers: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    address: str = ""

    def reply(self, command: str) -> str:
        self.asked.append(command)
        if command in self.answers:
            return self.answers[command]
        match command.split(" "):
            case ["LIST", "UPS"]:
                rows = "".join(f'UPS {name} "a supply"\n' for name in self.supplies)
                return f"BEGIN LIST UPS\n{rows}END LIST UPS\n"
            case ["GET", "VAR", name, variable]:
                value = self.supplies[name].get(variable)
                return f'VAR {name} {variable} "{value}"\n' if value is not None else "ERR VAR-NOT-SUPPORTED\n"
            case ["LOGOUT"]:
                return "OK Goodbye\n"
        return "ERR UNKNOWN-COMMAND\n"


@contextmanager
def serving(**supplies: dict[str, str]) -> Iterator[Upsd]:
    daemon = Upsd(supplies)

    class Talk(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            for line in self.rfile:
                self.wfile.write(daemon.reply(line.decode().strip()).encode())

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads, allow_reuse_address = True, True

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that left in mid-answer is what some tests are about."""

    with Server(("127.0.0.1", 0), Talk) as server:
        daemon.address = f"127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        try:
            yield daemon
        finally:
            server.shutdown()
