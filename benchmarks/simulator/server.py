"""The simulated runtime over HTTP: the engine's steps at their real times, answers, metrics, and the truth."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import random
from collections import deque
from collections.abc import Mapping, Sequence
from enum import StrEnum
from urllib.parse import parse_qs, urlsplit

import msgspec

from benchmarks.simulator import pages
from benchmarks.simulator.answers import Answer
from benchmarks.simulator.asks import Api, Ask, Refusal, read_ask
from benchmarks.simulator.card import Card
from benchmarks.simulator.connection import Connection, Request
from benchmarks.simulator.faults import (
    ENDLESS_EVERY_S,
    FAULT_HEADER,
    FIRST_BYTE_DELAY_S,
    REFUSALS,
    RETRY_LATER,
    Fault,
    FaultMix,
)
from benchmarks.simulator.model import Admission, Engine, Order, Token
from benchmarks.simulator.prefixes import PrefixCache
from benchmarks.simulator.profiles import DEMO, Profile
from benchmarks.simulator.shapes import JSON, Fact, shape_of
from benchmarks.simulator.truth import Truth, prompt_digest

VERSION = "1.0.0"
TRUTH_KEPT = 5_000
SPREAD_EVERY_S = 0.001
APIS = {api.value: api for api in Api}


class Reject(StrEnum):
    """How a full queue says no."""

    HTTP_503 = "503"
    HTTP_429 = "429"
    IN_STREAM = "in_stream"  # HTTP 200, an error event, [DONE]: as vLLM and SGLang may do


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """None takes the profile's own value; `queue_cap` None lets requests wait without limit. `continuous_usage` sends
    counts on every chunk of OpenAI's shapes, asked or not; `prefix_cache` spares the prefill of known beginnings."""

    profile: Profile = DEMO
    active_sequences: int | None = None
    queue_cap: int | None = None
    kv_tokens: int | None = None
    seed: int = 7
    reject: Reject = Reject.HTTP_503
    retry_after_s: int = 1
    api_key: str = ""
    continuous_usage: bool = False
    prefix_cache: bool = False
    truth_kept: int = TRUTH_KEPT
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
        self.truths: deque[Truth] = deque(maxlen=options.truth_kept)
        self._prefixes = PrefixCache(self.engine.kv_tokens) if options.prefix_cache else None
        self._faults = FaultMix(options.faults, dice=random.Random(options.seed + 1))
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._answers: dict[int, Answer] = {}
        self._asking: dict[Connection, Answer] = {}
        self._outbox: deque[Token] = deque()
        self._per_turn = 0
        self._draining = False
        self._next_key = 0
        self._next_id = 0

    def serve(self, connection: Connection, request: Request) -> None:
        """Route one request."""
        api = APIS.get(request.path)
        if api is not None:
            if request.method != "POST":
                connection.refuse(Refusal(status=405, message="Method Not Allowed", type="BadRequestError"))
            elif (refusal := self._unauthorized(request)) is not None:
                connection.refuse(refusal)
            else:
                self._generate(connection, request, api)
        else:
            page = self._page(request) if request.method == "GET" else None
            if page is None:
                connection.refuse(Refusal(status=404, message="Not Found", type="NotFoundError"))
            elif isinstance(page, Refusal):
                connection.refuse(page)
            else:
                connection.reply(200, page[0], page[1])

    def left(self, connection: Connection) -> None:
        """Cancel what the client of this connection was waiting for."""
        answer = self._asking.pop(connection, None)
        if answer is not None and self._forget(answer):
            answer.gone()
            self._catch_up()
            for key in answer.keys:
                self.engine.cancel(key)

    def _forget(self, answer: Answer) -> bool:
        """No more tokens for this answer. False where it had all that it wanted."""
        waited = [self._answers.pop(key, None) for key in answer.keys]
        return any(one is not None for one in waited)

    def _unauthorized(self, request: Request) -> Refusal | None:
        wanted = self.options.api_key
        if not wanted or request.headers.get(b"authorization") == f"Bearer {wanted}".encode():
            return None
        return Refusal(status=401, message="Invalid API key", type="AuthenticationError")

    def _generate(self, connection: Connection, request: Request, api: Api) -> None:
        fault = self._fault(request.headers)
        if fault is not None and self._strikes_at_once(connection, fault, api):
            return
        ask = read_ask(request.body, api=api, model=self._model, seed=self.options.seed)
        if isinstance(ask, Refusal):
            connection.refuse(ask, ask.body(api))
            return
        if self.options.continuous_usage:
            ask = msgspec.structs.replace(ask, continuous_usage=True)
        if fault is Fault.OVERLOAD_IN_STREAM:
            self._say_full(connection, ask, in_stream=ask.stream)
            return
        cached = [0 if self._prefixes is None else self._prefixes.cached_tokens(item.prompt) for item in ask.items]
        truth = self._truth(request, ask, fault, sum(cached))
        self.truths.append(truth)
        known = None if self._prefixes is None else sum(cached)
        fact = Fact(id=truth.id, model=self._model, cached_tokens=known, seed=self.options.seed)
        self._admit(connection, cached, Answer(ask, wire=connection, fault=fault, truth=truth, fact=fact))

    def _truth(self, request: Request, ask: Ask, fault: Fault | None, cached_tokens: int) -> Truth:
        number, self._next_id = self._next_id, self._next_id + 1
        return Truth(
            id=f"{'chatcmpl' if ask.api is Api.CHAT else 'cmpl'}-{number}",
            client_id=request.headers.get(b"x-request-id", b"").decode("ascii", "replace"),
            api=ask.api,
            stream=ask.stream,
            items=len(ask.items),
            prompt_digest=prompt_digest(ask.items[0].prompt),
            prompt_tokens=ask.prompt_tokens,
            cached_tokens=cached_tokens,
            output_tokens=ask.output_tokens,
            t_received_ns=request.t_received_ns,
            fault=fault or "",
        )

    def _admit(self, connection: Connection, cached: list[int], answer: Answer) -> None:
        ask = answer.ask
        pooled = ask.api is Api.EMBEDDINGS
        answer.keys = tuple(range(self._next_key, self._next_key + len(ask.items)))
        self._next_key += len(ask.items)
        orders = [
            Order(key, item.prompt_tokens, 1 if pooled else len(item.words), known, pooled)
            for key, item, known in zip(answer.keys, ask.items, cached, strict=True)
        ]
        self._catch_up()
        admission = self.engine.submit_together(orders, now_s=self._loop.time())
        if admission is Admission.ACCEPTED:
            self._answers.update(dict.fromkeys(answer.keys, answer))
            self._asking[connection] = answer
            answer.accepted()
            if answer.truth.fault == Fault.FIRST_BYTE_DELAY:
                self._loop.call_later(FIRST_BYTE_DELAY_S, answer.release)
            elif answer.truth.fault == Fault.ENDLESS:
                self._loop.call_later(ENDLESS_EVERY_S, self._never_end, connection, answer)
            self._arm()
            return
        answer.truth.outcome = str(admission)
        if admission is Admission.TOO_LONG:
            refusal = self._too_long(ask)
            connection.refuse(refusal, refusal.body(ask.api))
        else:
            in_stream = self.options.reject is Reject.IN_STREAM and ask.stream
            self._say_full(connection, ask, in_stream=in_stream)

    def _say_full(self, connection: Connection, ask: Ask, *, in_stream: bool) -> None:
        if in_stream:
            shape = shape_of(ask, Fact(id="", model=self._model, cached_tokens=None, seed=0))
            connection.start(200, shape.stream_type)
            connection.write(b"".join(shape.failure(self._full(503, ask.api))))
            connection.end()
        else:
            refusal = self._full(429 if self.options.reject is Reject.HTTP_429 else 503, ask.api)
            connection.refuse(refusal, refusal.body(ask.api))

    def _strikes_at_once(self, connection: Connection, fault: Fault, api: Api) -> bool:
        """Whether the fault is all that becomes of the request, whatever it asked."""
        if fault in REFUSALS:
            status, kind = REFUSALS[fault]
            retry_after_s = 1 if fault in RETRY_LATER else None
            refusal = Refusal(status=status, message="Refused on purpose.", type=kind, retry_after_s=retry_after_s)
            connection.refuse(refusal, refusal.body(api))
        elif fault is Fault.CLOSE:
            connection.close()
        return fault in REFUSALS or fault in (Fault.CLOSE, Fault.SILENT)

    def _never_end(self, connection: Connection, answer: Answer) -> None:
        """A word more, again and again, while the client of this request is there."""
        if self._asking.get(connection) is not answer:
            return
        if answer.finished:
            answer.more()
        self._loop.call_later(ENDLESS_EVERY_S, self._never_end, connection, answer)

    def _catch_up(self) -> None:
        """Hand out every token that is due, and plan the next step's end."""
        now_s = self._loop.time()
        active, kv_tokens = self.engine.running, self.engine.kv_used_tokens if self.card is not None else 0
        self._hand_out(self.engine.advance(now_s))
        if self.card is not None:
            self.card.read(active=active, kv_tokens=kv_tokens, now_s=now_s)
        self._arm()

    def _hand_out(self, tokens: Sequence[Token]) -> None:
        """At once, or some each millisecond (no timer here is finer), always in the engine's order."""
        spread_s = self.options.profile.write_spread_s
        if not spread_s:
            self._deliver(tokens)
            return
        self._outbox.extend(tokens)
        self._per_turn = math.ceil(len(self._outbox) * SPREAD_EVERY_S / spread_s)
        if self._outbox and not self._draining:
            self._draining = True
            self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        self._deliver([self._outbox.popleft() for _ in range(min(self._per_turn, len(self._outbox)))])
        self._draining = bool(self._outbox)
        if self._draining:
            self._loop.call_later(SPREAD_EVERY_S, self._drain)

    def _deliver(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            answer = self._answers.get(token.key)
            if answer is None:
                continue
            answer.token(token.index, last=token.last)
            if token.last:
                self._answers.pop(token.key, None)
            if answer.finished:
                self._forget(answer)
                for key in answer.keys:
                    self.engine.cancel(key)

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

    def _full(self, status: int, api: Api) -> Refusal:
        ollama = "server busy, please try again. maximum pending requests exceeded"
        return Refusal(
            status=status,
            message=ollama if api is Api.OLLAMA else "The engine is currently busy: its queue is full.",
            type="Service Unavailable" if status == 503 else "Too Many Requests",
            retry_after_s=self.options.retry_after_s,
        )

    def _too_long(self, ask: Ask) -> Refusal:
        longest = self.engine.longest_tokens
        item = max(ask.items, key=lambda one: one.prompt_tokens + len(one.words))
        wanted = item.prompt_tokens + len(item.words)
        message = (
            f"request ({wanted} tokens: {item.prompt_tokens} of prompt, {len(item.words)} of output) "
            f"exceeds the available context size ({longest} tokens)"
        )
        return Refusal(
            status=400,
            message=message,
            type="exceed_context_size_error",
            n_prompt_tokens=item.prompt_tokens,
            n_ctx=longest,
        )

    @property
    def _model(self) -> str:
        return self.options.profile.model

    def _page(self, request: Request) -> tuple[str, bytes] | Refusal | None:
        path = request.path
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

    def _truth_page(self, target: str) -> bytes:
        """Every request that is still kept, oldest first; `?last=N` the newest N only."""
        last = parse_qs(urlsplit(target).query).get("last", [""])[0]
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
