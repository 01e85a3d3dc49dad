"""Requests asked on one slot of a scripted server, over real sockets."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable

from benchmarks.engine.exchange import Due
from benchmarks.engine.prompts import Workload
from benchmarks.engine.terms import Phase, RequestRecord
from benchmarks.engine.wire import Slot, Target, tls_context
from tests.benchmarks.engine.plans import a_plan
from tests.benchmarks.engine.scripted import Script, Scripted

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def ask(
    *scripts: Script,
    times: int = 1,
    pause_s: float = 0.0,
    loop_factory: LoopFactory | None = None,
    open_ahead: bool = False,
    tls: tuple[ssl.SSLContext, ssl.SSLContext] | None = None,
    **plan_changes,
) -> tuple[list[RequestRecord], Scripted]:
    """Asks `times` in a row on one slot of a server that plays `scripts`; `tls` are the server's and the client's
    contexts."""

    async def run() -> tuple[list[RequestRecord], Scripted]:
        async with Scripted(scripts, tls=tls[0] if tls else None) as server:
            plan = a_plan(base_url=server.url, **plan_changes)
            slot, workload = Slot(Target(plan, tls[1] if tls else tls_context(plan))), Workload(plan)
            if open_ahead:
                await slot.open()
            records = []
            for index in range(times):
                prepared = workload.build(index)
                exchange = await slot.ask((Due(prepared, time.monotonic_ns(), Phase.WINDOW),), prepared.body)
                records += exchange.records()
                await asyncio.sleep(pause_s)
            await slot.close()
            return records, server

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(run())


def one(*steps: object, **options) -> RequestRecord:
    return ask(list(steps), **options)[0][0]
