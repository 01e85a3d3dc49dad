"""Pages of the documentation for the checks of a window, the outcomes of a request and the behaviour probes."""

from __future__ import annotations

from django.utils.translation import gettext_noop as _

from capacity.docs_page import Page

RUN_AGAIN = _("The cells that the check names, once the cause is mended.")


def _check(key: str, title: str, lead: str, fails: str, unknown: str, remedy: str, formula: str = "") -> Page:
    rows = (
        (_("Fails"), fails),
        (_("Not reported"), unknown),
        (_("Then"), _("Nothing is concluded from the setting: it is not valid, which is no failure of the server.")),
    )
    return Page(
        slug=f"check-{key}", title=title, lead=lead, rows=rows, remedy=(remedy,), run=RUN_AGAIN, formula=formula,
        related=("window", "rubric-window"),
    )  # fmt: skip


CHECKS = (
    _check("conservation", _("Every request accounted for"),
        _("What was sent has to be found again among the outcomes, each request once."),
        _("Sent requests and recorded outcomes differ."), _("The engine left no count of what it sent."),
        _("Look for an engine that was killed, and for a full disk."), "sent = Σ outcomes"),
    _check("little", _("Little's law"),
        _("The mean number in flight has to be the rate of completions times the mean time in flight. Where it is not, a "
            "count or a clock is wrong."),
        _("Off by more than 10 %, and by more than the requests cut at the window's edges come to."),
            _("The window is too short to tell."),
        _("Lengthen the window; look for a client that was halted."), "mean in flight = closed a second × mean time in flight"),
    _check("times", _("End to end no shorter than first token"),
        _("An answer cannot end before it began."),
        _("An answer has times that cannot be, or a percentile of the first token lies above that of the end."),
            _("Not possible: each window has these times."),
        _("Look at what stands between client and runtime, and at its clock."), "TTFT ≤ E2E"),
    _check("max-tokens", _("Answers within their token limit"),
        _("A runtime that gives more than was asked does other work than was planned."),
        _("An answer has more tokens than allowed, by the server's own count."), _("The server counts no tokens."),
        _("Look for a proxy that drops the limit of output tokens."), "output tokens ≤ asked"),
    _check("rate", _("Achieved rate"),
        _("An open loop has to send what it promised to send."),
        _("Less than 95 % of what was asked was sent."), _("The window never opened. A closed loop asks for no rate."),
        _("Give the client more processes or more cores."), "sent ÷ due ≥ 0.95"),
    _check("client", _("Client not the bottleneck"),
        _("A client that is late measures itself."),
        _("Its lag, its share of a core, the lateness of its sends or its waits for a connection are over their limits."),
            _("No lag is recorded."),
        _("Give the client cores of its own, or a machine of its own.")),
    _check("steady", _("Steady over the window"),
        _("A figure that moves while it is measured is not the figure of anything."),
        _("More than half of a measure's repeats move the same way, beyond chance."),
            _("No window was long enough to see a trend."),
        _("Settling asks for a longer warm-up; drifting for its cause, often heat.")),
    _check("conditions", _("Conditions unchanged"),
        _("Cells of one grid have to be measured under one set of conditions."),
        _("Power source, room (by over 5 °C), parts or runtime are not as with the first cell."),
            _("They were not recorded before and after."),
        _("Record them; measure again under one set of conditions.")),
    _check("impossible-rates", _("No impossible rate"),
        _("Tokens that come faster than any runtime makes them were kept back somewhere, or are counted wrongly."),
        _("An answer came faster than 10,000 tokens a second."), _("No tokens were counted."),
        _("Look for a cache or a proxy that answers in the runtime's place.")),
    _check("server-counts", _("Server's counts agree"),
        _("Two who count the same things should come to the same number."),
        _("The server's tokens are over 10 % off the client's, or it refused more than the client saw."),
            _("It reports none, or the window is too short."),
        _("Look for other clients of the same runtime.")),
    _check("buffering", _("Stream not held back"),
        _("Something between runtime and client may collect a stream and pass it on in one piece. Then its times are not the "
            "runtime's."),
        _("It is held back, and a time to or between tokens has a limit."), _("It is held back and only end to end is judged."),
        _("Switch response buffering off in whatever stands before the runtime.")),
)  # fmt: skip


def _outcome(key: str, title: str, lead: str, counts: str, remedy: str) -> Page:
    return Page(
        slug=f"outcome-{key}", title=title, lead=lead, rows=((_("Counts as"), counts),), remedy=(remedy,),
        related=("check-conservation", "success-share"),
    )  # fmt: skip


FAILED = _("Failed, and as infinitely late in every percentile.")
OUTCOMES = (
    _outcome("ok", _("Ok"), _("HTTP 200, content, a finish reason that says how the text ended, no error event, every event "
        "understood."),
        _("Ended well. It is a success only where it is also valid and inside every limit."), _("Nothing.")),
    _outcome("rejected", _("Rejected"), _("429, 503 or 529, or an overload that was told in a body or before any text of a "
        "stream."),
        FAILED, _("Offer less, or give the queue the cap that the result names. A clear refusal in time is what a loaded "
            "server should do.")),
    _outcome("refused", _("Refused"), _("Another answer from 400 to 499, or a redirect, which is not followed."), FAILED,
        _("Look at the request: a prompt too long, a wrong model name, missing credentials.")),
    _outcome("server-error", _("Server error"), _("An answer from 500 on that tells of no overload."), FAILED,
        _("Read the runtime's log at that time.")),
    _outcome("in-stream-error", _("Error in the stream"), _("An error after HTTP 200, or a finish reason that is none."),
        FAILED, _("Read the runtime's log; look for a full KV cache.")),
    _outcome("truncated", _("Broken off"), _("The stream ended without its end marker, or the marker came without a finish "
        "reason."), FAILED, _("Look for a proxy with a time limit.")),
    _outcome("malformed", _("Not understood"), _("An event, a body or an answer that is not what its dialect says."), FAILED,
        _("Look at this endpoint with the test of one request.")),
    _outcome("empty", _("Empty"), _("It ended in good order and without content."), FAILED,
        _("Look at the template of the model and at its stop words.")),
    _outcome("connect-error", _("No connection"), _("No connection was had, or a fresh one closed before any byte."), FAILED,
        _("Look at address, listen queue and firewall.")),
    _outcome("first-byte-timeout", _("No first text in time"), _("No text came within the limit. Headers and comments are no "
        "text."), FAILED, _("Offer less; look at what waits.")),
    _outcome("idle-timeout", _("Stalled"), _("After the first text no event came within the limit."), FAILED,
        _("Look for long prefills beside it and for preemptions.")),
    _outcome("total-timeout", _("Not over in time"), _("The answer was not over within the limit of the whole request."),
        FAILED, _("Offer less, or allow fewer output tokens.")),
    _outcome("cancelled-by-us", _("Ended by us"), _("A command of a person or the guard ended it."), FAILED,
        _("Read the reason of the stop.")),
    _outcome("unfinished", _("Unfinished"), _("It was still open when the run ended."), FAILED,
        _("Lengthen the time after the window.")),
    _outcome("client-fault", _("Fault of the client"), _("The client itself went wrong. Nothing is said of the server."),
        FAILED, _("Report it with the evidence.")),
)  # fmt: skip


def _probe(key: str, title: str, lead: str, does: str, says: str, *related: str) -> Page:
    return Page(
        slug=f"probe-{key}", title=title, lead=lead, rows=((_("What it does"), does), (_("What it says"), says)), related=related,
    )  # fmt: skip


PROBES = (
    _probe("fairness", _("Fairness probe"), _("What do short requests lose when long ones come beside them?"),
        _("Short requests alone, then the same beside clients that ask long ones without a pause."),
        _("Fair, watch or unfair, by how much the p95 of the short ones grows."), "fairness", "rubric-fairness",
            "long-blocks-short"),
    _probe("cancellation", _("Cancellation probe"), _("Does a runtime go on working for a client that has left?"),
        _("All places are filled. Somebody leaves in mid-stream, during the prefill or while waiting; a fresh request shows "
            "when the place is free."),
        _("Frees in time, frees late, never frees."), "rubric-cancellation"),
    _probe("overload", _("Overload probe"), _("What happens beyond capacity: a clear refusal, or a queue without bound?"),
        _("First the capacity, then 1.5 times of it as an open loop, then light load until times are back."),
        _("Refused clearly, without Retry-After, refused late, queues without bound, fails, kept up."), "rubric-overload",
            "unbounded-queue", "queue-cap", "rubric-recovery"),
    _probe("retry-storm", _("Retry-storm probe"), _("How many attempts does a request cost when clients try again?"),
        _("The same load twice: by clients that ask again at once, and by clients with backoff, jitter and a budget."),
        _("Contained, amplifies, kept up."), "attempts", "backoff", "rubric-retry", "immediate-retries"),
    _probe("limits", _("Limits probe"), _("What is answered to what cannot, or should not, be served?"),
        _("A prompt beyond the context, an endless answer, a request without credentials, and the rate of one client."),
        _("Refuses clearly, refuses partly, accepts everything."), "rubric-tenancy", "context-limit"),
    _probe("recovery", _("Recovery probe"), _("How long until all is as before?"),
        _("A light client asks throughout, while overload, a storm of cancellations or a restart passes."),
        _("Recovers, does not recover, not disturbed."), "rubric-recovery"),
    _probe("idle", _("Idle probe"), _("What does the host draw, hold and how warm is it when nobody asks?"),
        _("Nothing is asked for a while and the readings are told."), _("Steady or moving."), "power", "cool-down"),
)  # fmt: skip
