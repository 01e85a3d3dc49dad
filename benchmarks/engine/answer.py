"""From the events of one answer to its single outcome. Knows no socket and reads no clock: every time is an argument.

The rule is that of docs/evidence.md: ok needs HTTP 200, content, a finish_reason that says how the text ended, no error
event, and every event parsed. `[DONE]` alone is not success: several runtimes send it after an error.
"""

from __future__ import annotations

from array import array
from itertools import pairwise

from benchmarks.engine.failures import Failure
from benchmarks.engine.terms import Outcome, TokenSource

FINISHED = frozenset({"stop", "length", "tool_calls"})
NS_PER_US = 1000
MOST_US = 2**32 - 1
# No answer holds more; what a server tells beyond it, or below zero, is no count.
MOST_TOKENS = 10**9
MOST_REASON = 100


class Answer:
    """One answer as it arrives. The first failure decides; what was counted before it is kept.

    A dialect calls `text`, `other`, `count`, `finish`, `done` and the failures; `stamps` are the arrival times of the
    chunks with text, in order.
    """

    __slots__ = (
        "batch_output_tokens", "batch_prompt_tokens", "cached_prompt_tokens", "complete_as_is", "detail", "dimension",
        "ended_well", "failed",
        "finish_reason", "first_chunk_tokens", "has_content", "output_tokens", "prompt_tokens", "stamps",
        "t_answer_ns", "t_end_ns", "texts",
    )  # fmt: skip

    def __init__(self) -> None:
        self.stamps = array("q")
        self.texts: list[str] = []
        self.t_answer_ns: int | None = None
        self.t_end_ns: int | None = None
        self.finish_reason: str | None = None
        self.prompt_tokens: int | None = None
        self.cached_prompt_tokens: int | None = None
        self.output_tokens: int | None = None
        self.first_chunk_tokens: int | None = None
        self.batch_prompt_tokens: int | None = None
        self.batch_output_tokens: int | None = None
        self.failed: Outcome | None = None
        self.detail = ""
        self.ended_well = False
        self.complete_as_is = False
        self.dimension: int | None = None
        self.has_content = False

    # What a dialect tells.

    def text(self, text: str, t_ns: int) -> None:
        """Answer text that a user would read, not empty."""
        self.stamps.append(t_ns)
        self.texts.append(text)
        if self.t_answer_ns is None:
            self.t_answer_ns = t_ns
            self.has_content = True

    def other(self, t_ns: int) -> None:
        """Reasoning or tool-call text: content too, but not the answer."""
        self.stamps.append(t_ns)
        self.has_content = True

    def count(self, prompt_tokens: int | None, output_tokens: int | None, cached: int | None = None) -> None:
        """The server's counts so far. The last ones stand: some servers send a running total on each chunk."""
        self.prompt_tokens, self.output_tokens, self.cached_prompt_tokens = prompt_tokens, output_tokens, cached

    def count_of_list(self, prompt_tokens: int | None, output_tokens: int | None) -> None:
        """The server's counts for all items of one request together; no item's own are known."""
        self.batch_prompt_tokens, self.batch_output_tokens = prompt_tokens, output_tokens

    def finish(self, reason: str) -> None:
        self.finish_reason = reason

    def done(self, t_ns: int) -> None:
        """The terminal marker of the dialect."""
        self.ended_well = True
        if self.t_end_ns is None:
            self.t_end_ns = t_ns

    def complete(self, t_ns: int, *, dimension: int | None = None) -> None:
        """A whole answer of a kind that has no finish_reason, an embedding: its dialect has seen that nothing lacks."""
        self.dimension = dimension
        self.has_content = self.complete_as_is = True
        self.done(t_ns)

    def fail(self, outcome: Outcome, detail: str) -> None:
        if self.failed is None:
            self.failed, self.detail = outcome, detail[:300]

    def server_failed(self, failure: Failure) -> None:
        """An error under HTTP 200. Once text has come the request was admitted: an overload told after that is a broken
        answer, not a rejection."""
        rejected = failure.is_overload and not self.has_content
        outcome = Outcome.REJECTED if rejected else Outcome.IN_STREAM_ERROR
        self.fail(outcome, failure.text or "an error without a word why")

    # What the wire tells.

    def eof(self, t_ns: int) -> None:
        """The stream ended in good order. A finish_reason and a clean end are a terminal marker too (no [DONE]
        sent)."""
        if self.finish_reason is not None and self.t_end_ns is None:
            self.t_end_ns = t_ns

    def settle(self) -> None:
        """Nothing more will come: counts that cannot be are unknown."""
        self.prompt_tokens = _possible(self.prompt_tokens)
        self.cached_prompt_tokens = _possible(self.cached_prompt_tokens)
        self.output_tokens = _possible(self.output_tokens)
        self.first_chunk_tokens = _possible(self.first_chunk_tokens)
        self.batch_prompt_tokens = _possible(self.batch_prompt_tokens)
        self.batch_output_tokens = _possible(self.batch_output_tokens)
        if self.finish_reason is not None:
            self.finish_reason = self.finish_reason[:MOST_REASON]

    # What is asked afterwards.

    @property
    def answer_text(self) -> str:
        """The answer proper, without reasoning or tool calls."""
        return "".join(self.texts)

    @property
    def token_source(self) -> TokenSource:
        return TokenSource.UNKNOWN if self.output_tokens is None else TokenSource.SERVER

    @property
    def t_first_ns(self) -> int | None:
        return self.stamps[0] if self.stamps else None

    @property
    def t_last_ns(self) -> int | None:
        return self.stamps[-1] if self.stamps else None

    @property
    def gaps_us(self) -> bytes:
        """Between chunks with text, little-endian u32."""
        return _gaps(self.stamps).tobytes()

    def outcome(self) -> Outcome:
        """The verdict once no more will come."""
        if self.failed is not None:
            return self.failed
        if self.complete_as_is:
            return Outcome.OK
        if self.t_end_ns is None or self.finish_reason is None:
            marker = "no finish_reason before the end" if self.ended_well else "stream ended without a terminal marker"
            self.fail(Outcome.TRUNCATED, marker)
            return Outcome.TRUNCATED
        if self.finish_reason not in FINISHED:
            self.fail(Outcome.IN_STREAM_ERROR, f"finish_reason {self.finish_reason}")
            return Outcome.IN_STREAM_ERROR
        if not self.has_content:
            self.fail(Outcome.EMPTY, f"finish_reason {self.finish_reason} without content")
            return Outcome.EMPTY
        return Outcome.OK


def _possible(count: int | None) -> int | None:
    return count if count is not None and 0 <= count <= MOST_TOKENS else None


def _gaps(stamps: array[int]) -> array[int]:
    """A gap beyond what 32 bits hold, 71 minutes, is told as the longest that they do."""
    gaps = [(later - earlier) // NS_PER_US for earlier, later in pairwise(stamps)]
    try:
        return array("I", gaps)
    except OverflowError:
        return array("I", [min(gap, MOST_US) for gap in gaps])
