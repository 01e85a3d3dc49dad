"""Claims about a number of users are refused, on titles and notes; ordinary words about requests are not."""

from __future__ import annotations

import pytest

from benchmarks.records.claims import INSTEAD, users_claim

REFUSED = (
    "supports 8 users",
    "Supports N users",
    "This server supports n users",
    "supported 1,200 users in the test",
    "handles up to 200 people",
    "for 50 concurrent users",
    "eight users",
    "twenty-five users at once",
    "Support chat for 200 users",
    "enough for fifty employees",
    "serves about 40 staff",
    "an 8-user service",
    "sized for a 200-person office",
    "supports hundreds of users",
    "supports many users",
    "supports all our users",
    "a capacity of 300 seats",
    "scales to 10k users",
    "200+ users",
    "users: 200",
    "Users supported: 8",
    "100 simultaneous people",
    "room for\n40 colleagues",
    "accommodates a thousand daily users",
    "8 active users",
    "good for 8 users",
    "GOOD FOR EIGHT USERS",
    "can serve 20 people",
    "8 concurrent users supported",
    "N concurrent users supported",
    "a hundred users",
    "no more than 8 users",
    "fits 30 people",
    "capacity: 50 people",
    "20 people can work with it at the same time",
    "200 people at once",
    "up to eight callers simultaneously",
    "supports a team of 20",
    "enough for a team of twelve",
    "serves 3 offices of 20 people",
    "handles the load of 500 employees",
    "supports one user",
    "carries a single user",
    "eight (8) users",
    "8 × users",
    "200-users",
    "user count: 12",
    "max users 40",
    "supports ٨ users",
    "suitable\u00a0for 15\u00a0users",
)
ALLOWED = (
    "",
    "Support chat on lhr-gpu-01",
    "user view p95",
    "p95 from the user's view is 2.8 s",
    "This is not a number of users.",
    "It does not say how many users the system supports.",
    "95 % of requests in the user view",
    "20 requests a minute for each client",
    "With four active sequences this configuration finished 57.5 requests a minute",
    "approved by two people",
    "4 user classes were measured",
    "supports 8,192 tokens a slot",
    "handles 429 with Retry-After",
    "Queue of at most 12 requests for 2 s",
    "one user reported slow answers on 14 Nov 2026",
    "chat for the users of the finance office",
    "users wait for the first token",
    "serves 4 active sequences",
    "reported by users",
    "users of 2 offices",
    "user 8 reported a fault",
    "version 3 for users",
    "two operators were in the room",
    "4 people in the room while measuring",
    "the time for a user is what counts",
    "the room of a team of 12",
    "a class of 20 prompts",
    "users and their data stay on this machine",
    "capacity 57.5 requests a minute",
    "the number of users was not measured",
)


@pytest.mark.parametrize("text", REFUSED)
def test_a_claim_of_users_is_answered_with_the_sentence_to_use(text: str) -> None:
    assert users_claim(text) == INSTEAD


@pytest.mark.parametrize("text", ALLOWED)
def test_words_about_requests_pass(text: str) -> None:
    assert users_claim(text) is None


def test_the_sentence_to_use_is_itself_allowed() -> None:
    assert users_claim(INSTEAD) is None
