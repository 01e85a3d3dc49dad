"""The few requests that a look and a test need. Bounded in time and size, no redirects, never retried."""

from __future__ import annotations

import contextlib
import ssl
import time
from collections.abc import Iterator

import httpx
import msgspec

from benchmarks.runtimes.endpoint import EndpointFacts, LookResponse, look_plan, read_look
from benchmarks.runtimes.trial import NoAnswer, TestResult, classify_test

LOOK_TIMEOUT = httpx.Timeout(5.0)
TEST_TIMEOUT = httpx.Timeout(30.0, connect=5.0)
MAX_PAGE_BYTES = 2 * 1024 * 1024
TEST_OUTPUT_TOKENS = 8
SIMULATED_HEADER = "X-Headroom-Simulated"


def open_client() -> httpx.Client:
    """A client that takes nothing from the environment: no proxies, no credentials, no certificates' paths."""
    return httpx.Client(trust_env=False, follow_redirects=False, timeout=LOOK_TIMEOUT)


def look_at(base_url: str, kind: str, api_key: str = "", client: httpx.Client | None = None) -> EndpointFacts:
    """Read every page of the kind's plan. `base_url` without /v1; an empty key sends none."""
    responses: dict[str, LookResponse] = {}
    with _client(client) as ours:
        for path in look_plan(kind):
            responses[path] = _get(base_url.rstrip("/") + path, api_key, ours)
            if responses[path].status is None and len(responses) == 1:
                break  # nobody there: the other pages would only cost their timeouts
    return read_look(kind, responses)


def is_simulator(base_url: str, api_key: str = "", client: httpx.Client | None = None) -> bool | None:
    """Whether Headroom's own simulator answers here, by its header or by the owner of its model; None when nobody answers."""
    url = base_url.rstrip("/") + "/v1/models"
    try:
        with (
            _client(client) as ours,
            ours.stream("GET", url, headers=_headers(api_key), timeout=LOOK_TIMEOUT, follow_redirects=False) as answer,
        ):
            said = SIMULATED_HEADER in answer.headers
            page = LookResponse(answer.status_code, _read(answer))
    except httpx.HTTPError:
        return None
    return said or read_look("other", {"/v1/models": page}).detected_kind == "simulator"


def test_request(
    base_url: str,
    model: str,
    api_key: str = "",  # noqa: PT028
    client: httpx.Client | None = None,  # noqa: PT028
) -> TestResult:
    """One short streamed chat request, judged in words."""
    request = {
        "model": model,
        "messages": [{"role": "user", "content": "Say one short sentence."}],
        "max_tokens": TEST_OUTPUT_TOKENS,
        "stream": True,
    }
    url = base_url.rstrip("/") + "/v1/chat/completions"
    content = msgspec.json.encode(request)
    headers = {**_headers(api_key), "Content-Type": "application/json"}
    began = time.monotonic()
    try:
        with (
            _client(client) as ours,
            ours.stream(
                "POST", url, content=content, headers=headers, timeout=TEST_TIMEOUT, follow_redirects=False
            ) as response,
        ):
            result = classify_test(response.status_code, _read(response))
    except httpx.HTTPError as error:
        return classify_test(None, "", _no_answer(error))
    took = f" At most {TEST_OUTPUT_TOKENS} tokens took {time.monotonic() - began:.2f} s, once and alone."
    return msgspec.structs.replace(result, what=result.what + took) if result.ok else result


@contextlib.contextmanager
def _client(given: httpx.Client | None) -> Iterator[httpx.Client]:
    if given is not None:
        yield given
        return
    with open_client() as ours:
        yield ours


def _get(url: str, api_key: str, client: httpx.Client) -> LookResponse:
    try:
        with client.stream(
            "GET", url, headers=_headers(api_key), timeout=LOOK_TIMEOUT, follow_redirects=False
        ) as response:
            return LookResponse(response.status_code, _read(response))
    except httpx.HTTPError as error:
        return LookResponse(None, "", classify_test(None, "", _no_answer(error)).what.rstrip("."))


def _read(response: httpx.Response) -> str:
    """At most MAX_PAGE_BYTES: an endless page is cut, and then judged by what is there."""
    taken = bytearray()
    for chunk in response.iter_bytes():
        taken += chunk
        if len(taken) >= MAX_PAGE_BYTES:
            break
    return bytes(taken[:MAX_PAGE_BYTES]).decode("utf-8", "replace")


def _headers(api_key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {api_key}"} if api_key else {}


def _no_answer(error: httpx.HTTPError) -> NoAnswer:
    if isinstance(error, httpx.TimeoutException):
        return NoAnswer.TIMEOUT
    if isinstance(error, httpx.ConnectError):
        causes = (error, error.__cause__, error.__context__)
        tls = any(isinstance(cause, ssl.SSLError) or "SSL" in str(cause) for cause in causes if cause is not None)
        return NoAnswer.TLS if tls else NoAnswer.CONNECT
    return NoAnswer.CUT


test_request.__test__ = False  # type: ignore[attr-defined]  # its name begins like a test's
