"""Pages of the documentation for the words of the work: measuring, judging, deciding and stating."""

from __future__ import annotations

from django.utils.translation import gettext_noop as _

from capacity.docs_page import Page

WORK = (
    Page(
        slug="grid", title=_("Grid"),
        lead=_("One measurement: every setting with every length class, in several repeats, under one set of conditions."),
        rows=(
            (_("Before it runs"), _("It is drawn with its cost in minutes, tokens and energy. A host owner authorises "
                "exactly this plan.")),
            (_("After it ran"), _("Nothing of it changes any more. A better idea is a new grid.")),
        ),
        related=("cell", "setting", "authorisation", "conditions"),
    ),
    Page(
        slug="cell", title=_("Cell"),
        lead=_("One setting with one length class in one repeat. It is measured as a whole or not at all."),
        rows=(
            (_("States"), _("Planned, queued, running, measured, stopped, interrupted, not run.")),
            (_("Killed worker"), _("The cell is interrupted and run again as a new attempt. A finished cell never runs twice.")),
        ),
        related=("grid", "window", "evidence"),
    ),
    Page(
        slug="setting", title=_("Setting"),
        lead=_("The number that is varied: requests in flight, arrivals a minute, or items per batch, by the way of loading."),
        related=("requests-in-flight", "safe-setting", "knee"),
        rows=((_("Approved"), _("One setting is approved, together with its queue cap, its token limits and the way back.")),),
    ),
    Page(
        slug="window", title=_("Window"),
        lead=_("The time of a cell that counts. A warm-up comes before it and belongs to no figure."),
        rows=(
            (_("Belongs to it"), _("Each request that was due inside it, whenever it ends.")),
            (_("Must be valid"), _("Eleven checks are asked of every window before anything is concluded from it.")),
        ),
        related=("warm-up", "check-conservation", "check-steady"),
    ),
    Page(
        slug="warm-up", title=_("Warm-up"),
        lead=_("Load before the window, until twice the requests in flight have ended and 5 s have passed, at most 30 s."),
        rows=((_("Why"), _("First requests find cold caches and an empty server. The load goes over into the window without "
            "a pause.")),),
        related=("window", "check-steady"),
    ),
    Page(
        slug="length-class", title=_("Length class"),
        lead=_("Requests of like length, such as short, median and long, each with limits of its own and a weight in the mix."),
        rows=((_("Why apart"), _("A limit that suits a long answer says nothing of a short one, and an average over both "
            "hides the slow ones.")),),
        related=("workload", "objective", "identical-prompts"),
    ),
    Page(
        slug="workload", title=_("Workload"),
        lead=_("What is asked: length classes with weights, a task whose answers can be checked, and a seed from which the "
            "same requests can be made again."),
        rows=(
            (_("Prompts"), _("Are made up. No text that a person wrote is taken, kept or sent.")),
            (_("From a trace"), _("Only lengths and times are read from a file, never its texts.")),
        ),
        related=("length-class", "valid-answer", "identical-prompts"),
    ),
    Page(
        slug="objective", title=_("Objective"),
        lead=_("What has to hold, set before the measurement: a time for each length class at a percentile, the share that "
            "must succeed, and reserves."),
        rows=(
            (_("Frozen"), _("A grid keeps the objective as it was when it was drawn. An edit makes the next version.")),
            (_("Set afterwards"), _("Limits chosen after the numbers are known prove nothing: the grade is then Not complete.")),
        ),
        related=("p95-over-objective", "headroom", "rubric-objective"),
    ),
    Page(
        slug="successful-request", title=_("Successful request"),
        lead=_("HTTP 200, at least one token, a finish reason, no error in the stream, a valid answer, and every limit of "
            "its length class kept."),
        rows=((_("Never counted as success"), _("Tokens of an answer that broke off, an answer that came too late, a "
            "refusal.")),),
        related=("successful-a-minute", "valid-answer", "outcome-ok", "goodput"),
    ),
    Page(
        slug="valid-answer", title=_("Valid answer"),
        lead=_("An answer that the task's own check accepts: a sum, a JSON object to a schema, one of four labels."),
        rows=(
            (_("By construction"), _("Where a task has no wrong answers, such as made-up words, the page says so: a wrong "
                "one would not be seen.")),
            (_("Quality page"), _("A few answers of each setting stand beside each other, so that a person can read them.")),
        ),
        related=("validity-share", "rubric-validity"),
    ),
    Page(
        slug="safe-setting", title=_("Safe setting"),
        lead=_("A setting at which every gate holds. What fails one gate is not safe; what was not tested is not safe either."),
        rows=((_("None"), _("No safe setting found is a result of its own, which can be approved and signed.")),),
        related=("gate", "knee", "grade"),
    ),
    Page(
        slug="gate", title=_("Gate"),
        lead=_("One question asked of one setting, with its answer, its evidence and its remedy."),
        rows=(
            (_("Answers"), _("Holds, fails, not applicable, not tested, not reported.")),
            (_("Not reported"), _("Nobody could know. It is printed and keeps the grade from Complete unless something named "
                "stands in for it.")),
        ),
        related=("safe-setting", "grade"),
    ),
    Page(
        slug="knee", title=_("Knee"),
        lead=_("The lowest safe setting with at least 95 % of the goodput of the best safe one. It is the one that is "
            "recommended."),
        rows=((_("Why not the best"), _("The last few per cent cost long tails, memory and the room for a bad day.")),),
        formula="min { s : lower₉₅(goodput(s) ÷ goodput(best)) ≥ 0.95 }", unit=_("setting"),
        related=("goodput", "safe-setting", "ratio"),
    ),
    Page(
        slug="headroom", title=_("Headroom"),
        lead=_("The share of the measured rate that stays free, for growth, for days that differ and for the loss of a card. "
            "What is left may be stated."),
        rows=(
            (_("By default"), _("10 % for growth; for variance what is declared or measured, whichever is more; nothing for "
                "the loss of a card.")),
            (_("Never"), _("More than the lower bound of what was measured.")),
        ),
        formula="stated = min( measured × (1 − growth) × (1 − variance) × (1 − loss), lower bound )",
        unit=_("successful requests a minute"),
        related=("stated-rate", "rubric-headroom", "coefficient-of-variation"),
    ),
    Page(
        slug="indicative", title=_("Indicative"),
        lead=_("The value is inside its limit and its bound is not proved to be: too few requests stand behind it."),
        rows=((_("What it needs"), _("The page says how many more requests or repeats would do.")),),
        related=("upper-bound", "effective-n", "rubric-sample"),
    ),
    Page(
        slug="grade", title=_("Grade"),
        lead=_("Computed from seventeen criteria and set by nobody."),
        rows=(
            (_("Complete"), _("Every criterion is met or does not apply. A real key signs it.")),
            (_("Needs revision"), _("A criterion is open. A real key signs it only with a waiver.")),
            (_("Not complete"), _("No objective before the run, no reserve, or the setting is only the highest that somebody "
                "tried. No key signs it.")),
            (_("No safe setting found"), _("Every setting failed something. That is a result, and it is signed like one.")),
        ),
        related=("waiver", "gate", "statement"),
    ),
    Page(
        slug="waiver", title=_("Waiver"),
        lead=_("A person who neither measured nor proposed accepts, with a reason and a last day, that something was not "
            "tested."),
        rows=((_("Cannot be waived"), _("What failed. The statement prints the waiver and ends with its last day.")),),
        related=("grade", "statement"),
    ),
    Page(
        slug="confirmation", title=_("Confirmation"),
        lead=_("An open loop at the rate that is to be stated, through the proposed queue cap. It shows the tails that "
            "people feel."),
        rows=(
            (_("Holds"), _("Each limit of each class is proved with 1 % for error, over all repeats.")),
            (_("Refused requests"), _("Count against the share that must succeed, and as late in every time.")),
        ),
        related=("open-loop", "queue-cap", "rubric-confirmation"),
    ),
    Page(
        slug="authorisation", title=_("Authorisation"),
        lead=_("The permission of a host's owner to put exactly this load on this host, with ceilings and a last moment."),
        rows=(
            (_("Bound to"), _("The plan, the target address and the limits. A change of any of them voids it.")),
            (_("Not"), _("An approval: that is the decision on a setting, by another person.")),
        ),
        related=("approval", "guard", "grid"),
    ),
    Page(
        slug="approval", title=_("Approval"),
        lead=_("The decision that a setting shall hold, by a person who neither measured nor proposed it."),
        rows=((_("Ends early"), _("When what it rests on changes: driver, runtime, flags, model, power or room.")),),
        related=("authorisation", "statement", "rollback"),
    ),
    Page(
        slug="rollback", title=_("Rollback"),
        lead=_("The setting to go back to, with its own measured figures: what the same runtime was last approved for, else "
            "the next lower safe one."),
        related=("approval", "setting"),
        rows=((_("Stands"), _("In the policy and in the statement, so that nobody has to look for it at night.")),),
    ),
    Page(
        slug="statement", title=_("Capacity statement"),
        lead=_("One signed page that says what was measured, under which conditions, what was not tested, and what ends it."),
        rows=(
            (_("Signed"), _("As JSON with Ed25519 and as PDF. Anybody verifies it, also without a network.")),
            (_("Never says"), _("A number of users.")),
        ),
        related=("grade", "digest", "approval"),
    ),
    Page(
        slug="digest", title=_("Digest"),
        lead=_("A SHA-256 over the exact bytes of a thing. Another byte gives another digest, so that a change is seen."),
        related=("evidence", "statement"),
        rows=((_("On paper"), _("The first twelve characters stand in the address of the verification page.")),),
    ),
    Page(
        slug="evidence", title=_("Evidence"),
        lead=_("A record of every request of a cell, as one Parquet file with its digest. Every figure can be computed from "
            "it again."),
        rows=((_("Holds no"), _("Texts, but for a few sampled answers to made-up prompts.")),),
        related=("digest", "check-conservation", "cell"),
    ),
    Page(
        slug="conditions", title=_("Conditions"),
        lead=_("Room temperature, power source, driver, clocks, flags and versions: what a measurement holds for."),
        rows=((_("Changed"), _("Then two measurements are not like for like, and an approval that rests on them ends.")),),
        related=("like-for-like", "check-conditions", "rubric-conditions"),
    ),
    Page(
        slug="like-for-like", title=_("Like for like"),
        lead=_("Two grids whose model, runtime, flags, hardware, workload, method, power, room and objective do not differ."),
        rows=((_("Otherwise"), _("The page lists what differs, with both values, and says nothing of causes.")),),
        related=("conditions", "ratio"),
    ),
    Page(
        slug="simulated", title=_("Simulated"),
        lead=_("Measured on the simulated runtime that comes with the product. It says nothing of any real host."),
        rows=((_("Signed with"), _("A demonstration key only. Every page and every statement says so.")),),
        related=("statement",),
    ),
    Page(
        slug="guard", title=_("Guard"),
        lead=_("Looks ten times a second at memory, temperature, power, errors and times, and ends a stage before it harms "
            "the host."),
        rows=((_("A stop"), _("Is a result: its reason has the figures, and higher settings are not run.")),),
        related=("vram-share", "cool-down", "authorisation"),
    ),
    Page(
        slug="cool-down", title=_("Cooling down"),
        lead=_("The wait before a stage until temperature and power are within 10 % of the idle host, or five minutes."),
        rows=((_("Kept"), _("How long it took is part of the attempt.")),),
        related=("guard", "power"),
    ),
    Page(
        slug="kv-cache", title=_("KV cache"),
        lead=_("Keys and values of all tokens of a sequence, which the runtime keeps while it answers. It grows with every "
            "token."),
        rows=(
            (_("Full"), _("The runtime takes room away from a running sequence, or fails one.")),
            (_("Counted from"), _("The model's own geometry: layers, heads, their size and the bytes of a value.")),
        ),
        formula="2 × layers × KV heads × head size × bytes per value × tokens", unit=_("bytes for each sequence"),
        related=("preemption", "parallelism-without-kv", "vram-share", "context-limit"),
    ),
    Page(
        slug="preemption", title=_("KV preemption"),
        lead=_("The runtime takes the room of a running sequence away and computes it again later. The answer is right and "
            "late."),
        rows=((_("Gate"), _("A setting at which a sequence was preempted is not safe.")),),
        related=("kv-cache", "parallelism-without-kv"),
    ),
    Page(
        slug="context-limit", title=_("Context and output cap"),
        lead=_("Most tokens of one sequence, prompt and answer together, and most tokens of one answer."),
        related=("kv-cache", "check-max-tokens"),
        rows=((_("Stated"), _("The longest input and output that were tested. Beyond them the answer is not measured.")),),
    ),
    Page(
        slug="prefix-cache", title=_("Prefix cache"),
        lead=_("A runtime keeps what it has read of a prompt's beginning and skips it when another prompt begins alike."),
        rows=((_("In a test"), _("Every prompt begins with a marker of its own, so that nothing is found there but what the "
            "workload declares.")),),
        related=("identical-prompts", "workload"),
    ),
)  # fmt: skip
