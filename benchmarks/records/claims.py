"""Words that promise more than a measurement can show: a number of users. Names, titles and notes are read with this.

A load test knows requests, tokens and seconds. How many people that is depends on how they work, which nobody measured.
"""

from __future__ import annotations

import re

_NUMBER = (
    r"(?:\d[\d,. ]*(?:\s?k\b)?\+?|(?:a\s+)?(?:dozens?|hundreds?|thousands?|millions?)(?:\s+of)?"
    r"|two|three|four|five|six|seven|eight|nine|ten|twelve|fifteen|twenty|thirty|forty|fifty|sixty|eighty|many|unlimited)"
)
_KIND = r"(?:(?:concurrent|simultaneous|active|parallel|daily|office|named)\s+)?"
_USERS = re.compile(rf"\b{_NUMBER}\s*{_KIND}(?:users?|seats|customers|clients\s+at\s+once)\b", re.IGNORECASE)
_CARRIES = re.compile(
    r"\b(?:support|serve|handle|carr(?:y|ie)|accommodate|host|cope\s+with|enough\s+for|good\s+for|sized\s+for)"
    rf"(?:s|es|ing|ed)?\s+(?:up\s+to\s+|about\s+|at\s+least\s+|more\s+than\s+)?{_NUMBER}\s*{_KIND}"
    r"(?:users?|people|persons|employees|colleagues|staff|seats|customers)\b",
    re.IGNORECASE,
)

INSTEAD = "4 active sequences: 31 successful requests a minute, p95 of short requests under 4 s"


def users_claim(text: str) -> str | None:
    """The sentence that refuses `text` and says what to write instead; None when it claims no number of users."""
    found = _CARRIES.search(text) or _USERS.search(text)
    if found is None:
        return None
    return (
        f"“{' '.join(found.group().split())}” claims a number of users, which no measurement here can show. "
        f"Write what was measured instead, for example: “{INSTEAD}”."
    )
