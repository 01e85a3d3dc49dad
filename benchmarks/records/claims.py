"""Words that promise more than a measurement can show: a number of users. Names, titles and notes are read with this.

A load test knows requests, tokens and seconds. How many people that is depends on how often each of them asks, which
nobody measured here. Both apps use this one rule.
"""

from __future__ import annotations

import re

INSTEAD = "4 active sequences: 31 successful requests a minute, p95 of short requests under 4 s"

_WORDS = (
    "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|sixteen|twenty|thirty|forty|fifty|sixty|seventy|"
    "eighty|ninety|hundred|thousand|million|hundreds|thousands|dozens?|scores"
)
_NUMBER = rf"(?:\d[\d,.  ]*(?:k|m)?\+?|n|x|(?:{_WORDS})(?:[- ](?:{_WORDS}))*)"
_LOOSE = (
    rf"(?:{_NUMBER}|many|most|all|several|any number of|(?:a|one) (?:hundred|thousand|dozen|million)|more"
    r"|unlimited)"
)
_KIND = r"(?:[\w-]+ ){0,2}"
_USERS = r"(?:users|end-users)"
_PEOPLE = r"(?:people|persons|employees|staff|colleagues|customers|students|seats|agents|operators|visitors)"
_CARRY = (
    r"(?:support(?:s|ed|ing)?|handl(?:e|es|ed|ing)|serv(?:e|es|ed|ing)|carr(?:y|ies|ied|ying)|sustain(?:s|ed|ing)?|"
    r"accommodat(?:e|es|ed|ing)|cop(?:e|es|ing) with|enough for|capacity (?:of|for)|room for|good for|sized for|"
    r"scales? to|for)"
)
_ABOUT = r"(?:up to |about |around |at least |over |some |roughly )?"
_AT_ONCE = r"(?:concurrent|simultaneous|parallel)"

_CLAIMS = (
    # "200 users", "eight concurrent users", "N users"; a number right before the word, or with a kind of user between.
    re.compile(rf"\b{_NUMBER} ?{_KIND}{_USERS}\b", re.I),
    # "supports many users", "supports all our users"
    re.compile(rf"\b{_CARRY} {_ABOUT}{_LOOSE} (?:of )?{_KIND}{_USERS}\b", re.I),
    # "handles up to 200 people", "for fifty employees"; people may also sign or approve, so a carrying word is needed.
    re.compile(rf"\b{_CARRY} {_ABOUT}{_LOOSE} ?(?:of )?{_KIND}{_PEOPLE}\b", re.I),
    re.compile(rf"\b{_LOOSE} {_AT_ONCE} {_PEOPLE}\b", re.I),
    # "an 8-user service", "a 200-person office"
    re.compile(rf"\b{_NUMBER}-(?:user|person|seat)\b", re.I),
    # "users: 200", also with an equals sign or a word between
    re.compile(rf"\busers(?: supported| served| max(?:imum)?)? ?[:=] ?{_NUMBER}\b", re.I),
)


def users_claim(text: str) -> str | None:
    """The sentence that refuses `text` and says what to write instead; None when it claims no number of users."""
    flat = " ".join(text.split())
    found = next((match for match in (claim.search(flat) for claim in _CLAIMS) if match), None)
    if found is None:
        return None
    return (
        f"“{found.group()}” claims a number of users, which no measurement here can show. "
        f"Write what was measured instead, for example: “{INSTEAD}”."
    )
