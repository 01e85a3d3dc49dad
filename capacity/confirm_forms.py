"""The form of a confirmation: an open loop of the mix through the queue cap, filled in from what the judge proposes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from django import forms
from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from benchmarks.forms import lay_out, no_users_claim, units
from benchmarks.models import Grid, Runtime
from benchmarks.records.mode_words import ARRIVAL_WORDS
from benchmarks.records.modes import ArrivalKind, OpenTerms
from benchmarks.stats.quantiles import needed_for_bound
from capacity.condition_forms import ConditionFields

ALPHA = 0.01
MISSES = 2
"""So many late or refused requests of a class may be met, and its percentile still be proved."""
CORRELATED = 2
"""Requests in one queue follow each other, so each counts for less than one."""
LEAST_WINDOW_S, MOST_WINDOW_S = 30, 600
REPEATS = 3
MARGIN = 16
MOST_IN_FLIGHT = 4096
MOST_REPEATS = 20
SPARE = 1.2


def window_s(percentile: float, rate_per_min: float, shares: Sequence[float], repeats: int) -> int:
    """Seconds of each window in which the rarest class has as many requests as a proof takes; of p99 too where that is
    within ten minutes."""
    rarest = min((share for share in shares if share > 0), default=1.0)

    def takes(q: float) -> int:
        requests = CORRELATED * needed_for_bound(q, MISSES, ALPHA)
        return ceil(requests / (rate_per_min / 60 * rarest * repeats))

    wanted = max(takes(percentile / 100), takes(0.99) if takes(0.99) <= MOST_WINDOW_S else 0)
    return min(max(wanted, LEAST_WINDOW_S), MOST_WINDOW_S)


def longer(window: int, ran_s: float, n: int, needs: int) -> int:
    """Seconds of each window after one of `ran_s` that met n requests of the class that lacks most, and needs so many more;
    with some to spare."""
    return max(window, min(ceil(ran_s * (n + needs) / max(n, 1) * SPARE), MOST_WINDOW_S))


def most_in_flight(setting: int, queue_cap: int) -> int:
    """More than setting and queue hold, so that the gateway refuses and not the client."""
    return min(setting + queue_cap + max(MARGIN, setting + queue_cap), MOST_IN_FLIGHT)


class ConfirmForm(ConditionFields):
    """What shall confirm a setting, under which conditions."""

    setting = forms.TypedChoiceField(label=_("Setting"), coerce=int, help_text=_("Requests in flight, as measured."))
    rate_per_min = forms.IntegerField(
        label=_("Requests arrive"), min_value=1, max_value=60_000,
        help_text=_("The stated rate in whole requests. What is confirmed is what may be stated."),
    )  # fmt: skip
    queue_cap = forms.IntegerField(
        label=_("May wait, at most"),
        min_value=0,
        max_value=1000,
        help_text=_("Beyond it a request is refused at once."),
    )
    runtime = forms.ModelChoiceField(
        Runtime.objects.none(), label=_("Reached by"), empty_label=None,
        help_text=_("The same runtime. Where a gateway stands before it, the registration with the gateway's address."),
    )  # fmt: skip
    arrivals = forms.ChoiceField(label=_("Arrivals"))
    window_s = forms.FloatField(
        label=_("Window"), min_value=1, max_value=3600,
        help_text=_("Long enough for a proof of the rarest class, at most ten minutes. A shorter one is indicative."),
    )  # fmt: skip
    repeats = forms.IntegerField(
        label=_("Repeats"), min_value=1, max_value=MOST_REPEATS, help_text=_("3 or more for a statement.")
    )
    warmup_s = forms.FloatField(label=_("Warm-up, at most"), min_value=0, max_value=300)
    reason = forms.CharField(
        label=_("Why it is measured"), max_length=300, required=False, validators=[no_users_claim],
        help_text=_("The host's owner reads this before authorising."),
    )  # fmt: skip

    def __init__(
        self,
        data: MultiValueDict[str, str] | None = None,
        *,
        grid: Grid,
        settings: Sequence[int],
        initial: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(data, initial=dict(initial or {}))
        self.fields["setting"].choices = [(n, str(n)) for n in settings]  # type: ignore[attr-defined]
        kinds = [ArrivalKind.POISSON, *([ArrivalKind.REPLAY] if len(grid.workload.arrivals_s or ()) > 1 else [])]
        self.fields["arrivals"].choices = [(kind.value, ARRIVAL_WORDS[kind]) for kind in kinds]  # type: ignore[attr-defined]
        runtime: Any = self.fields["runtime"]
        runtime.queryset = Runtime.objects.filter(team=grid.team, hardware=grid.hardware).select_related("hardware")
        runtime.label_from_instance = lambda one: f"{one.name}, v{one.version} at {one.endpoint}"
        units(self, rate_per_min=gettext("a minute"), window_s="s", warmup_s="s", ambient_c="°C")
        self.fields["power_source"].widget.attrs["class"] = "hr-chips"
        for name in ("rate_per_min",):
            self.fields[name].widget.attrs["step"] = "1"
        lay_out(
            self, setting="t", rate_per_min="t", queue_cap="t", runtime="h", arrivals="h", window_s="t", repeats="t",
            warmup_s="t", ambient_c="h", ambient_source="h", other_loads="h", ups_on_battery="h",
        )  # fmt: skip

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        self.want_conditions(cleaned)
        return cleaned

    def load(self) -> OpenTerms:
        cleaned = self.cleaned_data
        return OpenTerms(
            arrivals=ArrivalKind(cleaned["arrivals"]),
            max_in_flight=most_in_flight(cleaned["setting"], cleaned["queue_cap"]),
        )
