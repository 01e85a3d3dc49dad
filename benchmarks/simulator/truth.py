"""What the simulated runtime writes down of each request: the truth that a client's own stamps are held against."""

from __future__ import annotations

import hashlib

import msgspec


class Truth(msgspec.Struct):
    """When the bytes of one request really went out: monotonic nanoseconds of this host. None: it never happened.

    `t_received_ns` is when the request's last byte was read, `t_head_ns` when the head of the answer was written. Each
    stamp of `t_tokens_ns` was taken right before the write of one piece with text, whole answers having one.
    `prompt_digest` joins a request of the client to its truth whatever else it carries: of a list, the first item's.
    """

    id: str
    client_id: str
    api: str
    stream: bool
    items: int
    prompt_digest: str
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    t_received_ns: int
    t_head_ns: int | None = None
    t_first_ns: int | None = None
    t_last_ns: int | None = None
    t_end_ns: int | None = None
    tokens_sent: int = 0
    outcome: str = "running"
    fault: str = ""
    t_tokens_ns: list[int] = []


def prompt_digest(prompt: str) -> str:
    """Sixteen hex digits of BLAKE2b over the prompt's text; messages of a conversation are joined by LF."""
    return hashlib.blake2b(prompt.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
