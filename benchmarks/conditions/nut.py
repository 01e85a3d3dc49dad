"""Uninterruptible power supplies, asked from Network UPS Tools over its own TCP protocol (RFC 9271, `upsd` on port 3493).

Only two commands are sent, LIST UPS and GET VAR, and LOGOUT: nothing here can switch a supply. An answer that is not
exactly what the protocol says is an error, never a guess.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator

import msgspec

PORT = 3493
TIMEOUT_S = 2.0
MOST_LINE_BYTES = 1024
MOST_HELD_BYTES = 64 * MOST_LINE_BYTES
MOST_SUPPLIES = 16

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"')
_ABSENT = ("VAR-NOT-SUPPORTED", "DATA-STALE", "DRIVER-NOT-CONNECTED")
"""Errors that say that this one value is not to be had now; any other is an error of the whole reading."""


class NutError(Exception):
    """Nothing that can be relied on was read; the message says why."""


class Ups(msgspec.Struct, frozen=True, kw_only=True):
    """One supply. `status` are NUT's own words, such as OL (on line) or OB (on battery); shares are 0 to 1. None: not
    reported."""

    name: str
    status: tuple[str, ...]
    charge_share: float | None = None
    load_share: float | None = None

    @property
    def on_battery(self) -> bool | None:
        """None where it says neither, as one does whose driver lost it."""
        return True if "OB" in self.status else False if "OL" in self.status else None


def address_of(text: str) -> tuple[str, int]:
    """`host`, `host:port` or `[::1]:port`. Raises ValueError."""
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\s\[\]]+))(?::(\d{1,5}))?", text.strip())
    if found is None or not 0 < int(found[3] or PORT) < 65536:
        raise ValueError(f"{text!r} is no address of a UPS daemon, such as 127.0.0.1:{PORT}")
    return found[1] or found[2], int(found[3] or PORT)


def read(host: str, port: int, *, timeout_s: float = TIMEOUT_S) -> tuple[Ups, ...]:
    """Every supply that the daemon knows, within `timeout_s` in all. Raises NutError; ConnectionRefusedError where none
    listens."""
    until = time.monotonic() + timeout_s
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as link:
            lines = _Lines(link, until)
            found = tuple(_supply(lines, name) for name in _names(lines))
            lines.say("LOGOUT")
            return found
    except ConnectionRefusedError:
        raise
    except TimeoutError as error:
        raise NutError(f"{host}:{port} did not answer within {timeout_s:g} s") from error
    except OSError as error:
        raise NutError(f"{host}:{port}: {error or type(error).__name__}") from error


class _Lines:
    """Whole lines of bounded length, none of them after the deadline, however slowly their bytes come."""

    def __init__(self, link: socket.socket, until: float) -> None:
        self._link, self._until = link, until
        self._held = b""

    def ask(self, command: str) -> str:
        self.say(command)
        return self.next()

    def say(self, command: str) -> None:
        self._link.sendall(f"{command}\n".encode("ascii"))

    def next(self) -> str:
        while b"\n" not in self._held:
            left_s = self._until - time.monotonic()
            if left_s <= 0:
                raise NutError("the answers took too long")
            self._link.settimeout(left_s)
            piece = self._link.recv(MOST_LINE_BYTES)
            self._held += piece
            if not piece or len(self._held) > MOST_HELD_BYTES:
                raise NutError("an answer ended in mid-line, or is longer than a line may be")
        line, _, self._held = self._held.partition(b"\n")
        return line.decode("utf-8", "replace").rstrip("\r")


def _names(lines: _Lines) -> tuple[str, ...]:
    first = lines.ask("LIST UPS")
    if first != "BEGIN LIST UPS":
        raise NutError(f"LIST UPS was answered with {first[:80]!r}")
    return tuple(_listed(lines))


def _listed(lines: _Lines) -> Iterator[str]:
    for _ in range(MOST_SUPPLIES + 1):
        line = lines.next()
        if line == "END LIST UPS":
            return
        words = line.split(" ", 2)
        if len(words) < 2 or words[0] != "UPS" or not _NAME.fullmatch(words[1]):
            raise NutError(f"a list of supplies holds {line[:80]!r}")
        yield words[1]
    raise NutError(f"the daemon lists more than {MOST_SUPPLIES} supplies")


def _supply(lines: _Lines, name: str) -> Ups:
    return Ups(
        name=name,
        status=tuple((_variable(lines, name, "ups.status") or "").split()),
        charge_share=_share(_variable(lines, name, "battery.charge")),
        load_share=_share(_variable(lines, name, "ups.load")),
    )


def _variable(lines: _Lines, name: str, variable: str) -> str | None:
    line = lines.ask(f"GET VAR {name} {variable}")
    if line.startswith("ERR ") and line.split(" ")[1] in _ABSENT:
        return None
    start = f"VAR {name} {variable} "
    found = _QUOTED.fullmatch(line.removeprefix(start)) if line.startswith(start) else None
    if found is None:
        raise NutError(f"GET VAR {name} {variable} was answered with {line[:80]!r}")
    return re.sub(r'\\(["\\])', r"\1", found[1])


def _share(text: str | None) -> float | None:
    """Percent as a share. A value that is no number, or none that a percentage can be, is not reported."""
    try:
        value = float(text or "") / 100
    except ValueError:
        return None
    return value if 0 <= value <= 10 else None
