"""Claims that nobody here may make: a number of users. Names, titles and notes are read with this.

A capacity is a rate at a setting, for one request mix on one machine. How many people that is depends on how often each
of them asks, which nobody measured here.
"""

from __future__ import annotations

import re
from functools import lru_cache

INSTEAD = (
    "A capacity is not a number of users. Say the rate at the setting instead: "
    "“With N active sequences this configuration finished X requests a minute inside its objectives.”"
)

_WORDS = (
    "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|sixteen|twenty|thirty|forty|fifty|sixty|seventy|"
    "eighty|ninety|hundred|thousand|million|hundreds|thousands|dozens?|scores"
)
_NUMBER = rf"(?:\d[\d,.  ]*(?:k|m)?\+?|(?:n|x|(?:{_WORDS})(?:[- ](?:{_WORDS}))*)\b)"
_LOOSE = (
    rf"(?:{_NUMBER}|many|most|all|several|any number of|more|unlimited|"
    r"(?:a|one) (?:hundred|thousand|dozen|million))"
)
# Words between the number and the users that make it another sentence: "version 3 for users".
_OTHER = r"(?!(?:for|of|by|from|to|the|in|on|at|and|or|with|per|an?|each|requests?|tokens?|sequences?|s|ms)\b)"
_KIND = rf"(?:{_OTHER}[\w-]+ ){{0,2}}"
_USERS = r"(?:users|end-users)"
_PEOPLE = (
    r"(?:people|persons|employees|staff|colleagues|customers|students|pupils|callers|seats|agents|operators|visitors)"
)
_TOGETHER = r"(?:people|persons|employees|colleagues|customers|students|pupils|callers)"
_GROUP = r"(?:teams?|offices?|schools?|classes|departments?|groups?|compan(?:y|ies))"
_CARRY = (
    r"(?:support(?:s|ed|ing)?|handl(?:e|es|ed|ing)|serv(?:e|es|ed|ing)|carr(?:y|ies|ied|ying)|sustain(?:s|ed|ing)?|"
    r"accommodat(?:e|es|ed|ing)|cop(?:e|es|ing) with|fits?|lets?|allows?|enough for|capacity(?: of| for| ?[:=])?|room for|"
    r"good for|sized for|scales? to|for)"
)
_VERB = r"(?:support|handl|serv|carr|sustain|accommodat)(?:e|es|s|ed|ies|ied|y|ing)?"
_AT_ONCE = r"(?:concurrent|simultaneous|parallel)"

_ABOUT = r"(?:up to |about |around |at least |over |some |roughly )?"

_CLAIMS = (
    # "200 users", "eight concurrent users", "N users"; a number right before the word, or with a kind of user between.
    re.compile(rf"\b{_NUMBER} ?{_KIND}{_USERS}\b", re.I),
    # "supports many users", "supports all our users"
    re.compile(rf"\b{_CARRY} {_ABOUT}{_LOOSE} (?:of )?{_KIND}{_USERS}\b", re.I),
    # "handles up to 200 people", "for fifty employees". People may also sign or approve, so a carrying word is needed.
    re.compile(rf"\b{_CARRY} {_ABOUT}{_LOOSE} ?(?:of )?{_KIND}{_PEOPLE}\b", re.I),
    re.compile(rf"\b{_LOOSE} {_AT_ONCE} {_PEOPLE}\b", re.I),
    # "20 people can use it", "200 people at the same time"
    re.compile(
        rf"\b{_LOOSE} ?{_KIND}{_TOGETHER} (?:can |may |could )?(?:(?:use|work|chat|ask|be)\b|at once|at the same time|"
        rf"simultaneously|concurrently|in parallel)",
        re.I,
    ),
    # "supports a team of 20", "serves 3 offices of 20 people", "handles the load of 500 employees"
    re.compile(
        rf"\b{_CARRY} {_ABOUT}(?:(?:an?|the|our|one|{_NUMBER}) ?)?(?:whole )?{_GROUP} of {_ABOUT}{_NUMBER}\b", re.I
    ),
    re.compile(
        rf"\b{_CARRY} (?:the )?(?:load|traffic|demand|needs|work) of {_ABOUT}{_LOOSE} ?{_KIND}{_PEOPLE}\b", re.I
    ),
    # "supports one user"; with "for" alone it may be one of them: "the time for a user".
    re.compile(rf"\b{_VERB} {_ABOUT}(?:one|an?|1|exactly one)(?: single)? (?:user|person)\b", re.I),
    # The number twice, or a times sign: "eight (8) users", "8 × users".
    re.compile(rf"\b{_NUMBER} ?(?:\(\d+\)|[×x]) ?{_USERS}\b", re.I),
    # "an 8-user service", "a 200-person office", "200-users"
    re.compile(rf"\b{_NUMBER}-(?:users?|persons?|people|seats?)\b", re.I),
    # A table: "users: 200", "users supported: 8", "user count: 12", "max users 40".
    re.compile(rf"\busers?(?: supported| served| count| limit| capacity| max(?:imum)?)* ?[:=] ?{_NUMBER}\b", re.I),
    re.compile(rf"\b(?:max(?:imum)?(?: number of)?|most) {_USERS} ?[:=]? ?{_NUMBER}\b", re.I),
)


@lru_cache(maxsize=4096)  # a statement's page asks of the same words several times
def users_claim(text: str) -> str | None:
    """The sentence to use instead when `text` claims a number of users, else None."""
    flat = " ".join(text.split())
    return INSTEAD if any(claim.search(flat) for claim in _CLAIMS) else None
