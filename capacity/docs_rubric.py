"""Pages of the documentation for the criteria of the rubric: what each asks, when it is met, and what to run."""

from __future__ import annotations

from capacity.docs_cases import Page

NOT_COMPLETE = "Where it is not met the grade is *Not complete*: no key signs such a result."
NEEDS_REVISION = "Where it is not met the grade is at most *Needs revision*."


def _page(key: str, title: str, lead: str, met: str, missing: str, run: str, *, severe: bool = False) -> Page:
    grade = NOT_COMPLETE if severe else NEEDS_REVISION
    rows = (("Met", met), ("Not met", missing), ("Grade", grade.replace("*", "")))
    return Page(slug=f"rubric-{key}", title=title, lead=lead, rows=rows, remedy=(), run=run)


CRITERIA = (
    _page(
        "objective", "Objective set before the run",
        "Limits that are chosen after the numbers are known prove nothing.",
        "Each length class that was measured has a limit, and the objective got its values before the first cell began.",
        "A class has no limit, or the limits were set after the measurement began.",
        "The grid again, drawn with the objective as it stands.", severe=True,
    ),
    _page(
        "headroom", "Headroom kept",
        "The most that was measured on a good day is not what a service can promise.",
        "The objective names at least one reserve: for growth, for variance, or for the loss of a card.",
        "Every reserve is 0.",
        "Nothing of load: name reserves in the objective, then draw the grid again.", severe=True,
    ),
    _page(
        "not-highest", "More than the highest accepted",
        "The highest setting that somebody happened to try is not the best one, and not a safe one either.",
        "A higher setting was measured to its end in valid windows, and either failed a gate or did not give enough more to be "
        "worth it.",
        "The chosen setting is the highest one that was validly measured, whatever lies below it.",
        "A grid that also measures twice as many in flight.", severe=True,
    ),
    _page(
        "sample", "Enough requests for a claim",
        "A percentile from few requests is a guess.",
        "Every bound at the setting is under its limit over three repeats or more, and the setting is told from others by an "
        "interval.",
        "A bound is not known or over its limit while the point value holds, so the result is indicative; or fewer than three "
        "repeats were run.",
        "The setting again with a longer window or more repeats; the finding says how many requests are missing.",
    ),
    _page(
        "window", "Valid windows",
        "Before anything is concluded a window must be one in which the numbers mean what they say.",
        "No check of the windows fails: requests are conserved, Little's law holds, the client was not the bottleneck, "
        "and so on.",
        "A check fails or could not be made.",
        "The cells that the check names, once the cause is mended.",
    ),
    _page(
        "fairness", "Fairness beside long requests",
        "Short requests must keep their time beside long ones.",
        "The fairness probe, or the mix beside the short class alone, shows a slowdown within the objective's limit.",
        "Nobody tested it.",
        "The fairness probe at the recommended setting.",
    ),
    _page(
        "cancellation", "Cancellation frees in time",
        "A request that is given up must not hold its place.",
        "The slot of a cancelled request is free within the objective's limit.",
        "Nobody tested it.",
        "The cancellation probe.",
    ),
    _page(
        "retry", "Retries contained",
        "Clients that ask again must not multiply the load.",
        "With backoff, jitter and a budget the storm stays small.",
        "Nobody tested it, or nothing was refused so that nobody had to ask again.",
        "The retry-storm probe.",
    ),
    _page(
        "overload", "Overload refused clearly",
        "Beyond capacity a server says no, at once, and says when to come back.",
        "The overload probe shows refusals within the objective's limit.",
        "Nobody tested it, or the load of the probe was not beyond capacity.",
        "The overload probe, through what stands in front of the runtime.",
    ),
    _page(
        "recovery", "Recovery in time",
        "After overload or a restart latency must come back.",
        "Latency was back within the objective's limit.",
        "Nobody tested it. The overload probe also shows it.",
        "The recovery probe, or the overload probe with a longer watch.",
    ),
    _page(
        "validity", "Validity of answers",
        "A wrong answer that comes in time is no success.",
        "Enough of the answers are valid, by a validator or by construction of the task.",
        "No answer was looked at.",
        "The grid again with a task whose answers are checked.",
    ),
    _page(
        "tenancy", "Tenants kept apart",
        "Where several tenants share a service, one must not get in without credentials nor take the others' share.",
        "The objective declares one tenant; or a request without credentials was refused and one client's rate met its limit.",
        "Several tenants are declared and this was not proved.",
        "The limits probe, without credentials and against the rate of one client.",
    ),
    _page(
        "conditions", "Conditions recorded and unchanged",
        "A hot room or a battery changes what a machine can do.",
        "Room and power are recorded before and after, and nothing changed while the grid ran.",
        "They are not recorded, or something changed.",
        "Nothing of load where they are only missing: record them. Else the grid again under one set of conditions.",
    ),
    _page(
        "confirmation", "Confirmed in an open loop",
        "A closed loop has no queue, so its tails are not what people feel.",
        "The setting held in an open loop at the stated rate, after headroom, through the proposed queue cap.",
        "No such cell ran.",
        "The confirming cell that the result page offers to draw.",
    ),
    _page(
        "readings", "Readings, or what stands in for them",
        "What nobody reports nobody has seen.",
        "Every gate has its reading, or a named substitute: RAM for VRAM, overflow errors for KV preemptions.",
        "A reading is missing and nothing stands in for it.",
        "The setting again, with a metrics address or with a worker on the GPU's host.",
    ),
    _page(
        "diagnosis", "The seven classic mistakes looked for",
        "Each of the seven cases was tested, and none is found of the setting that is stated.",
        "Every diagnosis says not found or watch, or found of another setting or of a published sentence only.",
        "A case was not tested, or is found of the setting.",
        "What the finding names.",
    ),
    _page(
        "settings", "Every setting tested",
        "That no setting is safe can be said only once each has failed.",
        "Every setting of the grid failed at least one gate: no safe setting found, a result of its own.",
        "Something is not tested at a setting that did not fail, so it may still be safe.",
        "The missing cells.",
    ),
)  # fmt: skip
