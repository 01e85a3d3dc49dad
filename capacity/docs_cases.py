"""Pages of the documentation for the seven diagnoses: what the mistake is, how it is told, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

from capacity.assessment.cases import averages, fairness, memory, prompts, queues, retries, throughput


@dataclass(frozen=True, slots=True)
class Page:
    """One page: a lead sentence, then rows of (label, text)."""

    slug: str
    title: str
    lead: str
    rows: tuple[tuple[str, str], ...]
    remedy: tuple[str, ...]
    run: str


CASES = (
    Page(
        slug=prompts.KEY,
        title=prompts.TITLE,
        lead="A test that sends one short prompt again and again measures a cache and a scheduler at their best. Production "
        "sends short and long prompts that differ, and is slower.",
        rows=(
            (
                "Found",
                "Tested prompt lengths have a p90 under 1.2 times their p10, or more than 5 % of prompts are repeated, while the "
                "declared production mix has a p90 over 2 times its p10. Or the runtime served more of the prompt tokens from "
                "its prefix cache than the workload declares, by more than the 5 % that a chat template explains.",
            ),
            ("Watch", "There is one length class only, or p95 of the tested prompts is under p95 of production."),
            ("Not tested", "No production mix is declared, so there is nothing to compare with."),
            (
                "By our method",
                "Every prompt begins with a marker of its own, so none is repeated unless it is shorter than the marker. A "
                "beginning that all prompts share is declared by the workload and printed in the statement.",
            ),
        ),
        remedy=(
            "Make the workload from a trace of production, or from its p10, p90 and p95.",
            "Use several length classes with the weights that they have in production.",
            "Declare a shared beginning only where production has one.",
        ),
        run="The same grid with a workload whose lengths are production's.",
    ),
    Page(
        slug=averages.KEY,
        title=averages.TITLE,
        lead="An average hides the slow requests, and those are the ones that people remember: at an average of 2 s one request "
        "in twenty may take 20 s.",
        rows=(
            (
                "Found",
                "The objective limits no percentile, or the sentence that is published of this service names none.",
            ),
            (
                "Watch",
                "A percentile is published without its n, or the measured one has too few requests behind it. At 99 % confidence "
                "and without a miss a p95 needs 90 requests, a p99 needs 459.",
            ),
            ("Not tested", "No latency is recorded."),
            (
                "By our method",
                "An objective always names a percentile, and every page shows p50, p95 and p99 with their n. So where nothing is "
                "published this mistake is excluded by construction, and the page says so.",
            ),
        ),
        remedy=(
            "Publish a percentile of each length class, with its bound and its n.",
            "Show the average beside it at most, never alone.",
            "Ask for more requests before a p99 is stated.",
        ),
        run="The recommended setting again, with as many more requests as the finding names.",
    ),
    Page(
        slug=queues.KEY,
        title=queues.TITLE,
        lead="A server that never refuses looks as if it could do everything. In truth the wait grows for as long as the load "
        "lasts, and clients give up before the answer comes.",
        rows=(
            (
                "Found",
                "In the overload probe, at 1.5 times capacity, nothing is refused and the time of a request grows: the lower "
                "95 % bound of its slope is above 0 s each second. Or more requests waited than the queue cap allows.",
            ),
            (
                "Watch",
                "Requests are refused, but at p95 later than the objective allows (1 s by default), or without Retry-After. Or "
                "they break instead of being refused.",
            ),
            ("Not tested", "No overload probe ran, or its load was not beyond capacity."),
        ),
        remedy=(
            "Put a gateway in front, for example HAProxy, with as many connections as the setting and a short queue.",
            "Answer 429 or 503 with Retry-After as soon as the queue is full.",
            "Choose the cap from the queue table of the result: the largest one that stays inside the objective.",
        ),
        run="The overload probe, through the gateway and not past it.",
    ),
    Page(
        slug=fairness.KEY,
        title=fairness.TITLE,
        lead="While one long prompt is read, everybody else may wait. A test with one length class never sees it.",
        rows=(
            (
                "Found",
                "p95 of short requests beside long ones is more than 2 times their p95 alone, or it is over their objective only "
                "beside long ones.",
            ),
            ("Watch", "The ratio is over 1.3."),
            ("Not tested", "No fairness probe ran, or the workload has one length class."),
        ),
        remedy=(
            "Turn on chunked prefill where the runtime has it.",
            "Give long requests a lane of their own: another server, or other hours.",
            "Limit the length of a prompt at the gateway.",
        ),
        run="The fairness probe at the recommended setting.",
    ),
    Page(
        slug=memory.KEY,
        title=memory.TITLE,
        lead="Each active sequence keeps keys and values of all its tokens. More slots are free of charge until long requests "
        "meet: then the runtime takes memory away from running ones, or fails them.",
        rows=(
            (
                "Found",
                "The runtime preempted sequences at the setting; or the KV pool holds fewer sequences than may be active, if all "
                "are as long as the longest tested request (p99); or one sequence may have fewer tokens than that request takes.",
            ),
            (
                "Watch",
                "Predicted and measured memory differ by more than 15 %; or KV use is not reported and nothing stands in for it.",
            ),
            ("Not tested", "The model's geometry is not known, so what a token keeps cannot be counted."),
            (
                "Stands in",
                "llama.cpp and Ollama count no preemptions: an overflow fails requests there, and outcomes count those.",
            ),
        ),
        remedy=(
            "Keep fewer sequences active, or give the KV cache more memory.",
            "Limit input and output at the gateway to what one sequence may have.",
            "Register the model's config.json or the head of its GGUF file.",
        ),
        run="The recommended setting with a metrics address that tells KV use, once the geometry is recorded.",
    ),
    Page(
        slug=retries.KEY,
        title=retries.TITLE,
        lead="A client that asks again at once, after a timeout or a refusal, sends the more the less is answered. A "
        "short overload "
        "then feeds itself.",
        rows=(
            (
                "Found",
                "The declared client policy tries again without waiting; or there were more than 1.5 attempts per scheduled "
                "request under overload or in the confirming open loop; or, with a declared backoff, in the retry-storm probe.",
            ),
            (
                "Watch",
                "There is a backoff, but no jitter, or Retry-After is not honoured, or there is no retry budget.",
            ),
            ("Not tested", "Nobody declared what the clients do."),
        ),
        remedy=(
            "Wait before each retry: exponential backoff with full jitter.",
            "Honour Retry-After.",
            "Keep a budget: retries of at most a tenth of the requests.",
        ),
        run="The retry-storm probe; it compares clients that ask again at once with those that wait.",
    ),
    Page(
        slug=throughput.KEY,
        title=throughput.TITLE,
        lead="Tokens that came too late, or wrong, are tokens too. The more is in flight, the more of them there are, "
        "while fewer "
        "requests end inside their limits.",
        rows=(
            (
                "Found",
                "The chosen setting has the most tokens a second and, by more than 5 %, not the most successful "
                "requests; or fewer "
                "than 0.8 of its completed requests were successful; or the published figure is a rate of tokens.",
            ),
            ("Watch", "Answers are right by construction of the task, so a wrong one would not be seen."),
            ("Not tested", "No answer was validated."),
            (
                "By our method",
                "The recommendation rests on successful requests a minute: answered, valid and inside every limit. Tokens per "
                "second are shown small and never as success.",
            ),
        ),
        remedy=(
            "State successful requests a minute.",
            "Choose a task whose answers can be checked.",
        ),
        run="The same grid with a task that has a validator: arithmetic, or a JSON object.",
    ),
)
