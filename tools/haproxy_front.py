"""HAProxy in front of a runtime that refuses nobody: so many requests with it, so many waiting, the rest refused at once
with Retry-After. `python -m tools.haproxy_front http://127.0.0.1:8080 --active 4 --queue 4`.

Loopback only. Prints one line, `listening http://127.0.0.1:PORT`, once it listens. Ends on SIGTERM or SIGINT, and HAProxy
with it. Needs haproxy 2.4 or newer (Debian: apt install haproxy).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

PR_SET_PDEATHSIG = 1
HOST = "127.0.0.1"
READY_WITHIN_S = 10.0
LOOK_EVERY_S = 0.5
PATIENCE_S = 3600  # no timer of its own ends a request: a slow answer is the runtime's, and the client's to give up
BODY_BYTES = 262_144


@dataclass(frozen=True, kw_only=True)
class Front:
    """`active` requests are with the server at `target` (host:port), `queue` wait, all others get `status`."""

    port: int
    target: str
    active: int
    queue: int
    retry_after_s: int = 2
    status: int = 503


def configuration(front: Front) -> str:
    """A whole configuration file.

    The queue is bounded by a rule that looks at it: `maxqueue` alone bounds nothing here, since requests wait in the
    backend's queue, not the server's. It is looked at before a request joins, so up to one per thread more may wait.
    `abortonclose` does its work for waiting requests only where it stands in `defaults`, and only for those whose body is
    there: clients that send head and body apart need `http-buffer-request`, or who left is sent to the runtime all the
    same (2.6.12). Each request has a connection of its own to the runtime, so that no idle limit meets it. Pages read with
    GET go around the queue: they are how anyone sees how full it is.
    """
    body = {"error": {"message": "The queue is full, ask again later.", "type": "overloaded", "code": front.status}}
    words = json.dumps(body).replace("'", "")
    return f"""\
global
    nbthread 1
    maxconn 4096
    tune.bufsize {BODY_BYTES}

defaults
    mode http
    option abortonclose
    option http-server-close
    option http-buffer-request
    retries 0
    timeout connect 5s
    timeout client {PATIENCE_S}s
    timeout server {PATIENCE_S}s
    timeout queue {PATIENCE_S}s

frontend door
    bind {HOST}:{front.port}
    use_backend pages if METH_GET
    default_backend runtime

backend runtime
    http-request return status {front.status} content-type application/json string '{words}' \
hdr Retry-After {front.retry_after_s} if {{ queue(runtime) ge {front.queue} }}
    server runtime {front.target} maxconn {front.active}

backend pages
    server runtime {front.target}
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def start(front: Front, folder: Path) -> subprocess.Popen[bytes]:
    """HAProxy as a child that ends with this process; it has written its configuration into `folder`. Raises
    SystemExit with HAProxy's own words."""
    program = shutil.which("haproxy", path=os.environ.get("PATH", os.defpath) + ":/usr/sbin")
    if program is None:
        raise SystemExit("no haproxy here (Debian: apt install haproxy)")
    path = folder / "haproxy.cfg"
    path.write_text(configuration(front))
    checked = subprocess.run([program, "-c", "-f", str(path)], capture_output=True, text=True, check=False, timeout=30)
    if checked.returncode != 0:
        raise SystemExit(checked.stderr)
    child = subprocess.Popen([program, "-db", "-f", str(path)], preexec_fn=_killed_with_parent)
    wait_until_listening(front.port, child)
    return child


def _killed_with_parent() -> None:
    _end_with_parent(signal.SIGKILL)


def _end_with_parent(by: signal.Signals) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, by)


def wait_until_listening(port: int, child: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < end and child.poll() is None:
        try:
            with socket.create_connection((HOST, port), timeout=1):
                return
        except OSError:
            time.sleep(0.02)
    child.kill()
    raise SystemExit(f"haproxy did not listen on {HOST}:{port} within {READY_WITHIN_S:.0f} s")


def _positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError("must be 1 or more: 0 means no limit to HAProxy")
    return value


def _loopback(text: str) -> str:
    """host:port of an http address on this machine."""
    parts = urlsplit(text)
    if parts.scheme != "http" or parts.hostname not in (HOST, "localhost") or not parts.port:
        raise argparse.ArgumentTypeError(f"must be http://{HOST}:PORT")
    return f"{HOST}:{parts.port}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.haproxy_front", description="A bounded queue in front of a runtime."
    )
    parser.add_argument("target", type=_loopback, help=f"http://{HOST}:PORT of the runtime")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--active", type=_positive, required=True, help="requests with the runtime at once")
    parser.add_argument("--queue", type=_positive, required=True, help="requests that may wait")
    parser.add_argument("--retry-after", type=_positive, default=2, help="seconds")
    parser.add_argument("--status", type=int, choices=(429, 503), default=503)
    return parser.parse_args()


def main() -> int:
    arguments = _arguments()
    _end_with_parent(signal.SIGTERM)
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    front = Front(
        port=arguments.port or free_port(), target=arguments.target, active=arguments.active, queue=arguments.queue,
        retry_after_s=arguments.retry_after, status=arguments.status,
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="headroom-haproxy-") as folder:
        child = start(front, Path(folder))
        print(f"listening http://{HOST}:{front.port}", flush=True)
        while child.poll() is None and signal.sigtimedwait(signals, LOOK_EVERY_S) is None:
            pass
        ended_by_itself = child.poll() is not None
        child.kill()
        child.wait()
    return int(ended_by_itself)


if __name__ == "__main__":
    sys.exit(main())
