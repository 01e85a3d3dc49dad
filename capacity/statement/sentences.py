"""The fixed words of a statement, each under its name, with places in braces for what is filled in.

Screen and PDF say nothing that is not here or in the signed document. What is signed stays as it is: the document's own
sentences (limits, reasons, controls, names) are English, and the PDF and every file is English. A page may be said in a
further language as a help for reading; `translated` then stands above it.

To add a language: write a module beside this one, for example sentences_ur.py, with a dict of the same names and the same
places, and add `"ur": Sentences(language="ur", direction="rtl", texts=...)` to LANGUAGES; give `in_language("ur")` to
`words.page` and to `figures.charts_svg`. A name that it lacks is said in English. Numbers, units and dates keep their
digits; names that begin with `month.` and `number.` are single words. A test holds every language to the places of English.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from capacity.statement.sentences_annex import TEXTS as ANNEX
from capacity.statement.sentences_ur import TEXTS as URDU

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")

TEXTS: dict[str, str] = {
    # Said above a page in another language only.
    "translated": "",
    # The head of every page, and its foot.
    "label": "Capacity statement",
    "dates": "Issued {first}, valid to {last}",
    "label.demonstration": "Demonstration",
    "label.simulated": "Simulated",
    "notice.demonstration": "Demonstration: signed with a demonstration key. It proves nothing about a real service.",
    "notice.simulated": "Simulated: measured on the built-in simulated runtime, not on a real model or accelerator.",
    "notice.solo": "Solo mode: one person measured, proposed and approved.",
    "notice.waiver": "Waiver: {text}",
    "foot": "{number}, sha256 {digest}",
    # The result.
    "lead.with": "With {setting} this configuration finished ",
    "lead.with_queue": "With {setting} and a queue of at most {cap} this configuration finished ",
    "lead.with_no_queue": "With {setting} and no queue this configuration finished ",
    "lead.rate": "{rate} requests a minute",
    "lead.inside": " inside {objectives}{interval}, for the request mix below.",
    "lead.confirmed": " inside {objectives}{interval}, for the request mix below, while {offered} a minute arrived at their "
    "own times; {refused} of them were refused.",
    "lead.confirmed_none": " inside {objectives}{interval}, for the request mix below, while {offered} a minute arrived at "
    "their own times; none of them was refused.",
    "lead.plan": " With headroom kept, plan for at most {rate} a minute.",
    "none.several": "No setting of {named} was found safe",
    "none.one": "The only setting tested, {named}, was not found safe",
    "none.rest": " for the request mix below: {what}. This statement gives no rate and no capacity.",
    "none.each_failed": "each was tested and failed",
    "none.it_failed": "it was tested and failed",
    "none.some_failed": "{failed} failed, and {left} were not tested enough to say",
    "none.some_failed_one_left": "{failed} failed, and {left} was not tested enough to say",
    "not_users": "This is not a number of users.",
    "different": "It says nothing about a different request mix, model, runtime, host or room.",
    "closed_loop": "Its times were taken with a fixed number in flight, where no queue forms.",
    "failed.one": "{setting} was tested and failed {what}.",
    "failed.many": "{setting} were tested and failed {what}.",
    "failed.its_objective": "its objective",
    "failed.every_objective": "every objective",
    "failed.some_objectives": "{some} of {all} objectives",
    "failed.safety": "a safety limit",
    "result": "Result",
    # The table of settings.
    "table.successful": "Successful",
    "table.all": "All",
    "table.per_min": "per min",
    "table.vram": "Peak VRAM",
    "table.verdict": "Verdict",
    "table.limit": "limit {limit}",
    "table.approved": "{setting}, approved",
    "table.confirmed": "{setting}, confirmed",
    "caption.n": "n = {n} requests a setting ({classes}), {repeats}.",
    "caption.n_in_all": "n = {n} requests a setting ({classes} in all), {repeats}.",
    "caption.n_stated": "n = {n} requests a setting ({classes} at the stated one), {repeats}.",
    "caption.repeat": "{count} repeat",
    "caption.repeats": "{count} repeats",
    "caption.confirmed": "“{name}” is the open loop of {grid} (n = {n}), a refused request counted as late; the rows above it "
    "kept a fixed number in flight.",
    "caption.past": "Underlined is past its objective or limit.",
    "caption.indicative": "† indicative: too few requests for a claim.",
    "caption.bounds": "Bounds are in the annex.",
    "memory.note": "Peak VRAM: {words}.",
    # The charts.
    "chart.rate": "Requests per minute",
    "chart.ratio": "p95 ÷ objective, worst class (ratio)",
    "chart.objective": "objective",
    "chart.all": "all requests",
    "chart.memory": "Peak VRAM (GiB)",
    "chart.memory_limit": "Peak VRAM (GiB), limit {limit}",
    "chart.missing": "without a p95, not drawn: {settings}",
    "chart.active": "{setting} active",
    "chart.in_flight": "{setting} in flight",
    "chart.confirmed": "{setting} confirmed",
    "chart.alt": "Requests a minute against p95 over objective by {term}. {points}.",
    "chart.alt_point": "{setting}: {rate} successful a minute {times}, peak VRAM {vram}",
    "chart.alt_times": "at {ratio} times the objective",
    "chart.alt_no_times": "without a p95",
    # What was tested, under which conditions.
    "tested": "What was tested",
    "tested.model": "Model",
    "tested.runtime": "Runtime",
    "tested.host": "Host",
    "tested.mix": "Request mix",
    "tested.tokens_in": "Tokens in, p50",
    "tested.prompts": "Prompts",
    "tested.synthetic": "Synthetic",
    "tested.recorded": "Recorded",
    "tested.seed": "{prompts}, seed {seed}",
    "tested.loop": "Way of loading",
    "tested.closed": "Closed loop, a fixed number in flight",
    "tested.open": "Open loop, {rate} a minute",
    "conditions": "Conditions",
    "conditions.date": "Date",
    "conditions.place": "Place",
    "conditions.power": "Power",
    "conditions.room": "Room",
    "conditions.operator": "Operator",
    "conditions.grid": "Grid",
    "conditions.grids": "{grid}, confirmed by {other}",
    "conditions.grade": "Grade",
    # Limits, what ends it, who signed.
    "limits": "Operating limits",
    "limits.in_force": "The figure holds only with these limits in force: {limits}. {rollback}",
    "limits.none": "none was set",
    "why_none": "Why no setting is safe",
    "why_none.all": "All reasons of every setting are in the annex.",
    "change": "What to change before measuring again",
    "ends": "Ends early if",
    "did.Authorised by": "Authorised by",
    "did.Measured by": "Measured by",
    "did.Proposed by": "Proposed by",
    "did.Approved by": "Approved by",
    "did.Signed by": "Signed by",
    "key": "Signed, Ed25519 key {name}",
    "key.not_named": "not named",
    "covers": "Covers this text and the {records} request records.",
    "scan": "Scan to verify",
    # Small words.
    "not_recorded": "not recorded",
    "range": "{first} to {last}",
    "and": "{first} and {last}",
    "interval": "({percent}\u00a0CI {lower} to {upper})",
    "share": "{percent} ({hits} of {n})",
    "span": "{start} to {end} {zone}",
    "objectives.one": "its latency objective",
    "objectives.two": "both latency objectives",
    "objectives.many": "all {count} latency objectives",
    "term.active sequences.one": "{count} active sequence",
    "term.active sequences": "{count} active sequences",
    "term.active sequences.name": "active sequences",
    "term.requests in flight.one": "{count} request in flight",
    "term.requests in flight": "{count} requests in flight",
    "term.requests in flight.name": "requests in flight",
    "verdict.holds": "holds",
    "verdict.fails": "fails",
    "verdict.indicative": "indicative",
    "verdict.not tested": "not tested",
    "verdict.not judged": "not judged",
    "verdict.not applicable": "not applicable",
    "verdict.not reported": "not reported",
    "grade.complete": "complete",
    "grade.needs revision": "needs revision",
    "grade.no safe setting found": "no safe setting found",
    "grade.ungraded": "ungraded",
    "state.among failures": "among failures",
    "state.too few requests": "too few requests",
    "state.not recorded": "not recorded",
    **{f"month.{name}": name for name in MONTHS},
    **{f"number.{number}": word for number, word in enumerate(NUMBERS)},
    **ANNEX,
}


class Sentences(msgspec.Struct, frozen=True, kw_only=True):
    """The words of one language. Called with a name and what fills its places; what is not translated is English."""

    language: str
    direction: Literal["ltr", "rtl"] = "ltr"
    texts: dict[str, str]

    def __call__(self, name: str, /, **filled: str) -> str:
        if self.direction == "rtl":
            filled = {place: isolated(text) for place, text in filled.items()}
        return (self.texts.get(name) or TEXTS[name]).format(**filled)


def isolated(text: str) -> str:
    """Kept together among words of the other direction: a name, number or address is read in its own order."""
    return f"\u2068{text}\u2069" if text.strip() else text


ENGLISH = Sentences(language="en", texts=TEXTS)
LANGUAGES: dict[str, Sentences] = {
    "en": ENGLISH,
    "ur": Sentences(language="ur", direction="rtl", texts=URDU),
}


def in_language(code: str) -> Sentences:
    """The words of a language; English where there are none."""
    return LANGUAGES.get(code, ENGLISH)
