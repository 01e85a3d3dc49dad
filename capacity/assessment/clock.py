"""Times of day as an objective states them: "22:00". A window that ends before it starts runs past midnight.

A span is seconds on the clock of the place; a night in which clocks are changed has an hour more or less than it says.
"""

from __future__ import annotations

import re
from math import ceil

from benchmarks.engine.plan import BatchTerms

DAY_S = 86_400
_DAY_MIN = 1_440
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])\Z")


def seconds_of(time: str) -> int:
    """Seconds after midnight of "HH:MM". Raises ValueError with a sentence."""
    found = _TIME.match(time)
    if not found:
        raise ValueError(f"“{time}” is no time of day. Write it such as 22:00.")
    return int(found[1]) * 3600 + int(found[2]) * 60


def span_s(start: str, end: str) -> int:
    """From one time of day to the next time that the clock shows the other, 1 minute to 24 hours: the same one twice is a
    whole day."""
    return (seconds_of(end) - seconds_of(start)) % DAY_S or DAY_S


def allowed_s(terms: BatchTerms) -> int:
    """From the window's start to the latest finish."""
    return span_s(terms.window_start, terms.latest_finish)


def window_s(terms: BatchTerms) -> int:
    return span_s(terms.window_start, terms.window_end)


def fault(terms: BatchTerms) -> str | None:
    """What contradicts itself in a batch's times, as a sentence; None when nothing does."""
    if allowed_s(terms) <= window_s(terms):
        return None
    return (
        f"{terms.latest_finish} is outside the window from {terms.window_start} to {terms.window_end}. "
        "The latest finish is inside it, or at its end."
    )


def at(start: str, after_s: float) -> str:
    """The time of day that long after `start`, to the minute and never too early: "05:12"; "05:12 a day later" is 24 hours
    after the 05:12 that follows `start`."""
    minutes = ceil(after_s / 60)
    days = minutes // _DAY_MIN
    minute = (seconds_of(start) // 60 + minutes) % _DAY_MIN
    words = f"{minute // 60:02d}:{minute % 60:02d}"
    if days == 0:
        return words
    return f"{words} {'a day' if days == 1 else f'{days} days'} later"


def days_words(days: tuple[int, ...]) -> str:
    """ "Monday to Friday", "every day", "Monday, Saturday"."""
    found = sorted(set(days))
    if len(found) == len(DAYS):
        return "every day"
    if len(found) > 2 and found == list(range(found[0], found[-1] + 1)):
        return f"{DAYS[found[0]]} to {DAYS[found[-1]]}"
    return ", ".join(DAYS[day] for day in found)


def span_words(seconds: float) -> str:
    """ "7 h 30 min", "12 min", "40 s": rounded up, for a time that must not be told too short."""
    whole = ceil(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, minute = divmod(ceil(whole / 60), 60)
    parts = [f"{hours:,} h" if hours else "", f"{minute} min" if minute or not hours else ""]
    return " ".join(part for part in parts if part)
