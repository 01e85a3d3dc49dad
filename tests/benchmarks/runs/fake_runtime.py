"""A process that answers like llama.cpp's server where it is only asked what it is, with the misbehaviour that a test wants.

    python fake_runtime.py PORT SLOTS CONTEXT [never] [ends] [shot] [deaf] [forks] [away]

`never`: no health; `ends`: leaves while it starts; `shot`: is killed while it starts; `deaf`: ignores SIGTERM; `forks`: a
child in its group; `away`: a child in a session of its own. Each child writes its process id to FORKED, where that is set.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def pages(slots: int, context: int, healthy: bool) -> dict[str, tuple[int, object]]:
    return {
        "/health": (200, {"status": "ok"}) if healthy else (503, {"error": {"message": "Loading model"}}),
        "/v1/models": (200, {"data": [{"id": "fake", "owned_by": "llamacpp"}]}),
        "/props": (200, {"total_slots": slots, "build_info": "b1-fake"}),
        "/slots": (200, [{"id": number, "n_ctx": context} for number in range(slots)]),
    }


def fork(*, away: bool) -> None:
    if os.fork():
        return
    if away:
        os.setsid()
    with Path(os.environ["FORKED"]).open("a") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(600)


def main() -> None:
    port, slots, context = (int(word) for word in sys.argv[1:4])
    wanted = sys.argv[4:]
    if "deaf" in wanted:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for word in ("forks", "away"):
        if word in wanted:
            fork(away=word == "away")
    print(f"loading\x1b[0m the model for {slots} slots", flush=True)
    if "shot" in wanted:
        os.kill(os.getpid(), signal.SIGKILL)
    if "ends" in wanted:
        sys.exit("error: not enough memory for the KV cache")
    answers = pages(slots, context, "never" not in wanted)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answers.get(self.path, (404, {}))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_words: object) -> None:
            pass

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    main()
