"""The queue cap is proved by running the simulated runtime at that cap under the confirmed load."""

from __future__ import annotations

import pytest

from tests.capacity import queue_proof

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("cap", "load_share"), [(2, 0.7), (6, 0.85)])
def test_refusals_and_waiting_of_a_real_queue_lie_inside_what_the_cap_was_foretold(cap: int, load_share: float) -> None:
    found = queue_proof.prove(cap, load_share=load_share)
    refused, waiting = found.foretold.refused, found.foretold.waiting_p95_s
    assert found.refused.n > 300
    assert (refused.lower or 0) <= (found.refused.value or 0) <= (refused.upper or 0)
    assert (waiting.lower or 0) <= found.waiting_p95_s <= (waiting.upper or 0)
    # What is called waiting is more than the jitter of a first token without a queue.
    assert found.waiting_p95_s > 2 * found.usual_first_s
