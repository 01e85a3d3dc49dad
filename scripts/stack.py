"""Starts and ends the processes of one Headroom: web server, worker with its scheduler, simulated runtime.

`make run`, `make demo`, `make real` and the browser tests use this, each with a folder of its own for data and logs.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import httpx

ROOT = Path(__file__).resolve().parent.parent
PR_SET_PDEATHSIG = 1


class StackError(Exception):
    """A process did not start or ended by itself; the message says what to do."""


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
    return number


def _end_with_parent() -> None:
    """In the child, before exec: it ends when the one that started it dies, however that happened."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _after_the_load() -> None:
    """As above, and it yields the processor: on one small machine a page must not disturb a measurement."""
    _end_with_parent()
    os.nice(10)


@dataclass(slots=True)
class Child:
    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def last_words(self, lines: int = 8) -> str:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.strip().splitlines()[-lines:])


@dataclass(slots=True)
class Stack:
    """One Headroom with its data under `home`. Leaving the `with` block ends every process it started."""

    home: Path
    port: int
    extra_env: Mapping[str, str] = field(default_factory=dict)
    children: list[Child] = field(default_factory=list)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def env(self) -> dict[str, str]:
        mine = {"HEADROOM_VAR": str(self.home), "BASE_URL": self.base_url, "PYTHONUNBUFFERED": "1"}
        return {**os.environ, "DJANGO_SETTINGS_MODULE": "capacity.settings", **mine, **self.extra_env}

    def __enter__(self) -> Stack:
        (self.home / "log").mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.end_all()

    def manage(self, *arguments: str) -> str:
        """Runs `manage.py ARGUMENTS` to its end and returns what it said; raises StackError when it failed."""
        command = [sys.executable, "manage.py", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=self.env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise StackError(f"`manage.py {' '.join(arguments)}` failed:\n{(done.stdout + done.stderr).strip()}")
        return done.stdout

    def start(self, name: str, command: Sequence[str], *, yields: bool = False) -> Child:
        log = self.home / "log" / f"{name}.log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                list(command), cwd=ROOT, env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                start_new_session=True, preexec_fn=_after_the_load if yields else _end_with_parent,
            )  # fmt: skip
        child = Child(name, process, log)
        self.children.append(child)
        return child

    def start_web(self, threads: int = 8) -> Child:
        """gunicorn with threads; returns once it answers that it is ready."""
        if not port_is_free(self.port):
            raise StackError(f"port {self.port} is taken: stop what uses it, or choose another: PORT=8010 make run")
        command = ["-m", "gunicorn", "capacity.wsgi", "--bind", f"127.0.0.1:{self.port}", "--threads", str(threads)]
        command += [
            "--graceful-timeout",
            "1",
            "--keep-alive",
            "30",
            "--worker-tmp-dir",
            str(self.home),
            "--no-control-socket",
        ]
        child = self.start("web", [sys.executable, *command], yields=True)
        self.wait_for(child, f"{self.base_url}/healthz/live")
        return child

    def start_worker(self, *arguments: str) -> Child:
        return self.start("worker", [sys.executable, "manage.py", "worker", *arguments])

    def start_simulator(self, port: int = 0, *arguments: str) -> str:
        """The simulated runtime; returns its address."""
        command = [sys.executable, "-m", "benchmarks.simulator", "--port", str(port), *arguments]
        return self.start_announced("simulator", command)

    def start_announced(self, name: str, command: Sequence[str], within_s: float = 60.0) -> str:
        """Starts a program that prints `listening http://…` once it does, and returns that address."""
        log = self.home / "log" / f"{name}.log"
        before = log.stat().st_size if log.exists() else 0
        child = self.start(name, command)
        for _ in self._tries(child, within_s):
            found = re.search(rb"listening (http://\S+)", log.read_bytes()[before:])
            if found:
                return found.group(1).decode()
        raise StackError(f"{name} did not say where it listens within {within_s:.0f} s:\n{child.last_words()}")

    def wait_for(self, child: Child, url: str, within_s: float = 60.0) -> None:
        for _ in self._tries(child, within_s):
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(url, timeout=5).status_code == 200:
                    return
        raise StackError(f"{child.name} did not answer at {url} within {within_s:.0f} s:\n{child.last_words()}")

    def _tries(self, child: Child, within_s: float) -> Iterator[None]:
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            if child.process.poll() is not None:
                raise StackError(f"{child.name} ended at once, code {child.process.returncode}:\n{child.last_words()}")
            yield
            time.sleep(0.1)

    def check(self) -> None:
        """Raises StackError when one of the processes has ended by itself."""
        for child in self.children:
            if child.process.poll() is not None:
                code = child.process.returncode
                raise StackError(f"{child.name} ended by itself, code {code}:\n{child.last_words()}")

    def end(self, child: Child, within_s: float = 2.0) -> None:
        """Asks, waits, then kills the whole group; a cell that was running is run again by the next worker."""
        if child.process.poll() is None:
            child.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(within_s)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.process.pid, signal.SIGKILL)
        child.process.wait()
        if child in self.children:
            self.children.remove(child)

    def end_all(self) -> None:
        for child in self.children:
            if child.process.poll() is None:
                child.process.terminate()
        for child in reversed(list(self.children)):
            self.end(child)


def end_on_signals() -> None:
    """SIGTERM and a closed terminal end everything the way Ctrl-C does."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    # A shell starts background jobs with SIGINT ignored; then Python would ignore it too.
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, interrupt)
