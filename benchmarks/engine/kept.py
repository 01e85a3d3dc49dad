"""The worker's end of a keeper: a runtime that is started, asked whether it lives, and ended with all that it forked."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from benchmarks.engine.keeper import KILL_WITHIN_S, Began, Ended, Order

STARTS_WITHIN_S = 20.0
KEEPER_GONE_WITHIN_S = 1.0
TAIL_BYTES = 4096
TAIL_LINES = 12
SECRET = re.compile("key|token(?!s)|secret|passw", re.IGNORECASE)
SHORTEST_SECRET = 6  # what is shorter would be found inside other words


def secrets_of(command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Values of variables and options whose names speak of a key, token, secret or password; the longest first."""
    named = list(environment.items())
    for place, word in enumerate(command):
        name, assigned, value = word.partition("=")
        if name.startswith("-"):
            named.append((name, value if assigned else next(iter(command[place + 1 : place + 2]), "")))
    found = {value for name, value in named if SECRET.search(name) and len(value) >= SHORTEST_SECRET}
    return sorted(found, key=len, reverse=True)


class Kept:
    """A runtime under a keeper. `began.pid` 0: it did not start, `began.error` says why."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], *, log: Path, grace_s: float, root: Path
    ) -> None:
        """`root` is the folder that holds this package; the command itself runs in the file system's root."""
        self._log, self._grace_s = log, grace_s
        self._secrets = secrets_of(command, environment)
        self._pending = b""
        self._ended: Ended | None = None
        self._keeper = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.engine.keeper"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=root,
            env=_own_environment(), start_new_session=True,
        )  # fmt: skip
        order = Order(command=tuple(command), environment=dict(environment), log=str(log), grace_s=grace_s)
        self._tell(msgspec.json.encode(order) + b"\n")
        said = self._hear(STARTS_WITHIN_S)
        self.began = said if isinstance(said, Began) else Began(pid=0, started="", error="its keeper did not start")

    @property
    def alive(self) -> bool:
        """Whether the runtime's first process runs, and its keeper watches it."""
        if self._ended is None and self.began.pid:
            self._take(self._hear(0.0))
        return self._ended is None and bool(self.began.pid) and self._keeper.poll() is None

    @property
    def was_killed(self) -> bool:
        """Whether somebody else ended it, or its keeper, by SIGKILL or SIGTERM: it says nothing of how it would run."""
        if self.alive:
            return False
        ended = self._ended.status if self._ended is not None else None
        if ended is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                ended = self._keeper.wait(KEEPER_GONE_WITHIN_S)
        return ended in (-signal.SIGKILL, -signal.SIGTERM)

    def end(self) -> Ended | None:
        """Ends it and all that it forked; how that went. None where the keeper could not tell."""
        if self._ended is None and self.began.pid:
            self._tell(b"stop\n")
            until = time.monotonic() + self._grace_s + KILL_WITHIN_S + 2.0
            while self._ended is None and self._keeper.poll() is None and time.monotonic() < until:
                self._take(self._hear(0.2))
            self._take(self._hear(0.0))
        self._close()
        return self._ended

    def tail(self) -> str:
        """The last lines that it wrote, without control characters and without the keys that it was started with."""
        try:
            with self._log.open("rb") as file:
                file.seek(max(0, self._log.stat().st_size - TAIL_BYTES))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        lines = ["".join(sign for sign in line if sign.isprintable()).strip() for line in text.splitlines()]
        return "\n".join([line for line in lines if line][-TAIL_LINES:])

    def _tell(self, words: bytes) -> None:
        assert self._keeper.stdin is not None
        with contextlib.suppress(OSError):
            self._keeper.stdin.write(words)
            self._keeper.stdin.flush()

    def _hear(self, seconds: float) -> Began | Ended | None:
        """The next line of the keeper, where one comes in time."""
        assert self._keeper.stdout is not None
        until = time.monotonic() + seconds
        while b"\n" not in self._pending:
            ready, _, _ = select.select([self._keeper.stdout], [], [], max(0.0, until - time.monotonic()))
            if not ready or not (more := os.read(self._keeper.stdout.fileno(), 4096)):
                return None
            self._pending += more
        line, _, self._pending = self._pending.partition(b"\n")
        return msgspec.json.decode(line, type=Began | Ended)

    def _take(self, said: Began | Ended | None) -> None:
        if isinstance(said, Ended):
            self._ended = said

    def _close(self) -> None:
        """Lets go of the keeper, which ends with its stdin; kills it where it does not."""
        for pipe in (self._keeper.stdin, self._keeper.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self._keeper.wait(self._grace_s + KILL_WITHIN_S + 2.0)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait()


def _own_environment() -> dict[str, str]:
    """The keeper needs Python and nothing of the worker's secrets."""
    return {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH")}
