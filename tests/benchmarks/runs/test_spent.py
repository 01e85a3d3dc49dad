"""What an attempt took of the authorised ceilings, where the server counted nothing too."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.claims import Claim, spent_by
from benchmarks.engine.columns import from_frames
from benchmarks.engine.terms import Outcome, TokenSource
from benchmarks.storing import tokens_spent
from tests.benchmarks.engine.plans import a_header, a_record

UNCOUNTED: dict[str, Any] = {"prompt_tokens": None, "output_tokens": None, "token_source": TokenSource.UNKNOWN}
NEVER_SENT: dict[str, Any] = dict.fromkeys(
    ("t_sent_ns", "t_headers_ns", "t_first_ns", "t_answer_ns", "t_last_ns", "t_end_ns", "http_status", "finish_reason")
)


@pytest.mark.parametrize(
    ("changes", "tokens"),
    [
        ({"output_tokens": 5}, 13),
        (UNCOUNTED, 19),  # 8 asked in the prompt, at most 11 in the answer
        (UNCOUNTED | {"outcome": Outcome.CANCELLED}, 19),
        (UNCOUNTED | {"outcome": Outcome.SERVER_ERROR}, 19),
        (UNCOUNTED | {"outcome": Outcome.TRUNCATED, "output_tokens": 3}, 11),
        (UNCOUNTED | {"outcome": Outcome.REJECTED}, 0),
        (UNCOUNTED | NEVER_SENT | {"outcome": Outcome.UNFINISHED}, 0),
    ],
)
def test_what_no_server_counted_counts_as_it_was_asked(changes, tokens):
    columns = from_frames([a_header(), a_record(0, **changes)])
    assert tokens_spent(columns.requests) == tokens


@pytest.mark.parametrize(
    ("progress", "spent"),
    [
        ({"sent": 10, "attempts": 10, "tokens": 200}, (50, 600)),
        ({"sent": 10, "attempts": 31, "tokens": 620}, (71, 1020)),  # tried again, which a runtime has to serve too
        ({"phase": "calibrating"}, (40, 400)),
    ],
)
def test_each_try_counts_against_the_ceilings_while_the_cell_runs(progress, spent):
    claim = Claim(1, 1, 2, "w", "h", spent_requests=40, spent_tokens=400)
    assert tuple(spent_by(claim, progress).values()) == spent
