"""Numbers, dates and small phrases in the words of the statement. Unknown is said, never shown as zero."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from capacity.statement.document import Absent, Claim, Limit, Measure, Rate, Row, Setting, Share, Tail, Zone
from capacity.statement.sentences import ENGLISH, MONTHS, NUMBERS, Sentences

_MEASURES: dict[Measure, str] = {"end to end": "", "time to first token": "TTFT", "time per output token": "TPOT"}
GIB = 1024**3
SPACE = "\u00a0"
"""Between a number and its unit, so that no line ends between them."""


def count(number: int, say: Sentences = ENGLISH) -> str:
    """A small count in a word, a larger one in digits."""
    return say(f"number.{number}") if 0 <= number < len(NUMBERS) else f"{number:,}"


def per_minute(number: float | None, say: Sentences = ENGLISH) -> str:
    """A rate per minute without its unit."""
    return say("not_recorded") if number is None else f"{number:,.1f}"


def seconds(value_s: float) -> str:
    """A time with its unit; milliseconds under a tenth of a second."""
    if value_s < 0.1:
        return f"{value_s * 1000:.0f}{SPACE}ms"
    return f"{value_s:.2f}{SPACE}s" if value_s < 1 else f"{value_s:,.1f}{SPACE}s"


def limit_seconds(value_s: float) -> str:
    """A limit as it was set, without needless zeros."""
    return f"{value_s * 1000:g}{SPACE}ms" if value_s < 0.1 else f"{value_s:g}{SPACE}s"


def gib(size: int | Absent, say: Sentences = ENGLISH) -> str:
    """A size in GiB, or the words for why there is none."""
    return say(f"verdict.{size}") if isinstance(size, str) else f"{size / GIB:,.1f}{SPACE}GiB"


def percent(share: float) -> str:
    """A share as a percentage."""
    return f"{share * 100:.3g}{SPACE}%"


def share_of(share: Share, say: Sentences = ENGLISH) -> str:
    """0.4 % (4 of 900)"""
    if not share.n:
        return say("not_recorded")
    return say("share", percent=percent(share.hits / share.n), hits=f"{share.hits:,}", n=f"{share.n:,}")


def local(moment: datetime, zone: Zone) -> datetime:
    """The moment in the offset that people read."""
    return moment.astimezone(timezone(timedelta(minutes=zone.offset_minutes)))


def day(moment: datetime, zone: Zone, say: Sentences = ENGLISH) -> str:
    """14 Nov 2026"""
    there = local(moment, zone)
    return f"{there.day} {say(f'month.{MONTHS[there.month - 1]}')} {there.year}"


def clock(moment: datetime, zone: Zone) -> str:
    """10:02"""
    return f"{local(moment, zone):%H:%M}"


def when(moment: datetime, zone: Zone, say: Sentences = ENGLISH) -> str:
    """14 Nov 2026, 10:02 PKT"""
    return f"{day(moment, zone, say)}, {clock(moment, zone)} {zone.name}"


def span(start: datetime, end: datetime, zone: Zone, say: Sentences = ENGLISH) -> str:
    """14 Nov 2026, 10:02 to 11:47 PKT, with the second day where it differs."""
    first, last = day(start, zone, say), day(end, zone, say)
    later = clock(end, zone) if first == last else f"{last}, {clock(end, zone)}"
    return say("span", start=f"{first}, {clock(start, zone)}", end=later, zone=zone.name)


def interval(rate: Rate, say: Sentences = ENGLISH) -> str:
    """(95 % CI 55.8 to 59.3), or nothing where no interval could be computed."""
    if rate.lower is None or rate.upper is None:
        return ""
    sure = f"{rate.confidence_percent:g}{SPACE}%"
    return say("interval", percent=sure, lower=f"{rate.lower:,.1f}", upper=f"{rate.upper:,.1f}")


def term_name(setting: Setting, say: Sentences = ENGLISH) -> str:
    """active sequences"""
    return say(f"term.{setting.term}.name")


def setting_phrase(number: int, setting: Setting, say: Sentences = ENGLISH) -> str:
    """four active sequences"""
    return say(f"term.{setting.term}{'.one' if number == 1 else ''}", count=count(number, say))


def numbers(settings: list[int], say: Sentences = ENGLISH) -> str:
    """1, 2 and 4: settings by their numbers alone."""
    return joined([str(setting) for setting in settings], say)


def settings_phrase(settings: list[int], setting: Setting, say: Sentences = ENGLISH) -> str:
    """1, 2 and 4 requests in flight; a lone one in words."""
    if len(settings) == 1:
        return setting_phrase(settings[0], setting, say)
    return say(f"term.{setting.term}", count=numbers(settings, say))


def objectives(number: int, say: Sentences = ENGLISH) -> str:
    """its latency objective, both latency objectives, all three latency objectives"""
    if number <= 2:
        return say("objectives.one" if number == 1 else "objectives.two")
    return say("objectives.many", count=count(number, say))


def limit_name(limit: Limit) -> str:
    """Short p95, Long TTFT p95"""
    parts = (capital(limit.class_name), _MEASURES[limit.measure], f"p{limit.percentile:g}")
    return " ".join(part for part in parts if part)


def tail_value(tail: Tail | Claim, say: Sentences = ENGLISH) -> str:
    """2.8 s, with a dagger when it is only indicative, or the words for why there is no value."""
    if tail.value_s is None:
        return say(f"state.{tail.state}")
    dagger = isinstance(tail, Tail) and tail.indicative
    return seconds(tail.value_s) + (f"{SPACE}†" if dagger else "")


def failed_phrase(row: Row, setting: Setting, say: Sentences = ENGLISH) -> str:
    """Eight active sequences were tested and failed every objective."""
    failed = sum(tail.holds is False for tail in row.tails)
    if failed == len(row.tails):
        what = say("failed.its_objective" if failed == 1 else "failed.every_objective")
    elif failed:
        what = say("failed.some_objectives", some=count(failed, say), all=count(len(row.tails), say))
    else:
        what = say("failed.safety")
    which = "failed.one" if row.setting == 1 else "failed.many"
    return capital(say(which, setting=setting_phrase(row.setting, setting, say), what=what))


def grouped(digest: str, size: int = 16) -> tuple[str, ...]:
    """A digest in groups that a person can read along."""
    return tuple(digest[place : place + size] for place in range(0, len(digest), size))


def capital(text: str) -> str:
    """The text with its first letter large."""
    return text[:1].upper() + text[1:]


def clause(text: str) -> str:
    """A sentence as part of a longer one: no full stop, and a small first letter unless it begins an abbreviation."""
    bare = text.strip().rstrip(".")
    return bare[:1].lower() + bare[1:] if bare[1:2].islower() or bare[1:2] == " " else bare


def joined(parts: list[str], say: Sentences = ENGLISH) -> str:
    """a, b and c"""
    if len(parts) < 2:
        return parts[0] if parts else ""
    return say("and", first=", ".join(parts[:-1]), last=parts[-1])
