"""One test request, judged: what is wrong, and what to do about it."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class NoAnswer(StrEnum):
    """Why no complete answer came."""

    CONNECT = "connect"
    TIMEOUT = "timeout"
    TLS = "tls"
    CUT = "cut"  # the connection ended in the middle


class TestResult(msgspec.Struct, frozen=True, kw_only=True):
    """`what` is the finding in one sentence, `do` the remedy; empty when nothing needs doing."""

    ok: bool
    what: str
    do: str = ""


class _ErrorBody(msgspec.Struct, frozen=True):
    message: str = ""
    type: str = ""
    code: int | str | None = None


class _Delta(msgspec.Struct, frozen=True):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None


class _Choice(msgspec.Struct, frozen=True):
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None


class _Body(msgspec.Struct, frozen=True):
    """An event, a whole answer or an error: flat or nested."""

    choices: tuple[_Choice, ...] | None = None
    error: _ErrorBody | str | None = None
    message: str = ""
    type: str = ""
    error_type: str = ""
    detail: str | None = None

    @property
    def error_text(self) -> str:
        if isinstance(self.error, _ErrorBody):
            return f"{self.error.type}: {self.error.message}".strip(": ")
        return self.error or self.message or self.detail or ""


_NO_ANSWER = {
    NoAnswer.CONNECT: (
        "No answer: nothing accepts connections at this address.",
        "Start the runtime, or correct the address and port.",
    ),
    NoAnswer.TIMEOUT: (
        "No answer in time.",
        "See whether the runtime is overloaded or still loading its model, then test again.",
    ),
    NoAnswer.TLS: (
        "The TLS certificate was not accepted.",
        "Add the certificate authority on the GPU host, or use the name that the certificate holds.",
    ),
    NoAnswer.CUT: (
        "The connection was cut before the answer was complete.",
        "Look into the runtime's log for a crash; test again.",
    ),
}
_TOO_LONG = ("exceed_context_size", "context size", "context length", "maximum context", "input_tokens", "too long")
_UNKNOWN_MODEL = ("does not exist", "notfounderror", "model_not_found", "model not found", "not found, try pulling")


def classify_test(status: int | None, body: str, error: NoAnswer | None = None) -> TestResult:
    """Judge the answer to one chat request that asked for a stream. `status` None goes with an `error`."""
    if error is not None:
        what, do = _NO_ANSWER[error]
        return TestResult(ok=False, what=what, do=do)
    if status is None:
        return TestResult(ok=False, what="No answer came.", do="Start the runtime, or correct the address.")
    if status == 200:
        return _judge_answer(body)
    return _judge_refusal(status, body)


def _judge_refusal(status: int, body: str) -> TestResult:
    text = _error_text(body)
    low = text.lower()
    said = f" It said: {text[:200]}" if text else ""
    if status in (401, 403):
        return TestResult(
            ok=False,
            what=f"The runtime asks for credentials (HTTP {status}).",
            do="Put the API key on the GPU host and give its name here.",
        )
    if 300 <= status < 400:
        return TestResult(
            ok=False,
            what=f"The address redirects (HTTP {status}).",
            do="Enter the address it leads to; redirects are not followed.",
        )
    if any(mark in low for mark in _UNKNOWN_MODEL):
        return TestResult(
            ok=False,
            what=f"The runtime does not know this model.{said}",
            do="Take a name from the list of models that the endpoint shows.",
        )
    if any(mark in low for mark in _TOO_LONG):
        return TestResult(
            ok=False,
            what=f"The prompt is too long for the context of one sequence.{said}",
            do="Shorten the prompts or raise the context per sequence.",
        )
    if status == 503 and "loading" in low:
        return TestResult(
            ok=False,
            what="The runtime is still loading its model (HTTP 503).",
            do="Wait until /health answers 200, then test again.",
        )
    if status in (429, 503, 529):
        return TestResult(
            ok=False,
            what=f"The runtime refuses because it is busy (HTTP {status}).{said}",
            do="Test again when it is idle; measure only an idle runtime.",
        )
    if status in (404, 405):
        return TestResult(
            ok=False,
            what=f"No OpenAI-compatible API at this address (HTTP {status}).{said}",
            do="Enter the base address without /v1, and see that the runtime serves /v1/chat/completions.",
        )
    if status >= 500:
        return TestResult(
            ok=False, what=f"The runtime failed (HTTP {status}).{said}", do="Look into the runtime's log."
        )
    return TestResult(
        ok=False,
        what=f"The runtime refused the request (HTTP {status}).{said}",
        do="Compare the request with what the runtime accepts.",
    )


def _judge_answer(body: str) -> TestResult:
    lines = [line.removesuffix("\r") for line in body.split("\n")]
    events = [line[5:].strip() for line in lines if line.startswith("data:")]
    if not events:
        return _judge_whole(body)
    parsed = [_decode(event) for event in events if event != "[DONE]"]
    if any(one is None for one in parsed):
        return TestResult(
            ok=False, what="An event of the stream is no JSON.", do="See whether a proxy changes the stream."
        )
    bodies = [one for one in parsed if one is not None]
    failed = next((one.error_text for one in bodies if one.error is not None), None)
    if failed is not None:
        return TestResult(
            ok=False,
            what=f"The stream began with HTTP 200 and then failed. It said: {failed[:200]}",
            do="Look into the runtime's log; on llama.cpp see whether a unified KV cache is full.",
        )
    choices = [choice for one in bodies for choice in one.choices or ()]
    return _judge_choices(choices)


def _judge_choices(choices: list[_Choice]) -> TestResult:
    if not choices:
        return TestResult(
            ok=False,
            what="The stream is not OpenAI-shaped: its events hold no choices.",
            do="Enter the address of the OpenAI-compatible API.",
        )
    if not any(_text(choice.delta) for choice in choices):
        return TestResult(
            ok=False,
            what="The stream is complete and empty: not one token came.",
            do="See whether the chat template and the model belong together.",
        )
    if not any(choice.finish_reason for choice in choices):
        return TestResult(
            ok=False,
            what="The stream ended without a finish_reason: it was cut.",
            do="Look into the runtime's log, and into the proxy's time limits.",
        )
    return TestResult(ok=True, what="The runtime answered one streamed request, complete.")


def _judge_whole(body: str) -> TestResult:
    answer = _decode(body)
    if answer is not None and answer.choices and any(_text(choice.message) for choice in answer.choices):
        return TestResult(
            ok=False,
            what="The runtime answers, but does not stream: the whole answer came at once.",
            do="Switch streaming on in the runtime or the proxy; without it there is no time to first token.",
        )
    if answer is not None and answer.error_text:
        return TestResult(
            ok=False,
            what=f"HTTP 200 with an error. It said: {answer.error_text[:200]}",
            do="Look into the runtime's log.",
        )
    return TestResult(
        ok=False,
        what="The answer is not OpenAI-shaped.",
        do="Enter the base address of the OpenAI-compatible API, without /v1.",
    )


def _text(part: _Delta | None) -> str:
    return (part.content or part.reasoning or part.reasoning_content or "") if part is not None else ""


def _decode(text: str) -> _Body | None:
    try:
        return msgspec.json.decode(text.encode(), type=_Body)
    except msgspec.MsgspecError:
        return None


def _error_text(body: str) -> str:
    answer = _decode(body)
    if answer is None:
        return ""
    kind = answer.type or answer.error_type
    return f"{kind}: {answer.error_text}" if kind and answer.error_text else answer.error_text
