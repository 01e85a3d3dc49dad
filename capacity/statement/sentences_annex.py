"""The fixed words of the annexes, by name; `sentences` says how they are used and translated."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "annex": "Annexes",
    # What was not tested.
    "annex.not_tested": "What was not tested",
    "annex.nothing_untested": "Nothing is listed as untested; the statement covers only what the table shows.",
    # The confirming open loop.
    "open": "Confirmed in an open loop",
    "open.words": "In a closed loop no queue forms, so its times are not what people feel. In the open loop requests arrived at "
    "their own times, whatever was already waiting, through the queue that is stated here. Rate, refusals and times of this "
    "statement are those of these windows.",
    "open.offered": "Offered",
    "open.offered_rate": "{rate} requests a minute",
    "open.queue": "Queue cap",
    "open.queue_cap": "at most {cap} waiting, {setting} served at once",
    "open.rate": "Successful",
    "open.rate_words": "{rate} requests a minute {interval}",
    "open.refused": "Refused",
    "open.accepted": "Succeeded of the others",
    "open.repeats": "Repeats",
    "open.repeats_n": "{repeats}, n = {n}",
    "open.when": "Measured",
    "open.grid": "Grid",
    "open.room": "Room, power",
    "open.room_words": "{place}, {ambient} ({source}); {power}",
    "open.authorised": "Authorised by",
    "open.person": "{name}, {at}",
    "open.effective": "Worth",
    "open.over": "Over",
    "open.p99": "p99",
    "open.bound": "{percent} bound",
    "open.caption": "Each claim is that the percentile is under its limit, with at most {error} for error: the upper bound, over "
    "all repeats together, is under the limit. “Worth” is how many independent requests the n are worth; “over” counts those "
    "past the limit, refused and failed ones with them.",
    # Every limit at every setting.
    "every": "Every limit at every setting",
    "every.limit": "Limit",
    "every.n": "n",
    "every.measured": "Measured",
    "every.bound": "Upper bound",
    "every.verdict": "Verdict",
    "every.at_most": "{name} at most {limit}",
    "every.no_bound": "none",
    "every.caption": "The upper bound is the one-sided bound that the verdict was made with.",
    "every.caption_closed": "A closed loop: a fixed number was kept in flight. The upper bound is the one-sided bound that the "
    "verdict was made with.",
    "every.reason": "{setting}: {reason}",
    # Headroom.
    "headroom": "Headroom",
    "headroom.none": "No setting is stated, so no headroom is computed.",
    "headroom.measured": "Measured",
    "headroom.closed": "Measured in the closed loop",
    "headroom.confirmed": "Confirmed in the open loop",
    "headroom.reserve": "{share}, {reason}",
    "headroom.after": "Left by these reserves",
    "headroom.plan": "Plan for at most",
    "headroom.lower": "{rate}: the lower bound of what was measured, what the queue holds, or what was confirmed is less",
    "headroom.rate": "{rate} successful requests a minute",
    "headroom.offered": "{rate} requests a minute offered, {good} of them successful",
    "headroom.not_stated": "not stated",
    # Controls.
    "controls": "Controls that go with the setting",
    "controls.title": "Control",
    "controls.value": "Value",
    "controls.words": "What it does, and where it comes from",
    # Grade and diagnosis.
    "grade": "Grade",
    "grade.words": "{grade}. {reason}",
    "grade.criterion": "Criterion",
    "grade.answer": "Answer",
    "grade.reason": "By what",
    "grade.caption": "The grade is computed from these criteria and set by nobody.",
    "diagnosis": "Diagnosis",
    "diagnosis.words": "Seven classic mistakes of such measurements, and whether this one makes them.",
    "diagnosis.case": "Case",
    "diagnosis.found": "Verdict",
    "diagnosis.evidence": "Evidence",
    "diagnosis.at": "{found} at {settings}",
    "found.not found": "not found",
    "found.watch": "watch",
    "found.found": "found",
    "found.not tested": "not tested",
    # Configuration.
    "config": "Configuration in full",
    "config.flags": "Flags",
    "config.no_flags": "none recorded",
    "config.declared": "Hardware, declared",
    "config.probed": "Hardware, probed",
    "config.workload": "Workload",
    "config.tokens_out": "Tokens out, p50",
    "config.repeats": "Repeats, window",
    "config.repeats_words": "{repeats}, {window}",
    "config.measured": "Measured",
    "config.audit": "Audit chain head",
    # Cells.
    "cells": "Cells",
    "cells.cell": "Cell",
    "cells.started": "Started",
    "cells.window": "Window",
    "cells.n": "n",
    "cells.answered": "Answered",
    "cells.good": "Successful",
    "cells.rate": "Per min",
    "cells.caption": "One window of measurement each. n counts every request that was scheduled in it, whatever became of it.",
    # Method and definitions.
    "method": "Method and definitions",
    "method.version": "Method",
    "method.version_words": "Version {version} of the judge’s method",
    "method.successful": "Successful request",
    "method.successful_words": "Answered, valid where answers are checked, and inside every limit of its class. A request that "
    "failed or was refused counts as late.",
    "method.setting": "Setting",
    "method.setting_words": "How many requests are served at once. It is neither a batch size nor a number of people.",
    "method.percentile": "p95",
    "method.percentile_words": "The nearest-rank percentile of all scheduled requests of a class, pooled over the repeats; never "
    "an average of percentiles.",
    "method.bound": "Upper bound",
    "method.bound_words": "From order statistics, without assuming any distribution, for as many independent requests as the "
    "correlated ones are worth; the spread between repeats is covered too, and the wider of the two counts.",
    "method.interval": "Interval of a rate",
    "method.interval_words": "Two-sided, 95 %.",
    "method.headroom": "Headroom",
    "method.headroom_words": "The least of: the measured rate after every reserve, its lower bound, and the rate that an open "
    "loop confirmed.",
    "method.verdicts": "Verdicts",
    "method.verdicts_words": "Holds: every limit is kept by its bound. Fails: something measured is past a limit. "
    "Indicative: inside, with too few requests for a claim. Not tested: no answer, which is never a good one.",
    "method.loops": "Closed and open loop",
    "method.loops_words": "Closed: a fixed number is kept in flight, and a new request starts when one ends. Open: requests "
    "arrive at their own times, so they queue when the service is slow.",
    # Who did what.
    "people": "Who did what",
    "people.person": "{name}, {at}",
    # Evidence.
    "evidence": "Evidence",
    "evidence.records": "Records",
    "evidence.leave": "Authorisation",
    "evidence.caption": "This list is attached as evidence-manifest.json; its sha256 is {digest}.",
    # How to verify.
    "verify": "How to verify",
    "verify.open": "Open {address}, or check the file offline with the publisher’s keyring and the command below.",
    "verify.payload": "The attached statement.dsse.json holds the signed text; its payload, decoded from base64, has the sha256 "
    "{digest}.",
    "verify.tools": "Ways with openssl, sha256sum and pdfsig alone are described in the product’s documentation, page "
    "Statements.",
}
