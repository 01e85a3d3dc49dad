"""Whether a plan can be run as it stands, before anything is sent."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from urllib.parse import urlsplit

import httpx

from benchmarks.engine.dialects.table import DIALECTS
from benchmarks.engine.load import Closed, MicroBatch, OpenLoop, StaticBatch
from benchmarks.engine.plan import CellPlan
from benchmarks.engine.prompts import TASKS, Workload
from benchmarks.engine.terms import Frame, Header
from benchmarks.engine.wire import Target, tls_context

MOST_PROCESSES = 64
MOST_ITEMS, MOST_BATCH = 1_000_000, 10_000
MOST_S = 1e9  # in nanoseconds it is still a whole number of 64 bits
LIMITS = ("window_s", "connect_timeout_s", "first_byte_timeout_s", "idle_timeout_s", "total_timeout_s", "max_wall_s")
NUMBERS = ("version", "seed", "content_seed", "arrival_seed", "max_requests", "max_tokens", "offered_concurrency")


class BadPlanError(ValueError):
    """The plan cannot be run as it stands; the words are for a person."""


def check(plan: CellPlan) -> None:
    """Raises BadPlanError with what is wrong."""
    wrong = _unknown(plan) or _out_of_range(plan) or _address(plan) or _connect(plan) or _first(plan) or _load(plan)
    if wrong:
        raise BadPlanError(wrong)


def same_batch(frames: Sequence[Frame], plan: CellPlan) -> bool:
    """Whether a ledger is of the batch that a plan asks for: ceilings and limits may differ, the items may not."""
    header = next((frame for frame in frames if isinstance(frame, Header)), None)
    return header is None or _items_of(header.plan) == _items_of(plan)


def _items_of(plan: CellPlan) -> tuple[object, ...]:
    return (
        plan.load, plan.seed, plan.content_seed, plan.class_name,
        tuple((c.name, c.weight, c.prompt_tokens, c.output_tokens, c.pairs) for c in plan.classes),
        plan.task, plan.model, plan.dialect, plan.shared_prefix_share, plan.base_url, plan.stream, plan.ignore_eos,
    )  # fmt: skip


def _unknown(plan: CellPlan) -> str:
    if plan.dialect not in DIALECTS:
        return f"dialect {plan.dialect!r} is not spoken here, only {', '.join(sorted(DIALECTS))}"
    if plan.task not in TASKS:
        return f"task {plan.task!r} is not known, only {', '.join(sorted(TASKS))}"
    if plan.ignore_eos and plan.task != "words":
        return f"ignore_eos makes the answers of task {plan.task} run on, so none would be right: only words go with it"
    if plan.api_key_env and plan.api_key_env not in os.environ:
        return f"the environment holds no {plan.api_key_env}, which the plan names as its key"
    if any(mark in os.environ.get(plan.api_key_env, "") for mark in "\r\n\0"):
        return f"the key in {plan.api_key_env} holds a line end or a null byte"
    if not os.environ.get(plan.api_key_env, "").isascii():
        return f"the key in {plan.api_key_env} holds a character that no header can"
    return ""


def _out_of_range(plan: CellPlan) -> str:
    if plan.offered_concurrency < 1 or not 0 < plan.window_s < math.inf:
        return "offered concurrency and window must be above zero"
    for name in LIMITS:
        if not 0 < getattr(plan, name) <= MOST_S:
            return f"{name} of {getattr(plan, name):g} is not above zero and at most {MOST_S:g}"
    if not 0 <= plan.warmup_s <= MOST_S:
        return f"warmup_s of {plan.warmup_s:g} is not from zero to {MOST_S:g}"
    if any(abs(getattr(plan, name)) >= 2**63 for name in NUMBERS) or not 0 < plan.guard.error_share_over < 2**31:
        return "a count or a seed is out of range: 63 bits hold them, and an error share is over one request or more"
    if not 1 <= plan.processes <= min(MOST_PROCESSES, plan.offered_concurrency):
        return f"{plan.processes} generator processes: from 1 to the offered concurrency, at most {MOST_PROCESSES}"
    if plan.sessions is not None and (plan.sessions.turns < 1 or plan.sessions.think_s < 0):
        return "a session has at least one turn and thinks no negative time"
    if not 0 <= plan.shared_prefix_share <= 1:
        return f"a shared prefix of {plan.shared_prefix_share:g} is not a share from 0 to 1"
    return ""


def _load(plan: CellPlan) -> str:
    load = plan.load
    if plan.probe is not None and (plan.processes > 1 or plan.sessions is not None or not isinstance(load, Closed)):
        return "a probe offers its own load: one generator process, no sessions, no other load in its plan"
    if isinstance(load, Closed):
        return ""
    if isinstance(load, StaticBatch):
        if load.items < 1 or load.batch_size < 1 or load.tries < 1:
            return "a static batch has at least one item, a batch size and a number of tries of at least 1"
        if load.items > MOST_ITEMS or load.batch_size > MOST_BATCH:
            return f"a static batch has at most {MOST_ITEMS} items, {MOST_BATCH} in a round"
        return "a static batch runs in one generator process" if plan.processes > 1 else ""
    if isinstance(load, MicroBatch):
        if not DIALECTS[plan.dialect].LISTS:
            return f"dialect {plan.dialect} sends no lists, so nothing can be gathered into one request"
        if load.max_items < 1 or not 0 <= load.max_wait_ms < math.inf:
            return "a micro-batch holds at least one item and waits no negative time"
    if plan.sessions is not None and not isinstance(load, OpenLoop):
        return "sessions run in a closed or an open loop"
    from benchmarks.engine.schedule import offsets_ns  # numpy, which a closed loop starts without

    try:
        offsets_ns(load.arrivals, plan.warmup_s + plan.window_s, plan.arrival_seed or plan.seed)
    except ValueError as error:
        return f"arrivals: {error}"
    return ""


def _address(plan: CellPlan) -> str:
    parts = urlsplit(plan.base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return f"base_url {plan.base_url!r} is not an http or https address"
    for url in (plan.base_url, plan.connect.proxy_url):
        try:
            if urlsplit(url).port == 0:
                return f"{url!r} names port 0, where nobody listens"
            (urlsplit(url).hostname or "").encode("idna")
        except ValueError as error:
            return f"{url!r} is not an address: {error}"
    return ""


def _first(plan: CellPlan) -> str:
    """What the run would make first."""
    try:
        Target(plan)
        Workload(plan).build(0)
    except (ValueError, OverflowError, LookupError, httpx.InvalidURL) as error:
        return f"no request can be made: {error}"
    return ""


def _connect(plan: CellPlan) -> str:
    connect = plan.connect
    if connect.proxy_url and urlsplit(connect.proxy_url).scheme not in ("http", "https"):
        return f"proxy_url {connect.proxy_url!r} is not an http or https address"
    if connect.unix_socket and (connect.proxy_url or connect.http2):
        return "a unix socket is reached without proxy and over HTTP/1.1"
    if not connect.ca_file and not connect.client_cert_file:
        return ""
    try:
        tls_context(plan)
    except OSError as error:  # ssl.SSLError is one
        return f"ca_file, client_cert_file or client_key_file cannot be used: {error}"
    return ""
