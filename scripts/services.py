"""Starts PostgreSQL and Redis on private ports and in a folder of their own, runs a command beside them, ends both.

    python -m scripts.services COMMAND …

The command finds them in TEST_DATABASE_URL and TEST_BROKER_URL. Nothing that already runs on this machine is touched.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from scripts.stack import end_on_signals, free_port

POSTGRES = "postgres"


class ServiceError(Exception):
    """A service is not installed or did not start; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Services:
    database_url: str
    broker_url: str


def _tool(name: str) -> str:
    """PostgreSQL's programs stand outside the path on Debian; the newest version wins."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda p: int(p.parts[4]))
    tool = str(found[-1]) if found else shutil.which(name)
    if not tool:
        raise ServiceError(f"no {name} here: install PostgreSQL (Debian: apt install postgresql)")
    return tool


def _as_postgres(folder: Path) -> list[str]:
    """PostgreSQL refuses root: then its own user runs it, who must be able to reach the folder."""
    if os.geteuid() != 0:
        return []
    try:
        account = pwd.getpwnam(POSTGRES)
    except KeyError as error:
        raise ServiceError("PostgreSQL refuses root and there is no user postgres: apt install postgresql") from error
    os.chown(folder, account.pw_uid, account.pw_gid)
    return ["setpriv", f"--reuid={POSTGRES}", f"--regid={POSTGRES}", "--clear-groups"]


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    if done.returncode:
        raise ServiceError(f"{what} failed: {(done.stdout + done.stderr).strip()[-600:]}")


class Postgres:
    """A server with data of its own in `home` and no waiting for the disk, for tests."""

    def __init__(self, home: Path) -> None:
        folder, port = home / "postgres", free_port()
        folder.mkdir()
        self.url = f"postgres://{POSTGRES}@127.0.0.1:{port}/{POSTGRES}"
        self._prefix = _as_postgres(folder)
        self._data, self._log = folder / "data", folder / "log"
        init = ["-D", str(self._data), "-A", "trust", "-U", POSTGRES, "--no-sync", "-E", "UTF8", "--locale=C.UTF-8"]
        _run([*self._prefix, _tool("initdb"), *init], "initdb")
        places = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={folder}"
        self._options = f"{places} -c fsync=off -c max_connections=200"

    def start(self) -> None:
        self._control("-w", "-l", str(self._log), "-o", self._options, "start", what="PostgreSQL")

    def stop(self) -> None:
        self._control("-m", "immediate", "-w", "stop", what="stopping PostgreSQL")

    def kill(self) -> None:
        """SIGKILL to the server and all that it started, as a loss of power would end them."""
        pid = int((self._data / "postmaster.pid").read_text().split()[0])
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(family, timeout=10)

    def _control(self, *words: str, what: str) -> None:
        _run([*self._prefix, _tool("pg_ctl"), "-D", str(self._data), *words], what)


class Redis:
    """A broker that keeps nothing on disk."""

    def __init__(self, home: Path) -> None:
        tool, self._port = shutil.which("redis-server"), free_port()
        if not tool:
            raise ServiceError("no redis-server here: install Redis (Debian: apt install redis-server)")
        self.url = f"redis://127.0.0.1:{self._port}/0"
        places = [tool, "--bind", "127.0.0.1", "--port", str(self._port), "--dir", str(home)]
        self._command = [*places, "--save", "", "--appendonly", "no"]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        _wait_for_redis(self._port)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)


@contextlib.contextmanager
def postgres(home: Path) -> Iterator[str]:
    server = Postgres(home)
    server.start()
    try:
        yield server.url
    finally:
        server.stop()


@contextlib.contextmanager
def redis(home: Path) -> Iterator[str]:
    server = Redis(home)
    server.start()
    try:
        yield server.url
    finally:
        server.stop()


def _wait_for_redis(port: int) -> None:
    import redis as client

    until = time.monotonic() + 10
    with client.Redis(port=port) as connection:
        while True:
            with contextlib.suppress(client.ConnectionError):
                connection.ping()
                return
            if time.monotonic() > until:
                raise ServiceError("redis-server did not answer within 10 s")
            time.sleep(0.05)


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder for services, removed at the end, that user postgres can pass through."""
    home = Path(tempfile.mkdtemp(prefix="headroom-services-"))
    home.chmod(0o755)
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextlib.contextmanager
def services() -> Iterator[Services]:
    with folder() as home, postgres(home) as database_url, redis(home) as broker_url:
        yield Services(database_url, broker_url)


def main() -> int:
    end_on_signals()
    try:
        with services() as running:
            found = {"TEST_DATABASE_URL": running.database_url, "TEST_BROKER_URL": running.broker_url}
            return subprocess.run(sys.argv[1:], env={**os.environ, **found}, check=False).returncode
    except KeyboardInterrupt:
        return 130
    except ServiceError as error:
        print(f"Could not run: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
