"""Pages of the documentation for the seven diagnoses: what the mistake is, how it is told, and what to do."""

from __future__ import annotations

from django.utils.translation import gettext_noop as _

from capacity.assessment.cases import averages, fairness, memory, prompts, queues, retries, throughput
from capacity.docs_page import Page

CASES = (
    Page(
        slug=prompts.KEY,
        title=prompts.TITLE,
        lead=_(
            "A test that sends one short prompt again and again measures a cache and a scheduler at their best. Production "
            "sends short and long prompts that differ, and is slower."
        ),
        rows=(
            (
                _("Found"),
                _(
                    "Tested prompt lengths have a p90 under 1.2 times their p10, or more than 5 % of prompts are repeated, "
                    "while the "
                    "declared production mix has a p90 over 2 times its p10. Or the runtime served more of the prompt tokens "
                    "from "
                    "its prefix cache than the workload declares, by more than the 5 % that a chat template explains."
                ),
            ),
            (_("Watch"), _("There is one length class only, or p95 of the tested prompts is under p95 of production.")),
            (_("Not tested"), _("No production mix is declared, so there is nothing to compare with.")),
            (
                _("By our method"),
                _(
                    "Every prompt begins with a marker of its own, so none is repeated unless it is shorter than the marker. A "
                    "beginning that all prompts share is declared by the workload and printed in the statement."
                ),
            ),
        ),
        remedy=(
            _("Make the workload from a trace of production, or from its p10, p90 and p95."),
            _("Use several length classes with the weights that they have in production."),
            _("Declare a shared beginning only where production has one."),
        ),
        run=_("The same grid with a workload whose lengths are production's."),
    ),
    Page(
        slug=averages.KEY,
        title=averages.TITLE,
        lead=_(
            "An average hides the slow requests, and those are the ones that people remember: at an average of 2 s one request "
            "in twenty may take 20 s."
        ),
        rows=(
            (
                _("Found"),
                _("The objective limits no percentile, or the sentence that is published of this service names none."),
            ),
            (
                _("Watch"),
                _(
                    "A percentile is published without its n, or the measured one has too few requests behind it. At 99 % "
                    "confidence "
                    "and without a miss a p95 needs 90 requests, a p99 needs 459."
                ),
            ),
            (_("Not tested"), _("No latency is recorded.")),
            (
                _("By our method"),
                _(
                    "An objective always names a percentile, and every page shows p50, p95 and p99 with their n. So where "
                    "nothing is "
                    "published this mistake is excluded by construction, and the page says so."
                ),
            ),
        ),
        remedy=(
            _("Publish a percentile of each length class, with its bound and its n."),
            _("Show the average beside it at most, never alone."),
            _("Ask for more requests before a p99 is stated."),
        ),
        run=_("The recommended setting again, with as many more requests as the finding names."),
    ),
    Page(
        slug=queues.KEY,
        title=queues.TITLE,
        lead=_(
            "A server that never refuses looks as if it could do everything. In truth the wait grows for as long as the load "
            "lasts, and clients give up before the answer comes."
        ),
        rows=(
            (
                _("Found"),
                _(
                    "In the overload probe, at 1.5 times capacity, nothing is refused and the time of a request grows: the lower "
                    "95 % bound of its slope is above 0 s each second. Or more requests waited than the queue cap allows."
                ),
            ),
            (
                _("Watch"),
                _(
                    "Requests are refused, but at p95 later than the objective allows (1 s by default), or without "
                    "Retry-After. Or "
                    "they break instead of being refused."
                ),
            ),
            (_("Not tested"), _("No overload probe ran, or its load was not beyond capacity.")),
        ),
        remedy=(
            _(
                "Put a gateway in front, for example HAProxy, with as many connections as the setting and a short queue."
            ),
            _("Answer 429 or 503 with Retry-After as soon as the queue is full."),
            _("Choose the cap from the queue table of the result: the largest one that stays inside the objective."),
        ),
        run=_("The overload probe, through the gateway and not past it."),
    ),
    Page(
        slug=fairness.KEY,
        title=fairness.TITLE,
        lead=_("While one long prompt is read, everybody else may wait. A test with one length class never sees it."),
        rows=(
            (
                _("Found"),
                _(
                    "p95 of short requests beside long ones is more than 2 times their p95 alone, or it is over their "
                    "objective only "
                    "beside long ones."
                ),
            ),
            (_("Watch"), _("The ratio is over 1.3.")),
            (_("Not tested"), _("No fairness probe ran, or the workload has one length class.")),
        ),
        remedy=(
            _("Turn on chunked prefill where the runtime has it."),
            _("Give long requests a lane of their own: another server, or other hours."),
            _("Limit the length of a prompt at the gateway."),
        ),
        run=_("The fairness probe at the recommended setting."),
    ),
    Page(
        slug=memory.KEY,
        title=memory.TITLE,
        lead=_(
            "Each active sequence keeps keys and values of all its tokens. More slots are free of charge until long requests "
            "meet: then the runtime takes memory away from running ones, or fails them."
        ),
        rows=(
            (
                _("Found"),
                _(
                    "The runtime preempted sequences at the setting; or the KV pool holds fewer sequences than may be "
                    "active, if all "
                    "are as long as the longest tested request (p99); or one sequence may have fewer tokens than that "
                    "request takes."
                ),
            ),
            (
                _("Watch"),
                _(
                    "Predicted and measured memory differ by more than 15 %; or KV use is not reported and nothing stands in "
                    "for it."
                ),
            ),
            (_("Not tested"), _("The model's geometry is not known, so what a token keeps cannot be counted.")),
            (
                _("Stands in"),
                _(
                    "llama.cpp and Ollama count no preemptions: an overflow fails requests there, and outcomes count those."
                ),
            ),
        ),
        remedy=(
            _("Keep fewer sequences active, or give the KV cache more memory."),
            _("Limit input and output at the gateway to what one sequence may have."),
            _("Register the model's config.json or the head of its GGUF file."),
        ),
        run=_("The recommended setting with a metrics address that tells KV use, once the geometry is recorded."),
    ),
    Page(
        slug=retries.KEY,
        title=retries.TITLE,
        lead=_(
            "A client that asks again at once, after a timeout or a refusal, sends the more the less is answered. A "
            "short overload "
            "then feeds itself."
        ),
        rows=(
            (
                _("Found"),
                _(
                    "The declared client policy tries again without waiting; or there were more than 1.5 attempts per scheduled "
                    "request under overload or in the confirming open loop; or, with a declared backoff, in the retry-storm "
                    "probe."
                ),
            ),
            (
                _("Watch"),
                _("There is a backoff, but no jitter, or Retry-After is not honoured, or there is no retry budget."),
            ),
            (_("Not tested"), _("Nobody declared what the clients do.")),
        ),
        remedy=(
            _("Wait before each retry: exponential backoff with full jitter."),
            _("Honour Retry-After."),
            _("Keep a budget: retries of at most a tenth of the requests."),
        ),
        run=_("The retry-storm probe; it compares clients that ask again at once with those that wait."),
    ),
    Page(
        slug=throughput.KEY,
        title=throughput.TITLE,
        lead=_(
            "Tokens that came too late, or wrong, are tokens too. The more is in flight, the more of them there are, "
            "while fewer "
            "requests end inside their limits."
        ),
        rows=(
            (
                _("Found"),
                _(
                    "The chosen setting has the most tokens a second and, by more than 5 %, not the most successful "
                    "requests; or fewer "
                    "than 0.8 of its completed requests were successful; or the published figure is a rate of tokens."
                ),
            ),
            (_("Watch"), _("Answers are right by construction of the task, so a wrong one would not be seen.")),
            (_("Not tested"), _("No answer was validated.")),
            (
                _("By our method"),
                _(
                    "The recommendation rests on successful requests a minute: answered, valid and inside every limit. "
                    "Tokens per "
                    "second are shown small and never as success."
                ),
            ),
        ),
        remedy=(
            _("State successful requests a minute."),
            _("Choose a task whose answers can be checked."),
        ),
        run=_("The same grid with a task that has a validator: arithmetic, or a JSON object."),
    ),
)
