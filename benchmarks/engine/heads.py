"""What the head of an answer says, and what an answer that is not HTTP 200 means."""

from __future__ import annotations

import email.utils
from datetime import UTC, datetime
from typing import NamedTuple

from benchmarks.engine.connection import Headers
from benchmarks.engine.failures import REJECTION_CODES, Failure
from benchmarks.engine.terms import Outcome


class Head(NamedTuple):
    """Lower-case values of the headers that matter; empty where absent."""

    content_type: bytes
    encoding: bytes
    retry_after: bytes
    location: bytes

    @property
    def is_json(self) -> bool:
        return self.content_type.startswith(b"application/json")


MOST_DIGITS = 20
WANTED = (b"content-type", b"content-encoding", b"retry-after", b"location")


def head_of(headers: Headers) -> Head:
    found = {name.lower(): value for name, value in headers}
    content_type, encoding, retry_after, location = (found.get(name, b"") for name in WANTED)
    return Head(content_type.lower(), encoding.lower().strip(), retry_after, location)


def retry_after_s(value: bytes | str | None, now: datetime) -> float | None:
    """Seconds to wait, from either spelling of Retry-After (RFC 9110, 10.2.3); None where absent or not understood."""
    if not value:
        return None
    text = value if isinstance(value, str) else value.decode("latin-1")
    if text.strip().isdecimal():
        return float(text) if len(text) <= MOST_DIGITS else None
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except (ValueError, OverflowError, TypeError):  # of a text that is no date it raises any of these
        return None
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds())


def refusal(status: int, failure: Failure, location: str) -> tuple[Outcome, str]:
    """The outcome of an answer that is not HTTP 200, with its words."""
    detail = f"HTTP {status}: {failure.text}" if failure.text else f"HTTP {status}"
    if status in REJECTION_CODES or (status >= 400 and failure.is_overload):
        return Outcome.REJECTED, detail
    if status >= 500:
        return Outcome.SERVER_ERROR, detail
    if status >= 400:
        return Outcome.REFUSED, detail
    if status >= 300:
        return Outcome.REFUSED, f"HTTP {status}: redirect to {location or 'nowhere'} not followed"
    return Outcome.MALFORMED, f"{detail}: only 200 carries an answer"
