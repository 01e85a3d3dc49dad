"""Pages of the documentation for figures of time and of work, each with its formula and its unit."""

from __future__ import annotations

from django.utils.translation import gettext_noop as _

from capacity.docs_page import Page

TIMES = (
    Page(
        slug="user-view", title=_("User view and server view"),
        lead=_("The user view of a time starts when the request was due, the server view when it was written to the wire."),
        formula="user: t − t_scheduled        server: t − t_sent", unit=_("seconds"),
        rows=(
            (_("Objectives"), _("Use the user view: a wait in the client or in a queue is a wait.")),
            (_("The difference"), _("Is what a request waited before it was sent, for a place or in a micro-batch.")),
        ),
        related=("ttft", "e2e", "open-loop"),
    ),
    Page(
        slug="ttft", title=_("TTFT: time to first token"),
        lead=_("From when a request was due to the first text of any kind. Headers, an empty first event and comments are no "
            "text."),
        formula="t_first − t_scheduled", unit=_("seconds"),
        rows=(
            (_("Without streaming"), _("There is none.")),
            (_("Held back"), _("Where something collected the stream on its way the time is left empty.")),
        ),
        related=("user-view", "e2e", "check-buffering"),
    ),
    Page(
        slug="e2e", title=_("E2E: end to end"),
        lead=_("From when a request was due to the end of its answer."),
        formula="t_end − t_scheduled", unit=_("seconds"),
        rows=((_("Failed requests"), _("Count as infinitely late. They are never left out of a percentile.")),),
        related=("user-view", "ttft", "percentile"),
    ),
    Page(
        slug="tpot", title=_("TPOT: time per output token"),
        lead=_("How long each token after the first took. Some tools call it inter-token latency, ITL."),
        formula="(t_last − t_first) ÷ (output tokens − 1)", unit=_("seconds for each token"),
        rows=(
            (_("Tokens"), _("Are counted by the server. Pieces of a stream are not tokens and are never taken for them.")),
            (_("None"), _("For one token or fewer, and where all came at one moment.")),
        ),
        related=("chunk-gap", "ttft", "tokens-a-second"),
    ),
    Page(
        slug="chunk-gap", title=_("Gap between chunks"),
        lead=_("The time between two pieces of a stream with text. A long one is a stall that the reader sees."),
        formula="t(chunk k + 1) − t(chunk k)", unit=_("seconds; stored in microseconds"),
        rows=((_("Not"), _("A time between tokens: one chunk may hold several.")),),
        related=("tpot", "check-buffering"),
    ),
    Page(
        slug="added-wait", title=_("Added wait"),
        lead=_("What micro-batching adds to a request: from its arrival until its batch was closed."),
        formula="t_gathered − t_scheduled", unit=_("seconds"),
        rows=((_("Inside"), _("The user view of every time of that request.")),),
        related=("micro-batching", "user-view"),
    ),
    Page(
        slug="lateness", title=_("Lateness of sends"),
        lead=_("In an open loop: from when a request was due until it was first written. Within 2 ms is on time."),
        formula="t_sent − t_scheduled", unit=_("seconds; infinite where it was never sent"),
        rows=((_("Charged to"), _("The request, and not forgiven: its clock runs from when it was due.")),),
        related=("open-loop", "check-rate", "check-client"),
    ),
    Page(
        slug="percentile", title=_("p50, p95, p99"),
        lead=_("The nearest-rank percentile of all requests of the window, failed ones as infinitely late. One in twenty is "
            "slower than p95."),
        formula="x(⌈ p × n ⌉) of the n ordered times", unit=_("seconds"),
        rows=(
            (_("From few"), _("A p95 needs 20 values and a p99 100. Below that the page says “too few”: it would be no more "
                "than the maximum.")),
            (_("Of repeats"), _("Taken over all requests together, never as an average of percentiles.")),
        ),
        related=("upper-bound", "average-only", "indicative"),
    ),
    Page(
        slug="upper-bound", title=_("Upper bound of a percentile"),
        lead=_("How large the true percentile may still be. A limit holds where the bound is inside it, not where the value is."),
        formula="P( Binomial(n, 1 − p) ≤ t ) ≤ α", unit=_("n requests, t over the limit; α is 5 %, for a confirmation 1 %"),
        rows=(
            (_("By requests"), _("At p95 and 5 % it takes 59 requests without a miss, 93 with one, 124 with two. It assumes "
                "no distribution.")),
            (_("By repeats"), _("Mean + t(k − 1) × s ÷ √k of the percentiles of k repeats. The wider of the two is used and "
                "the page says which.")),
        ),
        related=("percentile", "effective-n", "indicative"),
    ),
    Page(
        slug="effective-n", title=_("Worth so many independent ones"),
        lead=_("Requests of one queue are slow together, so they prove less than as many that know nothing of each other."),
        formula="min( Σ n (1 − r) ÷ (1 + r),  Σ n ÷ (1 + 2 Σ ρ) )", unit=_("requests"),
        rows=((_("Where"), _("r is the correlation of neighbours in the order of issue, from 0 to 0.95; ρ are the "
            "correlations at all distances.")),),
        related=("upper-bound", "indicative"),
    ),
    Page(
        slug="p95-over-objective", title=_("p95 ÷ objective"),
        lead=_("The percentile of a class as a share of its limit, so that classes with different limits stand on one scale."),
        formula="p95 ÷ limit", unit=_("no unit; up to 1.00 is inside"),
        rows=((_("Of several limits"), _("The tightest one counts: the one whose share is the largest.")),),
        related=("objective", "percentile"),
    ),
    Page(
        slug="steadiness", title=_("Steady, drifting, settling"),
        lead=_("Whether a figure held still over its window. What moves is told by its trend and not by one number."),
        formula="|Theil–Sen trend over the window| ≥ 15 % and ≥ 2 residual standard deviations", unit=_("a word"),
        rows=((_("Too short"), _("It takes six blocks of 5 s with 20 answers each.")),),
        related=("check-steady", "window", "warm-up"),
    ),
    Page(
        slug="loop-lag", title=_("Lag of the client"),
        lead=_("How late the client's own event loop was. Above its limit the client was the bottleneck and the window is no "
            "evidence."),
        formula="p99 of (woken − due)", unit=_("milliseconds; at most 5, or 5 % of the tightest limit"),
        rows=((_("Before a grid"), _("The client is measured against a runtime whose times are known, and does not start "
            "where it is off by more than 2 ms.")),),
        related=("check-client", "user-view"),
    ),
)  # fmt: skip

AMOUNTS = (
    Page(
        slug="successful-a-minute", title=_("Successful requests a minute"),
        lead=_("The rate that counts: answered, valid and inside every limit of the class."),
        formula="60 × successes ÷ length of the window", unit=_("requests a minute"),
        rows=((_("Of a mix"), _("Classes combine as rates do: 1 ÷ the sum of weight ÷ rate of each class.")),),
        related=("successful-request", "goodput", "stated-rate"),
    ),
    Page(
        slug="goodput", title=_("Goodput"),
        lead=_("Successful items in a time or for an amount of energy. Tokens and requests that failed do not count."),
        formula="successes ÷ time", unit=_("items a second, a minute, or for each kWh"),
        related=("successful-request", "energy-per-item", "tokens-per-second"),
        rows=((_("Beside it"), _("All requests that completed. Where the two part, answers come too late or are wrong.")),),
    ),
    Page(
        slug="attainment", title=_("Attainment"),
        lead=_("The share of scheduled requests that succeeded inside the objective."),
        formula="successes ÷ scheduled requests", unit=_("share, with its Wilson interval"),
        related=("wilson", "success-share", "capacity-search"),
        rows=((_("Used by"), _("The capacity search: a setting holds where the lower bound is over what is asked.")),),
    ),
    Page(
        slug="success-share", title=_("Success share"),
        lead=_("Requests that ended well, of all that were scheduled, whatever time they took."),
        formula="ok ÷ scheduled", unit=_("share, with its Wilson interval"),
        related=("attainment", "outcome-ok", "wilson"),
        rows=((_("Refusals"), _("Are not successes. They are told apart, for a clear refusal is better than a broken answer.")),),
    ),
    Page(
        slug="validity-share", title=_("Valid share"),
        lead=_("Valid answers, of those that ended well and could be judged."),
        formula="valid ÷ judged", unit=_("share"),
        related=("valid-answer", "rubric-validity"),
        rows=((_("Not judged"), _("An embedding has no text to judge.")),),
    ),
    Page(
        slug="rejection-share", title=_("Share refused"),
        lead=_("Requests that were refused because the queue was full, of all that came."),
        formula="P(inside = active + K)", unit=_("share; foretold from the chain, measured with its Wilson interval"),
        rows=(
            (_("Foretold"), _("A birth-death chain of the number inside: up at the arrival rate, down at the measured rate "
                "of completion with as many in flight.")),
            (_("Measured"), _("In the confirming open loop. Where the two intervals meet the page says “as foretold”.")),
        ),
        related=("queue-cap", "outcome-rejected", "wilson"),
    ),
    Page(
        slug="stated-rate", title=_("Stated rate"),
        lead=_("What remains of the measured rate after headroom, and no more than the queue holds."),
        formula="min( measured × (1 − growth) × (1 − variance) × (1 − loss), lower bound )",
        unit=_("successful requests a minute"),
        related=("headroom", "successful-a-minute", "confirmation"),
        rows=((_("Not"), _("A number of users. How many people that serves depends on how often they ask.")),),
    ),
    Page(
        slug="wilson", title=_("Wilson interval"),
        lead=_("Between which bounds a share may really lie, also where it is near 0 or 1 or n is small."),
        formula="( p + z²÷2n ± z √( p(1 − p)÷n + z²÷4n² ) ) ÷ ( 1 + z²÷n )", unit=_("share; z = 1.96 for 95 %"),
        related=("attainment", "success-share"),
        rows=((_("Difference of two"), _("By Newcombe, from the bounds of each.")),),
    ),
    Page(
        slug="ratio", title=_("Change and its interval"),
        lead=_("How much more or less one setting or grid does than another, and between which bounds."),
        formula="mean of the ratios ± t(k − 1) × s ÷ √k", unit=_("per cent, two-sided 95 %"),
        rows=((_("No clear difference"), _("The interval holds “no change”. Then nothing is concluded.")),),
        related=("like-for-like", "knee"),
    ),
    Page(
        slug="coefficient-of-variation", title=_("Coefficient of variation"),
        lead=_("How much the repeats of one setting differ, as a share of their mean."),
        formula="s ÷ mean", unit=_("share"),
        related=("headroom", "ratio"),
        rows=((_("Used as"), _("The reserve for variance, where it is more than what the objective declares.")),),
    ),
    Page(
        slug="scalability", title=_("Scalability fit"),
        lead=_("The Universal Scalability Law through the measured settings, as a check of the shape of throughput."),
        formula="X(n) = λ n ÷ ( 1 + σ (n − 1) + κ n (n − 1) )", unit=_("requests a second"),
        related=("knee", "goodput"),
        rows=((_("Outside"), _("The settings that were measured it is not asked. It needs four.")),),
    ),
    Page(
        slug="energy-per-item", title=_("Energy for each item"),
        lead=_("What a successful item takes of the GPUs' energy. Host, cooling and supply are not in it."),
        formula="mean GPU power × window ÷ successes", unit=_("Wh for each item; the page also gives items for each kWh"),
        rows=(
            (_("Power from"), _("The driver's energy counter where there is one, else the sampled power.")),
            (_("Not known"), _("Where one card of several told no power nothing is said.")),
        ),
        related=("power", "goodput"),
    ),
    Page(
        slug="power", title=_("GPU power"),
        lead=_("What the board draws, by the driver. On most cards it is a mean over one second."),
        formula="Δ energy counter ÷ Δ time", unit=_("watts"),
        related=("energy-per-item", "guard"),
        rows=((_("A power cap"), _("Is a condition of the measurement and not a fault.")),),
    ),
    Page(
        slug="vram-share", title=_("VRAM"),
        lead=_("Memory of the card that is not free, at its peak, with what the driver keeps for itself."),
        formula="peak used ÷ total", unit=_("share; sizes in GiB of 2³⁰ bytes"),
        related=("kv-cache", "guard"),
        rows=((_("Shared memory"), _("Where a card shares the host's memory that is read instead, and its source says so.")),),
    ),
    Page(
        slug="tokens-a-second", title=_("Tokens a second"),
        lead=_("Output tokens of the successes over the window. It is shown small and never as success."),
        formula="Σ output tokens ÷ window", unit=_("tokens a second"),
        related=("tokens-per-second", "tpot", "goodput"),
        rows=((_("Absent"), _("Unless one source counted the tokens of every success.")),),
    ),
    Page(
        slug="makespan", title=_("Makespan"),
        lead=_("From when the first item of a static batch was due to when the last one was closed, interruptions included."),
        formula="t_closed(last) − t_scheduled(first)", unit=_("seconds"),
        related=("pace", "static-batch"),
        rows=((_("Items"), _("That are open or failed are told beside it.")),),
    ),
    Page(
        slug="pace", title=_("Pace"),
        lead=_("What one item of a static batch takes of the whole."),
        formula="makespan ÷ items that ended", unit=_("seconds for each item"),
        related=("makespan", "finish"),
        rows=((_("Interrupted runs"), _("Are left out where others were not interrupted.")),),
    ),
    Page(
        slug="finish", title=_("Finish of the night"),
        lead=_("When tonight's items will be done, and when at the latest: the night to come is one more run like those "
            "measured."),
        formula="items × ( mean + t(k − 1) × s × √(1 + 1÷k) )", unit=_("seconds after the start; one-sided 95 %"),
        related=("pace", "static-batch"),
        rows=((_("Example"), _("1.00, 1.01 and 0.99 s an item: 7,200 items from 22:00 are done by 00:00, at the latest by "
            "00:05.")),),
    ),
    Page(
        slug="attempts", title=_("Attempts for each request"),
        lead=_("How often a request was sent until it was over. The outcome is that of the last attempt, the clock that of "
            "the first."),
        formula="attempts ÷ scheduled requests", unit=_("attempts for each request"),
        related=("backoff", "probe-retry-storm", "immediate-retries"),
        rows=((_("Found"), _("Over 1.5 in the overload probe or in the confirming loop.")),),
    ),
    Page(
        slug="fairness", title=_("Slowdown beside long requests"),
        lead=_("How much the p95 of short requests grows when long ones run beside them."),
        formula="p95 beside ÷ p95 alone", unit=_("times"),
        related=("probe-fairness", "long-blocks-short", "rubric-fairness"),
        rows=((_("Jain's index"), _("Says how evenly the service was shared by what each was entitled to; 1 is even. Near 1 "
            "beside a bad ratio is no contradiction.")),),
    ),
)  # fmt: skip
