"""Pages of the documentation for the words of the product: load, batching and queues."""

from __future__ import annotations

from django.utils.translation import gettext_noop as _

from capacity.docs_page import Page

LOAD = (
    Page(
        slug="requests-in-flight", title=_("Requests in flight"),
        lead=_("How many requests the client keeps open at once. It is what the test offers, and not a number of users."),
        rows=(
            (_("Also called"), _("Offered concurrency, client concurrency, concurrency.")),
            (_("Not"), _("A flag of the runtime. A runtime that may advance 4 sequences can be offered 8 requests: 4 of them "
                "wait.")),
            (_("In a grid"), _("The setting of a closed loop. Each setting is measured with each length class, in several "
                "repeats.")),
        ),
        related=("active-sequences", "waiting", "closed-loop", "concurrency"),
    ),
    Page(
        slug="active-sequences", title=_("Active sequences"),
        lead=_("Sequences that the runtime advances in one step. What a client offers beyond that waits."),
        rows=(
            (_("Also called"), _("Parallel sequences, slots, parallel slots, running requests, --max-num-seqs, --parallel.")),
            (_("Costs"), _("Each active sequence keeps the KV cache of all its tokens. Two sequences need twice the room of "
                "one.")),
            (_("Decided by"), _("The runtime's own flag. The worker reads back what the runtime really has before it measures.")),
        ),
        related=("requests-in-flight", "batch-size", "kv-cache", "parallelism-without-kv"),
    ),
    Page(
        slug="batch-size", title=_("Batch size"),
        lead=_("Three different things have this name. The pages say which one they mean and never use the bare word."),
        rows=(
            (_("Tokens per step"), _("The token budget of one step of the runtime, as in llama.cpp's -b or vLLM's "
                "--max-num-batched-tokens. It does not count requests.")),
            (_("Active sequences"), _("How many requests the runtime advances together: a batch that changes at every step.")),
            (_("Items per batch"), _("How many items an application sends in one go, of a static batch or of micro-batching.")),
        ),
        related=("tokens-per-step", "active-sequences", "static-batch", "micro-batching"),
    ),
    Page(
        slug="tokens-per-step", title=_("Tokens per step"),
        lead=_("Most tokens, prompt and output together, that one step of the runtime works on. A token budget, not a number "
            "of requests."),
        rows=(
            (_("Small"), _("A long prompt is read in several steps, so that running answers go on in between.")),
            (_("Large"), _("Long prompts are read faster, and everybody who is being answered waits for that step.")),
        ),
        related=("batch-size", "long-blocks-short", "active-sequences"),
    ),
    Page(
        slug="waiting", title=_("Waiting"),
        lead=_("Requests that the server has accepted and does not run yet."),
        rows=(
            (_("Seen"), _("In the runtime's own metrics, where it reports them. What nobody reports is named so and is not "
                "zero.")),
            (_("Grows"), _("Where more comes than is done, without bound. A queue cap ends that.")),
        ),
        related=("queue-cap", "unbounded-queue", "active-sequences"),
    ),
    Page(
        slug="concurrency", title=_("Concurrency"),
        lead=_("A word for several numbers that differ. The product writes each of them out."),
        rows=(
            (_("Requests in flight"), _("What a client keeps open at once.")),
            (_("Active sequences"), _("What a runtime advances at once.")),
            (_("People"), _("How many people use a service at once. Nobody can tell that from a capacity, because it depends "
                "on how often they ask. So no page says it.")),
        ),
        related=("requests-in-flight", "active-sequences", "successful-a-minute"),
    ),
    Page(
        slug="continuous-batching", title=_("Continuous batching"),
        lead=_("Requests join and leave the running batch at any step, so that a short answer need not wait for a long one "
            "to end."),
        rows=(
            (_("Who does it"), _("The runtime. vLLM, SGLang, TensorRT-LLM and llama.cpp's server work so.")),
            (_("What is tested"), _("How many active sequences are safe, and how long prompts disturb short answers.")),
        ),
        related=("active-sequences", "static-batch", "micro-batching", "fairness"),
    ),
    Page(
        slug="static-batch", title=_("Static batch"),
        lead=_("A known set of items, sent in rounds. The next round starts when all of the last have ended."),
        rows=(
            (_("Judged by"), _("When the whole set is done, against the window of the night. What one item takes does not "
                "count.")),
            (_("Killed on the way"), _("It goes on where it was; each item has exactly one final record.")),
            (_("Loses"), _("The time in which short items of a round wait for its longest.")),
        ),
        related=("makespan", "pace", "finish", "continuous-batching", "batch-size"),
    ),
    Page(
        slug="micro-batching", title=_("Micro-batching"),
        lead=_("The application gathers requests for a short time and sends them as one."),
        rows=(
            (_("Bounded by"), _("The most items of a batch and the longest wait. At low traffic each request goes out at once.")),
            (_("Charged to"), _("The user: the clock of a request runs from its arrival, so the wait is inside its time.")),
        ),
        related=("batch-size", "static-batch", "added-wait"),
    ),
    Page(
        slug="closed-loop", title=_("Closed loop"),
        lead=_("The client sends the next request when one has ended, so a fixed number is in flight and no queue forms."),
        rows=(
            (_("Good for"), _("Finding what each setting can do at most, with few requests.")),
            (_("Cannot show"), _("What people feel when requests come at their own times and have to wait. An open loop "
                "confirms that.")),
        ),
        related=("open-loop", "requests-in-flight", "confirmation"),
    ),
    Page(
        slug="open-loop", title=_("Open loop"),
        lead=_("Requests are due at their own times, as from people, and wait where there is no room."),
        rows=(
            (_("Late sends"), _("What cannot be sent in time is sent late and charged from when it was due. Nothing is left "
                "out and nothing is sent early.")),
            (_("Arrivals"), _("Constant, Poisson, in bursts, in steps, or from a trace; from a seed of their own, so they "
                "can be repeated.")),
        ),
        related=("closed-loop", "confirmation", "check-rate", "user-view"),
    ),
    Page(
        slug="capacity-search", title=_("Capacity search"),
        lead=_("A closed loop whose settings are chosen by what was seen: doubled, then halved between the last that held "
            "and the first that failed, then confirmed."),
        rows=((_("Saves"), _("Cells that nobody needs. It stays inside the ceilings that the host's owner authorised.")),),
        related=("closed-loop", "knee", "authorisation"),
    ),
    Page(
        slug="queue-cap", title=_("Queue cap"),
        lead=_("How many requests may wait at most. One more is refused at once, and told when to try again."),
        rows=(
            (_("Chosen as"), _("The largest cap at which waiting and service together stay inside the objective, and no "
                "longer than where under 1 in 10,000 is refused.")),
            (_("A longer one"), _("Refuses no fewer in the long run and hides overload: people wait for answers that come "
                "too late.")),
            (_("Where it lives"), _("In the runtime where it has one, else in a gateway in front of it.")),
        ),
        formula="K = max { k : P(wait(k) + service ≤ limit) ≥ p }", unit=_("requests"),
        related=("rejection-share", "retry-after", "unbounded-queue", "waiting"),
    ),
    Page(
        slug="retry-after", title=_("Retry-After"),
        lead=_("The header of a refusal that says in how many seconds to ask again."),
        rows=((_("Here"), _("So long that one place is free with 90 %, in whole seconds.")),),
        formula="⌈ ln 10 ÷ X(active) ⌉", unit=_("seconds; X in completions a second"),
        related=("queue-cap", "immediate-retries", "outcome-rejected"),
    ),
    Page(
        slug="backoff", title=_("Backoff, jitter and retry budget"),
        lead=_("How a client that was refused asks again without making things worse."),
        rows=(
            (_("Backoff"), _("Each wait is longer than the last, up to a longest one.")),
            (_("Jitter"), _("The wait is drawn at random, so that clients do not come back together.")),
            (_("Budget"), _("Each request puts a part of a retry into a bucket and each retry takes a whole one, so that "
                "attempts stay bounded whatever the server does.")),
        ),
        related=("immediate-retries", "attempts", "probe-retry-storm", "retry-after"),
    ),
)  # fmt: skip
