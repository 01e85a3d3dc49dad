"""The part of the objective form that asks for its terms: behaviour, demand, what production sends, clients, a batch, and
what is told of the service today.

All of it may be left empty: a limit then has its default, and everything else is not declared, which the grade says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from benchmarks.engine.plan import BatchTerms, ObjectiveTerms, ProductionMix, RetryPolicy
from benchmarks.foreseen import class_lengths
from benchmarks.forms import lay_out, no_users_claim, units
from benchmarks.models import PowerSource, Team, Workload
from capacity.assessment import clock, terms_words
from capacity.assessment.mix import prompt_quantiles
from capacity.forms import PercentField

BEHAVIOUR = ("max_slowdown", "max_free_s", "max_refuse_s", "max_recover_s")
RETRY = ("tries", "base_s", "most_s", "budget_share", "jitter", "honours_retry_after")
TOKENS = ("p10_tokens", "p90_tokens", "p95_tokens")
SHARES = ("repeated_share", "shared_prefix_share")
TIMES = ("window_start", "window_end", "latest_finish")
NOT_DECLARED, NO_RETRY, AT_ONCE, BACKOFF = "", "none", "immediate", "backoff"
_OF_KIND: dict[str, Sequence[str]] = {
    NOT_DECLARED: (), NO_RETRY: (), AT_ONCE: ("tries", "honours_retry_after", "budget_share"), BACKOFF: RETRY,
}  # fmt: skip
NIGHTS = (0, 1, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class Section:
    """One fieldset that is folded away: `summary` says what stands in it, `wrong` whether something must be changed."""

    key: str
    title: str
    sentence: str
    summary: tuple[str, ...]
    fields: tuple[forms.BoundField, ...]
    wrong: bool


class TimeOfDay(forms.TimeField):
    """ "22:00", as it is kept."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            required=False, input_formats=["%H:%M", "%H:%M:%S"],
            widget=forms.TimeInput(format="%H:%M", attrs={"type": "time"}),
            error_messages={"invalid": gettext("Write a time of day, such as 22:00.")}, **kwargs,
        )  # fmt: skip

    def clean(self, value: Any) -> Any:
        time = super().clean(value)
        return f"{time:%H:%M}" if time else ""


class TermsForm(forms.Form):
    max_slowdown = forms.FloatField(
        label=_("Short beside long, at most"), required=False, min_value=1, max_value=100,
        help_text=_("p95 of short requests beside long ones, against alone. Empty: 2."),
    )  # fmt: skip
    max_free_s = forms.FloatField(
        label=_("Slot freed in"), required=False, min_value=0.01, max_value=600,
        help_text=_("After a request was cancelled. Empty: 1 s."),
    )  # fmt: skip
    max_refuse_s = forms.FloatField(
        label=_("Refused in"), required=False, min_value=0.01, max_value=600,
        help_text=_("Where there is no room, a clear answer within this. Empty: 1 s."),
    )  # fmt: skip
    max_recover_s = forms.FloatField(
        label=_("Recovered in"), required=False, min_value=0.1, max_value=3600,
        help_text=_("Answers as before, after an overload. Empty: 60 s."),
    )  # fmt: skip
    demand_per_min = forms.FloatField(
        label=_("Requests a minute"), required=False, min_value=0.01, max_value=1_000_000,
        help_text=_("What the office needs in its busiest minute, counted or estimated. The stated rate is held against it."),
    )  # fmt: skip
    production_from = forms.ModelChoiceField(
        Workload.objects.none(), label=_("Take it from"), required=False, empty_label=_("Numbers below"),
        help_text=_("A workload whose lengths came from a trace or a preset. It takes the place of the tokens below."),
    )  # fmt: skip
    production_p10_tokens = forms.FloatField(label=_("Prompt p10"), required=False, min_value=1, max_value=1_000_000)
    production_p90_tokens = forms.FloatField(label=_("Prompt p90"), required=False, min_value=1, max_value=1_000_000)
    production_p95_tokens = forms.FloatField(label=_("Prompt p95"), required=False, min_value=1, max_value=1_000_000)
    production_repeated_share = PercentField(
        label=_("Repeated prompts"),
        least=0,
        required=False,
        help_text=_("Of all prompts, those sent before. Empty: none."),
    )
    production_shared_prefix_share = PercentField(
        label=_("Shared beginning"), least=0, required=False,
        help_text=_("Of a prompt, what all of them begin with. Empty: none."),
    )  # fmt: skip
    production_source = forms.CharField(
        label=_("Source"), required=False, max_length=200, validators=[no_users_claim],
        help_text=_("How it is known, such as “access log of 3 to 7 November”."),
    )  # fmt: skip
    tenants = forms.IntegerField(
        required=False, min_value=1, max_value=10_000,
        help_text=_("Above 1, access without credentials must be refused and each one's quota must hold. Empty: 1."),
    )  # fmt: skip
    retry_kind = forms.ChoiceField(
        label=_("A refused request"), required=False,
        choices=[
            (NOT_DECLARED, _("Not declared")), (NO_RETRY, _("Is not tried again")), (AT_ONCE, _("Is tried again at once")),
            (BACKOFF, _("Is tried again after a growing wait (backoff)")),
        ],
    )  # fmt: skip
    retry_tries = forms.IntegerField(
        label=_("Tries in all"), required=False, min_value=1, max_value=100, help_text=_("The first one too.")
    )
    retry_base_s = forms.FloatField(
        label=_("First wait"),
        required=False,
        min_value=0.001,
        max_value=3600,
        help_text=_("Of a backoff. Empty: 0.5 s."),
    )
    retry_most_s = forms.FloatField(
        label=_("Longest wait"),
        required=False,
        min_value=0.001,
        max_value=3600,
        help_text=_("Of a backoff. Empty: 20 s."),
    )
    retry_budget_share = PercentField(
        label=_("Budget"), least=0, required=False,
        help_text=_("Of all requests, those that may be tried again. Empty: no budget."),
    )  # fmt: skip
    retry_jitter = forms.BooleanField(
        label=_("With full jitter"), required=False, help_text=_("Each wait is drawn between nothing and its length.")
    )
    retry_honours_retry_after = forms.BooleanField(
        label=_("Honours Retry-After"), required=False, help_text=_("Waits as long as the refusal says.")
    )
    batch_items = forms.IntegerField(label=_("Items"), required=False, min_value=1, max_value=100_000_000)
    batch_window_start = TimeOfDay(label=_("Window starts"))
    batch_window_end = TimeOfDay(label=_("Window ends"), help_text=_("Before the start: the next morning."))
    batch_latest_finish = TimeOfDay(label=_("Latest finish"), help_text=_("In the window, or at its end."))
    batch_days = forms.TypedMultipleChoiceField(
        label=_("Starts on"), required=False, coerce=int, choices=list(enumerate(clock.DAYS)),
        widget=forms.CheckboxSelectMultiple(attrs={"class": "hr-chips"}),
    )  # fmt: skip
    batch_power_expected = forms.ChoiceField(
        label=_("Power expected"),
        required=False,
        choices=PowerSource.choices,
        help_text=_("What the host runs on meanwhile."),
    )
    batch_outage_s = forms.FloatField(
        label=_("Outage to survive"), required=False, min_value=0, max_value=86_400,
        help_text=_("Done in time even if the power is gone once for so long, with the time until it serves again. Empty: none."),
    )  # fmt: skip
    published = forms.CharField(
        label=_("Sentence or figure"), required=False, max_length=300, widget=forms.Textarea(attrs={"rows": 2}),
        help_text=_("What is said of this service's capacity now, word for word, whatever it claims: it is put to the test."),
    )  # fmt: skip

    def __init__(self, data: Any = None, *, team: Team, kept: ObjectiveTerms | None = None) -> None:
        self.kept = kept or ObjectiveTerms()
        super().__init__(data, initial=dict(_initial(self.kept)))
        chosen: Any = self.fields["production_from"]
        chosen.queryset = Workload.objects.filter(team=team).exclude(source="")
        chosen.label_from_instance = _workload_label
        units(
            self, max_slowdown="times", max_free_s="s", max_refuse_s="s", max_recover_s="s", demand_per_min="a minute",
            retry_base_s="s", retry_most_s="s", batch_outage_s="s",
            **{f"production_{name}": "tokens" for name in TOKENS},
        )  # fmt: skip
        halves = (
            *BEHAVIOUR, "demand_per_min", "tenants", "retry_kind", *(f"production_{name}" for name in SHARES), "batch_items",
            "batch_power_expected", "batch_outage_s",
        )  # fmt: skip
        thirds = [
            f"{part}_{name}"
            for part, names in (("retry", RETRY), ("production", TOKENS), ("batch", TIMES))
            for name in names
        ]
        lay_out(self, **dict.fromkeys(halves, "h") | dict.fromkeys(thirds, "t"))

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        self._clean_retry(cleaned)
        self._clean_production(cleaned)
        self._clean_batch(cleaned)
        return cleaned

    def _clean_retry(self, cleaned: Mapping[str, Any]) -> None:
        kind, given = cleaned.get("retry_kind", ""), [n for n in RETRY if cleaned.get(f"retry_{n}")]
        said = {NOT_DECLARED: "Say what happens to a refused request, or empty this.", NO_RETRY: "Without retries this says "
                "nothing: empty it, or choose how a request is tried again.", AT_ONCE: "Only a backoff has this: empty it, or "
                "choose a backoff."}.get(kind)  # fmt: skip
        for name in given:
            if said and name not in _OF_KIND[kind]:
                self.add_error(f"retry_{name}", said)
        if kind in (AT_ONCE, BACKOFF) and "retry_tries" not in self.errors:
            tries = cleaned.get("retry_tries")
            if tries is None:
                self.add_error("retry_tries", gettext("How many tries in all, the first one too? At least 2."))
            elif tries < 2:
                self.add_error(
                    "retry_tries", gettext("One try is no retry: write 2 or more, or choose “Is not tried again”.")
                )
        if kind == BACKOFF and self._retry(cleaned).base_s > self._retry(cleaned).most_s:
            self.add_error(
                "retry_most_s", gettext("The longest wait is shorter than the first one: raise it, or lower the first.")
            )

    def _clean_production(self, cleaned: Mapping[str, Any]) -> None:
        if cleaned.get("production_from"):
            return
        tokens: dict[str, Any] = {name: cleaned.get(f"production_{name}") for name in TOKENS}
        others = [n for n in (*SHARES, "source") if cleaned.get(f"production_{n}")]
        wrong = [name for name in TOKENS if f"production_{name}" in self.errors]
        if wrong or not (others or any(tokens.values())):
            return
        for name, value in tokens.items():
            if value is None:
                self.add_error(
                    f"production_{name}",
                    gettext("Give %(value)s too, or take all three from a workload.") % {"value": name[:3]},
                )
                return
        if tokens["p10_tokens"] > tokens["p90_tokens"]:
            self.add_error(
                "production_p90_tokens", gettext("p90 is at least p10: nine prompts in ten are no longer than this.")
            )
        elif tokens["p90_tokens"] > tokens["p95_tokens"]:
            self.add_error(
                "production_p95_tokens", gettext("p95 is at least p90: 19 prompts in 20 are no longer than this.")
            )

    def _clean_batch(self, cleaned: Mapping[str, Any]) -> None:
        names = ("items", *TIMES)
        given = [n for n in (*names, "outage_s") if cleaned.get(f"batch_{n}")]
        if not given or any(f"batch_{name}" in self.errors for name in (*names, "outage_s", "days")):
            return
        missing = [name for name in names if not cleaned.get(f"batch_{name}")]
        for name in missing:
            self.add_error(
                f"batch_{name}",
                gettext("A batch needs items, a window and a latest finish: give this, or empty them all."),
            )
        if not cleaned.get("batch_days"):
            self.add_error("batch_days", gettext("Choose at least one day on which it starts."))
        if missing or not cleaned.get("batch_days"):
            return
        terms = self._batch(cleaned)
        fault = clock.fault(terms)
        if fault:
            self.add_error("batch_latest_finish", fault)
        elif terms.outage_s >= clock.allowed_s(terms):
            said = f"The outage takes all of the {clock.span_words(clock.allowed_s(terms))} that the batch has: make it shorter."
            self.add_error("batch_outage_s", said)

    def terms(self) -> ObjectiveTerms:
        """What was typed, of a form that is valid; what was left empty has its default."""
        cleaned = self.cleaned_data
        named = {name: cleaned[name] for name in (*BEHAVIOUR, "tenants") if cleaned.get(name) is not None}
        return ObjectiveTerms(
            **named,
            demand_per_min=cleaned.get("demand_per_min"),
            retry=self._retry(cleaned) if cleaned.get("retry_kind") else None,
            production=self._production(cleaned),
            batch=self._batch(cleaned) if cleaned.get("batch_items") else None,
            published=cleaned.get("published", ""),
        )

    def _retry(self, cleaned: Mapping[str, Any]) -> RetryPolicy:
        return RetryPolicy(kind=cleaned["retry_kind"], **_given(cleaned, "retry", RETRY))

    def _production(self, cleaned: Mapping[str, Any]) -> ProductionMix | None:
        own = _given(cleaned, "production", (*SHARES, "source"))
        workload: Workload | None = cleaned.get("production_from")
        if workload is not None:
            return mix_of(workload, own)
        tokens = _given(cleaned, "production", TOKENS)
        return ProductionMix(**tokens, **own) if tokens else None

    def _batch(self, cleaned: Mapping[str, Any]) -> BatchTerms:
        given = _given(cleaned, "batch", ("items", *TIMES, "power_expected", "outage_s"))
        return BatchTerms(**given, days=tuple(sorted(cleaned["batch_days"])))

    def sections(self) -> list[Section]:
        """The fieldsets in their order, each with what it holds in words."""
        shown = self.terms() if self.is_bound and self.is_valid() else self.kept
        words = {line.key: f"{line.title}: {line.words}" for line in terms_words.lines(shown)}
        return [
            Section(
                key, str(title), str(sentence), tuple(words[name] for name in said),
                fields := tuple(self[name] for name in names),
                wrong=any(field.errors for field in fields),
            )
            for key, title, sentence, said, names in _SECTIONS
        ]  # fmt: skip


_SECTIONS = (
    (
        "behaviour", _("Behaviour"), _("How the service treats people under load. Probes try it beside the load."),
        BEHAVIOUR, BEHAVIOUR,
    ),
    (
        "demand", _("Demand"), _("Whether the stated rate is enough for the office."), ("demand_per_min",), ("demand_per_min",),
    ),
    (
        "production", _("What production sends"),
        _("A test of other lengths, or of repeated prompts, says little of production."),
        ("production",), tuple(f"production_{name}" for name in ("from", *TOKENS, *SHARES, "source")),
    ),
    (
        "clients", _("Clients"), _("Who asks, and what they do when they are refused."), ("tenants", "retry"),
        ("tenants", "retry_kind", *(f"retry_{name}" for name in RETRY)),
    ),
    (
        "batch", _("Overnight batch"), _("Work that must be done by a time of day, whatever each item takes."), ("batch",),
        tuple(f"batch_{n}" for n in ("items", "power_expected", *TIMES, "days", "outage_s")),
    ),
    (
        "published", _("What is told of it today"), _("The sentence under test; nothing here is stated by Headroom."),
        ("published",), ("published",),
    ),
)  # fmt: skip


def mix_of(workload: Workload, given: Mapping[str, Any]) -> ProductionMix:
    """The lengths of a workload's mix. What is given of shares and source stands; else the workload's own."""
    p10, p90, p95 = prompt_quantiles(class_lengths(workload.classes.all()), (0.10, 0.90, 0.95))
    own: dict[str, Any] = {
        "shared_prefix_share": workload.shared_prefix_share,
        "source": f"workload {workload.slug}, version {workload.version}: {workload.source}"[:200],
    }
    return ProductionMix(p10_tokens=p10, p90_tokens=p90, p95_tokens=p95, **{**own, **given})


def _given(cleaned: Mapping[str, Any], prefix: str, names: tuple[str, ...]) -> dict[str, Any]:
    values = {name: cleaned.get(f"{prefix}_{name}") for name in names}
    return {name: value for name, value in values.items() if value not in (None, "")}


def _initial(terms: ObjectiveTerms) -> Iterator[tuple[str, Any]]:
    """A default is shown as an empty field, so that the short form stays short."""
    plain = ObjectiveTerms()
    for name in (*BEHAVIOUR, "tenants", "demand_per_min", "published"):
        if getattr(terms, name) != getattr(plain, name):
            yield name, getattr(terms, name)
    retry = terms.retry
    if retry is not None:
        yield "retry_kind", retry.kind
        yield from _shown("retry", retry, _OF_KIND[retry.kind])
    if terms.production is not None:
        yield from _shown("production", terms.production, (*TOKENS, *SHARES, "source"))
    if terms.batch is not None:
        yield from _shown("batch", terms.batch, ("items", *TIMES, "power_expected", "outage_s"))
    yield "batch_days", terms.batch.days if terms.batch else NIGHTS


def _shown(prefix: str, part: msgspec.Struct, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    return ((f"{prefix}_{name}", value) for name in names if (value := getattr(part, name)))


def _workload_label(workload: Workload) -> str:
    return f"{workload.name}, v{workload.version}: {workload.source}"[:120]
