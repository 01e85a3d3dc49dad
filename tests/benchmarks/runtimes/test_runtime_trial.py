"""One test request, judged from recorded and written answers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks.runtimes import trial
from benchmarks.runtimes.trial import NoAnswer, classify_test

LOOKS = Path(__file__).parents[2] / "data" / "looks"
CHUNK_SIZES = re.compile(r"^[0-9a-f]+\r?$", re.MULTILINE)
OK = "The runtime answered one streamed request, complete."


def recorded(name: str) -> tuple[int, str]:
    """Status and body of a recorded answer, without the sizes of its HTTP chunks."""
    head, _, body = (LOOKS / f"{name}.txt").read_bytes().replace(b"\r\n", b"\n").partition(b"\n\n")
    return int(head.split()[1]), CHUNK_SIZES.sub("", body.decode())


def chunk(**delta: str | None) -> str:
    return json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


END = json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})


def stream(*events: str) -> str:
    return "".join(f"data: {event}\n\n" for event in events)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("xllamacpp_b11549_chat_stream_plain", OK),
        ("xllamacpp_b11549_chat_stream_usage", OK),
        ("xllamacpp_b11549_chat_nonstream", "does not stream"),
        ("xllamacpp_b11549_unknown_model", "does not stream"),
        ("xllamacpp_b11549_err_prompt_beyond_ctx", "too long for the context"),
        ("xllamacpp_b11549_err_prompt_beyond_ctx_stream", "too long for the context"),
        ("xllamacpp_b11549_err_404", "No OpenAI-compatible API"),
        ("xllamacpp_b11549_err_no_messages", "refused the request (HTTP 400)"),
        ("xllamacpp_b11549_health", "not OpenAI-shaped"),
        ("haproxy_503", "busy (HTTP 503)"),
    ],
)
def test_recorded_answers_are_named(name: str, what: str) -> None:
    status, body = recorded(name)
    assert what in classify_test(status, body).what


def test_a_recorded_overflow_in_the_stream_points_at_the_shared_kv_cache() -> None:
    text = (LOOKS / "llamacpp_b11434_kvu_overflow_in_stream.txt").read_text(encoding="utf-8")
    result = classify_test(200, text[text.index("data:") :])
    assert "Context size has been exceeded." in result.what
    assert "unified KV cache" in result.do


@pytest.mark.parametrize(
    ("status", "body", "what"),
    [
        (401, "", "credentials (HTTP 401)"),
        (403, '{"error":"forbidden"}', "credentials (HTTP 403)"),
        (302, "", "redirects (HTTP 302)"),
        (
            404,
            '{"error":{"message":"The model `x` does not exist.","type":"NotFoundError","code":404}}',
            "know this model",
        ),
        (404, '{"error":{"message":"model \\"x\\" not found, try pulling it first"}}', "know this model"),
        (404, '{"detail":"Not Found"}', "No OpenAI-compatible API"),
        (405, "", "No OpenAI-compatible API"),
        (400, '{"error":{"message":"This model\'s maximum context length is 2048 tokens."}}', "too long"),
        (400, '{"object":"error","message":"The input is too long","type":"BadRequestError"}', "too long"),
        (503, '{"error":{"message":"Loading model","type":"unavailable_error","code":503}}', "still loading"),
        (503, '{"error":{"message":"busy","type":"Service Unavailable","code":503}}', "busy (HTTP 503)"),
        (429, '{"error":"Model is overloaded","error_type":"overloaded"}', "busy (HTTP 429)"),
        (529, "", "busy (HTTP 529)"),
        (500, "<html>oops", "failed (HTTP 500)"),
        (502, "", "failed (HTTP 502)"),
        (422, "", "refused the request (HTTP 422)"),
        (200, stream(chunk(role="assistant"), chunk(content="a"), END, "[DONE]"), OK),
        (200, stream(chunk(reasoning="a"), END), OK),
        (200, stream(chunk(reasoning_content="a"), END), OK),
        (200, stream(chunk(content="a"), END).replace("\n", "\r\n"), OK),
        (200, ": ping\n\n" + stream(chunk(content="a"), END), OK),
        (200, stream(chunk(content="a\u2028b"), END), OK),
        (200, stream(chunk(content="a"), "[DONE]"), "without a finish_reason"),
        (200, stream(chunk(role="assistant", content=""), END, "[DONE]"), "not one token"),
        (200, stream("[DONE]"), "not OpenAI-shaped"),
        (200, stream('{"response":"a","done":false}'), "not OpenAI-shaped"),
        (200, stream("{broken"), "no JSON"),
        (200, stream('{"error":{"code":503,"message":"The request queue is full."}}', "[DONE]"), "queue is full"),
        (200, stream('{"error":"text only"}'), "text only"),
        (200, '{"error":{"message":"inside"}}', "HTTP 200 with an error"),
        (200, "<html>welcome</html>", "not OpenAI-shaped"),
        (200, "", "not OpenAI-shaped"),
        (None, "", "No answer came."),
    ],
)
def test_each_answer_is_named(status: int | None, body: str, what: str) -> None:
    result = classify_test(status, body)
    assert what in result.what
    assert result.ok is (what == OK)
    assert bool(result.do) is not result.ok  # a finding has a remedy, a success needs none


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (NoAnswer.CONNECT, "nothing accepts connections"),
        (NoAnswer.TIMEOUT, "No answer in time."),
        (NoAnswer.TLS, "TLS certificate"),
        (NoAnswer.CUT, "was cut"),
    ],
)
def test_no_answer_has_its_reason_and_remedy(error: NoAnswer, what: str) -> None:
    result = classify_test(None, "", error)
    assert what in result.what
    assert result.do


def test_what_a_runtime_said_is_shortened() -> None:
    body = json.dumps({"error": {"message": "x" * 5000}})
    assert len(classify_test(500, body).what) < 300


def test_the_result_is_a_type_and_no_test() -> None:
    assert trial.TestResult(ok=True, what="").ok is True
