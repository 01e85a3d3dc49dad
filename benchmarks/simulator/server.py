"""The simulated runtime over HTTP: the engine's steps at their real times, answers, metrics, and the truth."""

from __future__ import annotations

import asyncio
import ipaddress
import random
import time
from collections import deque
from collections.abc import Mapping
from enum import StrEnum
from urllib.parse import parse_qs, urlsplit

import h11
import msgspec

from benchmarks.simulator import pages
from benchmarks.simulator.answers import DONE, Answer, Truth
from benchmarks.simulator.asks import Ask, Refusal, read_ask
from benchmarks.simulator.card import Card
from benchmarks.simulator.connection import Connection
from benchmarks.simulator.faults import (
    ENDLESS_EVERY_S,
    FAULT_HEADER,
    FIRST_BYTE_DELAY_S,
    REFUSALS,
    RETRY_LATER,
    Fault,
    FaultMix,
)
from benchmarks.simulator.model import Admission, Engine
from benchmarks.simulator.profiles import DEMO, Profile

VERSION = "1.0.0"
TRUTH_KEPT = 5_000
JSON = "application/json"


class Reject(StrEnum):
    """How a full queue says no."""

    HTTP_503 = "503"
    HTTP_429 = "429"
    IN_STREAM = "in_stream"  # HTTP 200, an error event, [DONE]: as vLLM and SGLang may do


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """None takes the profile's own value; `queue_cap` None lets requests wait without limit."""

    profile: Profile = DEMO
    active_sequences: int | None = None
    queue_cap: int | None = None
    kv_tokens: int | None = None
    seed: int = 7
    reject: Reject = Reject.HTTP_503
    retry_after_s: int = 1
    api_key: str = ""
    faults: Mapping[Fault, float] = {}


class Simulator:
    """Owns the engine, the virtual card and the answers under way. Lives in one event loop."""

    def __init__(self, options: Options, *, loop: asyncio.AbstractEventLoop) -> None:
        self.options = options
        self.engine = Engine(
            options.profile,
            active_sequences=options.active_sequences,
            queue_cap=options.queue_cap,
            kv_tokens=options.kv_tokens,
            dice=random.Random(options.seed),
        )
        card = options.profile.card
        self.card = Card(card, now_s=loop.time()) if card else None
        self.truths: deque[Truth] = deque(maxlen=TRUTH_KEPT)
        self._faults = FaultMix(options.faults, dice=random.Random(options.seed + 1))
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._answers: dict[int, Answer] = {}
        self._keys: dict[Connection, int] = {}
        self._next_key = 0

    def serve(self, connection: Connection, request: h11.Request, body: bytes) -> None:
        """Route one request."""
        path = request.target.split(b"?")[0].decode("ascii", "replace")
        method = request.method.decode()
        if path in ("/v1/chat/completions", "/v1/completions"):
            if method != "POST":
                connection.refuse(Refusal(status=405, message="Method Not Allowed", type="BadRequestError"))
            elif (refusal := self._unauthorized(request)) is not None:
                connection.refuse(refusal)
            else:
                self._generate(connection, request, body, chat="chat" in path)
        else:
            page = self._page(path, request) if method == "GET" else None
            if page is None:
                connection.refuse(Refusal(status=404, message="Not Found", type="NotFoundError"))
            elif isinstance(page, Refusal):
                connection.refuse(page)
            else:
                connection.reply(200, page[0], page[1])

    def left(self, connection: Connection) -> None:
        """Cancel what the client of this connection was waiting for."""
        key = self._keys.pop(connection, None)
        if key is not None and (answer := self._answers.pop(key, None)) is not None:
            answer.gone()
            self._catch_up()
            self.engine.cancel(key)

    def _unauthorized(self, request: h11.Request) -> Refusal | None:
        wanted = self.options.api_key
        if not wanted or dict(request.headers).get(b"authorization") == f"Bearer {wanted}".encode():
            return None
        return Refusal(status=401, message="Invalid API key", type="AuthenticationError")

    def _generate(self, connection: Connection, request: h11.Request, body: bytes, *, chat: bool) -> None:
        received_ns = time.monotonic_ns()
        headers = dict(request.headers)
        fault = self._fault(headers)
        if fault is not None and self._strikes_at_once(connection, fault):
            return
        ask = read_ask(body, chat=chat, model=self.options.profile.model, seed=self.options.seed)
        if isinstance(ask, Refusal):
            connection.refuse(ask)
            return
        if fault is Fault.OVERLOAD_IN_STREAM:
            self._say_full(connection, in_stream=ask.stream)
            return
        key = self._next_key
        self._next_key += 1
        truth = Truth(
            id=f"{'chatcmpl' if chat else 'cmpl'}-{key}",
            client_id=headers.get(b"x-request-id", b"").decode("ascii", "replace"),
            stream=ask.stream,
            prompt_tokens=ask.prompt_tokens,
            output_tokens=len(ask.words),
            t_received_ns=received_ns,
            fault=fault or "",
        )
        self.truths.append(truth)
        self._admit(connection, ask, key, Answer(ask, wire=connection, fault=fault, truth=truth, model=self._model))

    def _admit(self, connection: Connection, ask: Ask, key: int, answer: Answer) -> None:
        self._catch_up()
        admission = self.engine.submit(key, ask.prompt_tokens, len(ask.words), now_s=self._loop.time())
        if admission is Admission.ACCEPTED:
            self._answers[key] = answer
            self._keys[connection] = key
            answer.accepted()
            if answer.truth.fault == Fault.FIRST_BYTE_DELAY:
                self._loop.call_later(FIRST_BYTE_DELAY_S, answer.release)
            elif answer.truth.fault == Fault.ENDLESS:
                self._loop.call_later(ENDLESS_EVERY_S, self._never_end, connection, key, answer)
            self._arm()
            return
        answer.truth.outcome = str(admission)
        if admission is Admission.TOO_LONG:
            connection.refuse(self._too_long(ask))
        else:
            self._say_full(connection, in_stream=self.options.reject is Reject.IN_STREAM and ask.stream)

    def _say_full(self, connection: Connection, *, in_stream: bool) -> None:
        if in_stream:
            connection.start(200, "text/event-stream; charset=utf-8")
            connection.write(self._full(503).event() + DONE)
            connection.end()
        else:
            connection.refuse(self._full(429 if self.options.reject is Reject.HTTP_429 else 503))

    def _strikes_at_once(self, connection: Connection, fault: Fault) -> bool:
        """Whether the fault is all that becomes of the request, whatever it asked."""
        if fault in REFUSALS:
            status, kind = REFUSALS[fault]
            retry_after_s = 1 if fault in RETRY_LATER else None
            connection.refuse(
                Refusal(status=status, message="Refused on purpose.", type=kind, retry_after_s=retry_after_s)
            )
        elif fault is Fault.CLOSE:
            connection.close()
        return fault in REFUSALS or fault in (Fault.CLOSE, Fault.SILENT)

    def _never_end(self, connection: Connection, key: int, answer: Answer) -> None:
        """A word more, again and again, while the client of this request is there."""
        if self._keys.get(connection) != key:
            return
        if answer.finished:
            answer.more()
        self._loop.call_later(ENDLESS_EVERY_S, self._never_end, connection, key, answer)

    def _catch_up(self) -> None:
        """Hand out every token that is due, and plan the next step's end."""
        now_s = self._loop.time()
        active, kv_tokens = self.engine.running, self.engine.kv_used_tokens
        for token in self.engine.advance(now_s):
            answer = self._answers.get(token.key)
            if answer is None:
                continue
            answer.token(token.index, last=token.last)
            if answer.finished:
                self._answers.pop(token.key, None)
                self.engine.cancel(token.key)
        if self.card is not None:
            self.card.read(active=active, kv_tokens=kv_tokens, now_s=now_s)
        self._arm()

    def _arm(self) -> None:
        due_s = self.engine.next_event_s
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if due_s is None else self._loop.call_at(due_s, self._catch_up)

    def _fault(self, headers: Mapping[bytes, bytes]) -> Fault | None:
        named = headers.get(FAULT_HEADER, b"").decode("ascii", "replace")
        if named in {fault.value for fault in Fault}:
            return Fault(named)
        return self._faults.draw()

    def _full(self, status: int) -> Refusal:
        return Refusal(
            status=status,
            message="The engine is currently busy: its queue is full.",
            type="Service Unavailable" if status == 503 else "Too Many Requests",
            retry_after_s=self.options.retry_after_s,
        )

    def _too_long(self, ask: Ask) -> Refusal:
        wanted, longest = ask.prompt_tokens + len(ask.words), self.engine.longest_tokens
        message = (
            f"request ({wanted} tokens: {ask.prompt_tokens} of prompt, {len(ask.words)} of output) "
            f"exceeds the available context size ({longest} tokens)"
        )
        return Refusal(
            status=400,
            message=message,
            type="exceed_context_size_error",
            n_prompt_tokens=ask.prompt_tokens,
            n_ctx=longest,
        )

    @property
    def _model(self) -> str:
        return self.options.profile.model

    def _page(self, path: str, request: h11.Request) -> tuple[str, bytes] | Refusal | None:
        self._catch_up()
        if path == "/health":
            return JSON, b'{"status":"ok"}'
        if path == "/version":
            return JSON, msgspec.json.encode({"version": VERSION})
        if path == "/metrics":
            return pages.PROMETHEUS, pages.engine_metrics(self.engine, model=self._model).encode()
        if path == "/gpu/metrics" and self.card is not None:
            return pages.PROMETHEUS, self._card_page(self.card)
        if path == "/truth":
            return JSON, self._truth_page(request.target)
        if path == "/server_info":
            return JSON, self._server_info()
        if path == "/v1/models":
            return self._unauthorized(request) or (JSON, self._models())
        return None

    def _truth_page(self, target: bytes) -> bytes:
        """Every request that is still kept, oldest first; `?last=N` the newest N only."""
        last = parse_qs(urlsplit(target.decode("ascii", "replace")).query).get("last", [""])[0]
        kept = list(self.truths)[-int(last) :] if last.isdecimal() and int(last) else list(self.truths)
        return msgspec.json.encode({"clock": "CLOCK_MONOTONIC, ns", "requests": kept})

    def _card_page(self, card: Card) -> bytes:
        reading = card.read(active=self.engine.running, kv_tokens=self.engine.kv_used_tokens, now_s=self._loop.time())
        return pages.card_metrics(reading, card.profile).encode()

    def _models(self) -> bytes:
        model = {
            "id": self._model,
            "object": "model",
            "owned_by": "headroom-simulator",
            "max_model_len": self.engine.longest_tokens,
        }
        return msgspec.json.encode({"object": "list", "data": [model]})

    def _server_info(self) -> bytes:
        return msgspec.json.encode(
            {
                "simulated": True,
                "version": VERSION,
                "profile": self.options.profile.name,
                "seed": self.options.seed,
                "max_active_sequences": self.engine.active_sequences,
                "queue_cap": self.engine.queue_cap,
                "context_per_sequence_tokens": self.engine.longest_tokens,
                "kv_capacity_tokens": self.engine.kv_tokens,
            }
        )


def require_loopback(host: str) -> str:
    """The address itself, or ValueError: a simulated runtime is for this machine only."""
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError as error:
        raise ValueError(f"{host!r} is not an IP address.") from error
    if not address.is_loopback:
        raise ValueError(f"The simulator listens on loopback only, not on {host}.")
    return str(address)


async def start(options: Options, *, host: str = "127.0.0.1", port: int = 0) -> tuple[asyncio.Server, int, Simulator]:
    """Listen on loopback; the server, its port and the simulator. Port 0 takes a free one."""
    loop = asyncio.get_running_loop()
    simulator = Simulator(options, loop=loop)
    server = await loop.create_server(lambda: Connection(simulator), require_loopback(host), port, backlog=1024)
    return server, int(server.sockets[0].getsockname()[1]), simulator
