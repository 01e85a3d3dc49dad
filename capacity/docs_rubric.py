"""Pages of the documentation for the criteria of the rubric: what each asks, when it is met, and what to run."""

from __future__ import annotations

from django.utils.translation import gettext_noop as _

from capacity.docs_page import Page

NOT_COMPLETE = _("Where it is not met the grade is Not complete: no key signs such a result.")
NEEDS_REVISION = _("Where it is not met the grade is at most Needs revision.")


def _page(key: str, title: str, lead: str, met: str, missing: str, run: str, *, severe: bool = False) -> Page:
    grade = NOT_COMPLETE if severe else NEEDS_REVISION
    rows = ((_("Met"), met), (_("Not met"), missing), (_("Grade"), grade))
    return Page(slug=f"rubric-{key}", title=title, lead=lead, rows=rows, remedy=(), run=run)


CRITERIA = (
    _page(
        "objective", _("Objective set before the run"),
        _("Limits that are chosen after the numbers are known prove nothing."),
        _("Each length class that was measured has a limit, and the objective got its values before the first cell began."),
        _("A class has no limit, or the limits were set after the measurement began."),
        _("The grid again, drawn with the objective as it stands."), severe=True,
    ),
    _page(
        "headroom", _("Headroom kept"),
        _("The most that was measured on a good day is not what a service can promise."),
        _("The objective names at least one reserve: for growth, for variance, or for the loss of a card."),
        _("Every reserve is 0."),
        _("Nothing of load: name reserves in the objective, then draw the grid again."), severe=True,
    ),
    _page(
        "not-highest", _("More than the highest accepted"),
        _("The highest setting that somebody happened to try is not the best one, and not a safe one either."),
        _("A higher setting was measured to its end in valid windows, and either failed a gate or did not give enough more to be "
        "worth it."),
        _("The chosen setting is the highest one that was validly measured, whatever lies below it."),
        _("A grid that also measures twice as many in flight."), severe=True,
    ),
    _page(
        "sample", _("Enough requests for a claim"),
        _("A percentile from few requests is a guess."),
        _("Every bound at the setting is under its limit over three repeats or more, and the setting is told from others by an "
        "interval."),
        _("A bound is not known or over its limit while the point value holds, so the result is indicative; or fewer than three "
        "repeats were run."),
        _("The setting again with a longer window or more repeats; the finding says how many requests are missing."),
    ),
    _page(
        "window", _("Valid windows"),
        _("Before anything is concluded a window must be one in which the numbers mean what they say."),
        _("No check of the windows fails: requests are conserved, Little's law holds, the client was not the bottleneck, "
        "and so on."),
        _("A check fails or could not be made."),
        _("The cells that the check names, once the cause is mended."),
    ),
    _page(
        "fairness", _("Fairness beside long requests"),
        _("Short requests must keep their time beside long ones."),
        _("The fairness probe, or the mix beside the short class alone, shows a slowdown within the objective's limit."),
        _("Nobody tested it."),
        _("The fairness probe at the recommended setting."),
    ),
    _page(
        "cancellation", _("Cancellation frees in time"),
        _("A request that is given up must not hold its place."),
        _("The slot of a cancelled request is free within the objective's limit."),
        _("Nobody tested it."),
        _("The cancellation probe."),
    ),
    _page(
        "retry", _("Retries contained"),
        _("Clients that ask again must not multiply the load."),
        _("With backoff, jitter and a budget the storm stays small."),
        _("Nobody tested it, or nothing was refused so that nobody had to ask again."),
        _("The retry-storm probe."),
    ),
    _page(
        "overload", _("Overload refused clearly"),
        _("Beyond capacity a server says no, at once, and says when to come back."),
        _("The overload probe shows refusals within the objective's limit."),
        _("Nobody tested it, or the load of the probe was not beyond capacity."),
        _("The overload probe, through what stands in front of the runtime."),
    ),
    _page(
        "recovery", _("Recovery in time"),
        _("After overload or a restart latency must come back."),
        _("Latency was back within the objective's limit."),
        _("Nobody tested it. The overload probe also shows it."),
        _("The recovery probe, or the overload probe with a longer watch."),
    ),
    _page(
        "validity", _("Validity of answers"),
        _("A wrong answer that comes in time is no success."),
        _("Enough of the answers are valid, by a validator or by construction of the task."),
        _("No answer was looked at."),
        _("The grid again with a task whose answers are checked."),
    ),
    _page(
        "tenancy", _("Tenants kept apart"),
        _("Where several tenants share a service, one must not get in without credentials nor take the others' share."),
        _("The objective declares one tenant; or a request without credentials was refused and one client's rate met its limit."),
        _("Several tenants are declared and this was not proved."),
        _("The limits probe, without credentials and against the rate of one client."),
    ),
    _page(
        "conditions", _("Conditions recorded and unchanged"),
        _("A hot room or a battery changes what a machine can do."),
        _("Room and power are recorded before and after, and nothing changed while the grid ran."),
        _("They are not recorded, or something changed."),
        _("Nothing of load where they are only missing: record them. Else the grid again under one set of conditions."),
    ),
    _page(
        "confirmation", _("Confirmed in an open loop"),
        _("A closed loop has no queue, so its tails are not what people feel."),
        _("The setting held in an open loop at the stated rate, after headroom, through the proposed queue cap."),
        _("No such cell ran."),
        _("The confirming cell that the result page offers to draw."),
    ),
    _page(
        "cap", _("Queue cap in force"),
        _("That nobody was refused proves no bound: a queue without one looks the same until the day of overload."),
        _("Requests of the confirming open loop were refused by it, or an overload probe of the same runtime was answered with "
        "refusals."),
        _("Nobody saw it refuse."),
        _("The overload probe through what stood in front of the open loop: a closed loop with that probe, on the same runtime."),
    ),
    _page(
        "readings", _("Readings, or what stands in for them"),
        _("What nobody reports nobody has seen."),
        _("Every gate has its reading, or a named substitute: RAM for VRAM, overflow errors for KV preemptions."),
        _("A reading is missing and nothing stands in for it."),
        _("The setting again, with a metrics address or with a worker on the GPU's host."),
    ),
    _page(
        "diagnosis", _("The seven classic mistakes looked for"),
        _("Each of the seven cases was tested, and none is found of the setting that is stated."),
        _("Every diagnosis says not found or watch, or found of another setting or of a published sentence only."),
        _("A case was not tested, or is found of the setting."),
        _("What the finding names."),
    ),
    _page(
        "settings", _("Every setting tested"),
        _("That no setting is safe can be said only once each has failed."),
        _("Every setting of the grid failed at least one gate: no safe setting found, a result of its own."),
        _("Something is not tested at a setting that did not fail, so it may still be safe."),
        _("The missing cells."),
    ),
)  # fmt: skip
