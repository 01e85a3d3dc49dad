"""`python -m benchmarks.simulator`: serve until a signal, or until the parent process is gone."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import sys

from benchmarks.simulator.faults import Fault, parse_share
from benchmarks.simulator.profiles import PROFILES
from benchmarks.simulator.server import TRUTH_KEPT, Options, Reject, require_loopback, start

PARENT_POLL_S = 0.2


def _share(text: str) -> tuple[Fault, float]:
    try:
        return parse_share(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _loopback(text: str) -> str:
    try:
        return require_loopback(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.simulator", description="A simulated LLM runtime on loopback."
    )
    parser.add_argument("--host", type=_loopback, default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--profile", choices=sorted(PROFILES), default="demo")
    parser.add_argument("--active", type=_positive, help="sequences advanced per step")
    parser.add_argument("--queue-cap", type=int, help="sequences that may wait; without it they wait without limit")
    parser.add_argument("--kv-tokens", type=_positive)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--reject", choices=[way.value for way in Reject], default="503", help="how a full queue says no"
    )
    parser.add_argument("--retry-after", type=int, default=1, help="seconds")
    parser.add_argument("--api-key-env", default="", help="name of the variable whose value clients must present")
    parser.add_argument("--continuous-usage", action="store_true", help="counts on every chunk, asked or not")
    parser.add_argument("--prefix-cache", action="store_true", help="known beginnings of prompts need no prefill")
    parser.add_argument("--truth-kept", type=_positive, default=TRUTH_KEPT, help="requests whose truth is remembered")
    parser.add_argument(
        "--fault", type=_share, action="append", default=[], metavar="NAME=SHARE", help=", ".join(Fault)
    )
    parser.add_argument("--with-parent", action="store_true", help="end when the process that started this one is gone")
    return parser


def _options(arguments: argparse.Namespace) -> Options:
    return Options(
        profile=PROFILES[arguments.profile],
        active_sequences=arguments.active,
        queue_cap=arguments.queue_cap,
        kv_tokens=arguments.kv_tokens,
        seed=arguments.seed,
        reject=Reject(arguments.reject),
        retry_after_s=arguments.retry_after,
        api_key=os.environ.get(arguments.api_key_env, "") if arguments.api_key_env else "",
        continuous_usage=arguments.continuous_usage,
        prefix_cache=arguments.prefix_cache,
        truth_kept=arguments.truth_kept,
        faults=dict(arguments.fault),
    )


async def _parent_gone(parent: int) -> None:
    while os.getppid() == parent:
        await asyncio.sleep(PARENT_POLL_S)


async def _serve(arguments: argparse.Namespace, parent: int) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, stop.set)
    server, port, _ = await start(_options(arguments), host=arguments.host, port=arguments.port)
    host = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
    gc.freeze()  # what stands now is never collected; a pass over it would delay writes
    print(f"listening http://{host}:{port}", flush=True)
    waits: set[asyncio.Task[bool] | asyncio.Task[None]] = {asyncio.create_task(stop.wait())}
    if arguments.with_parent:
        waits.add(asyncio.create_task(_parent_gone(parent)))
    _, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    server.close()


def main() -> int:
    parent = os.getppid()
    arguments = _parser().parse_args()
    if arguments.api_key_env and not os.environ.get(arguments.api_key_env):
        print(f"{arguments.api_key_env} is not set.", file=sys.stderr)
        return 2
    asyncio.run(_serve(arguments, parent))
    return 0


if __name__ == "__main__":
    sys.exit(main())
