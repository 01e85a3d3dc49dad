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

from scripts.stack import free_port

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


@contextlib.contextmanager
def postgres(home: Path) -> Iterator[str]:
    """A server with empty data and no durability, for tests; gives its address."""
    folder, port = home / "postgres", free_port()
    folder.mkdir()
    prefix = _as_postgres(folder)
    data, ctl = str(folder / "data"), _tool("pg_ctl")
    init = ["-D", data, "-A", "trust", "-U", POSTGRES, "--no-sync", "-E", "UTF8", "--locale=C.UTF-8"]
    _run([*prefix, _tool("initdb"), *init], "initdb")
    options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={folder} -c fsync=off"
    log = str(folder / "log")
    _run([*prefix, ctl, "-D", data, "-w", "-l", log, "-o", options + " -c max_connections=200", "start"], "PostgreSQL")
    try:
        yield f"postgres://{POSTGRES}@127.0.0.1:{port}/{POSTGRES}"
    finally:
        _run([*prefix, ctl, "-D", data, "-m", "immediate", "-w", "stop"], "stopping PostgreSQL")


@contextlib.contextmanager
def redis(home: Path) -> Iterator[str]:
    tool = shutil.which("redis-server")
    if not tool:
        raise ServiceError("no redis-server here: install Redis (Debian: apt install redis-server)")
    port = free_port()
    command = [tool, "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no", "--dir", str(home)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        _wait_for_redis(port)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait(10)


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
def services() -> Iterator[Services]:
    """Both, in one folder that is removed at the end."""
    home = Path(tempfile.mkdtemp(prefix="headroom-services-"))
    # User postgres must be able to pass through.
    home.chmod(0o755)
    try:
        with postgres(home) as database_url, redis(home) as broker_url:
            yield Services(database_url, broker_url)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def main() -> int:
    try:
        with services() as running:
            found = {"TEST_DATABASE_URL": running.database_url, "TEST_BROKER_URL": running.broker_url}
            return subprocess.run(sys.argv[1:], env={**os.environ, **found}, check=False).returncode
    except ServiceError as error:
        print(f"Could not run: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
