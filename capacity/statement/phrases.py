"""Numbers, dates and small phrases in the words of the statement. Unknown is said, never shown as zero."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from capacity.statement.document import Absent, Limit, Measure, Rate, Row, Setting, Tail, Zone

_SMALL = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MEASURES: dict[Measure, str] = {"end to end": "", "time to first token": "TTFT", "time per output token": "TPOT"}
GIB = 1024**3


def count(number: int) -> str:
    """A small count in a word, a larger one in digits."""
    return _SMALL[number] if 0 <= number < len(_SMALL) else f"{number:,}"


def per_minute(number: float | None) -> str:
    """A rate per minute without its unit."""
    return "not recorded" if number is None else f"{number:,.1f}"


def seconds(value_s: float) -> str:
    """A time with its unit; milliseconds under a tenth of a second."""
    if value_s < 0.1:
        return f"{value_s * 1000:.0f} ms"
    return f"{value_s:.2f} s" if value_s < 1 else f"{value_s:,.1f} s"


def limit_seconds(value_s: float) -> str:
    """A limit as it was set, without needless zeros."""
    return f"{value_s * 1000:g} ms" if value_s < 0.1 else f"{value_s:g} s"


def gib(size: int | Absent) -> str:
    """A size in GiB, or the words for why there is none."""
    return size if isinstance(size, str) else f"{size / GIB:,.1f} GiB"


def percent(share: float) -> str:
    """A share as a percentage."""
    return f"{share * 100:.3g}%"


def local(moment: datetime, zone: Zone) -> datetime:
    """The moment in the offset that people read."""
    return moment.astimezone(timezone(timedelta(minutes=zone.offset_minutes)))


def day(moment: datetime, zone: Zone) -> str:
    """14 Nov 2026"""
    there = local(moment, zone)
    return f"{there.day} {_MONTHS[there.month - 1]} {there.year}"


def clock(moment: datetime, zone: Zone) -> str:
    """10:02"""
    return f"{local(moment, zone):%H:%M}"


def when(moment: datetime, zone: Zone) -> str:
    """14 Nov 2026, 10:02 PKT"""
    return f"{day(moment, zone)}, {clock(moment, zone)} {zone.name}"


def span(start: datetime, end: datetime, zone: Zone) -> str:
    """14 Nov 2026, 10:02 to 11:47 PKT, with the second day where it differs."""
    later = clock(end, zone) if day(start, zone) == day(end, zone) else f"{day(end, zone)}, {clock(end, zone)}"
    return f"{day(start, zone)}, {clock(start, zone)} to {later} {zone.name}"


def interval(rate: Rate) -> str:
    """(95% CI 55.8 to 59.3), or nothing where no interval could be computed."""
    if rate.lower is None or rate.upper is None:
        return ""
    return f"({rate.confidence_percent:g}% CI {rate.lower:,.1f} to {rate.upper:,.1f})"


def setting_phrase(number: int, setting: Setting) -> str:
    """four active sequences"""
    one = {"active sequences": "active sequence", "requests in flight": "request in flight"}
    return f"{count(number)} {one[setting.term] if number == 1 else setting.term}"


def numbers(settings: list[int]) -> str:
    """1, 2 and 4: settings by their numbers alone."""
    return joined([str(setting) for setting in settings])


def settings_phrase(settings: list[int], setting: Setting) -> str:
    """1, 2 and 4 requests in flight; a lone one in words."""
    return setting_phrase(settings[0], setting) if len(settings) == 1 else f"{numbers(settings)} {setting.term}"


def objectives(number: int) -> str:
    """its latency objective, both latency objectives, all three latency objectives"""
    if number == 1:
        return "its latency objective"
    return "both latency objectives" if number == 2 else f"all {count(number)} latency objectives"


def limit_name(limit: Limit) -> str:
    """Short p95, Long TTFT p95"""
    parts = (capital(limit.class_name), _MEASURES[limit.measure], f"p{limit.percentile:g}")
    return " ".join(part for part in parts if part)


def tail_value(tail: Tail) -> str:
    """2.8 s, with a dagger when it is only indicative, or the words for why there is no value."""
    if tail.value_s is None:
        return tail.state
    return seconds(tail.value_s) + (" †" if tail.indicative else "")


def failed_phrase(row: Row, setting: Setting) -> str:
    """Eight active sequences were tested and failed every objective."""
    failed = sum(tail.holds is False for tail in row.tails)
    verb = "was" if row.setting == 1 else "were"
    if failed == len(row.tails):
        what = "its objective" if failed == 1 else "every objective"
    else:
        what = f"{count(failed)} of {count(len(row.tails))} objectives" if failed else "a safety limit"
    return capital(f"{setting_phrase(row.setting, setting)} {verb} tested and failed {what}.")


def grouped(digest: str, size: int = 16) -> tuple[str, ...]:
    """A digest in groups that a person can read along."""
    return tuple(digest[place : place + size] for place in range(0, len(digest), size))


def capital(text: str) -> str:
    """The text with its first letter large."""
    return text[:1].upper() + text[1:]


def joined(parts: list[str]) -> str:
    """a, b and c"""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""
