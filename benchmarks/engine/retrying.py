"""Whether a failed request is asked again, and when. No clock and no state of chance of its own: the age of a request is
an argument, and its dice follow from the seed, its index and the attempt alone.

A retry is another attempt of the same scheduled request. Three things keep retries from feeding the overload that they
answer: waits that grow and are drawn at random ("full jitter": anywhere between none and the exponential bound), the
server's Retry-After, which is never cut short, and a budget: a bucket into which each scheduled request puts its share of
a retry and out of which each retry takes a whole one. Waits alone only move the load to later: under a load that lasts,
the budget is what bounds it.
"""

from __future__ import annotations

import math

import msgspec

from benchmarks.engine.dice import Dice
from benchmarks.engine.probe_plan import MOST_TRIES
from benchmarks.engine.terms import Outcome

# Failures before any text had come. A client that was reading an answer does not ask for it again from the start, and a
# request that was refused by validation is refused again.
RETRIED = frozenset({Outcome.REJECTED, Outcome.SERVER_ERROR, Outcome.CONNECT_ERROR, Outcome.FIRST_BYTE_TIMEOUT})


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """`tries` in all, the first included. The wait before try n + 1 is at most base_s x 2 ** (n - 1), never above
    `cap_s`; 0 asks again at once. `full_jitter` draws it between none and that bound. Retry-After, where honoured, comes
    before that wait.

    `budget_share`: retries per scheduled request, over time; None sets no budget. `budget_most` is what a quiet time may
    save up; a client begins with nothing saved. A retry that would go out later than `patience_s` after its request was
    due is not made. Raises ValueError.
    """

    tries: int = 1
    base_s: float = 0.0
    cap_s: float = 30.0
    full_jitter: bool = False
    honour_retry_after: bool = False
    budget_share: float | None = None
    budget_most: float = 5.0
    patience_s: float = 60.0

    def __post_init__(self) -> None:
        if not 1 <= self.tries <= MOST_TRIES:
            raise ValueError(f"tries must be 1 to {MOST_TRIES}, not {self.tries}")
        for name in ("base_s", "cap_s", "budget_most", "patience_s"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be 0 or more, not {getattr(self, name):g}")
        if self.budget_share is not None and not 0 <= self.budget_share <= MOST_TRIES:
            raise ValueError(f"budget_share must be 0 or more, not {self.budget_share:g}")


# What a client without a thought for the server does, and what it should do.
IMMEDIATE = RetryPolicy(tries=5)
BUDGETED = RetryPolicy(
    tries=5, base_s=0.5, cap_s=20.0, full_jitter=True, honour_retry_after=True, budget_share=0.10
)  # fmt: skip


def wait_s(policy: RetryPolicy, attempt: int, retry_after_s: float | None, share: float) -> float:
    """Seconds between the failure of try `attempt` (from 1) and the next; `share`, between 0 and 1, is what was drawn."""
    bound_s = min(policy.cap_s, math.ldexp(policy.base_s, attempt - 1))
    told_s = max(0.0, retry_after_s or 0.0) if policy.honour_retry_after else 0.0
    return told_s + (bound_s * share if policy.full_jitter else bound_s)


class Retries:
    """One client: its policy, and what its budget holds."""

    def __init__(self, policy: RetryPolicy, *, seed: int) -> None:
        self.policy = policy
        self.saved = 0.0
        self._seed = seed

    def scheduled(self) -> None:
        """One more request was due, whatever becomes of it."""
        if self.policy.budget_share is not None:
            self.saved = min(self.policy.budget_most, self.saved + self.policy.budget_share)

    def next_s(
        self, index: int, attempt: int, outcome: Outcome, retry_after_s: float | None = None, *, age_s: float = 0.0
    ) -> float | None:
        """Seconds until request `index` is asked again after its try `attempt`; None where that was the last. A retry
        that is granted is taken out of the budget. `age_s` has passed since the request was due."""
        policy = self.policy
        if outcome not in RETRIED or attempt >= policy.tries:
            return None
        share = Dice(self._seed, f"retry {attempt}", index).share()
        after_s = wait_s(policy, attempt, retry_after_s, share)
        if age_s + after_s > policy.patience_s or not self._pay():
            return None
        return after_s

    def _pay(self) -> bool:
        if self.policy.budget_share is None:
            return True
        if self.saved < 1 - 1e-9:  # ten tenths are one
            return False
        self.saved = max(0.0, self.saved - 1)
        return True
