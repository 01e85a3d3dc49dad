"""Ways to fail on purpose: a share of the requests by seeded dice, or one request by its header."""

from __future__ import annotations

import random
from collections.abc import Mapping
from enum import StrEnum


class Fault(StrEnum):
    """What happens to a request. In a stream the breaking ones strike after half of the tokens. What a request has not
    (a list, a stream, an embedding) cannot be broken: then nothing happens."""

    HTTP_400 = "http_400"
    HTTP_429 = "http_429"
    HTTP_500 = "http_500"
    HTTP_503 = "http_503"
    HTTP_529 = "http_529"
    CLOSE = "close"  # the connection is closed before any byte of an answer
    SILENT = "silent"  # nothing is answered, the head neither, on an open connection
    OVERLOAD_IN_STREAM = "overload_in_stream"  # HTTP 200, an error event that says 503, [DONE]; no token before it
    RESET = "reset"  # TCP reset
    TRUNCATED = "truncated"  # a clean end without finish_reason
    ERROR_IN_STREAM = "error_in_stream"  # an error event after HTTP 200, then [DONE]
    MALFORMED = "malformed"  # one event that is no JSON; the stream goes on
    EMPTY = "empty"  # finish_reason and [DONE], and not one token
    STALL = "stall"  # silence on an open connection
    ENDLESS = "endless"  # the answer never ends: a word each few hundredths of a second until the client leaves
    BUFFERED = "buffered"  # every event at once, at the end
    ROLE_EARLY = "role_early"  # the role chunk long before the first token
    FIRST_BYTE_DELAY = "first_byte_delay"  # nothing, the head neither, for half a second
    HEADERS_LATE = "headers_late"  # a stream's head only with its first event, as SGLang holds it
    MULTI_TOKEN = "multi_token"  # four tokens to a chunk
    REASONING = "reasoning"  # the first third of the tokens is reasoning, not answer
    SHUFFLED = "shuffled"  # the items of a list come in reverse, their indexes right
    MISSING_ITEM = "missing_item"  # the last item of a list does not come
    NOT_FINITE = "not_finite"  # an embedding holds a null where a number should be


FAULT_HEADER = b"x-headroom-fault"
FIRST_BYTE_DELAY_S = 0.5
ENDLESS_EVERY_S = 0.05
# Answered before anything is computed: status and the type of error that vLLM would name.
REFUSALS = {
    Fault.HTTP_400: (400, "BadRequestError"),
    Fault.HTTP_429: (429, "Too Many Requests"),
    Fault.HTTP_500: (500, "InternalServerError"),
    Fault.HTTP_503: (503, "Service Unavailable"),
    Fault.HTTP_529: (529, "overloaded_error"),
}
RETRY_LATER = frozenset({Fault.HTTP_429, Fault.HTTP_503, Fault.HTTP_529})
TOKENS_PER_CHUNK = 4


class FaultMix:
    """Draws a fault, or none, for each request. The shares add up to at most 1."""

    def __init__(self, shares: Mapping[Fault, float], *, dice: random.Random) -> None:
        if any(share < 0 for share in shares.values()) or sum(shares.values()) > 1 + 1e-9:
            raise ValueError("Shares of faults must be 0 or more and add up to at most 1.")
        self._shares = dict(shares)
        self._dice = dice

    def draw(self) -> Fault | None:
        if not self._shares:
            return None
        mark = self._dice.random()
        for fault, share in self._shares.items():
            mark -= share
            if mark < 0:
                return fault
        return None


def parse_share(text: str) -> tuple[Fault, float]:
    """`reset=0.1` as (Fault.RESET, 0.1). ValueError in words otherwise."""
    name, _, share = text.partition("=")
    known = ", ".join(Fault)
    if name not in {fault.value for fault in Fault}:
        raise ValueError(f"Unknown fault {name!r}. Known: {known}.")
    return Fault(name), float(share or 1.0)
